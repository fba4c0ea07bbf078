# SPDX-License-Identifier: Apache-2.0
"""`AgentServer`: serves a device to the clients that know its token, one at a time."""

from __future__ import annotations

import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.agent.address import check_plain, home_of, name_of, resolve
from tilewright.host.runtime.agent.authentication import (
    HANDSHAKE_SECONDS,
    AuthenticationError,
    admit,
)
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.events import LimitedLog, log_event, log_failure
from tilewright.host.runtime.agent.health import AgentStatus
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.lease import Lease
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.pending_handshakes import PendingHandshakes
from tilewright.host.runtime.agent.protocol import ConnectionLostError, ProtocolError
from tilewright.host.runtime.agent.session import ClosingError, Service, Session
from tilewright.host.runtime.agent.tls import Identity, TlsError
from tilewright.host.runtime.device import Device

_END_SECONDS: Final = 10.0
"""How long a run may take to end when the server stops."""
_BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted: a client beyond them is lost."""
_SHORTAGE_PAUSE: Final = 0.1
_LOOK_SECONDS: Final = 0.1
_FAREWELLS_SECONDS: Final = 5.0
"""Beyond the handshake: what refusals and farewells take."""
GUEST_LINES: Final = 30
"""What those who did not prove to know the token cause, in lines of the log each minute."""


class AgentServer:
    """Listens, and answers each client in a thread of its own."""

    def __init__(
        self,
        device: Device,
        *,
        listen: str,
        token: bytes,
        identity: Identity | None,
        limits: Limits | None = None,
        max_cycles: int = 0,
        board: str = "",
        digest: str = "",
        journal: Journal | None = None,
    ) -> None:
        limits = limits or Limits()
        self._service: Final = Service(
            device=device,
            limits=limits,
            lease=Lease(),
            max_cycles=max_cycles,
            board=board,
            digest=digest,
            journal=journal,
        )
        family, address = resolve(listen, field="listen")
        if identity is None:
            check_plain(address, field="listen", value=listen)
        try:
            self._server: Final = _Server(family, address, self._service, token, identity)
        except OSError as error:
            raise ConfigError(
                f"cannot be listened at ({error.strerror})", field="listen", value=listen
            ) from error

    @property
    def address(self) -> str:
        """Where it listens: ``HOST:PORT``."""
        return name_of(self._server.socket.getsockname())

    def status(self) -> AgentStatus:
        """How the agent is."""
        return self._service.status()

    def serve(self) -> None:
        """Answer clients until `stop` is called from another thread or a signal handler's."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self, *, grace_seconds: float = 0.0, hurry: threading.Event | None = None) -> None:
        """Stop to listen, tell every client, and end the run under way."""
        self._server.shutdown()
        self._server.server_close()
        self._service.closing.set()
        self._server.await_clients(grace_seconds, hurry or threading.Event())
        self._server.drop_clients()


class _Server(socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = _BACKLOG

    def __init__(
        self,
        family: socket.AddressFamily,
        address: Any,
        service: Service,
        token: bytes,
        identity: Identity | None,
    ) -> None:
        self.address_family = family
        self._service = service
        self._token = token
        self._identity = identity
        self._handshakes = PendingHandshakes(seconds=HANDSHAKE_SECONDS + _FAREWELLS_SECONDS)
        self._guest_log = LimitedLog(lines=GUEST_LINES, seconds=60.0)
        self._places = threading.BoundedSemaphore(service.limits.connections)
        self._clients: dict[Channel, threading.Thread] = {}
        super().__init__(address, socketserver.BaseRequestHandler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(_SHORTAGE_PAUSE)  # no file number is free: asking at once asks for ever
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Let a connection in; runs where connections are accepted, and must not wait."""
        channel = Channel(request, seconds=HANDSHAKE_SECONDS)
        for _ in self._handshakes.enter(channel, home_of(client_address)):
            self._guest_log.event(
                "refused", "too many connections without proof of the token: one is closed"
            )
        thread = threading.Thread(
            target=self._accompany, args=(channel, name_of(client_address)), daemon=True
        )
        self._clients[channel] = thread
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left
            self._forget(channel)
            raise

    def handle_error(self, _request: Any, client_address: Any) -> None:
        self._refused(name_of(client_address), f"no connection: {sys.exc_info()[1]}")

    def service_actions(self) -> None:
        """Called between connections, several times a second."""
        self._handshakes.close_late()

    def await_clients(self, seconds: float, hurry: threading.Event) -> None:
        """Give those who know the token time to leave; all others have to leave at once."""
        self._handshakes.close_late(seconds=0.0)
        deadline = time.monotonic() + seconds
        while self._clients and time.monotonic() < deadline and not hurry.wait(_LOOK_SECONDS):
            pass

    def drop_clients(self) -> None:
        for channel, thread in list(self._clients.items()):
            channel.abort()
            thread.join(_END_SECONDS)

    def _accompany(self, channel: Channel, client: str) -> None:
        """Serve a client from its first byte to its last."""
        try:
            proof = self._identify(channel, client)
            if proof:
                self._converse(channel, client, proof)
        except (ProtocolError, ConnectionLostError) as error:
            outcome = "closing" if isinstance(error, ClosingError) else "lost"
            log_event("left", "%s: %s", client, error, peer=client, outcome=outcome)
            channel.farewell(str(error))
        except Exception as error:
            log_failure(f"{client}: the session failed", error, peer=client)
        finally:
            self._forget(channel)

    def _identify(self, channel: Channel, client: str) -> str:
        """The agent's proof for a client that knows the token; empty: it does not, and was told."""
        try:
            channel.accept_tls(self._identity)
            return admit(channel, self._token)
        except (AuthenticationError, ProtocolError, ConnectionLostError) as error:
            self._refused(client, str(error))
            channel.farewell(str(error))
        except TlsError as error:  # what it would be told, it could not read
            self._refused(client, str(error))
        return ""

    def _refused(self, client: str, why: str) -> None:
        self._guest_log.event("refused", "%s: %s", client, why, peer=client)

    def _converse(self, channel: Channel, client: str, proof: str) -> None:
        """Serve a client that knows the token, if there is a place."""
        if not self._places.acquire(blocking=False):
            log_event("full", "%s: too many clients", client, peer=client)
            channel.send("full", mac=proof)
            return
        try:
            self._handshakes.leave(channel)
            channel.lift_deadline()
            service = self._service
            channel.send(
                "welcome",
                mac=proof,
                hw=asdict(service.device.hw),
                limits=service.limits.to_mapping(),
                board=service.board,
                bitstreams=service.bitstreams,
            )
            Session(channel, client, service).serve()
        finally:
            self._places.release()  # before farewells: who is sent away may come back at once

    def _forget(self, channel: Channel) -> None:
        self._handshakes.leave(channel)
        channel.close()
        self._clients.pop(channel, None)


def serve_until_signal(
    server: AgentServer, ready: Callable[[str], None], *, grace_seconds: float
) -> None:
    """Serve in this process until SIGINT or SIGTERM; connections and runs are ended on return."""
    ended, hurry = threading.Event(), threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        (hurry if ended.is_set() else ended).set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    listener = threading.Thread(target=server.serve, daemon=True)
    listener.start()
    try:
        ready(server.address)
        ended.wait()
    finally:
        log_event("stopping", "the agent is shutting down")
        server.stop(grace_seconds=grace_seconds, hurry=hurry)
        log_event("stopped", "the agent has ended")
        for number, handler in before.items():
            signal.signal(number, handler)
