# SPDX-License-Identifier: Apache-2.0
"""`RemoteDevice`: a `Device` that an agent serves."""

from __future__ import annotations

import hashlib
import random
import secrets
import threading
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import ConfigError, DeviceError, ProgramError, TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.agent.authentication import AgentFullError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.error_codec import decode_error
from tilewright.host.runtime.agent.images import (
    apply_delta,
    check_limits,
    delta,
    describe,
    digest,
    max_delta_bytes,
)
from tilewright.host.runtime.agent.limits import MAX_WAIT_SECONDS, Limits
from tilewright.host.runtime.agent.protocol import (
    ConnectionLostError,
    Message,
    ProtocolError,
)
from tilewright.host.runtime.agent.reach import TurnedAwayError, reach
from tilewright.host.runtime.device import Bytes, Counters, RunResult
from tilewright.host.runtime.driver import check_run

_ANSWER_SECONDS: Final = 30.0
"""Beyond what the agent may take for a run or a wait."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
"""Between attempts to get a place; doubled from one to the next, and drawn from its half up."""
_KNOWN_PROGRAMS: Final = 32
_BEATS_A_LEASE: Final = 3
_TRIAL_BYTES: Final = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sent:
    """A program that was described; kept, so that its identity stays its own."""

    program: Program
    digest: str


@dataclass(frozen=True, kw_only=True)
class _Lost:
    """A run whose answer did not arrive."""

    trial: bytes  # its name at the agent
    run: bytes  # digest of what was run


def _identity(program: Program, memory: Bytes, max_cycles: int) -> bytes:
    """Digest of what a run is."""
    fields, body = describe(program)
    content = hashlib.sha256(f"{digest(fields, body)} {max_cycles} ".encode())
    content.update(np.ascontiguousarray(memory).data)
    return content.digest()


class RemoteDevice:
    """Runs programs on the device of an agent, which is leased until `close`.

    A thread keeps the lease alive between runs. After a lost connection, or an interrupt in a run,
    the next run connects and leases anew. If it is the run that was lost once more, it asks for
    that one: an agent with a journal has the result, if the run had ended.
    """

    def __init__(
        self, address: str, token: bytes, *, wait_seconds: float = 0.0, plain: bool = False
    ) -> None:
        if not 0 <= wait_seconds <= MAX_WAIT_SECONDS:
            raise ConfigError(
                f"must be 0 to {MAX_WAIT_SECONDS:.0f} seconds", field="wait", value=wait_seconds
            )
        self._address: Final = address
        self._token: Final = token
        self._wait_seconds: Final = wait_seconds
        self._plain: Final = plain
        self._lock: Final = threading.RLock()
        self._known: Final[OrderedDict[int, _Sent]] = OrderedDict()
        self._channel: Channel | None = None
        self._lost: _Lost | None = None
        self._closed = False
        self._limits = Limits()
        self._hw: HwConfig | None = None
        self._board = ""
        self._bitstreams: dict[str, str] = {}
        self._connect()
        self._over: Final = threading.Event()
        _Heartbeat(self, self._over).start()

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        assert self._hw is not None, "it is known since the first connection"
        return self._hw

    @property
    def limits(self) -> Limits:
        """What the agent lets a client take."""
        return self._limits

    @property
    def board(self) -> str:
        """Name of the kind of board; empty: the agent does not say."""
        return self._board

    @property
    def bitstreams(self) -> dict[str, str]:
        """Configuration hashes to digests of the bitstreams that the agent can load."""
        return dict(self._bitstreams)

    def configure(self, config_hash: str) -> float:
        """Load the bitstream of a configuration; the seconds that the agent took."""
        with self._lock:
            channel = self._channel or self._connect()
            try:
                channel.send("configure", config_hash=config_hash)
                seconds = self._limits.run_seconds + _ANSWER_SECONDS
                answer = _reported(channel.receive(seconds=seconds)).expect("configured")
                self._hw = HwConfig.from_mapping(answer.mapping("hw"), origin=self._address)
                self._known.clear()
                return answer.number("seconds", 0, 1e9)
            except _ReportedError as report:
                raise report.error from None
            except BaseException:
                self._drop()
                raise

    def reach(self) -> bool:
        """Connect and lease anew if the connection was lost; whether it was.

        Then `hw`, `board` and `bitstreams` are those of who answers now.
        """
        with self._lock:
            lost = self._channel is None
            if lost:
                self._connect()
            return lost

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH (see `Device.run`)."""
        with self._lock:
            if self._closed:
                raise DeviceError("the device is closed", field="device", remedy="create a new one")
            check_run(self.hw, program, memory, max_cycles)
            channel = self._channel or self._connect()
            check_run(self.hw, program, memory, max_cycles)  # another agent may have answered
            trial = secrets.token_bytes(_TRIAL_BYTES)
            if self._lost is not None and self._lost.run == _identity(program, memory, max_cycles):
                trial = self._lost.trial
            try:
                result = self._run(channel, program, memory, max_cycles, trial)
                self._lost = None
                return result
            except _ReportedError as report:
                raise report.error from None
            except ProgramError:
                raise  # it was not asked for yet
            except ConnectionLostError as error:
                self._drop()
                self._lost = _Lost(trial=trial, run=_identity(program, memory, max_cycles))
                raise ConnectionLostError(
                    f"{error.rule}; the run is lost",
                    field=self._address,
                    remedy="run again: it connects anew, and asks whether this run has ended",
                ) from error
            except BaseException:
                self._drop()  # an answer may still come: nothing more can be asked here
                raise

    def close(self) -> None:
        """Give the device back. Idempotent."""
        self._over.set()
        with self._lock:
            self._closed = True
            if self._channel is not None:
                with suppress(DeviceError):
                    self._channel.send("leave")
            self._drop()

    def __del__(self) -> None:
        """Give the device back."""
        if hasattr(self, "_over"):
            self.close()

    def beat(self) -> None:
        """Keep the lease if nothing else does; a lost connection is found out here or later."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._channel is not None:
                self._ask(self._channel, "pong", "ping")
        except TilewrightError:
            self._drop()
        finally:
            self._lock.release()

    def _run(
        self, channel: Channel, program: Program, memory: Bytes, max_cycles: int, trial: bytes
    ) -> RunResult:
        sent = self._known.get(id(program)) or self._load(channel, program)
        pages = delta(program.image(), memory)
        request = {"digest": sent.digest, "max_cycles": max_cycles, "trial": trial.hex()}
        answer = self._ask_run(channel, request, pages, program)
        if answer.kind == "unknown":
            self._load(channel, program)
            answer = self._ask_run(channel, request, pages, program)
        answer.expect("ran")
        image = memory.copy()
        apply_delta(image, answer.body)
        said = answer.mapping("counters")
        values = {name: said.get(name) for name, _ in COUNTERS}
        if any(type(v) is not int or not 0 <= v < 2**64 for v in values.values()):
            raise ProtocolError("must be every counter", field="message ran: counters")
        return RunResult(
            memory=image,
            counters=Counters(values={name: int(value or 0) for name, value in values.items()}),
            host_seconds=answer.number("seconds", 0, 1e9),
        )

    def _ask_run(
        self, channel: Channel, request: dict[str, Any], pages: Any, program: Program
    ) -> Message:
        channel.send("run", pages, **request)
        return _reported(
            channel.receive(
                seconds=self._limits.run_seconds + _ANSWER_SECONDS,
                max_body=max_delta_bytes(program.memory_bytes),
            )
        )

    def _load(self, channel: Channel, program: Program) -> _Sent:
        fields, body = describe(program)
        check_limits(sum(map(len, body)), program.memory_bytes, self._limits)
        sent = _Sent(program=program, digest=digest(fields, body))
        self._ask(channel, "loaded", "load", body, digest=sent.digest, **fields)
        self._known[id(program)] = sent
        while len(self._known) > _KNOWN_PROGRAMS:
            self._known.popitem(last=False)
        return sent

    @staticmethod
    def _ask(channel: Channel, expected: str, kind: str, /, *body: Any, **fields: Any) -> Message:
        channel.send(kind, *body, **fields)
        return _reported(channel.receive(seconds=_ANSWER_SECONDS)).expect(expected)

    def _connect(self) -> Channel:
        deadline = time.monotonic() + self._wait_seconds
        pause = _FIRST_PAUSE
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                return self._lease(self._join(), left)
            except (AgentFullError, TurnedAwayError):
                if not left:
                    raise
            # many who are told so at once do not come back at once
            time.sleep(min(left, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _join(self) -> Channel:
        channel, welcome = reach(self._address, self._token, plain=self._plain)
        try:
            self._limits = Limits.from_mapping(welcome.mapping("limits"))
            self._hw = HwConfig.from_mapping(welcome.mapping("hw"), origin=self._address)
            self._board = welcome.text("board", most=200)
            found = welcome.mapping("bitstreams")
            self._bitstreams = {str(key): str(value) for key, value in found.items()}
        except BaseException:
            channel.close()
            raise
        return channel

    def _lease(self, channel: Channel, wait_seconds: float) -> Channel:
        try:
            channel.send("lease", wait_seconds=wait_seconds)
            _reported(channel.receive(seconds=wait_seconds + _ANSWER_SECONDS)).expect("leased")
        except _ReportedError as report:
            channel.close()
            raise report.error from None
        except BaseException:
            channel.close()
            raise
        self._channel = channel
        return channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class _ReportedError(Exception):
    """The agent answered with an error; the connection can go on."""

    def __init__(self, error: TilewrightError) -> None:
        super().__init__(str(error))
        self.error = error


def _reported(answer: Message) -> Message:
    if answer.kind == "error":
        raise _ReportedError(decode_error(answer.fields))
    if answer.kind == "bye":
        raise ConnectionLostError(
            f"the agent ended the session ({answer.text('reason')})", field="agent"
        )
    return answer


class _Heartbeat(threading.Thread):
    """Pings until the device is closed or nobody refers to it any more."""

    def __init__(self, device: RemoteDevice, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._device = weakref.ref(device)
        self._over = over
        self._pause = device.limits.lease_seconds / _BEATS_A_LEASE

    def run(self) -> None:
        while not self._over.wait(self._pause):
            device = self._device()
            if device is None:
                return
            device.beat()
            del device
