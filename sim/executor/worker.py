# SPDX-License-Identifier: Apache-2.0
"""Worker processes for simulations: a crash, a hang or a kill costs one job and is reported.

The pool is generic: a job is a picklable function with picklable arguments. `run_on_device` is
the function that most jobs go through; it keeps simulated devices open from job to job.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from tilewright.host.common.errors import (
    ConfigError,
    DeviceError,
    EnvironmentFaultError,
    TilewrightError,
)
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.rtl_variant import rtl_manifest

_P = ParamSpec("_P")
_T = TypeVar("_T")

KEPT_DEVICES: Final = 8
"""Simulated devices that a worker keeps open; the least recently used one is closed first."""

_START_FAILURES: Final = 3
"""Workers that may end by themselves while they start, one after the other."""

_START_KILLS: Final = 30
"""Workers that may be killed while they start, one after the other: a machine may be short of
memory for a while, and every one is replaced after a pause."""

_KILL_PAUSE_S: Final = 0.5
_LAST_WORDS_S: Final = 5.0
_LONGEST_WAIT_S: Final = 3600.0
"""poll(2) takes milliseconds in 32 bits."""
_READY: Final = b"ready"


class OutcomeStatus(StrEnum):
    """How a job ended."""

    OK = "ok"
    ERROR = "error"
    """The function raised; the worker lives on."""
    CRASHED = "crashed"
    """The worker died: a signal, an exit, or a kill from outside."""
    TIMED_OUT = "timed_out"
    """The job exceeded the wall limit and its worker was killed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one job.

    Attributes:
        job_id: as given to `WorkerPool.submit`.
        status: how it ended.
        value: what the function returned, if ``OK``.
        error: what it raised, if ``ERROR``; a `DeviceError` for a crash or a time-out.
        detail: traceback or cause as text; empty if ``OK``.
        seconds: wall-clock time from dispatch to end.
    """

    job_id: Hashable
    status: OutcomeStatus
    value: Any = None
    error: BaseException | None = None
    detail: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status is OutcomeStatus.OK


@dataclass(kw_only=True)
class _Job:
    job_id: Hashable
    payload: bytes
    started: float = 0.0
    crashes: int = 0


@dataclass(kw_only=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    ready: bool = False
    job: _Job | None = None


class WorkerPool:
    """Processes that run jobs; use it as a context manager.

    Workers start on demand and are replaced when they die. They form their own process groups:
    Ctrl-C reaches the parent only, which then kills them, and a worker whose parent has died
    kills itself with everything that it started (compilers, for example).

    Args:
        workers: processes, at least 1.
        wall_limit_s: seconds that a job may take, builds included.
        retries: how often a job is run again after a crash of its worker.
        on_outcome: called in the parent with each outcome before `results` yields it, together
            with the number of jobs that are still pending: for progress displays.

    Raises:
        ConfigError: a value out of range.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        wall_limit_s: float = 600.0,
        retries: int = 0,
        on_outcome: Callable[[Outcome, int], None] | None = None,
    ) -> None:
        if workers < 1:
            raise ConfigError("must be at least 1", field="workers", value=workers)
        if not wall_limit_s > 0:
            raise ConfigError("must be above 0 seconds", field="wall_limit_s", value=wall_limit_s)
        self._size = workers
        self._wall_limit_s = wall_limit_s
        self._retries = retries
        self._on_outcome = on_outcome
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._queue: deque[_Job] = deque()
        self._start_failures = 0
        self._start_kills = 0
        self._not_before = 0.0
        self._closed = False

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """Jobs that have no outcome yet."""
        return len(self._queue) + sum(worker.job is not None for worker in self._workers)

    def submit(
        self, job_id: Hashable, function: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Queue a job; its outcome comes from `results` under ``job_id``.

        Raises:
            DeviceError: the pool is closed.
            pickle.PicklingError, AttributeError, TypeError: the job cannot be pickled.
        """
        if self._closed:
            raise DeviceError("the worker pool is closed", field="submit")
        payload = bytes(ForkingPickler.dumps((function, args, kwargs)))
        self._queue.append(_Job(job_id=job_id, payload=payload))
        self._dispatch()

    def results(self) -> Iterator[Outcome]:
        """Outcomes in the order in which jobs end, until none is pending.

        Jobs may be submitted while it is consumed.

        Raises:
            DeviceError: workers die by themselves while they start, again and again.
        EnvironmentFaultError: something kills them while they start, again and again.
        """
        while self.pending:
            for outcome in self._step():
                if self._on_outcome is not None:
                    self._on_outcome(outcome, self.pending)
                yield outcome

    def close(self) -> None:
        """Kill every worker and drop jobs without an outcome. Idempotent."""
        self._closed = True
        self._queue.clear()
        for worker in self._workers:
            _kill(worker.process)
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _step(self) -> list[Outcome]:
        """Wait for something to happen and deal with it."""
        self._dispatch()
        deadlines = [w.job.started + self._wall_limit_s for w in self._workers if w.job]
        if self._queue and self._not_before > time.monotonic():
            deadlines.append(self._not_before)
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        if timeout is not None:
            timeout = min(timeout, _LONGEST_WAIT_S)
        happened = wait([w.connection for w in self._workers], timeout)
        outcomes = []
        for worker in list(self._workers):
            if worker.connection in happened:
                outcome = self._receive(worker)
            elif worker.job and time.monotonic() >= worker.job.started + self._wall_limit_s:
                outcome = self._time_out(worker)
            else:
                continue
            if outcome is not None:
                outcomes.append(outcome)
        self._dispatch()
        return outcomes

    def _dispatch(self) -> None:
        """Give queued jobs to idle workers, starting workers as needed."""
        for worker in list(self._workers):
            if not self._queue:
                return
            if not worker.ready or worker.job is not None:
                continue
            job = self._queue.popleft()
            try:
                worker.connection.send_bytes(job.payload)
            except OSError:  # it died while idle: nobody has seen the job
                self._queue.appendleft(job)
                self._remove(worker)
                continue
            job.started = time.monotonic()
            worker.job = job
        starting = sum(not worker.ready for worker in self._workers)
        if time.monotonic() < self._not_before:
            return
        while len(self._workers) < self._size and starting < len(self._queue):
            self._workers.append(self._start())
            starting += 1

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        # The child inherits the mask: Ctrl-C is the parent's to handle.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        theirs.close()  # so that the worker's death is the end of the pipe
        return _Worker(process=process, connection=ours)

    def _receive(self, worker: _Worker) -> Outcome | None:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury(worker)
        if message == _READY:
            worker.ready = True
            self._start_failures = self._start_kills = 0
            return None
        job, worker.job = worker.job, None
        if job is None:  # a message that answers nothing: do not trust this worker
            self._remove(worker)
            return None
        seconds = time.monotonic() - job.started
        try:
            status, value, error, detail = pickle.loads(message)
        except Exception as problem:
            return Outcome(
                job_id=job.job_id,
                status=OutcomeStatus.ERROR,
                error=problem,
                detail=f"the result cannot be unpickled: {problem!r}",
                seconds=seconds,
            )
        return Outcome(
            job_id=job.job_id,
            status=OutcomeStatus(status),
            value=value,
            error=error,
            detail=detail,
            seconds=seconds,
        )

    def _bury(self, worker: _Worker) -> Outcome | None:
        """A worker died by itself."""
        job = worker.job
        worker.process.join(_LAST_WORDS_S)  # its pipe has ended: so will it, with its own exit code
        self._remove(worker)
        cause = _death_text(worker.process.exitcode)
        killed = worker.process.exitcode is not None and worker.process.exitcode < 0
        if not worker.ready and killed:
            self._start_kills += 1
            self._not_before = time.monotonic() + _KILL_PAUSE_S
            if self._start_kills >= _START_KILLS:
                raise EnvironmentFaultError(
                    f"{_START_KILLS} workers in a row were killed while they started (the last one "
                    f"{cause})",
                    field="workers",
                    remedy="see who kills them (`dmesg` tells of a lack of memory), or lower "
                    "--workers; the same command goes on from here",
                )
        elif not worker.ready:
            self._start_failures += 1
            if self._start_failures >= _START_FAILURES:
                raise DeviceError(
                    f"worker processes must start (the last one {cause})",
                    field="workers",
                    remedy="run the job in the main process to see the error; a script that "
                    "starts workers needs 'if __name__ == \"__main__\":'",
                )
        if job is None:
            return None
        job.crashes += 1
        if job.crashes <= self._retries:
            self._queue.appendleft(job)
            return None
        return Outcome(
            job_id=job.job_id,
            status=OutcomeStatus.CRASHED,
            error=DeviceError(f"the worker process {cause}", field=str(job.job_id)),
            detail=cause,
            seconds=time.monotonic() - job.started,
        )

    def _time_out(self, worker: _Worker) -> Outcome | None:
        job = worker.job
        self._remove(worker)
        if job is None:
            return None
        cause = f"exceeded the wall limit of {self._wall_limit_s:g} s"
        return Outcome(
            job_id=job.job_id,
            status=OutcomeStatus.TIMED_OUT,
            error=DeviceError(f"the job {cause}", field=str(job.job_id)),
            detail=cause,
            seconds=time.monotonic() - job.started,
        )

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        _kill(worker.process)
        worker.process.join()
        worker.connection.close()


def run_on_device(
    hw: HwConfig,
    memory: MemoryModel,
    function: Callable[Concatenate[VerilatorDevice, _P], _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Call ``function(device, ...)`` with this process's device for ``hw`` and ``memory``.

    The device stays open for later jobs (at most `KEPT_DEVICES`).

    Raises:
        BuildError, ToolError: the device cannot be built.
        Exception: what ``function`` raises.
    """
    return function(_DEVICES.get(hw, memory), *args, **kwargs)


def run_on_fidelity(
    fidelity: Fidelity,
    hw: HwConfig,
    memory: MemoryModel,
    function: Callable[Concatenate[VerilatorDevice, _P], _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """`run_on_device` with another fidelity than ``rtl``.

    Raises:
        BuildError, ToolError: the device cannot be built.
        Exception: what ``function`` raises.
    """
    return function(_DEVICES.get(hw, memory, fidelity), *args, **kwargs)


class DeviceCache:
    """Simulated devices by configuration, memory, fidelity and RTL, least recently used first."""

    def __init__(self, capacity: int = KEPT_DEVICES) -> None:
        self._capacity = capacity
        self._devices: OrderedDict[tuple[int, MemoryModel, Fidelity, Path], VerilatorDevice] = (
            OrderedDict()
        )

    def get(
        self, hw: HwConfig, memory: MemoryModel, fidelity: Fidelity = Fidelity.RTL
    ) -> VerilatorDevice:
        """The device, created if there is none; its AXI ports carry no assertions (speed)."""
        key = (hw.config_hash, memory, fidelity, rtl_manifest())
        device = self._devices.get(key)
        if device is None:
            library = build_model(hw, jobs=1, checks=False, fidelity=fidelity)
            device = VerilatorDevice(hw, memory, fidelity=fidelity, library=library)
            self._devices[key] = device
            if len(self._devices) > self._capacity:
                self._devices.popitem(last=False)[1].close()
        self._devices.move_to_end(key)
        return device

    def close(self) -> None:
        """Close every device."""
        while self._devices:
            self._devices.popitem()[1].close()


_DEVICES: Final = DeviceCache()


def _work(connection: Connection) -> None:
    """A worker's life: read a job, run it, answer; leave when the parent is gone."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connection.send_bytes(_READY)
    while True:
        try:
            payload = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(run_payload(payload))


def run_payload(payload: bytes) -> bytes:
    """Run a pickled job; the answer (status, value, error, detail) is pickled too."""
    try:
        function, args, kwargs = pickle.loads(payload)
        value = function(*args, **kwargs)
        return bytes(ForkingPickler.dumps((OutcomeStatus.OK.value, value, None, "")))
    except BaseException as error:
        detail = traceback.format_exc()
        sent: BaseException = error
        try:
            pickle.loads(ForkingPickler.dumps(error))
        except Exception:  # an exception that does not survive the pipe is described instead
            sent = TilewrightError(f"{type(error).__name__}: {error}")
        return bytes(ForkingPickler.dumps((OutcomeStatus.ERROR.value, None, sent, detail)))


def _die_with_parent() -> None:
    """Wait for the parent's end, then kill this process and all that it started."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _kill(process: SpawnProcess) -> None:
    """Kill a worker and its children; nothing happens if it is gone."""
    if process.pid is None or process.exitcode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # killed before it made its group
        process.kill()


def _death_text(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            return f"was killed by {signal.Signals(-exitcode).name}"
        except ValueError:
            return f"was killed by signal {-exitcode}"
    return f"exited with code {exitcode}"
