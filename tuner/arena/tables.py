# SPDX-License-Identifier: Apache-2.0
"""The cycles of every point of a task, from the exact twin, kept on disk.

A table is assembled from landscapes (`tuner.exhaust`), one a configuration and layer. They are
addressed by content: configuration, memory, shape of the layer, knobs, and the sources of twin
and lowering. A stopped enumeration goes on where it was, equal layers of two networks are
enumerated once, and a table of another RTL is never taken for one of today.

Depths of scratchpads decide what is legal and change no cycle (`shortlist.timing_class`). So the
configurations of one timing class share a landscape, that of the largest depths, and the rules say
which of its points each of them has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.hwconfig import HwConfig
from tilewright.sim.native_lowering import NativeLowering
from tilewright.tuner.arena.tasks import KIND, Task
from tilewright.tuner.exhaust import ILLEGAL, Cycles, Progress, exhaust
from tilewright.tuner.fidelity import identity_of
from tilewright.tuner.network_prior import roomiest
from tilewright.tuner.rules import host_rules
from tilewright.tuner.shortlist import timing_class
from tilewright.tuner.space import Index, SpaceError
from tilewright.tuner.space_prior import schedule_points
from tilewright.tuner.spaces import ScheduleSpace

HARD_TRIALS: Final = 32
"""A task is hard when random-legal needs more measurements than this to 1 % in the median."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Every point of a task with its cycles.

    Attributes:
        task: what was enumerated.
        cycles: int64 of the shape of the knobs' sizes; `ILLEGAL` where nothing can be measured.
    """

    task: Task
    cycles: Cycles

    def __post_init__(self) -> None:
        """Refuse a task without a legal point."""
        if not (self.cycles > 0).any():
            raise SpaceError(
                "no legal point",
                field=self.task.workload.name,
                remedy="enlarge the scratchpads",
            )

    @cached_property
    def legal(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Where a point can be measured; bool, shape of `cycles`."""
        return self.cycles > 0

    @cached_property
    def optimum(self) -> int:
        """Fewest cycles of any point: the truth that tuners are judged by."""
        return int(self.cycles[self.legal].min())

    def measure(self, index: Index) -> int | None:
        """Cycles of a point, None when it is not legal."""
        cycles = int(self.cycles[index])
        return cycles if cycles > 0 else None

    def within(self, ratio: float) -> int:
        """Legal points of at most ``ratio`` times the optimum."""
        return int((self.cycles[self.legal] <= ratio * self.optimum).sum())

    def random_median(self, ratio: float = 1.01) -> int:
        """Median measurements of uniform random-legal search without repetition to a ratio.

        Exact: with K of N points good, k draws all miss with probability C(N-K, k) / C(N, k).
        """
        points, good = int(self.legal.sum()), self.within(ratio)
        low, high = 1, points - good + 1
        while low < high:
            middle = (low + high) // 2
            if 2 * comb(points - good, middle) <= comb(points, middle):
                high = middle
            else:
                low = middle + 1
        return low

    @cached_property
    def hard(self) -> bool:
        """Whether the task can tell tuners apart (`HARD_TRIALS`)."""
        return self.random_median() > HARD_TRIALS

    def summary(self) -> dict[str, Any]:
        """What the study says of a task, as plain values."""
        points, legal = self.cycles.size, int(self.legal.sum())
        return {
            "task": self.task.id,
            "track": self.task.track,
            "layer": self.task.workload.name,
            "points": points,
            "legal": legal,
            "legal_share": legal / points,
            "optimum_cycles": self.optimum,
            "within_1pct": self.within(1.01),
            "within_5pct": self.within(1.05),
            "random_median_1pct": self.random_median(),
            "hard": self.hard,
        }


def load_table(
    task: Task, folder: Path, *, workers: int = 1, on_progress: Progress | None = None
) -> Table:
    """The table of a task; what is not on disk yet is enumerated.

    Args:
        task: what to enumerate.
        folder: where landscapes are kept.
        workers: threads of an enumeration.
        on_progress: told points done and points in all, of one configuration after the other.

    Raises:
        SpaceError: the space is too large, or nothing is legal.
        StoreError: the folder cannot be written or holds a damaged landscape.
    """
    knobs = task.space.knobs[-len(_schedule_space(task, task.configs[0]).knobs) :]
    table = np.full(tuple(len(knob) for knob in task.space.knobs), ILLEGAL, dtype=np.int64)
    for position, hw in enumerate(task.configs):
        space = _schedule_space(task, hw)
        landscape = exhaust(
            _schedule_space(task, _class_head(task, hw)),
            task.memory,
            folder,
            identity=identity_of("twin"),
            workers=workers,
            on_progress=on_progress,
        )
        column = np.where(_legal(space), landscape.cycles, ILLEGAL)
        places = [
            [wide.position(value) for value in own.values]
            for wide, own in zip(knobs, space.knobs, strict=True)
        ]
        part = table if len(task.configs) == 1 else table[position]
        part[np.ix_(*places)] = column.reshape([len(knob) for knob in space.knobs])
    return Table(task=task, cycles=table)


def _schedule_space(task: Task, hw: HwConfig) -> ScheduleSpace:
    """Schedules of a task's layer under a name that equal layers share."""
    return ScheduleSpace(task.workload.renamed(task.workload.key, count=1), hw, host_rules(), KIND)


def _class_head(task: Task, hw: HwConfig) -> HwConfig:
    """The configuration whose landscape holds the cycles of every one of a timing class."""
    peers = [peer for peer in task.configs if timing_class(peer) == timing_class(hw)]
    return roomiest(peers)


def _legal(space: ScheduleSpace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which points of a space are legal; bool of shape (points,), in index order."""
    sizes = [len(knob) for knob in space.knobs]
    positions = np.stack(np.unravel_index(np.arange(space.raw_size), sizes), axis=1)
    lowering = NativeLowering(space.hw, space.workload)
    legal: np.ndarray[Any, np.dtype[np.bool_]] = (
        lowering.rules(schedule_points(space.knobs, positions)) == 0
    )
    return legal
