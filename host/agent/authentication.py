# SPDX-License-Identifier: Apache-2.0
"""Both sides prove that they know the token, and neither sends it.

Each side answers the other's random number with an HMAC-SHA-256 over both numbers and its own
role, so that an answer can be neither replayed nor reflected. What follows is not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path
from typing import Any, Final

from tilewright.host.agent.protocol import Channel, Message, ProtocolError
from tilewright.host.errors import ConfigError, DeviceError

MIN_TOKEN_BYTES: Final = 16
MAX_TOKEN_BYTES: Final = 4096
HANDSHAKE_SECONDS: Final = 10.0

_NONCE_BYTES: Final = 32
_MAX_HEADER: Final = 4096
_MAX_WELCOME: Final = 1 << 16
_REFUSAL_PAUSE: Final = 0.5
_REMEDY: Final = "make one with: (umask 077; openssl rand -hex 32 > FILE), and copy it to both"


class AuthenticationError(DeviceError):
    """The other side does not know the token."""


class AgentFullError(DeviceError):
    """The agent has no place for one more client now."""


def read_token(path: Path) -> bytes:
    """The token in a file, without white space around it.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it is too short or too long.
    """
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            data = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", field=str(path), remedy=_REMEDY
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise ConfigError(
            "only its owner may read a token",
            field=str(path),
            value=f"mode {mode & 0o777:o}",
            remedy=f"chmod 600 {path}",
        )
    token = data.strip()
    if len(token) < MIN_TOKEN_BYTES or len(data) > MAX_TOKEN_BYTES:
        raise ConfigError(
            f"a token has {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} bytes",
            field=str(path),
            value=len(token),
            remedy=_REMEDY,
        )
    return token


def admit(channel: Channel, token: bytes, **welcome: Any) -> None:
    """The agent's side: let a client in, or raise.

    Args:
        channel: a new connection.
        token: the shared secret.
        welcome: what a client that is let in is told.

    Raises:
        AuthenticationError: the client does not know the token; it was told.
        ProtocolError, ConnectionLostError: see `Channel.receive`.
    """
    mine = secrets.token_bytes(_NONCE_BYTES)
    channel.send("challenge", nonce=mine.hex())
    proof = channel.receive(seconds=HANDSHAKE_SECONDS, max_header=_MAX_HEADER)
    theirs = _bytes(_expect(proof, "proof"), "nonce")
    if not hmac.compare_digest(_bytes(proof, "mac"), _mac(token, b"client", mine, theirs)):
        time.sleep(_REFUSAL_PAUSE)
        channel.send("refused")
        raise AuthenticationError("the client must know the token", field="token")
    channel.send("welcome", mac=_mac(token, b"agent", mine, theirs).hex(), **welcome)


def join(channel: Channel, token: bytes) -> Message:
    """The client's side: prove to know the token, and have the agent prove it.

    Returns:
        The agent's welcome.

    Raises:
        AgentFullError: there is no place for one more client now.
        AuthenticationError: either side does not know the token.
        ProtocolError, ConnectionLostError: see `Channel.receive`.
    """
    challenge = channel.receive(seconds=HANDSHAKE_SECONDS, max_header=_MAX_HEADER)
    if challenge.kind == "full":
        raise AgentFullError(
            "the agent has as many clients as it may",
            field="agent",
            remedy="try again later, or raise its --max-connections",
        )
    theirs = _bytes(_expect(challenge, "challenge"), "nonce")
    mine = secrets.token_bytes(_NONCE_BYTES)
    channel.send("proof", nonce=mine.hex(), mac=_mac(token, b"client", theirs, mine).hex())
    welcome = channel.receive(seconds=HANDSHAKE_SECONDS, max_header=_MAX_WELCOME)
    if welcome.kind == "refused":
        raise AuthenticationError(
            "the agent refuses the token", field="token", remedy="use the agent's token file"
        )
    expected = _mac(token, b"agent", theirs, mine)
    if not hmac.compare_digest(_bytes(_expect(welcome, "welcome"), "mac"), expected):
        raise AuthenticationError(
            "the agent must know the token",
            field="token",
            remedy="something else listens at this address: check it",
        )
    return welcome


def _mac(token: bytes, role: bytes, agents: bytes, clients: bytes) -> bytes:
    return hmac.new(
        token, b"tilewright " + role + b"\0" + agents + clients, hashlib.sha256
    ).digest()


def _expect(message: Message, kind: str) -> Message:
    if message.kind != kind:
        raise ProtocolError(f"must be {kind}", field="message", value=message.kind[:40])
    return message


def _bytes(message: Message, name: str) -> bytes:
    try:
        data = bytes.fromhex(message.text(name))
    except ValueError:
        data = b""
    if len(data) != _NONCE_BYTES:
        raise ProtocolError(
            f"must be {_NONCE_BYTES} bytes in hexadecimal", field=f"message {message.kind}: {name}"
        )
    return data
