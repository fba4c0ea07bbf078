# SPDX-License-Identifier: Apache-2.0
"""The memory timing under which the twin counts what boards counted: nonlinear least squares.

A residual is (twin - board) of one counter of one run, over the board's cycles of that run.
Levenberg's and Marquardt's method (Marquardt, 1963) with derivatives by differences finds the
neighbourhood; single steps of each parameter then settle the integers. Bandwidths are fitted as
cycles that a beat takes: counters are nearly linear in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.sim.twin.device import Twin

Floats = npt.NDArray[np.float64]

COMPARED: Final = ("cycles", "load_busy", "load_memory", "store_busy", "store_memory")
"""Counters that memory timing decides: the network's time, and that of the units on the bus."""

PARAMETERS: Final = (
    "read_latency",
    "write_latency",
    "read_bytes_per_cycle",
    "write_bytes_per_cycle",
    "shared_bytes_per_cycle",
)

_ITERATIONS: Final = 25
_LATENCY_STEP: Final = 4.0
_COST_STEP: Final = 0.08
"""Of a difference: several cycles of latency, and a share of a beat's cycles; counters are whole
numbers, so smaller ones show nothing."""
_SETTLED: Final = 1e-4
_UNSEEN: Final = 1e-6
"""A parameter that changes no residual by more than this in a step is not told by the runs."""


@dataclass(frozen=True, kw_only=True)
class CountedRun:
    """A program, and what a board counted in it.

    Attributes:
        label: layer and number of the schedule.
        board: who counted.
        program: what ran.
        counters: names of `COMPARED` to values.
    """

    label: str
    board: str
    program: Program
    counters: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """A fitted memory.

    Attributes:
        memory: the timing.
        errors: parameter names to half the 95 % interval, in the parameter's unit; those that the
            runs do not tell are missing, and are as before.
        before, after: root mean squares of the residuals, of the start and the fit.
    """

    memory: MemoryModel
    errors: Mapping[str, float]
    before: float
    after: float


def residuals(hw: HwConfig, memory: MemoryModel, runs: Sequence[CountedRun]) -> Floats:
    """What the twin counts too much, shape (runs x `COMPARED`,)."""
    twin = Twin(hw, memory)
    try:
        known: dict[int, Mapping[str, int]] = {}
        rows = []
        for run in runs:
            if id(run.program) not in known:
                known[id(run.program)] = twin.counters(run.program).values
            counted = known[id(run.program)]
            scale = run.counters["cycles"]
            rows.append([(counted[name] - run.counters[name]) / scale for name in COMPARED])
        return np.array(rows, dtype=np.float64).ravel()
    finally:
        twin.close()


def fit_memory(hw: HwConfig, start: MemoryModel, runs: Sequence[CountedRun]) -> MemoryFit:
    """Fit latencies and bandwidths to runs of one configuration."""
    beat = hw.axi_data_bits / 8
    fitted = [name for name in PARAMETERS if getattr(start, name) or "shared" not in name]

    def memory_of(point: Floats) -> MemoryModel:
        values = dict(zip(fitted, point.tolist(), strict=True))
        return replace(
            start,
            **{
                name: round(value) if "latency" in name else beat / value
                for name, value in values.items()
            },
        )

    def judge(point: Floats) -> Floats:
        return residuals(hw, memory_of(point), runs)

    low = np.array([1.0 if "shared" not in name else 0.25 for name in fitted])
    high = np.array([5_000.0 if "latency" in name else 64.0 for name in fitted])
    steps = np.array([_LATENCY_STEP if "latency" in name else _COST_STEP for name in fitted])
    first = np.array(
        [getattr(start, n) if "latency" in n else beat / getattr(start, n) for n in fitted]
    )
    point = np.clip(first, low, high)
    point, found, slope = _marquardt(judge, point, steps, low, high)
    point, found = _settle(judge, point, found, fitted, low, high)
    seen = np.abs(slope * steps).max(axis=0) > _UNSEEN
    point = np.where(seen, point, first)
    return MemoryFit(
        memory=memory_of(point),
        errors=_errors(fitted, point, slope, found, seen, beat, [id(r.program) for r in runs]),
        before=_rms(judge(first)),
        after=_rms(judge(point)),
    )


