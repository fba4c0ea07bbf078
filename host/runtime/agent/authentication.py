# SPDX-License-Identifier: Apache-2.0
"""Both sides prove that they know the token, and neither sends it.

Each side answers the other's random number with an HMAC-SHA-256 over both numbers, its own role
and the agent's certificate as it sees it: an answer can be neither replayed nor reflected, nor
passed on by somebody who stands between with a certificate of his own.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.private_file import read_private
from tilewright.host.runtime.agent.protocol import (
    SMALL_HEADER_BYTES,
    Message,
    ProtocolError,
)

MIN_TOKEN_BYTES: Final = 16
MAX_TOKEN_BYTES: Final = 4096
HANDSHAKE_SECONDS: Final = 10.0
"""For all of it, TLS included."""

_MIN_DIFFERENT_BYTES: Final = 6
_NONCE_BYTES: Final = 32
_MAC_BYTES: Final = 32
_REFUSAL_PAUSE: Final = 0.5
_REMEDY: Final = (
    "make one with: tilewright agent init FOLDER, or: (umask 077; openssl rand -hex 32 > FILE), "
    "and copy it to both"
)
_CLIENT_FILE: Final = re.compile(
    rb"(?:#[^\n]*\n)*agent: (?P<agent>[!-~]{3,300})\ntoken: (?P<token>[!-~]+)\s*"
)


class AuthenticationError(DeviceError):
    """The other side does not know the token."""


class AgentFullError(DeviceError):
    """The agent has no place for one more client now."""


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """What a client has to know of an agent."""

    agent: str  # its address, ``HOST:PORT``
    token: bytes = field(repr=False)  # the shared secret


def client_file(agent: str, token: bytes) -> bytes:
    """The content of a client's file."""
    note = b"# Whoever has this file may use the device: keep it private (mode 0600).\n"
    return note + b"agent: " + agent.encode() + b"\ntoken: " + token + b"\n"


def read_client(path: Path) -> ClientFile:
    """A client's file."""
    data = _read(path)
    found = _CLIENT_FILE.fullmatch(data)
    if found is None:
        raise ConfigError(
            "must be a file that 'tilewright agent init' wrote for clients", field=str(path)
        )
    return ClientFile(agent=found["agent"].decode(), token=_checked(found["token"], path))


def read_token(path: Path) -> bytes:
    """The token in a file, without white space around it, or that of a client's file."""
    data = _read(path)
    found = _CLIENT_FILE.fullmatch(data)
    return _checked(data if found is None else found["token"], path)


def _read(path: Path) -> bytes:
    return read_private(path, what="a token", most_bytes=MAX_TOKEN_BYTES, remedy=_REMEDY)


def _checked(data: bytes, path: Path) -> bytes:
    """A token that is none of those that can be guessed."""
    token = data.strip()
    if len(token) < MIN_TOKEN_BYTES:
        raise ConfigError(
            f"a token has {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} bytes",
            field=str(path),
            value=len(token),
            remedy=_REMEDY,
        )
    repeats = token in (token + token)[1:-1]
    if repeats or len(set(token)) < _MIN_DIFFERENT_BYTES:
        raise ConfigError(
            f"a token must be random: {_MIN_DIFFERENT_BYTES} or more different characters, and no "
            "shorter text again and again",
            field=str(path),
            remedy=_REMEDY,
        )
    return token


def admit(channel: Channel, token: bytes) -> str:
    """The agent's side: find out whether a client knows the token."""
    theirs = _receive(channel, "hello").hexadecimal("nonce", _NONCE_BYTES)
    mine = secrets.token_bytes(_NONCE_BYTES)
    channel.send("challenge", nonce=mine.hex())
    proof = _receive(channel, "proof").hexadecimal("mac", _MAC_BYTES)
    if not hmac.compare_digest(proof, _mac(channel, token, b"client", mine, theirs)):
        time.sleep(_REFUSAL_PAUSE)
        channel.send("refused")
        raise AuthenticationError("the client must know the token", field="token")
    return _mac(channel, token, b"agent", mine, theirs).hex()


def join(channel: Channel, token: bytes) -> Message:
    """The client's side: prove to know the token, and have the agent prove it."""
    mine = secrets.token_bytes(_NONCE_BYTES)
    channel.send("hello", nonce=mine.hex())
    theirs = _receive(channel, "challenge").hexadecimal("nonce", _NONCE_BYTES)
    channel.send("proof", mac=_mac(channel, token, b"client", theirs, mine).hex())
    answer = _receive(channel, "welcome", "full", "refused", most=1 << 16)
    if answer.kind == "refused":
        raise AuthenticationError(
            "the agent refuses the token",
            field="token",
            remedy="use the agent's token file; with the right one, somebody stands between",
        )
    proof = answer.hexadecimal("mac", _MAC_BYTES)
    if not hmac.compare_digest(proof, _mac(channel, token, b"agent", theirs, mine)):
        raise AuthenticationError(
            "the agent must know the token",
            field="token",
            remedy="something else listens at this address: check it",
        )
    if answer.kind == "full":
        raise AgentFullError(
            "the agent has as many clients as it may",
            field="agent",
            remedy="try again later, or raise its --max-connections",
        )
    return answer


def _mac(channel: Channel, token: bytes, role: bytes, agents: bytes, clients: bytes) -> bytes:
    certificate = channel.binding or bytes(hashlib.sha256().digest_size)
    text = b"tilewright 2 " + role + b"\0" + certificate + agents + clients
    return hmac.new(token, text, hashlib.sha256).digest()


def _receive(channel: Channel, *kinds: str, most: int = SMALL_HEADER_BYTES) -> Message:
    message = channel.receive(seconds=HANDSHAKE_SECONDS, max_header=most)
    if message.kind == "bye":
        raise ProtocolError(f"the other side ends it ({message.text('reason')})", field="agent")
    return message.expect(*kinds)
