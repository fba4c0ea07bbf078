# SPDX-License-Identifier: Apache-2.0
"""Tasks of three objectives: every configuration and schedule of a layer with its costs.

Points are the legal schedules of space `KIND` on each of the configurations of a task of the
per-layer track. Their objectives, all minimised: *cycles* of the run on the twin, *energy* in
picojoules by the model of counters (`tuner.measure.energy`), and *area*, the mean share of the
board's LUT, FF, block RAM and DSP that the configuration takes. Equal points count once.

The reference point of the hypervolume is `MARGIN` times the worst value of the true front in each
objective. A search has the share of the true front's hypervolume that its measurements dominate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.arena.tasks import BOARD, KIND, Task
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import CHUNK, in_threads, points_of
from tilewright.tuner.measure.energy import energy_pj
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.schedule_bound import ScheduleBound
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.fronts import Floats, Ints, front, hypervolume

MARGIN: Final = 1.1
OBJECTIVES: Final = ("cycles", "energy", "area")


@dataclass(frozen=True, kw_only=True)
class FrontTask:
    """Every legal point of a layer.

    Attributes:
        costs: shape (points, 3), in the order of `OBJECTIVES`.
        predicted: of the same shape, by closed forms alone.
        features: positions of the knobs, int64 of shape (points, knobs), the configuration first.
        sizes: of the knobs.
    """

    costs: Floats
    predicted: Floats
    features: Ints
    sizes: tuple[int, ...]

    @cached_property
    def front(self) -> Ints:
        """Points of the true front."""
        return front(self.costs)

    @cached_property
    def reference(self) -> Floats:
        """The reference point of the hypervolume."""
        return np.asarray(MARGIN * self.costs[self.front].max(axis=0))

    @cached_property
    def best(self) -> float:
        """Hypervolume of the true front."""
        return hypervolume(self.costs[self.front], self.reference)

    def share(self, measured: Sequence[int]) -> float:
        """Share of it that some points dominate."""
        return hypervolume(self.costs[list(measured)], self.reference) / self.best


def enumerated(task: Task, *, workers: int) -> FrontTask:
    """Measure every legal point of a task."""
    board = load_board(BOARD)
    costs, predicted, features = [], [], []
    knobs = task.space.knobs[1:]
    for place, hw in enumerate(task.configs):
        space = ScheduleSpace(task.workload, hw, host_rules(), KIND)
        points = points_of(space, 0, space.raw_size)
        legal = np.flatnonzero(NativeLowering(hw, task.workload).rules(points) == 0)
        points = points[legal]
        area = np.full(len(points), area_share(hw, board))
        costs.append(np.column_stack([*_measured(task, hw, points, workers), area]))
        predicted.append(np.column_stack([*_predicted(task, hw, points), area]))
        own = np.stack(np.unravel_index(legal, [len(knob) for knob in space.knobs]), axis=1)
        positions = [
            np.array([wide.position(value) for value in each.values])[own[:, column]]
            for column, (wide, each) in enumerate(zip(knobs, space.knobs, strict=True))
        ]
        features.append(np.column_stack([np.full(len(points), place), *positions]))
    return FrontTask(
        costs=np.concatenate(costs),
        predicted=np.concatenate(predicted),
        features=np.concatenate(features).astype(np.int64),
        sizes=tuple(len(knob) for knob in task.space.knobs),
    )


def area_share(hw: HwConfig, board: Board) -> float:
    """Mean share of a board's resources, as in the archive of a study."""
    area = host_rules().estimate(hw)
    names = ("lut", "ff", "bram36", "dsp")
    return float(np.mean([getattr(area, name) / getattr(board, name) for name in names]))


def _measured(
    task: Task, hw: HwConfig, points: Points, workers: int
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Cycles and energy on the twin."""

    def run(part: range, _stopped: object) -> tuple[range, npt.NDArray[np.int64]]:
        batch = Twin(hw, task.memory).batch(
            NativeLowering(hw, task.workload), points[part.start : part.stop]
        )
        return part, batch.counters

    counters = np.empty((len(points), len(COUNTERS)), dtype=np.int64)
    parts = [range(at, min(at + CHUNK, len(points))) for at in range(0, len(points), CHUNK)]
    for part, found in in_threads(run, parts, workers):
        counters[part.start : part.stop] = found
    named = dict(zip((name for name, _ in COUNTERS), counters.T, strict=True))
    return named["cycles"], np.asarray(energy_pj(hw, named), dtype=np.float64)  # type: ignore[arg-type]  # of all points


def _predicted(task: Task, hw: HwConfig, points: Points) -> tuple[Floats, Floats]:
    """The same by closed forms: no run, and no counter."""
    shape = geometry(hw, task.workload)
    read, written = ScheduleBound(hw, task.workload, task.memory).moved(points)
    cycles = LayerModel(hw, task.workload, task.memory).predict(points).cycles
    outputs = shape.batches * shape.out_blocks * shape.out_height * shape.out_width
    events = {
        "cycles": cycles,
        "macs_tiles": shape.mac_tiles,
        "vector_tiles": outputs,
        "bytes_read": read,
        "bytes_written": written,
    }
    return cycles, np.asarray(energy_pj(hw, events), dtype=np.float64)  # type: ignore[arg-type]  # of all points
