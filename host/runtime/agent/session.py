# SPDX-License-Identifier: Apache-2.0
"""`Session`: what an agent does for one client that it let in."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from tilewright import __version__
from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.common.printable import printable
from tilewright.host.machine.program import Program
from tilewright.host.runtime.agent import images, protocol
from tilewright.host.runtime.agent.channel import Buffers, Channel
from tilewright.host.runtime.agent.error_codec import encode_error
from tilewright.host.runtime.agent.events import log_event, log_failure
from tilewright.host.runtime.agent.health import AgentStatus, Health
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.lease import Lease
from tilewright.host.runtime.agent.limits import MAX_WAIT_SECONDS, Limits
from tilewright.host.runtime.device import Bytes, Device, RunResult
from tilewright.host.runtime.scrub import scrub
from tilewright.host.runtime.temperature import chip_temperature

_MAX_PROGRAMS: Final = 64
_DIGEST_BYTES: Final = 32
_TRIAL_BYTES: Final = 16
_LOOK_SECONDS: Final = 0.1
"""How often the client of a run is looked after."""


class ClosingError(protocol.ConnectionLostError):
    """The agent is about to end."""


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
    """What an agent serves."""

    device: Device  # runs the programs
    limits: Limits  # for every client
    lease: Lease  # of the device
    max_cycles: int = 0  # longest run in cycles, for devices that know no seconds; 0: no limit
    board: str = ""  # name of the kind of board
    digest: str = ""  # of the bitstream, or of what stands for it, when it is the only one
    # keeps results until they arrived; None: a result that was lost is lost
    journal: Journal | None = None
    health: Health = field(default_factory=Health)  # what was done so far
    # set when the agent is about to end
    closing: threading.Event = field(default_factory=threading.Event)

    def check_open(self) -> None:
        """Refuse to go on once the agent is about to end."""
        if self.closing.is_set():
            raise ClosingError("the agent is shutting down", field="agent")

    def status(self) -> AgentStatus:
        """How the agent is."""
        return AgentStatus(
            version=__version__,
            hw=self.device.hw.name,
            config_hash=f"{self.device.hw.config_hash:08x}",
            board=self.board,
            leased=bool(self.lease.holder),
            waiting=self.lease.waiting,
            closing=self.closing.is_set(),
            uptime_seconds=self.health.uptime_seconds,
            trials=self.health.trials,
            last_error=self.health.last_error,
            temperature=chip_temperature(),
        )

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to digests of what the device can hold."""
        if isinstance(self.device, Reconfigurable):
            return self.device.bitstreams
        return {f"{self.device.hw.config_hash:08x}": self.digest}


