# SPDX-License-Identifier: Apache-2.0
"""`DeviceOracle`: measures at one fidelity on an executor, outputs compared with the golden model.

A trial fails by what it is; a machine that cannot build or run (`EnvironmentFaultError`) ends the
measuring instead, and what still runs then is answered first.

The lookup of what is already measured is not here: `claims` answers equal requests from the store
of all studies, under `DeviceOracle.identity`.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tilewright.host.common.errors import (
    BuildError,
    DeviceError,
    DeviceTimeoutError,
    EnvironmentFaultError,
    TilewrightError,
    ToolError,
)
from tilewright.host.lowering import LoweredLayer, lower
from tilewright.host.lowering.operands import random_operands
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.network.golden import Int8Array, LayerTensors, conv2d_int8
from tilewright.host.network.int4_tiles import has_scales
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.device import Bytes
from tilewright.sim.executor.job import Outcome
from tilewright.sim.executor.protocol import Executor
from tilewright.tuner.measure.backends import backend_of, identity_of
from tilewright.tuner.measure.measurement import Measurement, Request, Status, hw_key

WALL_LIMIT_S: Final = 300.0
"""Seconds after which a trial counts as hung; a build takes what the machine's load makes it."""

BUILDING_S: Final = 10.0
"""Seconds after which somebody who waits for a build is told so."""

RETRIES: Final = 1
"""How often a trial is run again after its worker died: a machine may fail, the trial may not."""

ENVIRONMENT: Final = (BuildError, ToolError, EnvironmentFaultError, MemoryError, OSError)
"""What a trial never causes: tools, disk and memory are the machine's."""

DATA_SEED: Final = 0x7E57
"""Seed of the operands; every trial of a workload computes on the same data."""


def rtl_identity() -> str:
    """What cycle counts of the RTL depend on (`identity_of`)."""
    return identity_of(Fidelity.RTL.value)


