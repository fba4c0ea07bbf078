# SPDX-License-Identifier: Apache-2.0
"""Calibrate a board: measure layers on its boards, fit its memory model, judge it on other layers.

Every other layer is held out of the fit. What a calibration claims is the error there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import yaml

from tilewright.host.common.errors import EnvironmentFaultError, TilewrightError
from tilewright.host.common.whole_file import MARK
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.board_pool import BoardAddress
from tilewright.tuner.calibrate.memory_fit import (
    COMPARED,
    CountedRun,
    MemoryFit,
    fit_memory,
    residuals,
)
from tilewright.tuner.measure.board_oracle import BoardOracle
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.measure.oracle import LoweredTrial
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

DEFAULT_SCHEDULES: Final = 6
"""Of each layer: the untuned one, and random ones."""

_LIMIT_BOUNDS: Final = 400
_LIMIT_SLACK: Final = 1_000_000
"""A run may take so many times its bound and so many cycles: random schedules are slow."""


class CalibrationError(TilewrightError):
    """Boards cannot be calibrated with these layers."""


@dataclass(frozen=True, kw_only=True)
class LayerError:
    """How far the model is from the boards on one layer.

    Attributes:
        layer: its name.
        board: who counted.
        held_out: the fit did not see it.
        cycles: of the board, over the layer's schedules.
        before, after: cycles of the model over the board's, less 1: mean over the schedules.
        worst_before, worst_after: the largest of the schedules, without sign.
    """

    layer: str
    board: str
    held_out: bool
    cycles: int
    before: float
    after: float
    worst_before: float
    worst_after: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibrated board.

    Attributes:
        board: with the fitted memory, and where its figures come from.
        fit: of the memory.
        layers: errors of each layer on each board.
        fitted_before, fitted_after: mean error of cycles, without sign, of the fitted layers.
        held_before, held_after: that of the layers that are held out.
    """

    board: Board
    fit: MemoryFit
    layers: tuple[LayerError, ...]
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