class Session:
    """Answers one client until it leaves."""

    def __init__(self, channel: Channel, client: str, service: Service) -> None:
        self._channel: Final = channel
        self._client: Final = client
        self._service: Final = service
        self._programs: Final[OrderedDict[bytes, Program]] = OrderedDict()
        self._lease = 0
        self._delivered = b""
        """Trial whose result was sent, until it is known to have arrived."""

    def serve(self) -> None:
        """Tell the status, or wait for the client's turn and run its programs.

        The device is free on return.
        """
        request = self._next(max_header=protocol.SMALL_HEADER_BYTES).expect("lease", "status")
        if request.kind == "status":
            self._channel.send("status", **self._service.status().to_fields())
        else:
            self._serve_lease(request.number("wait_seconds", 0, MAX_WAIT_SECONDS))

    def _serve_lease(self, wait_seconds: float) -> None:
        lease, begin = self._service.lease, time.monotonic()
        try:
            self._lease = lease.take(
                self._client, wait_seconds=wait_seconds, check_waits=self._check_waits
            )
        except (protocol.ProtocolError, protocol.ConnectionLostError):
            raise
        except DeviceError as error:
            self._channel.send("error", **encode_error(error))
            return
        leased = time.monotonic()
        self._log("leased", "%s has the device", self._client, seconds=leased - begin)
        try:
            self._check_waits()
            if self._clear_device():
                self._channel.send("leased")
                while self._answer():
                    pass
        finally:
            self._programs.clear()
            lease.give_back()
            held = time.monotonic() - leased
            self._log("released", "%s gave the device back", self._client, seconds=held)

    def _next(self, **most: int) -> protocol.Message:
        """The client's next message, for which an agent that is about to end does not wait."""
        seconds = self._service.limits.lease_seconds
        self._channel.await_news(seconds=seconds, check=self._service.check_open)
        return self._channel.receive(seconds=seconds, **most)

    def _check_waits(self) -> None:
        self._service.check_open()
        self._channel.check_quiet()

    def _log(self, event: str, text: str, *arguments: object, **fields: Any) -> None:
        log_event(event, text, *arguments, peer=self._client, lease=self._lease, **fields)

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
        request = self._next(
            max_body=max(limits.program_bytes, images.max_delta_bytes(limits.memory_bytes))
        ).expect("ping", "configure", "load", "run", "leave")
        self._settle()
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
        except (protocol.ProtocolError, protocol.ConnectionLostError):
            raise
        except Exception as error:
            self._send_error(error)
        return True

    def _settle(self) -> None:
        """The client goes on, so it has the last result."""
        if self._delivered and self._service.journal is not None:
            self._service.journal.drop(self._delivered)
        self._delivered = b""

    def _send_error(self, error: Exception) -> None:
        """Tell the client why; of an error that is none of ours, that the log knows."""
        self._service.health.failed(printable(f"{type(error).__name__}: {error}"))
        if not isinstance(error, TilewrightError):
            log_failure(f"a request of {self._client} failed", error, peer=self._client)
            error = DeviceError(
                "the agent could not do it", field="agent", remedy="its log has the reason"
            )
        self._channel.send("error", **encode_error(error))

    def _configure(self, request: protocol.Message) -> None:
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
        self._log(
            "configured", "%s has configuration %s loaded (%.2f s)", self._client, wanted, seconds,
            seconds=seconds, config_hash=wanted,
        )  # fmt: skip
        self._channel.send("configured", hw=asdict(device.hw), seconds=seconds)

    def _load(self, request: protocol.Message) -> None:
        program = images.read_program(request, self._service.limits)
        program.check(self._service.device.hw)
        name = _digest(request)
        self._programs[name] = program
        self._programs.move_to_end(name)
        while len(self._programs) > 1 and (
            len(self._programs) > _MAX_PROGRAMS
            or sum(map(images.kept_bytes, self._programs.values()))
            > self._service.limits.program_bytes
        ):
            self._programs.popitem(last=False)
        self._channel.send("loaded")

    def _run(self, request: protocol.Message) -> None:
        name, trial = _digest(request), request.hexadecimal("trial", _TRIAL_BYTES)
        journal = self._service.journal
        asked = b"" if journal is None else self._asked(name, request)
        if journal is not None and (kept := journal.find(trial, asked)) is not None:
            self._log_trial(trial, "kept", 0.0)
            self._deliver(trial, kept.fields, [kept.body])
            return
        program = self._programs.get(name)
        if program is None:
            self._channel.send("unknown")
            return
        self._programs.move_to_end(name)
        image = program.image()
        images.apply_delta(image, request.body)
        begin = time.monotonic()
        try:
            result = self._watched(program, image, self._cycles(request))
        except Exception as error:
            self._log_trial(trial, type(error).__name__, time.monotonic() - begin)
            raise
        pages = images.delta(image, result.memory)
        fields = {"counters": dict(result.counters.values), "seconds": result.host_seconds}
        if journal is not None:
            journal.keep(trial, asked, fields, pages)
        self._service.health.trials += 1
        self._log_trial(trial, "ok", time.monotonic() - begin)
        self._deliver(trial, fields, pages)

    def _asked(self, name: bytes, request: protocol.Message) -> bytes:
        """Digest of what a run is: a result is for the same program on the same bitstream alone."""
        hw = f"{self._service.device.hw.config_hash:08x}"
        what = [hw, self._service.bitstreams.get(hw), name.hex(), self._cycles(request)]
        digest = hashlib.sha256(json.dumps(what).encode())
        digest.update(request.body)
        return digest.digest()

    def _deliver(self, trial: bytes, fields: dict[str, Any], pages: Buffers) -> None:
        self._channel.send("ran", pages, **fields)
        self._delivered = trial

    def _log_trial(self, trial: bytes, outcome: str, seconds: float) -> None:
        self._log(
            "trial", "%s: trial %s: %s (%.3f s)", self._client, trial.hex(), outcome, seconds,
            trial=trial.hex(), outcome=outcome, seconds=seconds,
        )  # fmt: skip

    def _cycles(self, request: protocol.Message) -> int:
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


def _digest(request: protocol.Message) -> bytes:
    return request.hexadecimal("digest", _DIGEST_BYTES)
