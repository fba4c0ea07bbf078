# SPDX-License-Identifier: Apache-2.0
"""Priors of whole spaces: the closed form of `prior` behind what a tuner searches.

A tuner sees knobs and positions; a `SpacePrior` judges arrays of positions at once, on one
configuration or on a list of them. It is also a plain function of a point, for tuners that score
points one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.library import CSchedule
from tilewright.sim.twin.native_lowering import Points, encode_schedules
from tilewright.tuner.schedule.layer_model import FEATURES, LayerModel
from tilewright.tuner.search.space import Knob
from tilewright.tuner.search.tuner import Judgement, Positions

if TYPE_CHECKING:
    from tilewright.tuner.schedule.spaces import JointPoint

COLUMNS: Final = tuple(name for name, _ in CSchedule._fields_)

_NUMBER: Final[Mapping[Any, int]] = {
    member: number for kind in (LoopOrder, Fusion) for number, member in enumerate(kind)
}


def schedule_points(knobs: Sequence[Knob], positions: Positions) -> Points:
    """Positions of schedule knobs as the native lowering takes them; other knobs are passed over.

    Returns:
        int32 of shape (points, 9).
    """
    default = encode_schedules([Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)])
    points = np.repeat(default, len(positions), axis=0)
    for column, knob in enumerate(knobs):
        if knob.name in COLUMNS:
            values = np.array([_NUMBER.get(v, v) for v in knob.values], dtype=np.int32)
            points[:, COLUMNS.index(knob.name)] = values[positions[:, column]]
    return points


class SchedulePrior:
    """The prior of a `ScheduleSpace`."""

    def __init__(self, hw: HwConfig, workload: Workload, memory: MemoryModel) -> None:
        self._model: Final = LayerModel(hw, workload, memory)
        self.task: Final = f"{hw.config_hash:08x}-{workload.key}"

    def __call__(self, point: Schedule) -> float:
        """Predicted cycles of a legal schedule."""
        return float(self._model.predict(encode_schedules([point])).cycles[0])

    def judge(self, knobs: Sequence[Knob], positions: Positions, *, masked: bool) -> Judgement:
        """See `SpacePrior.judge`."""
        found = Judgement(len(positions), len(FEATURES))
        fill(found, self._model, schedule_points(knobs, positions), slice(None), masked=masked)
        return found


class JointPrior:
    """The prior of a `JointSpace` over a `HardwareChoice`."""

    def __init__(
        self, configs: Sequence[HwConfig], workload: Workload, memory: MemoryModel
    ) -> None:
        self._models: Final = {hw.config_hash: LayerModel(hw, workload, memory) for hw in configs}
        self.task: Final = workload.key

    def __call__(self, point: JointPoint) -> float:
        """Predicted cycles of a legal schedule on its configuration."""
        model = self._models[point.hw.config_hash]
        return float(model.predict(encode_schedules([point.schedule])).cycles[0])

    def judge(self, knobs: Sequence[Knob], positions: Positions, *, masked: bool) -> Judgement:
        """See `SpacePrior.judge`."""
        found = Judgement(len(positions), len(FEATURES))
        points = schedule_points(knobs, positions)
        column = [knob.name for knob in knobs].index("hw")
        for number, config_hash in enumerate(knobs[column].values):
            rows = np.flatnonzero(positions[:, column] == number)
            if len(rows):
                fill(found, self._models[config_hash], points[rows], rows, masked=masked)
        return found


def fill(
    found: Judgement,
    model: LayerModel,
    points: Points,
    rows: npt.NDArray[np.int64] | slice,
    *,
    masked: bool,
) -> None:
    """Judge points of one configuration into some rows."""
    inside = model.within(points)
    legal = inside & model.legal(points) if masked else inside
    places = np.arange(len(found.legal))[rows][legal]
    prediction = model.predict(points[legal])
    found.legal[places] = True
    found.cycles[places] = prediction.cycles
    found.features[places] = prediction.features
