# SPDX-License-Identifier: Apache-2.0
"""The log: one line for each event, for people or for programs, and never the token."""

import io
import json
import logging

import pytest
from support.boards.agents import (
    IMAGE,
    PROGRAM,
    TOKEN,
    SlowDevice,
    dial,
    remote_device,
    serving,
)

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent import authentication
from tilewright.host.runtime.agent.events import LOG, JsonLines
from tilewright.host.runtime.agent.journal import Journal


@pytest.fixture
def log():
    """What is logged, as lines of JSON."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield text
    LOG.removeHandler(handler)
    LOG.setLevel(level)


def test_each_event_is_a_line_that_says_who_what_and_how_long(log, tmp_path, monkeypatch):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    device = SlowDevice()
    with serving(device, journal=Journal(tmp_path / "journal")) as address:
        client = remote_device(address)
        client.run(PROGRAM, IMAGE)
        device.broken = True
        with pytest.raises(DeviceError):
            client.run(PROGRAM, IMAGE)
        client.close()
        for token in (TOKEN + b"x", b"a secret nobody has"):
            with pytest.raises(DeviceError):
                authentication.join(authentication.Channel(dial(address)), token)
    assert TOKEN.decode() not in log.getvalue()
    assert "a secret nobody has" not in log.getvalue()
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        "leased", "trial", "trial", "failure", "released", "refused", "refused",
    ]  # fmt: skip
    leased, ran, failed, failure, released, *refused = events
    assert {event["lease"] for event in (leased, ran, failed, released)} == {1}
    assert len({event["peer"] for event in (leased, ran, failed, failure, released)}) == 1
    assert (ran["outcome"], failed["outcome"]) == ("ok", "RuntimeError")
    assert ran["trial"] != failed["trial"]
    assert released["seconds"] >= ran["seconds"] >= 0
    assert "a defect of the device" in failure["exception"]
    assert all(event["peer"].startswith("127.0.0.1:") for event in refused)
    assert all(event["time"].endswith("+00:00") and event["level"] for event in events)


def test_a_line_stays_one_line_whatever_it_is_about():
    record = logging.makeLogRecord({"msg": "a\nb \u2028 \x1b[2J %s", "args": ("c",)})
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["text"] == "a\nb \u2028 \x1b[2J c"
