# SPDX-License-Identifier: Apache-2.0
"""The cycles of every point of a task, from the exact twin, kept on disk.

A table is assembled from landscapes (`tuner.exhaustive.exhaust`), one per configuration and layer.
They are addressed by content: configuration, memory, shape of the layer, knobs, and the sources of
twin and lowering. A stopped enumeration goes on where it was, equal layers of two networks are
enumerated once, and a table of another RTL is never taken for one of the present RTL.

Depths of scratchpads decide what is legal and change no cycle (`shortlist.timing_class`). So the
configurations of one timing class share a landscape, that of the largest depths, and the rules say
which of its points each of them has.

A task of more than `WHOLE_WORK` is not enumerated to the end. Its table holds every point within
`REACH` of the optimum, which is proven: by a class's bound, or by runs that were stopped at that
limit (`bench.arena.tables`). Any other point is run when a tuner measures it.

The truth near the optimum alone, where enumeration would take hours.

Most legal schedules of a large layer are several times slower than the best one, and running them
to their end is what an enumeration spends its time on. This one stops each as soon as it has taken
longer than a limit. What was stopped keeps a *floor*: it takes more cycles than that. A schedule
that somebody asks for is run to its end then, and remembered.

The files are those of a landscape (`exhaust`), unfinished, and NAME.floors beside them; stopped
work goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from math import comb
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.arena.tasks import KIND, Task, enumeration_work
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import (
    CHUNK,
    Progress,
    check_finished,
    exhaust,
    in_threads,
    points_of,
)
from tilewright.tuner.exhaustive.landscape_file import ILLEGAL, NOT_YET, Cycles, LandscapeFile
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.network_prior import roomiest
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.shortlist import timing_class
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.space import Index, SpaceError

Bools = npt.NDArray[np.bool_]


class BoundedLandscape:
    """A landscape that is measured as far as somebody needs it."""

    def __init__(
        self, space: ScheduleSpace, memory: MemoryModel, folder: Path, *, identity: str
    ) -> None:
        self._space: Final = space
        self._memory: Final = memory
        self._points: Final[Points] = points_of(space, 0, space.raw_size)
        self.legal: Final[Bools] = NativeLowering(space.hw, space.workload).rules(self._points) == 0
        least = host_rules().bound(space.hw, space.workload, memory).cycles
        self._known: Final = LandscapeFile(folder, space, memory, identity, least=least)
        self._slower: Final = LandscapeFile(folder, space, memory, identity, quantity="floors")
        self.cycles: Final = np.where(self.legal, self._known.values, ILLEGAL)
        self.floors: Final = self._slower.values
        self._alone: tuple[Twin, NativeLowering] | None = None
        self._lock: Final = threading.Lock()

    @property
    def points(self) -> Points:
        """Every point as the native lowering takes it, int32 of shape (points, 9)."""
        return self._points

    def measure(self, flat: int) -> int:
        """Cycles of one legal schedule, run to its end if that was never done."""
        if self.cycles[flat] == NOT_YET:
            with self._lock:
                if self._alone is None:
                    self._alone = self._models()
                batch = self._alone[0].batch(self._alone[1], self._points[flat : flat + 1])
            check_finished(self._space, np.array([flat]), batch.refusals)
            self._keep(np.array([flat]), batch.cycles)
        return int(self.cycles[flat])

    def below(
        self,
        wanted: Bools,
        limit: int,
        *,
        workers: int = 1,
        on_progress: Progress | None = None,
    ) -> None:
        """Find out which wanted schedules take at most ``limit`` cycles, and what those take."""
        open_ = wanted & self.legal & (self.cycles == NOT_YET) & (self.floors < limit)
        places = np.flatnonzero(open_)
        total = int((wanted & self.legal).sum())
        done = total - len(places)
        for part, cycles, refusals in self._runs(places, limit, workers):
            stopped = refusals == Refusal.CYCLE_LIMIT
            check_finished(self._space, part[~stopped], refusals[~stopped])
            self._slower.keep(part[stopped], limit)
            self._keep(part[~stopped], cycles[~stopped])
            done += len(part)
            if on_progress is not None:
                on_progress(done, total)

    def _keep(self, places: npt.NDArray[np.int64], cycles: Cycles) -> None:
        self._known.keep(places, cycles)
        self.cycles[places] = cycles

    def _runs(
        self, places: npt.NDArray[np.int64], limit: int, workers: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Cycles, Cycles]]:
        """(places, cycles, refusals) of parts as they are done."""

        def run(
            part: npt.NDArray[np.int64], _stopped: threading.Event
        ) -> tuple[npt.NDArray[np.int64], Cycles, Cycles]:
            twin, lowering = self._models()
            batch = twin.batch(lowering, self._points[part], max_cycles=limit)
            return part, batch.cycles, batch.refusals

        parts = [places[first : first + CHUNK] for first in range(0, len(places), CHUNK)]
        yield from in_threads(run, parts, workers)

    def _models(self) -> tuple[Twin, NativeLowering]:
        space = self._space
        return Twin(space.hw, self._memory), NativeLowering(space.hw, space.workload)


WHOLE_WORK: Final = 1e12
"""Points times multiply-accumulates (`enumeration_work`) up to which a task is enumerated whole."""

REACH: Final = 1.05
"""Cycles over the optimum up to which a table of a larger task is complete."""

FIRST_RUNS: Final = 32
"""Points of a class that run to their end first: those with the least predicted cycles."""

HARD_TRIALS: Final = 32
"""A task is hard when random-legal needs more measurements than this to 1 % in the median."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Every point of a task with its cycles.

    Attributes:
        cycles: int64 of the shape of the knobs' sizes; `ILLEGAL` where nothing can be measured,
            `NOT_YET` where a point is known to be slower than `REACH` times the optimum.
        run: measures such a point, given its index; None: there are none.
        twin: identity of the twin that counted.
        of: set of the file of tables that it is from; empty: it is from none.
    """

    task: Task  # what was enumerated
    cycles: Cycles
    run: Callable[[Index], int] | None = None
    twin: str = ""
    of: str = ""

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
        legal: np.ndarray[Any, np.dtype[np.bool_]] = self.cycles != ILLEGAL
        return legal

    @cached_property
    def optimum(self) -> int:
        """Fewest cycles of any point: the truth that tuners are judged by."""
        return int(self.cycles[self.cycles > 0].min())

    @cached_property
    def best(self) -> int:
        """The first position with the fewest cycles."""
        return int(np.flatnonzero(self.cycles.ravel() == self.optimum)[0])

    @cached_property
    def digest(self) -> str:
        """Of all that a run on the table depends on."""
        task, cycles = self.task, self.cycles
        if self.run is not None:
            cycles = np.where(cycles <= REACH * self.optimum, cycles, NOT_YET)
        about = [
            *(task.id, [asdict(hw) for hw in task.configs], asdict(task.memory), self.twin),
            [[knob.name, [str(value) for value in knob.values]] for knob in task.space.knobs],
        ]
        found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        found.update(cycles.astype("<i8").tobytes())
        return found.hexdigest()

    def measure(self, index: Index) -> int | None:
        """Cycles of a point, None when it is not legal."""
        if self.cycles[index] == NOT_YET and self.run is not None:
            self.cycles[index] = self.run(index)
        cycles = int(self.cycles[index])
        return cycles if cycles > 0 else None

    def within(self, ratio: float) -> int:
        """Legal points of at most ``ratio`` (up to `REACH`) times the optimum."""
        return int(((self.cycles > 0) & (self.cycles <= ratio * self.optimum)).sum())

    def random_median(self, ratio: float = 1.01) -> int:
        """Median measurements of uniform random-legal search without repetition to a ratio."""
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
            **({"set": self.of} if self.of else {}),
            "track": self.task.track,
            "layer": self.task.workload.name,
            "points": points,
            "legal": legal,
            "legal_share": legal / points,
            "whole": not (self.cycles == NOT_YET).any(),
            "optimum_cycles": self.optimum,
            "within_1pct": self.within(1.01),
            "within_5pct": self.within(1.05),
            "random_median_1pct": self.random_median(),
            "hard": self.hard,
        }


def load_table(
    task: Task, folder: Path, *, workers: int = 1, on_progress: Progress | None = None
) -> Table:
    """The table of a task; what is not on disk yet is enumerated."""
    classes: dict[object, _Class] = {}
    twin = identity_of("twin")
    for hw in task.configs:
        key = timing_class(hw)
        if key not in classes:
            classes[key] = _Class(task, [c for c in task.configs if timing_class(c) == key])
    if enumeration_work(task) <= WHOLE_WORK:
        for each in classes.values():
            each.enumerate(folder, workers, on_progress)
        return Table(task=task, cycles=_assembled(task, list(classes.values())), twin=twin)
    _sift(list(classes.values()), folder, workers, on_progress)
    return Table(
        task=task,
        cycles=_assembled(task, list(classes.values())),
        run=_Runner(task, list(classes.values())),
        twin=twin,
    )


class _Class:
    """The configurations of a task that differ in depths alone, and their common landscape."""

    def __init__(self, task: Task, configs: list[HwConfig]) -> None:
        self.task: Final = task
        self.configs: Final = configs
        self.space: Final = _schedule_space(task, roomiest(configs))
        self.legal: Final = [_legal(_schedule_space(task, hw)) for hw in configs]
        self.cycles: Cycles | None = None
        self.landscape: BoundedLandscape | None = None

    @property
    def bound(self) -> int:
        """Cycles that no schedule of the class undercuts."""
        return host_rules().bound(self.space.hw, self.space.workload, self.task.memory).cycles

    def enumerate(self, folder: Path, workers: int, on_progress: Progress | None) -> None:
        """Measure every point."""
        self.cycles = exhaust(
            self.space,
            self.task.memory,
            folder,
            identity=identity_of("twin"),
            workers=workers,
            on_progress=on_progress,
        ).cycles

    def open(self, folder: Path) -> BoundedLandscape:
        """A landscape of which nothing needs to be known."""
        self.landscape = BoundedLandscape(
            self.space, self.task.memory, folder, identity=identity_of("twin")
        )
        self.cycles = self.landscape.cycles
        return self.landscape


def _sift(classes: list[_Class], folder: Path, workers: int, on_progress: Progress | None) -> None:
    """Measure every point within `REACH` of the optimum, the classes of the least bound first."""
    best = math.inf
    for each in sorted(classes, key=lambda each: each.bound):
        landscape = each.open(folder)
        wanted = np.any(each.legal, axis=0)
        if not wanted.any() or each.bound > REACH * best:
            continue
        places = np.flatnonzero(wanted)
        model = LayerModel(each.space.hw, each.space.workload, each.task.memory)
        predicted = model.predict(landscape.points[places]).cycles
        for flat in places[np.argsort(predicted, kind="stable")[:FIRST_RUNS]]:
            best = min(best, landscape.measure(int(flat)))
        landscape.below(wanted, int(REACH * best), workers=workers, on_progress=on_progress)
        known = landscape.cycles[wanted & (landscape.cycles > 0)]
        best = min(best, int(known.min()))


class _Runner:
    """Measures a point of a table that is not enumerated to the end."""

    def __init__(self, task: Task, classes: list[_Class]) -> None:
        self._task: Final = task
        self._joint: Final = len(task.configs) > 1
        self._classes: Final = {hw.config_hash: each for each in classes for hw in each.configs}

    def __call__(self, index: Index) -> int:
        hw = self._task.configs[index[0] if self._joint else 0]
        each = self._classes[hw.config_hash]
        wide = self._task.space.knobs[-len(each.space.knobs) :]
        positions = [
            own.position(knob.values[place])
            for own, knob, place in zip(each.space.knobs, wide, index[-len(wide) :], strict=True)
        ]
        sizes = [len(knob) for knob in each.space.knobs]
        assert each.landscape is not None
        return each.landscape.measure(int(np.ravel_multi_index(positions, sizes)))


def _assembled(task: Task, classes: list[_Class]) -> Cycles:
    """Cycles of every point of a task, of the shape of its knobs' sizes."""
    knobs = task.space.knobs[-len(classes[0].space.knobs) :]
    table = np.full(tuple(len(knob) for knob in task.space.knobs), ILLEGAL, dtype=np.int64)
    for each in classes:
        assert each.cycles is not None
        sizes = [len(knob) for knob in each.space.knobs]
        places = [
            [wide.position(value) for value in own.values]
            for wide, own in zip(knobs, each.space.knobs, strict=True)
        ]
        for hw, legal in zip(each.configs, each.legal, strict=True):
            part = table if len(task.configs) == 1 else table[task.configs.index(hw)]
            part[np.ix_(*places)] = np.where(legal, each.cycles, ILLEGAL).reshape(sizes)
    return table


def _schedule_space(task: Task, hw: HwConfig) -> ScheduleSpace:
    """Schedules of a task's layer under a name that equal layers share."""
    return ScheduleSpace(task.workload.renamed(task.workload.key, count=1), hw, host_rules(), KIND)


def _legal(space: ScheduleSpace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which points of a space are legal; bool of shape (points,), in index order."""
    lowering = NativeLowering(space.hw, space.workload)
    legal: np.ndarray[Any, np.dtype[np.bool_]] = (
        lowering.rules(points_of(space, 0, space.raw_size)) == 0
    )
    return legal