class DeviceOracle:
    """Measures in the workers of an executor; a crash or a hang costs one trial."""

    def __init__(
        self, fidelity: str, executor: Executor, tell: Callable[[str], object] = lambda _: None
    ) -> None:
        self._backend: Final = backend_of(fidelity)
        self._identity: Final = identity_of(fidelity)
        self._executor: Final = executor
        self._outcomes: Iterator[Outcome] = iter(())
        self._numbers: Final = itertools.count()
        self._builds: dict[str, EnvironmentFaultError | bool] = {}
        """Configuration to whether it is built, or to why it cannot be."""
        self._build_jobs: dict[Hashable, str] = {}
        self._building: dict[Hashable, str] = {}
        """Names of configurations that are built, as long as nobody has been told."""
        self._tell: Final = tell

    @property
    def fidelity(self) -> str:
        """Name of the fidelity."""
        return self._backend.fidelity.value

    @property
    def identity(self) -> str:
        """Fidelity and digest of all that its cycles depend on besides the request."""
        return self._identity

    def prepare(self, hw: HwConfig) -> None:
        """Start the build of a configuration in a worker, once."""
        key = hw_key(hw)
        if key not in self._builds:
            job = f"build-{next(self._numbers)}"
            self._builds[key] = False
            self._build_jobs[job] = key
            self._building[job] = hw.name
            self._executor.submit_unlimited(job, build_job, self.fidelity, hw)

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """Measure; trials start as soon as their configuration is built."""
        waiting: dict[str, list[int]] = {}
        taken = 0
        running: dict[Hashable, list[int]] = {}
        fault: EnvironmentFaultError | None = None

        def start(key: str) -> EnvironmentFaultError | None:
            """Submit the trials of one configuration, unless it cannot be built."""
            state = self._builds[key]
            if isinstance(state, EnvironmentFaultError):
                return state
            if state and fault is None:
                self._start(requests, waiting.pop(key, []), running)
            return None

        while True:
            while taken < len(requests):
                hw = requests[taken].hw
                self.prepare(hw)
                waiting.setdefault(hw_key(hw), []).append(taken)
                taken += 1
            for key in list(waiting):
                fault = fault or start(key)
            if not running and (fault is not None or not waiting):
                break
            outcome = self._next_outcome()
            if outcome.job_id in self._build_jobs:
                key = self._build_jobs.pop(outcome.job_id)
                self._building.pop(outcome.job_id, None)
                self._builds[key] = _build_fault(outcome) or True
            elif outcome.job_id in running:
                positions = running.pop(outcome.job_id)
                if not outcome.ok and isinstance(outcome.error, ENVIRONMENT):
                    name = requests[positions[0]].hw.name
                    what = f"a trial on {name} cannot run"
                    fault = fault or environment_fault(what, outcome.error)
                elif not outcome.ok and len(positions) > 1:  # which of them was it?
                    for position in positions:
                        self._submit(requests, [position], running)
                else:
                    for number, position in enumerate(positions):
                        yield position, self._answer(requests[position], outcome, number)
        if fault is not None:
            raise fault

    def _next_outcome(self) -> Outcome:
        """The next outcome of any job.

        One iterator is kept over all calls: outcomes that arrived together with the last one
        of a batch wait in it.
        """
        outcome = next(self._outcomes, None)
        if outcome is None:
            self._outcomes = self._executor.results()
            told = threading.Timer(BUILDING_S, self._tell_building)
            told.daemon = True
            told.start()
            try:
                outcome = next(self._outcomes)
            finally:
                told.cancel()
        return outcome

    def _tell_building(self) -> None:
        names = list(self._building.values())
        self._building.clear()
        if names:
            self._tell(
                f"building the {self.fidelity} simulation of {', '.join(dict.fromkeys(names))}: a "
                "minute on a machine that is free, more on a busy one"
            )

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _start(
        self, requests: Sequence[Request], positions: list[int], running: dict[Hashable, list[int]]
    ) -> None:
        """Submit trials of one configuration."""
        size = self._backend.batch
        for first in range(0, len(positions), size):
            self._submit(requests, positions[first : first + size], running)

    def _submit(
        self, requests: Sequence[Request], positions: list[int], running: dict[Hashable, list[int]]
    ) -> None:
        job = f"trial-{next(self._numbers)}"
        running[job] = positions
        self._executor.submit(job, trial_jobs, self.fidelity, [requests[p] for p in positions])

    def _answer(self, request: Request, outcome: Outcome, number: int) -> Measurement:
        if outcome.ok:
            answer: Measurement = outcome.value[number]
            return answer
        return Measurement(
            status=Status.FAILED,
            fidelity=self.fidelity,
            failure=_failure_text(outcome),
            limit_cycles=request.max_cycles,
            host_seconds=outcome.seconds,
        )


def _build_fault(outcome: Outcome) -> EnvironmentFaultError | None:
    """Why a configuration cannot be built here; None: it is built."""
    if outcome.ok:
        return None
    return environment_fault("a configuration cannot be built", outcome.error)


def environment_fault(what: str, error: BaseException | None) -> EnvironmentFaultError:
    """An error of the machine with what to do about it."""
    if isinstance(error, EnvironmentFaultError):
        return error
    known = isinstance(error, TilewrightError)
    cause = str(error) if known else f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, MemoryError) or "Killed" in cause or "SIGKILL" in cause:
        remedy = "free memory or lower --workers"
    elif isinstance(error, OSError) or "No space left" in cause:
        remedy = "free disk space, or set TILEWRIGHT_CACHE to a folder on another disk"
    elif isinstance(error, DeviceError) and error.remedy:
        cause, remedy = cause.removesuffix(f"; {error.remedy}"), error.remedy
    else:
        remedy = "`tilewright doctor` checks the tools"
    return EnvironmentFaultError(
        f"{what} on this machine ({' '.join(cause.split())})",
        remedy=f"{remedy}; nothing was stored for it and the same command goes on from here",
    )


def _failure_text(outcome: Outcome) -> str:
    """Why a job has no value, in one line."""
    error = outcome.error
    if isinstance(error, TilewrightError):
        return f"{outcome.status}: {error}"
    return f"{outcome.status}: {type(error).__name__}: {error}"


# -- in the workers ---------------------------------------------------------------------------


