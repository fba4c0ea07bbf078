# SPDX-License-Identifier: Apache-2.0
"""Calibrate a board: measure layers on its boards, fit its memory model, judge it on other layers.

Every other layer is held out of the fit. What a calibration claims is the error there.

The memory timing under which the twin counts what boards counted: nonlinear least squares.

A residual is (twin - board) of one counter of one run, over the board's cycles of that run.
Levenberg's and Marquardt's method (Marquardt, 1963) with derivatives by differences finds the
neighbourhood; single steps of each parameter then settle the integers. Bandwidths are fitted as
cycles that a beat takes: counters are nearly linear in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import yaml

from tilewright.host.common.errors import EnvironmentFaultError, TilewrightError
from tilewright.host.common.whole_file import MARK
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.board_pool import BoardAddress
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.board_oracle import BoardOracle
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.measure.oracle import LoweredTrial
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

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
    """A program, and what a board counted in it."""

    label: str  # layer and number of the schedule
    board: str  # who counted
    program: Program  # what ran
    counters: Mapping[str, int]  # names of `COMPARED` to values


@dataclass(frozen=True, kw_only=True)
class MemoryFit:
    """A fitted memory, and root mean squares of the residuals, of the start and the fit."""

    memory: MemoryModel  # the timing
    # half the 95 % interval of each parameter that the runs tell, in its unit
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
    """Steps of each parameter, finer and finer, while one is better.

    A slower channel looks like a longer latency, so these two also step against each other.
    """
    late = {place for place, name in enumerate(names) if "latency" in name}
    rates = set(range(len(names))) - late
    signs = (1, -1)
    alone = [((place, sign),) for place in range(len(names)) for sign in signs]
    against = [
        ((n, sign), (r, -sign)) for n in sorted(late) for r in sorted(rates) for sign in signs
    ]
    for share in (0.1, 0.03, 0.01, 0.003):
        for moves in (*alone, *against):
            while True:
                tried = point.copy()
                for place, sign in moves:
                    whole = max(1.0, round(share * point[place])) if len(moves) == 1 else 1.0
                    size = whole if place in late else share
                    tried[place] = np.clip(point[place] + sign * size, low[place], high[place])
                there = judge(tried)
                if there @ there >= (1 - _SETTLED) * (found @ found):
                    break
                point, found = tried, there
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


DEFAULT_SCHEDULES: Final = 6
"""Of each layer: the untuned one, and random ones."""

_LIMIT_BOUNDS: Final = 400
_LIMIT_SLACK: Final = 1_000_000
"""A run may take so many times its bound and so many cycles: random schedules are slow."""


class CalibrationError(TilewrightError):
    """Boards cannot be calibrated with these layers."""


@dataclass(frozen=True, kw_only=True)
class LayerError:
    """The model's cycles on one layer over the boards', less 1: means over the schedules."""

    layer: str  # its name
    board: str  # who counted
    held_out: bool  # the fit did not see it
    cycles: int  # of the board, over the layer's schedules
    before: float
    after: float
    worst_before: float  # the largest of the schedules, without sign
    worst_after: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibrated board.

    Attributes:
        fitted_before, fitted_after: mean error of cycles, without sign, of the fitted layers.
        held_before, held_after: that of the layers that are held out.
    """

    board: Board  # with the fitted memory, and where its figures come from
    fit: MemoryFit  # of the memory
    layers: tuple[LayerError, ...]  # errors of each layer on each board
    fitted_before: float
    fitted_after: float
    held_before: float
    held_after: float


