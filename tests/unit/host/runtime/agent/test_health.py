# SPDX-License-Identifier: Apache-2.0
"""An agent says how it is to whoever knows the token, and to nobody else."""

import pytest
from support.boards.agents import (
    IMAGE,
    PROGRAM,
    TINY,
    TOKEN,
    SlowDevice,
    dial,
    remote_device,
    serving,
)

from tilewright import __version__
from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent import authentication
from tilewright.host.runtime.agent.authentication import AuthenticationError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.health import AgentStatus
from tilewright.host.runtime.agent.protocol import Message, ProtocolError
from tilewright.host.runtime.agent.reach import ask_status
from tilewright.host.runtime.agent.tls import make_identity


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_it_tells_what_it_serves_and_what_it_did(secure):
    device = SlowDevice()
    with serving(device, board="pynq-z2", identity=make_identity() if secure else None) as address:

        def status() -> AgentStatus:
            return ask_status(address, TOKEN, plain=not secure)

        first = status()
        assert (first.version, first.hw, first.board) == (__version__, TINY.name, "pynq-z2")
        assert first.config_hash == f"{TINY.config_hash:08x}"
        assert (first.leased, first.trials, first.last_error) == (False, 0, "")
        client = remote_device(address, plain=not secure)
        client.run(PROGRAM, IMAGE)
        device.broken = True
        with pytest.raises(DeviceError):
            client.run(PROGRAM, IMAGE)
        second = status()
        assert (second.leased, second.trials, second.closing) == (True, 1, False)
        assert second.last_error == "RuntimeError: a defect of the device"
        assert second.uptime_seconds > first.uptime_seconds
        device.broken = False
        client.run(PROGRAM, IMAGE)
        client.close()


def test_it_takes_the_device_from_nobody_and_costs_no_scrub():
    device = SlowDevice()
    with serving(device) as address:
        ask_status(address, TOKEN, plain=True)
    assert device.scrubs == 0


def test_who_does_not_know_the_token_hears_nothing(monkeypatch):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    with serving() as address:
        with pytest.raises(AuthenticationError):
            ask_status(address, b"another secret 123", plain=True)
        channel = Channel(dial(address))
        channel.send("status")
        assert channel.receive(seconds=10).kind == "bye"
        channel.close()


GOOD = AgentStatus(
    version="1", hw="h", config_hash="00", board="b", leased=True, waiting=0, closing=False,
    uptime_seconds=1.5, trials=3, last_error="", temperature=None,
)  # fmt: skip


def test_a_status_travels_whole():
    assert AgentStatus.from_message(Message(kind="status", fields=GOOD.to_fields())) == GOOD


@pytest.mark.parametrize(
    ("name", "value"),
    [("leased", 1), ("trials", -1), ("uptime_seconds", "1"), ("version", None),
     ("temperature", "hot"), ("last_error", "x" * 1000)],
)  # fmt: skip
def test_a_status_of_another_kind_is_refused(name, value):
    fields = {**GOOD.to_fields(), name: value}
    with pytest.raises(ProtocolError, match=f"status: {name}: must be"):
        AgentStatus.from_message(Message(kind="status", fields=fields))