def _marquardt(
    judge: Callable[[Floats], Floats], point: Floats, steps: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats, Floats]:
    """A local minimum, its residuals and its slope, shape (residuals, parameters)."""
    found = judge(point)
    damping = 1e-2
    slope = _slope(judge, point, steps, low, high)
    for _ in range(_ITERATIONS):
        normal = slope.T @ slope
        scale = np.diag(np.maximum(np.diag(normal), 1e-12))
        step = -np.linalg.solve(normal + damping * scale, slope.T @ found)
        tried = np.clip(point + step, low, high)
        there = judge(tried)
        if there @ there < found @ found:
            gain = 1 - (there @ there) / (found @ found)
            point, found, damping = tried, there, max(damping / 4, 1e-9)
            slope = _slope(judge, point, steps, low, high)
            if gain < _SETTLED:
                break
        else:
            damping *= 8
            if damping > 1e6:
                break
    return point, found, slope


def _slope(
    judge: Callable[[Floats], Floats], point: Floats, steps: Floats, low: Floats, high: Floats
) -> Floats:
    """Differences over both sides, as far as the limits let them."""
    columns = []
    for place, step in enumerate(steps):
        up, down = point.copy(), point.copy()
        up[place] = min(point[place] + step, high[place])
        down[place] = max(point[place] - step, low[place])
        columns.append((judge(up) - judge(down)) / (up[place] - down[place]))
    return np.stack(columns, axis=1)


def _settle(
    judge: Callable[[Floats], Floats],
    point: Floats,
    found: Floats,
    names: Sequence[str],
    low: Floats,
    high: Floats,
) -> tuple[Floats, Floats]:
    """Single steps of each parameter, finer and finer, while one is better."""
    for share in (0.1, 0.03, 0.01, 0.003):
        for place, name in enumerate(names):
            size = max(1.0, round(share * point[place])) if "latency" in name else share
            better = True
            while better:
                better = False
                for sign in (1, -1):
                    tried = point.copy()
                    tried[place] = np.clip(point[place] + sign * size, low[place], high[place])
                    there = judge(tried)
                    if there @ there < (1 - _SETTLED) * (found @ found):
                        point, found, better = tried, there, True
                        break
    return point, found


def _errors(
    names: Sequence[str],
    point: Floats,
    slope: Floats,
    found: Floats,
    seen: npt.NDArray[np.bool_],
    beat: float,
    programs: Sequence[int],
) -> dict[str, float]:
    """Half the 95 % intervals of the parameters that the runs tell.

    Residuals of one program depend on each other, on whatever board: the covariance is the
    clustered one (Liang and Zeger, 1986), a cluster a program.
    """
    told = slope[:, seen]
    if not told.size:
        return {}
    rows: dict[int, list[int]] = {}
    for run, program in enumerate(programs):
        first = run * len(COMPARED)
        rows.setdefault(program, []).extend(range(first, first + len(COMPARED)))
    inverse = np.linalg.pinv(told.T @ told)
    scores = np.stack([told[places].T @ found[places] for places in rows.values()])
    clusters = len(scores)
    growth = clusters / max(1, clusters - told.shape[1])
    covariance = growth * inverse @ (scores.T @ scores) @ inverse
    halves = dict(
        zip(np.flatnonzero(seen).tolist(), 1.96 * np.sqrt(np.diag(covariance)), strict=True)
    )
    errors = {}
    for place, name in enumerate(names):
        if place in halves:
            # A whole number of cycles is half a cycle from the least squares at most.
            half = float(halves[place]) + (0.5 if "latency" in name else 0.0)
            scale = 1.0 if "latency" in name else beat / float(point[place]) ** 2
            errors[name] = scale * half
    return errors


def _rms(values: Floats) -> float:
    return math.sqrt(float(np.mean(values**2)))