def calibrate(
    pool: Sequence[BoardAddress],
    board: Board,
    hw: HwConfig,
    layers: Sequence[Workload],
    *,
    rules: Rules,
    command: str,
    schedules: int = DEFAULT_SCHEDULES,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Fit a board's memory model to its boards."""
    if len(layers) < 2:
        raise CalibrationError(
            "calibration needs at least two layers, of which it holds one out",
            field="layers",
            value=", ".join(layer.name for layer in layers),
            remedy="name more layers",
        )
    requests = [
        Request(
            hw=hw,
            workload=layer,
            schedule=schedule,
            memory=board.memory,
            max_cycles=_LIMIT_BOUNDS * int(rules.bound(hw, layer, board.memory).cycles)
            + _LIMIT_SLACK,
        )
        for place, layer in enumerate(layers)
        for schedule in probe_schedules(layer, hw, rules, schedules, (seed, place))
    ]
    trials = [LoweredTrial.of(request) for request in requests]
    runs: list[CountedRun] = []
    held: list[CountedRun] = []
    seen = {layer.name: place % 2 == 0 for place, layer in enumerate(layers)}
    for address in pool:
        oracle = BoardOracle([address], board=board.name, configs=[hw], tell=tell)
        try:
            for position, answer in oracle.measure(requests):
                name = requests[position].workload.name
                run = _counted(name, address.name, trials[position], answer)
                (runs if seen[name] else held).append(run)
        finally:
            oracle.close()
    fit = fit_memory(hw, board.memory, runs)
    fitted_errors = _cycle_errors(hw, board.memory, runs), _cycle_errors(hw, fit.memory, runs)
    held_errors = _cycle_errors(hw, board.memory, held), _cycle_errors(hw, fit.memory, held)
    if _mean(held_errors[1]) >= _mean(held_errors[0]):
        raise CalibrationError(
            "the fit must predict the layers that it did not see better than the model did",
            field="layers",
            value=f"{_mean(held_errors[0]):.2%} before, {_mean(held_errors[1]):.2%} after",
            remedy="the model may be right already; else measure more layers and schedules",
        )
    rows = [
        *_layer_errors(runs, *fitted_errors, held_out=False),
        *_layer_errors(held, *held_errors, held_out=True),
    ]
    found = Calibration(
        board=board,
        fit=fit,
        layers=tuple(rows),
        fitted_before=_mean(fitted_errors[0]),
        fitted_after=_mean(fitted_errors[1]),
        held_before=_mean(held_errors[0]),
        held_after=_mean(held_errors[1]),
    )
    return replace(found, board=_with_evidence(board, found, command))


def probe_schedules(
    layer: Workload, hw: HwConfig, rules: Rules, count: int, seed: tuple[int, ...]
) -> list[Schedule]:
    """The untuned schedule and random legal ones, all different."""
    try:
        found = [rules.default_schedule(hw, layer)]
    except TilewrightError as error:
        raise CalibrationError(
            f"the layer must run on {hw.name} ({error})", field=layer.name, remedy="leave it out"
        ) from error
    space = ScheduleSpace(layer, hw, rules, "full")
    rng = np.random.default_rng(seed)
    for _ in range(8 * count):
        index = space.sample(rng)
        if len(found) >= count or index is None:
            break
        schedule = space.decode(index)
        if schedule not in found:
            found.append(schedule)
    return found


def board_yaml(board: Board) -> str:
    """A board as the file that `load_board` reads."""
    data: dict[str, Any] = board.to_mapping()
    return f"# {MARK} (board calibrate); the sources tell what was measured.\n" + str(
        yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    )


def _counted(layer: str, board: str, trial: LoweredTrial, answer: Measurement) -> CountedRun:
    """What a board counted in a run that ended well."""
    if not answer.valid:
        raise EnvironmentFaultError(
            f"board {board} must run {layer} ({answer.failure or answer.status})",
            remedy="run it with tilewright run to see what is wrong",
        )
    counters = {name: answer.counters[name] for name in COMPARED}
    return CountedRun(label=layer, board=board, program=trial.program, counters=counters)


def _cycle_errors(hw: HwConfig, memory: MemoryModel, runs: Sequence[CountedRun]) -> list[float]:
    """Cycles of the model over the board's, less 1, of each run."""
    found = residuals(hw, memory, runs).reshape(len(runs), len(COMPARED))
    return [float(value) for value in found[:, COMPARED.index("cycles")]]


def _mean(errors: Sequence[float]) -> float:
    return float(np.mean(np.abs(errors)))


def _layer_errors(
    runs: Sequence[CountedRun],
    before: Sequence[float],
    after: Sequence[float],
    *,
    held_out: bool,
) -> list[LayerError]:
    groups: dict[tuple[str, str], list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault((run.label, run.board), []).append(place)
    return [
        LayerError(
            layer=layer,
            board=board,
            held_out=held_out,
            cycles=sum(runs[place].counters["cycles"] for place in places),
            before=float(np.mean([before[place] for place in places])),
            after=float(np.mean([after[place] for place in places])),
            worst_before=max(abs(before[place]) for place in places),
            worst_after=max(abs(after[place]) for place in places),
        )
        for (layer, board), places in groups.items()
    ]


def _with_evidence(board: Board, found: Calibration, command: str) -> Board:
    """The board with the fitted memory, whose sources tell where it comes from."""
    boards = sorted({row.board for row in found.layers})
    date = datetime.now(UTC).date().isoformat()
    sources = {
        key: text
        for key, text in board.sources.items()
        if not any(part.strip().startswith("memory.") for part in key.split(","))
    }
    for name, value in asdict(found.fit.memory).items():
        if name in found.fit.errors:
            sources[f"memory.{name}"] = (
                f"fitted to {', '.join(boards)} on {date}: {value:.4g} +- "
                f"{found.fit.errors[name]:.2g} (95 %)"
            )
    kept = [key for key in board.sources if "memory." in key]
    for key in kept:
        names = [part.strip().removeprefix("memory.") for part in key.split(",")]
        left = [f"memory.{name}" for name in names if name not in found.fit.errors]
        if left:
            sources[", ".join(left)] = board.sources[key]
    sources["calibration"] = (
        f"{date}, boards {', '.join(boards)}: {command}; mean error of cycles on layers held out "
        f"{found.held_before:.2%} before, {found.held_after:.2%} after; root mean square of "
        f"{', '.join(COMPARED)} over the board's cycles {found.fit.before:.2%} before, "
        f"{found.fit.after:.2%} after"
    )
    for row in found.layers:
        sources[f"calibration.{row.layer} on {row.board}"] = (
            f"{'held out, ' if row.held_out else ''}model over board {row.before:+.2%} before, "
            f"{row.after:+.2%} after; worst schedule {row.worst_before:.2%}, {row.worst_after:.2%}"
        )
    return replace(board, memory=found.fit.memory, sources=sources)
