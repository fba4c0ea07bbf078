# SPDX-License-Identifier: Apache-2.0
"""One trial on one board: run until the median of its cycles is known well enough.

Repeated runs of one program on a noisy device: a median, what is no outlier, and a spread.

A run is an outlier when it lies more than `OUTLIER` robust standard deviations from the median
(1.4826 x the median absolute deviation: Iglewicz and Hoaglin, 1993). The interval is that of the
median of normally distributed runs: its standard error is sqrt(pi / 2) of the mean's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import (
    ConfigError,
    DeviceError,
    DeviceTimeoutError,
    TilewrightError,
)
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.agent.protocol import ConnectionLostError
from tilewright.host.runtime.device import Device
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.measurement import BoardRuns, Measurement, Request, Status
from tilewright.tuner.measure.oracle import LoweredTrial

OUTLIER: Final = 3.5
_MAD_TO_DEVIATION: Final = 1.4826
_MEDIAN_ERROR: Final = math.sqrt(math.pi / 2)

LEAST_DEVIATION: Final = 1e-3
"""Of the median: runs that differ by less than `OUTLIER` times this are never outliers."""

JUDGED: Final = 5
"""Fewer runs than this have no outliers: three that are equal by chance would condemn a fourth."""

EQUAL_RUNS: Final = 3
"""So many equal runs are enough, ..."""

LEAST_RUNS: Final = 5
"""... and else at least so many: with 3, the interval held the truth in 84 of 100 cases (1 % noise,
which needs 16 runs), with 5 in 90, because runs end when they happen to look alike."""

MOST_RUNS: Final = 20
NARROW: Final = 0.005
"""Half the 95 % interval over the median at which no further run is made."""

_T_95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t with 1 to 19 degrees of freedom."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """What repeated runs say."""

    median: int  # cycles of the kept runs, rounded down to a run that was made
    kept: tuple[int, ...]  # cycles of the runs that are no outliers, in the order of the runs
    outliers: tuple[int, ...]  # cycles of the others
    standard_error: float  # of the median, in cycles
    half_interval: float  # half the 95 % interval of the median, in cycles

    @property
    def enough(self) -> bool:
        """Whether a further run would tell little."""
        if len(self.kept) + len(self.outliers) >= MOST_RUNS:
            return True
        if len(self.kept) >= EQUAL_RUNS and not self.half_interval:
            return True
        return len(self.kept) >= LEAST_RUNS and self.half_interval <= NARROW * self.median


def summarise(cycles: Sequence[int]) -> Runs:
    """Work out what runs of one program say."""
    middle = statistics.median(cycles)
    deviation = _MAD_TO_DEVIATION * statistics.median(abs(c - middle) for c in cycles)
    far = OUTLIER * max(deviation, LEAST_DEVIATION * middle)
    if len(cycles) < JUDGED:
        far = math.inf
    kept = tuple(c for c in cycles if abs(c - middle) <= far)
    outliers = tuple(c for c in cycles if abs(c - middle) > far)
    if len(kept) < 2:
        error, half = 0.0, 0.0
    else:
        error = _MEDIAN_ERROR * statistics.stdev(kept) / math.sqrt(len(kept))
        half = error * _T_95[len(kept) - 2]
    return Runs(
        median=statistics.median_low(kept),
        kept=kept,
        outliers=outliers,
        standard_error=error,
        half_interval=half,
    )


class WrongResultError(Exception):
    """A board's output differs from the golden model."""


def failed(request: Request, status: Status, text: str, seconds: float = 0.0) -> Measurement:
    """The answer to a request that no run can answer."""
    return Measurement(
        status=status,
        fidelity=Fidelity.BOARD.value,
        failure=text,
        limit_cycles=request.max_cycles,
        host_seconds=seconds,
    )


def run_trial(
    request: Request,
    device: Device,
    *,
    board: str,
    bitstream: str,
    ready: Callable[[], float],
    wanted: Callable[[], bool],
) -> Measurement:
    """Run a trial until its cycles are known well enough, or nobody wants them.

    A run whose connection broke is asked for once more: an agent with a journal has its result, if
    it had ended.
    """
    started = time.perf_counter()

    def without_answer(status: Status, text: str) -> Measurement:
        return failed(request, status, text, time.perf_counter() - started)

    try:
        trial = LoweredTrial.of(request)
    except TilewrightError as error:
        return without_answer(Status.FAILED, f"{type(error).__name__}: {error}")
    cycles: list[int] = []
    results = []
    loading, lost = 0.0, False
    while True:
        loading += ready()
        try:
            result = device.run(trial.program, trial.image, max_cycles=request.max_cycles)
        except ConnectionLostError:
            if lost:
                raise
            lost = True
            continue
        except DeviceTimeoutError:
            return without_answer(Status.TIMEOUT, f"more than {request.max_cycles} cycles")
        except DeviceStatusError as error:
            return without_answer(Status.FAILED, f"{type(error).__name__}: {error}")
        lost = False
        if wrong := trial.difference(result.memory):
            raise WrongResultError(wrong)
        if not result.counters.cycles:
            raise DeviceError("must count cycles", field="device", remedy="serve another device")
        results.append(result.counters)
        cycles.append(result.counters.cycles)
        runs = summarise(cycles)
        if runs.enough or not wanted():
            break
    counters = next(each for each in results if each.cycles == runs.median)
    return Measurement(
        status=Status.OK,
        fidelity=Fidelity.BOARD.value,
        cycles=runs.median,
        counters=dict(counters.values),
        limit_cycles=request.max_cycles,
        host_seconds=time.perf_counter() - started,
        output_checked=True,
        runs=BoardRuns(
            board=board,
            bitstream=bitstream,
            cycles=tuple(cycles),
            outliers=len(runs.outliers),
            half_interval=runs.half_interval,
            standard_error=runs.standard_error,
            reconfigure_seconds=loading,
            twin_cycles=_twin_cycles(request, trial),
        ),
    )


def _twin_cycles(request: Request, trial: LoweredTrial) -> int:
    """What the twin counts, to stand beside what the board did; it takes milliseconds."""
    try:
        twin = Twin(request.hw, request.memory)
    except ConfigError:  # random stalls are not covered
        return 0
    try:
        return twin.counters(trial.program).cycles
    finally:
        twin.close()
