# SPDX-License-Identifier: Apache-2.0
"""Messages between an agent and its clients, over a socket, with limits and deadlines.

A message is a prefix (magic, protocol version, two lengths), a JSON object with its ``kind`` and
small values, and a body of plain bytes. Big-endian.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tilewright.host.errors import DeviceError

PROTOCOL_VERSION: Final = 1

MAX_HEADER_BYTES: Final = 1 << 20
"""Of those who proved to know the token; before, `authentication` allows less."""

_MAGIC: Final = b"TWAG"
_PREFIX: Final = struct.Struct("!4sHIQ")
_CHUNK: Final = 1 << 20
"""Memory is taken as bytes arrive, not as a message announces them."""
_SLOWEST_BYTES_PER_SECOND: Final = 1 << 16
_TRANSFER_SECONDS: Final = 10.0

Buffers = Sequence[bytes | bytearray | memoryview]


class ProtocolError(DeviceError):
    """The other side sent what no message may be; the connection cannot go on."""


class ConnectionLostError(DeviceError):
    """The other side is gone or silent; the connection cannot go on."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A received message.

    Attributes:
        kind: what it is.
        fields: small values; use the typed getters.
        body: plain bytes.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | bytearray = b""

    def integer(self, name: str, low: int, high: int) -> int:
        """A field that must be a whole number of a range.

        Raises:
            ProtocolError: it is missing or anything else.
        """
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A field that must be a number of a range.

        Raises:
            ProtocolError: it is missing or anything else.
        """
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number")
        if not (math.isfinite(value) and low <= value <= high):
            raise self._wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def text(self, name: str) -> str:
        """A field that must be text.

        Raises:
            ProtocolError: it is missing or anything else.
        """
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """A field that must be an object.

        Raises:
            ProtocolError: it is missing or anything else.
        """
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def _wrong(self, name: str, wanted: str) -> ProtocolError:
        return ProtocolError(f"must be {wanted}", field=f"message {self.kind}: {name}")


class Channel:
    """Messages over a connected socket; one thread at a time may send or receive.

    Args:
        connection: it becomes the channel's to close.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket: Final = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, kind: str, body: Buffers = (), /, **fields: Any) -> None:
        """Send a message.

        Raises:
            ConnectionLostError: the other side is gone or takes nothing.
        """
        header = json.dumps({"kind": kind, **fields}).encode()
        size = sum(len(part) for part in body)
        prefix = _PREFIX.pack(_MAGIC, PROTOCOL_VERSION, len(header), size)
        deadline = time.monotonic() + _transfer_seconds(size)
        try:
            for part in (prefix + header, *body):
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                self._socket.sendall(part)
        except OSError as error:
            raise _lost(error) from error

    def receive(
        self, *, seconds: float, max_header: int = MAX_HEADER_BYTES, max_body: int = 0
    ) -> Message:
        """Receive a message.

        Args:
            seconds: until it begins; its bytes then have a deadline by their number.
            max_header: largest header in bytes.
            max_body: largest body in bytes.

        Raises:
            ProtocolError: no message, or too large a one.
            ConnectionLostError: the other side is gone or silent.
        """
        deadline = time.monotonic() + seconds
        first = self._take(1, deadline)
        deadline = time.monotonic() + _TRANSFER_SECONDS
        prefix = first + self._take(_PREFIX.size - 1, deadline)
        magic, version, header_size, body_size = _PREFIX.unpack(prefix)
        if magic != _MAGIC:
            raise ProtocolError("the other side must speak the agent's protocol", field="message")
        if version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"must be {PROTOCOL_VERSION}",
                field="protocol version",
                value=version,
                remedy="install the same release on both sides",
            )
        for name, size, limit in (
            ("header", header_size, max_header),
            ("body", body_size, max_body),
        ):
            if size > limit:
                raise ProtocolError(
                    f"must be at most {limit} bytes", field=f"message {name}", value=size
                )
        deadline = time.monotonic() + _transfer_seconds(header_size + body_size)
        header = _header(self._take(header_size, deadline))
        body = self._take(body_size, deadline)
        return Message(kind=str(header.pop("kind")), fields=header, body=body)

    @property
    def is_gone(self) -> bool:
        """Whether the other side closed the connection; nothing is consumed."""
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                return bool(selector.select(0)) and not self._socket.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """Close the connection, from any thread. Idempotent."""
        with suppress(OSError):  # the other side may have been first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, size: int, deadline: float) -> bytearray:
        data = bytearray()
        try:
            while len(data) < size:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                part = self._socket.recv(min(_CHUNK, size - len(data)))
                if not part:
                    raise ConnectionLostError("the other side closed the connection", field="agent")
                data += part
        except OSError as error:
            raise _lost(error) from error
        return data


def _header(data: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("must be JSON", field="message header") from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise ProtocolError("must be an object with its kind", field="message header")
    return header


def _transfer_seconds(size: int) -> float:
    return _TRANSFER_SECONDS + size / _SLOWEST_BYTES_PER_SECOND


def _lost(error: OSError) -> ConnectionLostError:
    if isinstance(error, TimeoutError):
        return ConnectionLostError("the other side is silent", field="agent")
    return ConnectionLostError(f"the connection broke ({error})", field="agent")
