# SPDX-License-Identifier: Apache-2.0
"""The way to an agent: connect, speak TLS, prove to know the token; and ask how it is."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import Final

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent.address import check_plain, resolve
from tilewright.host.runtime.agent.authentication import HANDSHAKE_SECONDS, join
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.health import AgentStatus
from tilewright.host.runtime.agent.protocol import ConnectionLostError, Message

_CONNECT_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 30.0


class TurnedAwayError(ConnectionLostError):
    """The agent ended the connection in the handshake; it may have been one of too many."""


def reach(address: str, token: bytes, *, plain: bool) -> tuple[Channel, Message]:
    """Connect to an agent."""
    family, where = resolve(address, field="agent")
    if plain:
        check_plain(where, field="agent", value=address)
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(where)
    except OSError as error:
        connection.close()
        raise DeviceError(
            f"no agent answers ({error.strerror or error})",
            field=address,
            remedy="start 'tilewright agent' there, or check address and tunnel",
        ) from error
    channel = Channel(connection, seconds=HANDSHAKE_SECONDS)
    try:
        if not plain:
            channel.start_tls()
        welcome = join(channel, token)
    except ConnectionLostError as error:
        channel.close()
        raise TurnedAwayError(
            error.rule,
            field=address,
            remedy="check address and tunnel, and that the agent is none of an older release",
        ) from error
    except BaseException:
        channel.close()
        raise
    channel.lift_deadline()
    return channel, welcome


def ask_status(address: str, token: bytes, *, plain: bool = False) -> AgentStatus:
    """Ask an agent how it is; nobody has to wait for the device, or loses it."""
    channel, _ = reach(address, token, plain=plain)
    with closing(channel):
        channel.send("status")
        return AgentStatus.from_message(channel.receive(seconds=_STATUS_SECONDS).expect("status"))
