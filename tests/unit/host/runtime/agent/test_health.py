# SPDX-License-Identifier: Apache-2.0
"""How an agent is, and what it logs."""

import io
import json
import logging

import pytest
from support.boards import agents

from tilewright import __version__
from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent import authentication
from tilewright.host.runtime.agent.authentication import AuthenticationError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.events import LOG, JsonLines
from tilewright.host.runtime.agent.health import AgentStatus
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.protocol import Message, ProtocolError
from tilewright.host.runtime.agent.reach import ask_status
from tilewright.host.runtime.agent.tls import make_identity


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_it_tells_what_it_serves_and_what_it_did(secure):
    device = agents.SlowDevice()
    with agents.serving(
        device, board="pynq-z2", identity=make_identity() if secure else None
    ) as address:

        def status() -> AgentStatus:
            return ask_status(address, agents.TOKEN, plain=not secure)

        first = status()
        assert (first.version, first.hw, first.board) == (__version__, agents.TINY.name, "pynq-z2")
        assert first.config_hash == f"{agents.TINY.config_hash:08x}"
        assert (first.leased, first.trials, first.last_error) == (False, 0, "")
        client = agents.remote_device(address, plain=not secure)
        client.run(agents.PROGRAM, agents.IMAGE)
        device.broken = True
        with pytest.raises(DeviceError):
            client.run(agents.PROGRAM, agents.IMAGE)
        second = status()
        assert (second.leased, second.trials, second.closing) == (True, 1, False)
        assert second.last_error == "RuntimeError: a defect of the device"
        assert second.uptime_seconds > first.uptime_seconds
        device.broken = False
        client.run(agents.PROGRAM, agents.IMAGE)
        client.close()


def test_it_takes_the_device_from_nobody_and_costs_no_scrub():
    device = agents.SlowDevice()
    with agents.serving(device) as address:
        ask_status(address, agents.TOKEN, plain=True)
    assert device.scrubs == 0


def test_who_does_not_know_the_token_hears_nothing(monkeypatch):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    with agents.serving() as address:
        with pytest.raises(AuthenticationError):
            ask_status(address, b"another secret 123", plain=True)
        channel = Channel(agents.dial(address))
        channel.send("status")
        assert channel.receive(seconds=10).kind == "bye"
        channel.close()


GOOD = AgentStatus(
    version="1", hw="h", config_hash="00", board="b", leased=True, waiting=0, closing=False,
    uptime_seconds=1.5, trials=3, last_error="", temperature=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("leased", 1), ("trials", -1), ("uptime_seconds", "1"), ("version", None),
     ("temperature", "hot"), ("last_error", "x" * 1000)],
)  # fmt: skip
def test_a_status_of_another_kind_is_refused(name, value):
    fields = {**GOOD.to_fields(), name: value}
    with pytest.raises(ProtocolError, match=f"status: {name}: must be"):
        AgentStatus.from_message(Message(kind="status", fields=fields))


# -- The log: one line for each event, for people or for programs, and never the token
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
    device = agents.SlowDevice()
    with agents.serving(device, journal=Journal(tmp_path / "journal")) as address:
        client = agents.remote_device(address)
        client.run(agents.PROGRAM, agents.IMAGE)
        device.broken = True
        with pytest.raises(DeviceError):
            client.run(agents.PROGRAM, agents.IMAGE)
        client.close()
        for token in (agents.TOKEN + b"x", b"a secret nobody has"):
            with pytest.raises(DeviceError):
                authentication.join(authentication.Channel(agents.dial(address)), token)
    assert agents.TOKEN.decode() not in log.getvalue()
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
