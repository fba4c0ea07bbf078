# SPDX-License-Identifier: Apache-2.0
"""`AgentServer`: serves a device to the clients that know its token, one at a time."""

from __future__ import annotations

import logging
import signal
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import Any, Final

from tilewright.host.agent.authentication import AuthenticationError, admit
from tilewright.host.agent.lease import Lease
from tilewright.host.agent.limits import Limits
from tilewright.host.agent.protocol import Channel, ConnectionLostError, ProtocolError
from tilewright.host.agent.session import LOG, Service, Session
from tilewright.host.device import Device
from tilewright.host.errors import ConfigError, DeviceError

_END_SECONDS: Final = 10.0
"""How long a run may take to end when the server stops."""


class AgentServer:
    """Listens, and answers each client in a thread of its own.

    Args:
        device: what is served; it stays the caller's to close, after `stop`.
        listen: ``HOST:PORT``; port 0 means any free one.
        token: shared secret.
        limits: for every client.
        max_cycles: longest run in cycles, for devices that know no seconds; 0: no limit.

    Raises:
        ConfigError: no such address, or it cannot be listened at.
    """

    def __init__(
        self,
        device: Device,
        *,
        listen: str,
        token: bytes,
        limits: Limits | None = None,
        max_cycles: int = 0,
    ) -> None:
        limits = limits or Limits()
        service = Service(device=device, limits=limits, lease=Lease(), max_cycles=max_cycles)
        family, address = resolve(listen, field="listen")
        try:
            self._server: Final = _Server(family, address, service, token)
        except OSError as error:
            raise ConfigError(
                f"cannot be listened at ({error.strerror})", field="listen", value=listen
            ) from error

    @property
    def address(self) -> str:
        """Where it listens: ``HOST:PORT``."""
        return _name(self._server.socket.getsockname())

    def serve(self) -> None:
        """Answer clients until `stop` is called from another thread or a signal handler's."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Close every connection, end the run under way, and stop to listen."""
        self._server.shutdown()
        self._server.server_close()
        self._server.drop_clients()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, family: socket.AddressFamily, address: Any, service: Service, token: bytes
    ) -> None:
        self.address_family = family
        self._service = service
        self._token = token
        self._places = threading.BoundedSemaphore(service.limits.connections)
        self._clients: dict[Channel, threading.Thread] = {}
        super().__init__(address, socketserver.BaseRequestHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        LOG.warning("%s: too many connections", _name(client_address))
        with suppress(DeviceError, OSError):
            Channel(request).send("full")
        self.shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        channel, client = Channel(request), _name(client_address)
        self._clients[channel] = threading.current_thread()
        try:
            try:
                reason = self._converse(channel, client)
            finally:
                self._places.release()  # first: who is sent away may come back at once
            if reason:
                with suppress(DeviceError):
                    channel.send("bye", reason=reason)
        finally:
            channel.close()
            del self._clients[channel]

    def _converse(self, channel: Channel, client: str) -> str:
        """Serve a client to the end; returns why the agent ends it, or an empty text."""
        service = self._service
        try:
            admit(
                channel,
                self._token,
                hw=asdict(service.device.hw),
                limits=service.limits.to_mapping(),
            )
            Session(channel, client, service).serve()
        except (AuthenticationError, ProtocolError, ConnectionLostError) as error:
            LOG.info("%s: %s", client, error)
            return str(error)
        return ""

    def handle_error(self, _request: Any, client_address: Any) -> None:
        LOG.exception("%s: the session failed", _name(client_address))

    def drop_clients(self) -> None:
        for channel, thread in list(self._clients.items()):
            channel.close()
            thread.join(_END_SECONDS)


def resolve(address: str, *, field: str) -> tuple[socket.AddressFamily, Any]:
    """Family and socket address of ``HOST:PORT``; ``[HOST]:PORT`` for IPv6.

    Raises:
        ConfigError: it has another form, or the host has no address.
    """
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError("must look like HOST:PORT", field=field, value=address)
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError("no such host", field=field, value=address) from error
    return found[0], found[4]


def serve_until_signal(server: AgentServer, ready: Callable[[str], None]) -> None:
    """Serve in this process until SIGINT or SIGTERM; connections and runs are ended on return.

    Args:
        server: it is stopped on return.
        ready: called with the address when clients can connect.
    """
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    listener = threading.Thread(target=server.serve, daemon=True)
    listener.start()
    try:
        ready(server.address)
        ended.wait()
    finally:
        server.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr() -> None:
    """Show what the agent logs, with the time."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)


def _name(address: Any) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
