# SPDX-License-Identifier: Apache-2.0
"""`Session`: what an agent does for one client that it let in."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Final, Protocol, runtime_checkable

from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.program import Program
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.error_codec import encode_error
from tilewright.host.runtime.agent.images import (
    apply_delta,
    delta,
    kept_bytes,
    max_delta_bytes,
    read_program,
)
from tilewright.host.runtime.agent.lease import Lease
from tilewright.host.runtime.agent.limits import MAX_WAIT_SECONDS, Limits
from tilewright.host.runtime.agent.protocol import (
    SMALL_HEADER_BYTES,
    ConnectionLostError,
    Message,
    ProtocolError,
)
from tilewright.host.runtime.device import Bytes, Device, RunResult
from tilewright.host.runtime.scrub import scrub

LOG: Final = logging.getLogger("tilewright.agent")

_MAX_PROGRAMS: Final = 64
_DIGEST_BYTES: Final = 32
_LOOK_SECONDS: Final = 0.1
"""How often the client of a run is looked after."""


@runtime_checkable
class Interruptible(Protocol):
    """A device whose run can be ended from another thread."""

    def give_up(self) -> None:
        """End the run that is under way with an error."""
        ...


@runtime_checkable
class Reconfigurable(Protocol):
    """A device that can load another configuration (`bitstreams.ReconfigurableDevice`)."""

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to digests of what can be loaded."""
        ...

    def configure(self, config_hash: str) -> float:
        """Load a configuration; the seconds that it took."""
        ...


@dataclass(frozen=True, kw_only=True)
class Service:
    """What an agent serves.

    Attributes:
        device: runs the programs.
        limits: for every client.
        lease: of the device.
        max_cycles: longest run in cycles, for devices that know no seconds; 0: no limit.
        board: name of the kind of board.
        digest: of the bitstream, or of what stands for it, when it is the only one.
    """

    device: Device
    limits: Limits
    lease: Lease
    max_cycles: int = 0
    board: str = ""
    digest: str = ""

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to digests of what the device can hold."""
        if isinstance(self.device, Reconfigurable):
            return self.device.bitstreams
        return {f"{self.device.hw.config_hash:08x}": self.digest}


class Session:
    """Answers one client until it leaves.

    Args:
        channel: to the client.
        client: its name, for messages.
        service: what is served.
    """

    def __init__(self, channel: Channel, client: str, service: Service) -> None:
        self._channel: Final = channel
        self._client: Final = client
        self._service: Final = service
        self._programs: Final[OrderedDict[bytes, Program]] = OrderedDict()

    def serve(self) -> None:
        """Wait for the client's turn, then run its programs; the device is free on return.

        Raises:
            ProtocolError, ConnectionLostError: the connection cannot go on.
        """
        limits, lease = self._service.limits, self._service.lease
        request = self._channel.receive(
            seconds=limits.lease_seconds, max_header=SMALL_HEADER_BYTES
        ).expect("lease")
        wait_seconds = request.number("wait_seconds", 0, MAX_WAIT_SECONDS)
        try:
            lease.take(
                self._client, wait_seconds=wait_seconds, check_waits=self._channel.check_quiet
            )
        except (ProtocolError, ConnectionLostError):
            raise
        except DeviceError as error:
            self._channel.send("error", **encode_error(error))
            return
        LOG.info("%s has the device", self._client)
        try:
            self._channel.check_quiet()
            if self._clear_device():
                self._channel.send("leased")
                while self._answer():
                    pass
        finally:
            self._programs.clear()
            lease.give_back()
            LOG.info("%s gave the device back", self._client)

    def _clear_device(self) -> bool:
        """Leave nothing of the client before in the scratchpads; whether that worked."""
        try:
            scrub(self._service.device)
        except Exception as error:
            self._send_error(error)
            return False
        return True

    def _answer(self) -> bool:
        limits = self._service.limits
        request = self._channel.receive(
            seconds=limits.lease_seconds,
            max_body=max(limits.program_bytes, max_delta_bytes(limits.memory_bytes)),
        ).expect("ping", "configure", "load", "run", "leave")
        if request.kind == "leave":
            return False
        self._channel.check_quiet()
        try:
            if request.kind == "ping":
                self._channel.send("pong")
            elif request.kind == "configure":
                self._configure(request)
            elif request.kind == "load":
                self._load(request)
            else:
                self._run(request)
        except (ProtocolError, ConnectionLostError):
            raise
        except Exception as error:
            self._send_error(error)
        return True

    def _send_error(self, error: Exception) -> None:
        """Tell the client why; of an error that is none of ours, that the log knows."""
        if not isinstance(error, TilewrightError):
            LOG.error("a request of %s failed", self._client, exc_info=error)
            error = DeviceError(
                "the agent could not do it", field="agent", remedy="its log has the reason"
            )
        self._channel.send("error", **encode_error(error))

    def _configure(self, request: Message) -> None:
        """Load another configuration; programs of the one before are forgotten."""
        wanted = request.hexadecimal("config_hash", 4).hex()
        device = self._service.device
        if not isinstance(device, Reconfigurable):
            raise DeviceError(
                "the agent serves one configuration alone",
                field="configuration",
                value=wanted,
                remedy="start it with --bitstreams FOLDER",
            )
        self._programs.clear()
        seconds = device.configure(wanted)
        LOG.info("%s has configuration %s loaded (%.2f s)", self._client, wanted, seconds)
        self._channel.send("configured", hw=asdict(device.hw), seconds=seconds)

    def _load(self, request: Message) -> None:
        program = read_program(request, self._service.limits)
        program.check(self._service.device.hw)
        name = _digest(request)
        self._programs[name] = program
        self._programs.move_to_end(name)
        while len(self._programs) > 1 and (
            len(self._programs) > _MAX_PROGRAMS
            or sum(map(kept_bytes, self._programs.values())) > self._service.limits.program_bytes
        ):
            self._programs.popitem(last=False)
        self._channel.send("loaded")

    def _run(self, request: Message) -> None:
        name = _digest(request)
        program = self._programs.get(name)
        if program is None:
            self._channel.send("unknown")
            return
        self._programs.move_to_end(name)
        image = program.image()
        apply_delta(image, request.body)
        result = self._watched(program, image, self._cycles(request))
        self._channel.send(
            "ran",
            delta(image, result.memory),
            counters=dict(result.counters.values),
            seconds=result.host_seconds,
        )

    def _cycles(self, request: Message) -> int:
        wanted, most = request.integer("max_cycles", 0, 2**63), self._service.max_cycles
        return min(wanted or most, most) if most else wanted

    def _watched(self, program: Program, image: Bytes, max_cycles: int) -> RunResult:
        """Run, and give up when the client goes away meanwhile."""
        device, ended = self._service.device, threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_SECONDS):
                try:
                    self._channel.check_quiet()
                except DeviceError:
                    if isinstance(device, Interruptible):
                        device.give_up()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return device.run(program, image, max_cycles=max_cycles)
        finally:
            ended.set()
            watcher.join()


def _digest(request: Message) -> bytes:
    return request.hexadecimal("digest", _DIGEST_BYTES)
