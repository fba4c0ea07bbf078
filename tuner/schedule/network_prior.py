# SPDX-License-Identifier: Apache-2.0
"""What a network would take on a configuration, and with which schedules, by the closed form alone.

For each task the least prediction over a coarse grid of its legal schedules, times its count. It
costs some tens of milliseconds per configuration, so that configurations can be compared before one
of them is measured. Tasks that differ only in their epilogue share a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.schedule.bus_times import Floats
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.space import Index, Knob

AXIS_VALUES: Final = 7
"""Sizes of each tile knob that the grid keeps, spread by ratio."""

FIRST_LOOK: Final = 128
"""Schedules whose legality is looked up at first."""


class NetworkPrior:
    """Predicts a network on configurations, remembering what it predicted."""

    def __init__(
        self, tasks: Sequence[Workload], memory: MemoryModel, rules: Rules, kind: str
    ) -> None:
        self._memory: Final = memory
        self._rules: Final = rules
        self._kind: Final = kind
        self._shapes: Final[dict[str, tuple[Workload, int]]] = {}
        for task in tasks:
            key = replace(task, relu=True).key
            known = self._shapes.get(key, (task, 0))
            self._shapes[key] = (known[0], known[1] + task.count)
        self._known: Final[dict[int, float]] = {}

    def __call__(self, hw: HwConfig) -> float:
        """Predicted cycles of the network; infinite when a task has no legal schedule."""
        if hw.config_hash not in self._known:
            self._known[hw.config_hash] = float(self._predict(hw, [hw])[0])
        return self._known[hw.config_hash]

    def of_depths(self, configs: Sequence[HwConfig]) -> list[float]:
        """Predictions for configurations of one timing class: they differ in legality alone."""
        predicted = self._predict(roomiest(configs), configs).tolist()
        self._known.update(zip((hw.config_hash for hw in configs), predicted, strict=True))
        return list(predicted)

    def _predict(self, roomy: HwConfig, configs: Sequence[HwConfig]) -> Floats:
        """Cycles of the network on each configuration, none with larger depths than ``roomy``."""
        total = np.zeros(len(configs))
        for task, count in self._shapes.values():
            space = ScheduleSpace(task, roomy, self._rules, self._kind)
            _, points, cycles = _ranked(space, LayerModel(roomy, task, self._memory))
            for number, hw in enumerate(configs):
                places = _first_legal(NativeLowering(hw, task), points)
                total[number] += count * (cycles[places[0]] if places else math.inf)
        return total


def predicted_places(space: ScheduleSpace, memory: MemoryModel, count: int) -> list[Index]:
    """Of the legal schedules of the grid, so many with the least prediction; none is measured."""
    hw, task = space.hw, space.workload
    positions, points, _ = _ranked(space, LayerModel(hw, task, memory))
    found = _first_legal(NativeLowering(hw, task), points, count)
    return [tuple(positions[place].tolist()) for place in found]


def legal_places(space: ScheduleSpace, places: Sequence[Index]) -> list[Index]:
    """Those of some schedules that are legal."""
    if not places:
        return []
    points = schedule_points(space.knobs, np.array(places))
    legal = NativeLowering(space.hw, space.workload).rules(points) == 0
    return [place for place, is_legal in zip(places, legal, strict=True) if is_legal]


def _ranked(
    space: ScheduleSpace, model: LayerModel
) -> tuple[npt.NDArray[np.int64], Points, Floats]:
    """Positions, points and predicted cycles of the grid, the least first."""
    axes = np.meshgrid(*map(_spread, space.knobs), indexing="ij")
    positions = np.stack([axis.ravel() for axis in axes], axis=1).astype(np.int64)
    points = schedule_points(space.knobs, positions)
    inside = model.within(points)
    positions, points = positions[inside], points[inside]
    cycles = model.predict(points).cycles
    order = np.argsort(cycles, kind="stable")
    return positions[order], points[order], cycles[order]


def _first_legal(lowering: NativeLowering, points: Points, count: int = 1) -> list[int]:
    """Places of the first legal schedules; they are usually near the front."""
    found, start, step = list[int](), 0, FIRST_LOOK
    while start < len(points) and len(found) < count:
        legal = lowering.rules(points[start : start + step]) == 0
        found += (start + np.flatnonzero(legal)).tolist()
        start, step = start + step, 4 * step
    return found[:count]


def roomiest(configs: Sequence[HwConfig]) -> HwConfig:
    """The configuration with the largest depth of each buffer; it need not fit the board."""
    largest = {
        name: max(getattr(hw, name) for hw in configs)
        for name in configs[0].parameters()
        if name.endswith("_bytes")
    }
    return configs[0].with_(name="roomy", **largest)


def network_prior(
    tasks: Sequence[Workload], memory: MemoryModel, rules: Rules, kind: str
) -> NetworkPrior | None:
    """The prior of a network; None when the rules do not rank configurations."""
    return NetworkPrior(tasks, memory, rules, kind) if rules.ranks else None


def _spread(knob: Knob) -> list[int]:
    """Positions of at most `AXIS_VALUES` sizes that cut the extent into 1, 2, ... parts."""
    if not knob.ordered or len(knob) <= AXIS_VALUES:
        return list(range(len(knob)))
    extent = knob.values[-1]
    wanted = np.geomspace(1, extent, AXIS_VALUES)
    parts = {-(-extent // max(1, round(extent / size))) for size in wanted}
    positions = {min(range(len(knob)), key=lambda p: abs(knob.values[p] - v)) for v in parts}
    return sorted(positions)
