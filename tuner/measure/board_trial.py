# SPDX-License-Identifier: Apache-2.0
"""One trial on one board: run until the median of its cycles is known well enough."""

from __future__ import annotations

import time
from collections.abc import Callable

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
from tilewright.tuner.measure.repeats import summarise


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
