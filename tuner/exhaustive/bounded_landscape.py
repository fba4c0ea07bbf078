# SPDX-License-Identifier: Apache-2.0
"""The truth near the optimum alone, where enumeration would take hours.

Most legal schedules of a large layer are several times slower than the best one, and running them
to their end is what an enumeration spends its time on. This one stops each as soon as it has taken
longer than a limit. What was stopped keeps a *floor*: it takes more cycles than that. A schedule
that somebody asks for is run to its end then, and remembered.

The files are those of a landscape (`exhaust`), unfinished, and NAME.floors beside them; stopped
work goes on where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.board import MemoryModel
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import (
    CHUNK,
    ILLEGAL,
    NOT_YET,
    Cycles,
    Progress,
    check_finished,
    in_threads,
    open_landscape,
    points_of,
)
from tilewright.tuner.schedule.spaces import ScheduleSpace

Bools = npt.NDArray[np.bool_]


class BoundedLandscape:
    """A landscape that is measured as far as somebody needs it.

    Attributes:
        legal: bool of shape (points,), in index order.
        cycles: int64 of shape (points,): `NOT_YET` where only a floor is known, `ILLEGAL` where
            the schedule is not; a view of the file.
        floors: int64 of shape (points,): a legal schedule takes more cycles than that, as far as
            is known.
    """

    def __init__(
        self, space: ScheduleSpace, memory: MemoryModel, folder: Path, *, identity: str
    ) -> None:
        self._space: Final = space
        self._memory: Final = memory
        self._points: Final[Points] = points_of(space, 0, space.raw_size)
        self.legal: Final[Bools] = NativeLowering(space.hw, space.workload).rules(self._points) == 0
        self.cycles: Final = open_landscape(folder, space, memory, identity)
        self.floors: Final = open_landscape(folder, space, memory, identity, quantity="floors")
        self.cycles[~self.legal] = ILLEGAL
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
            self.cycles[flat] = batch.cycles[0]
        return int(self.cycles[flat])

    def below(
        self,
        wanted: Bools,
        limit: int,
        *,
        workers: int = 1,
        on_progress: Progress | None = None,
    ) -> None:
        """Find out which schedules take at most so many cycles, and how many those take.

        Args:
            wanted: bool of shape (points,); only legal ones of these are run.
            limit: in cycles.
            workers: threads.
            on_progress: told how many of the wanted ones are done, and how many there are.
        """
        open_ = wanted & self.legal & (self.cycles == NOT_YET) & (self.floors < limit)
        places = np.flatnonzero(open_)
        total = int((wanted & self.legal).sum())
        done = total - len(places)
        for part, cycles, refusals in self._runs(places, limit, workers):
            stopped = refusals == Refusal.CYCLE_LIMIT
            check_finished(self._space, part[~stopped], refusals[~stopped])
            self.floors[part[stopped]] = limit
            self.cycles[part[~stopped]] = cycles[~stopped]
            done += len(part)
            if on_progress is not None:
                on_progress(done, total)

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
