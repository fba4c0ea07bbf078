# SPDX-License-Identifier: Apache-2.0
"""`RtlOracle`: cycle counts of the RTL in Verilator, each output compared with the golden model."""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import numpy as np

from tilewright.host.errors import DeviceTimeoutError, TilewrightError
from tilewright.host.golden import Int8Array, LayerTensors, conv2d_int8, random_tensors
from tilewright.host.hwconfig import ISA_VERSION, HwConfig
from tilewright.host.lowering import lower
from tilewright.host.workload import Workload
from tilewright.sim.build import HARNESS_DIR, build_model, read_manifest
from tilewright.sim.verilator_device import VerilatorDevice
from tilewright.sim.worker import Outcome, WorkerPool, run_on_device
from tilewright.tuner.measurement import Measurement, Request, Status, hw_key

FIDELITY: Final = "rtl"

WALL_LIMIT_S: Final = 300.0
"""Seconds after which a job (a build or a trial) counts as hung."""

DATA_SEED: Final = 0x7E57
"""Seed of the operands; every trial of a workload computes on the same data."""


@functools.lru_cache(maxsize=1)
def rtl_identity() -> str:
    """Fidelity and a digest of every RTL and memory-model source: what cycle counts depend on.

    Raises:
        BuildError: the RTL cannot be read.
    """
    digest = hashlib.sha256(f"isa{ISA_VERSION}".encode())
    for path in (*read_manifest(), *sorted(HARNESS_DIR.glob("memory_model.*"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{FIDELITY}-{digest.hexdigest()[:16]}"


class RtlOracle:
    """Measures in worker processes; a crash or a hang costs one trial.

    Args:
        workers: processes.
        wall_limit_s: seconds after which a job counts as hung.
    """

    def __init__(self, *, workers: int, wall_limit_s: float = WALL_LIMIT_S) -> None:
        self._identity: Final = rtl_identity()
        self._pool: Final = WorkerPool(workers, wall_limit_s=wall_limit_s)
        self._outcomes: Iterator[Outcome] = iter(())
        self._numbers: Final = itertools.count()
        self._builds: dict[str, str | None] = {}
        """Configuration to the failure of its build; empty: built; None: still building."""
        self._build_jobs: dict[Hashable, str] = {}

    @property
    def fidelity(self) -> str:
        """``rtl``: data and cycles of every gate."""
        return FIDELITY

    @property
    def identity(self) -> str:
        """Fidelity and digest of the RTL and the memory model."""
        return self._identity

    def prepare(self, hw: HwConfig) -> None:
        """Start the build of a configuration in a worker, once."""
        key = hw_key(hw)
        if key not in self._builds:
            job = f"build-{next(self._numbers)}"
            self._builds[key] = None
            self._build_jobs[job] = key
            self._pool.submit(job, build_job, hw)

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """Measure; trials start as soon as their configuration is built."""
        waiting: dict[str, deque[int]] = {}
        running: dict[Hashable, int] = {}
        for position, request in enumerate(requests):
            key = hw_key(request.hw)
            self.prepare(request.hw)
            if self._builds[key] is None:
                waiting.setdefault(key, deque()).append(position)
            elif self._builds[key]:
                yield position, self._unbuilt(request)
            else:
                self._start(position, request, running)
        while waiting or running:
            outcome = self._next_outcome()
            if outcome.job_id in self._build_jobs:
                key = self._build_jobs.pop(outcome.job_id)
                self._builds[key] = _build_failure(outcome)
                for position in waiting.pop(key, ()):
                    if self._builds[key]:
                        yield position, self._unbuilt(requests[position])
                    else:
                        self._start(position, requests[position], running)
            elif outcome.job_id in running:
                position = running.pop(outcome.job_id)
                yield position, _answer(requests[position], outcome)

    def _next_outcome(self) -> Outcome:
        """The next outcome of any job.

        One iterator is kept over all calls: outcomes that arrived together with the last one
        of a batch wait in it.
        """
        outcome = next(self._outcomes, None)
        if outcome is None:
            self._outcomes = self._pool.results()
            outcome = next(self._outcomes)
        return outcome

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def _start(self, position: int, request: Request, running: dict[Hashable, int]) -> None:
        job = f"trial-{next(self._numbers)}"
        running[job] = position
        self._pool.submit(job, trial_job, request)

    def _unbuilt(self, request: Request) -> Measurement:
        return Measurement(
            status=Status.FAILED,
            fidelity=FIDELITY,
            failure=f"build of {request.hw.name}: {self._builds[hw_key(request.hw)]}",
            limit_cycles=request.max_cycles,
        )


def _build_failure(outcome: Outcome) -> str:
    if not outcome.ok:
        return _failure_text(outcome)
    return str(outcome.value)


def _answer(request: Request, outcome: Outcome) -> Measurement:
    if outcome.ok and isinstance(outcome.value, Measurement):
        return outcome.value
    return Measurement(
        status=Status.FAILED,
        fidelity=FIDELITY,
        failure=_failure_text(outcome),
        limit_cycles=request.max_cycles,
        host_seconds=outcome.seconds,
    )


def _failure_text(outcome: Outcome) -> str:
    """Why a job has no value, in one line."""
    error = outcome.error
    if isinstance(error, TilewrightError):
        return f"{outcome.status}: {error}"
    return f"{outcome.status}: {type(error).__name__}: {error}"


# -- in the workers ---------------------------------------------------------------------------


def build_job(hw: HwConfig) -> str:
    """Build a configuration; returns why it failed, or an empty text."""
    try:
        build_model(hw, jobs=1)
    except TilewrightError as error:
        return str(error)
    return ""


def trial_job(request: Request) -> Measurement:
    """Lower, run on the RTL, and compare the output with the golden model."""
    started = time.perf_counter()

    def answer(status: Status, failure: str = "") -> Measurement:
        return Measurement(
            status=status,
            fidelity=FIDELITY,
            failure=failure,
            limit_cycles=request.max_cycles,
            host_seconds=time.perf_counter() - started,
        )

    try:
        lowered = lower(request.hw, request.workload, request.schedule)
        tensors, expected = golden(request.workload)
        result = run_on_device(
            request.hw,
            request.memory,
            VerilatorDevice.run,
            lowered.program,
            lowered.image(tensors),
            max_cycles=request.max_cycles,
        )
    except DeviceTimeoutError:
        return answer(Status.TIMEOUT, f"more than {request.max_cycles} cycles")
    except TilewrightError as error:
        return answer(Status.FAILED, f"{type(error).__name__}: {error}")
    actual = lowered.output(result.memory)
    difference = compare(actual, expected)
    if difference:
        return answer(Status.MISMATCH, difference)
    return Measurement(
        status=Status.OK,
        fidelity=FIDELITY,
        cycles=result.counters.cycles,
        counters=dict(result.counters.values),
        limit_cycles=request.max_cycles,
        host_seconds=time.perf_counter() - started,
        output_checked=True,
    )


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


@functools.lru_cache(maxsize=64)
def golden(workload: Workload) -> tuple[LayerTensors, Int8Array]:
    """Operands of a workload and the output that they must give (kept in each worker)."""
    rng = np.random.default_rng([DATA_SEED, int(workload.key, 16)])
    tensors = random_tensors(workload, rng)
    return tensors, conv2d_int8(workload, tensors)
