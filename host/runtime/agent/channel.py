# SPDX-License-Identifier: Apache-2.0
"""`Channel`: messages over a socket, with or without TLS, with limits and deadlines."""

from __future__ import annotations

import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent import tls
from tilewright.host.runtime.agent.protocol import (
    MAX_HEADER_BYTES,
    PREFIX_BYTES,
    ConnectionLostError,
    Message,
    ProtocolError,
    pack,
    read_header,
    unpack_prefix,
)

_PIECE_BYTES: Final = 1 << 19
_PIECE_SECONDS: Final = 10.0
"""Each piece of a message must pass in this time: silence inside a message ends soon, and memory
is taken as bytes arrive, not as a message announces them."""
_LOOK_SECONDS: Final = 0.1
_FAREWELL_SECONDS: Final = 1.0
_FAREWELL_BYTES: Final = 1 << 20
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A machine that vanished without a word is noticed after 30 seconds."""

Buffers = Sequence[bytes | bytearray | memoryview]


class Channel:
    """Messages over a connected socket; one thread at a time may send or receive."""

    def __init__(self, connection: socket.socket, *, seconds: float = math.inf) -> None:
        self._socket = connection
        self._swap: Final = threading.Lock()
        self._deadline = time.monotonic() + seconds
        self._binding = b""
        if connection.family != getattr(socket, "AF_UNIX", None):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @property
    def binding(self) -> bytes:
        """SHA-256 of the agent's certificate; empty without TLS."""
        return self._binding

    def lift_deadline(self) -> None:
        """From now on, each message has its own deadlines alone."""
        self._deadline = math.inf

    def start_tls(self) -> None:
        """The client's side of TLS."""
        try:
            with self._swap:
                secured = self._socket = tls.connect(self._socket)
            tls.handshake(secured, seconds=self._left(math.inf))
        except OSError as error:
            raise _lost(error) from error
        self._binding = tls.digest_of_peer(secured)

    def accept_tls(self, identity: tls.Identity | None) -> None:
        """The agent's side of TLS, or of none without an identity."""
        try:
            self._socket.settimeout(self._left(math.inf))
            first = self._socket.recv(1, socket.MSG_PEEK)
            if not first:
                raise ConnectionLostError("the other side closed the connection", field="agent")
            if identity is None:
                if first == tls.HANDSHAKE_RECORD:
                    raise ProtocolError("the agent speaks no TLS", remedy="connect with --plain")
                return
            if first != tls.HANDSHAKE_RECORD:
                raise ProtocolError("the agent speaks TLS alone", remedy="connect without --plain")
            with self._swap:
                secured = self._socket = tls.accept(self._socket, identity)
            tls.handshake(secured, seconds=self._left(math.inf))
        except OSError as error:
            raise _lost(error) from error
        self._binding = identity.digest

    def send(self, kind: str, body: Buffers = (), /, **fields: Any) -> None:
        """Send a message."""
        start = pack(kind, fields, sum(len(part) for part in body))
        try:
            for part in (start, *body):
                self._give(part)
        except OSError as error:
            raise _lost(error) from error

    def receive(
        self, *, seconds: float, max_header: int = MAX_HEADER_BYTES, max_body: int = 0
    ) -> Message:
        """Receive a message."""
        prefix = self._take(1, seconds=seconds) + self._take(PREFIX_BYTES - 1)
        header_size, body_size = unpack_prefix(prefix, max_header=max_header, max_body=max_body)
        kind, fields = read_header(self._take(header_size))
        return Message(kind=kind, fields=fields, body=self._take(body_size))

    def await_news(self, *, seconds: float, check: Callable[[], None]) -> None:
        """Wait until there is something to receive, and look after something else meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLostError("the other side is silent", field="agent")
            try:
                if self._has_news(min(left, _LOOK_SECONDS)):
                    return
            except (OSError, ValueError) as error:
                raise ConnectionLostError(
                    "the other side closed the connection", field="agent"
                ) from error

    def check_quiet(self) -> None:
        """Make sure that the other side is there and waits for an answer; nothing is consumed.

        Whoever sends on without waiting cannot be told from one who did so and vanished, because
        the end of a connection shows behind its last byte only.
        """
        try:
            if not self._has_news():
                return
            news = self._is_decrypted() or self._peek()
        except (OSError, ValueError) as error:
            raise ConnectionLostError(
                "the other side closed the connection", field="agent"
            ) from error
        if not news:
            raise ConnectionLostError("the other side closed the connection", field="agent")
        raise ProtocolError(
            "must wait for the answer to the one before, and not leave", field="message"
        )

    def farewell(self, reason: str) -> None:
        """Say why the connection ends, and give that a moment to arrive.

        A connection that is closed while bytes wait to be read loses what was said last.
        """
        self._deadline = time.monotonic() + _FAREWELL_SECONDS
        with suppress(DeviceError, OSError):
            self.send("bye", reason=reason)
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
            left = _FAREWELL_BYTES
            while left > 0:
                self._socket.settimeout(self._left(math.inf))
                part = socket.socket.recv(self._socket, 1 << 16)
                if not part:
                    break
                left -= len(part)

    def abort(self) -> None:
        """End the connection from any thread: whoever sends or receives on it gets an error.

        It is left to its owner to close: the number of a closed socket may be that of another
        connection at once, from which a thread that still reads would read.
        """
        with self._swap, suppress(OSError):
            # not `SSLSocket.shutdown`, after which the socket would take plain text for messages
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.abort()
        self._socket.close()

    def _has_news(self, seconds: float = 0.0) -> bool:
        if self._is_decrypted():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(math.ceil(1000 * seconds)))

    def _is_decrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _peek(self) -> bytes:
        """The next byte on the wire, if it is there; empty at the end of the connection."""
        return socket.socket.recv(self._socket, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)

    def _left(self, deadline: float) -> float | None:
        """Seconds to a deadline or to the channel's own, for `settimeout`."""
        deadline = min(deadline, self._deadline)
        if math.isinf(deadline):
            return None
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def _give(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for at in range(0, len(view), _PIECE_BYTES):
            piece, deadline = view[at : at + _PIECE_BYTES], time.monotonic() + _PIECE_SECONDS
            while piece:
                self._socket.settimeout(self._left(deadline))
                piece = piece[self._socket.send(piece) :]

    def _take(self, size: int, *, seconds: float | None = None) -> bytearray:
        """So many bytes, each piece of which arrives in its time."""
        data = bytearray()
        try:
            while len(data) < size:
                piece = memoryview(bytearray(min(_PIECE_BYTES, size - len(data))))
                deadline = time.monotonic() + (_PIECE_SECONDS if seconds is None else seconds)
                at = 0
                while at < len(piece):
                    self._socket.settimeout(self._left(deadline))
                    count = self._socket.recv_into(piece[at:])
                    if not count:
                        raise ConnectionLostError(
                            "the other side closed the connection", field="agent"
                        )
                    at += count
                data += piece
        except OSError as error:
            raise _lost(error) from error
        return data


def _lost(error: OSError) -> ConnectionLostError:
    if isinstance(error, TimeoutError):
        return ConnectionLostError("the other side is silent", field="agent")
    if isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)):
        return ConnectionLostError("the other side closed the connection", field="agent")
    return ConnectionLostError(f"the connection broke ({error})", field="agent")