def build_job(fidelity: str, hw: HwConfig) -> None:
    """Prepare a configuration."""
    try:
        backend_of(fidelity).prepare(hw)
    except (TilewrightError, OSError, MemoryError) as error:
        raise environment_fault(f"configuration {hw.name} cannot be built", error) from error


def trial_jobs(fidelity: str, requests: Sequence[Request]) -> list[Measurement]:
    """Measure one request after the other."""
    return [trial_job(fidelity, request) for request in requests]


def trial_job(fidelity: str, request: Request) -> Measurement:
    """`measure_once`, with what a trial itself causes told in the measurement."""
    started = time.perf_counter()

    def answer(status: Status, failure: str) -> Measurement:
        return Measurement(
            status=status,
            fidelity=fidelity,
            failure=failure,
            limit_cycles=request.max_cycles,
            host_seconds=time.perf_counter() - started,
        )

    try:
        return measure_once(fidelity, request)
    except DeviceTimeoutError:
        return answer(Status.TIMEOUT, f"more than {request.max_cycles} cycles")
    except ENVIRONMENT:
        raise
    except TilewrightError as error:
        return answer(Status.FAILED, f"{type(error).__name__}: {error}")


def measure_once(fidelity: str, request: Request) -> Measurement:
    """Lower, run, and, if the fidelity has data, compare the output with the golden model."""
    started = time.perf_counter()
    backend = backend_of(fidelity)
    trial = LoweredTrial.of(request)
    result = backend.run(
        request.hw, request.memory, trial.program, trial.image, max_cycles=request.max_cycles
    )
    checked = backend.fidelity.computes
    wrong = trial.difference(result.memory) if checked else ""
    return Measurement(
        status=Status.MISMATCH if wrong else Status.OK,
        fidelity=fidelity,
        failure=wrong,
        cycles=None if wrong else result.counters.cycles,
        counters={} if wrong else dict(result.counters.values),
        limit_cycles=request.max_cycles,
        host_seconds=time.perf_counter() - started,
        output_checked=checked and not wrong,
    )


@dataclass(frozen=True, kw_only=True)
class LoweredTrial:
    """A request that is ready to run, with the output that it must give."""

    lowered: LoweredLayer  # program and layout
    image: Bytes  # uint8 array of the program's memory before the run
    expected: Int8Array  # the golden output

    @classmethod
    def of(cls, request: Request) -> LoweredTrial:
        """Lower a request."""
        lowered = lower(request.hw, request.workload, request.schedule)
        tensors, expected = golden(request.hw, request.workload)
        return cls(lowered=lowered, image=lowered.image(tensors), expected=expected)

    @property
    def program(self) -> Program:
        """What runs."""
        return self.lowered.program

    def difference(self, memory: Bytes) -> str:
        """Where the output in the memory after a run is wrong; empty: nowhere."""
        return compare(self.lowered.output(memory), self.expected)


def compare(actual: Int8Array, expected: Int8Array) -> str:
    """Where an output differs from the golden one; empty when it does not."""
    if actual.shape != expected.shape:
        return f"output shape {actual.shape}, expected {expected.shape}"
    wrong = np.argwhere(actual != expected)
    if not len(wrong):
        return ""
    place = tuple(int(i) for i in wrong[0])
    return (
        f"{len(wrong)} of {expected.size} output elements differ from the golden model; first at "
        f"NCHW {place}: {int(actual[place])}, expected {int(expected[place])}"
    )


def golden(hw: HwConfig, workload: Workload) -> tuple[LayerTensors, Int8Array]:
    """Operands of a workload and the output that they must give (kept in each worker).

    They are the same for all configurations whose weights have no scales.
    """
    return _golden(hw if has_scales(hw) else HwConfig(), workload)


@functools.lru_cache(maxsize=64)
def _golden(hw: HwConfig, workload: Workload) -> tuple[LayerTensors, Int8Array]:
    rng = np.random.default_rng([DATA_SEED, int(workload.key, 16)])
    tensors = random_operands(hw, workload, rng)
    return tensors, conv2d_int8(workload, tensors)
