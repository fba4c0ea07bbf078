# SPDX-License-Identifier: Apache-2.0
"""How far a measured schedule can be from the best: a proof by bounds, then by enumeration.

Points of the space are excluded in three steps, the cheapest first:

1. by the bound of the layer (`host.lowering.cycle_bound`), all at once;
2. by the bound of each schedule (`schedule.schedule_bound`), which lowers none;
3. by the twin, the least bound first: a run is stopped as soon as it is too slow to matter.

A schedule that would refute the proof is a better one. It becomes the best, and the proof goes on
from it. So a proof ends with cycles that some schedule takes, and with a bound that none undercuts:
`best <= (1 + within) * bound`, or time ran out and the gap is larger.

What is found does not depend on the number of threads: a round of runs has one limit.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common import plain_values
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import (
    check_finished,
    in_threads,
    points_of,
    positions_of,
)
from tilewright.tuner.exhaustive.landscape_file import Cycles
from tilewright.tuner.schedule.schedule_bound import ScheduleBound
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import ScheduleSpace

FIRST_ROUND: Final = 128
LAST_ROUND: Final = 4096
"""Schedules that run under one limit: few at first, because a better one excludes many."""

CHUNK: Final = 64
"""Schedules that a thread runs between two looks at the clock."""

SIEVE: Final = 1 << 17
"""Points that are bounded at a time."""

MAX_POINTS: Final = 50_000_000
"""Largest space whose points are bounded one by one."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What is proven of the best cycles of a layer.

    Attributes:
        bounds: of each configuration, by its hash.
        points: of the spaces; ``excluded`` by bounds or because they are not legal, ``run`` on the
            twin; the rest is open.
        schedule, hw: of ``cycles`` where the proof found them; None: they are the given ones.
    """

    given: int  # the best cycles that were measured before
    cycles: int  # the least that is known
    bound: int  # no schedule of the spaces takes fewer
    within: float  # the tolerance that was asked for
    bounds: Mapping[str, int]
    points: int
    excluded: int
    run: int
    seconds: float  # wall-clock
    schedule: Mapping[str, Any] | None = None
    hw: str | None = None  # configuration hash of ``schedule``

    @property
    def proven(self) -> bool:
        """Whether the tolerance holds of ``cycles``, which a study may have no measurement of."""
        return self.cycles <= (1 + self.within) * self.bound

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Proof:
        """What `to_mapping` gave, from a store."""
        return cls(**_FIELDS(dict(values)))


_COUNT: Final = plain_values.integer(0, 1 << 62)
_FIELDS: Final = plain_values.record(
    given=_COUNT,
    cycles=_COUNT,
    bound=_COUNT,
    within=plain_values.real,
    bounds=plain_values.mapping(plain_values.plain(str), _COUNT),
    points=_COUNT,
    excluded=_COUNT,
    run=_COUNT,
    seconds=plain_values.real,
    schedule=plain_values.optional(plain_values.plain(dict)),
    hw=plain_values.optional(plain_values.plain(str)),
)


def least_bound(space: ScheduleSpace, memory: MemoryModel) -> int | None:
    """The least bound of a legal schedule, without any run; None: none is legal."""
    points = points_of(space, 0, space.raw_size)
    legal = NativeLowering(space.hw, space.workload).rules(points) == 0
    if not legal.any():
        return None
    return int(ScheduleBound(space.hw, space.workload, memory).least(points[legal]).min())


def beaten_by(cycles: int, within: float) -> int:
    """The most cycles of a schedule that would refute the tolerance."""
    limit = max(0, math.ceil(cycles / (1 + within)) - 1)
    while limit and cycles <= (1 + within) * limit:
        limit -= 1
    while cycles > (1 + within) * (limit + 1):
        limit += 1
    return limit


class Prover:
    """Proves layers on configurations of one memory.

    Args:
        memory: DRAM timing.
        within: the share above its bound at which a layer is proven.
        workers: threads; None: one per core.
    """

    def __init__(self, memory: MemoryModel, *, within: float, workers: int | None = None) -> None:
        self._memory: Final = memory
        self._within: Final = within
        self._threads: Final = workers or os.cpu_count() or 1

    def prove(
        self,
        spaces: Sequence[ScheduleSpace],
        cycles: int,
        floors: Sequence[int],
        *,
        seconds: float = math.inf,
    ) -> Proof:
        """Prove the best cycles of one layer over spaces of one or more configurations.

        Args:
            spaces: of the layer, one for each configuration.
            cycles: the best that were measured.
            floors: the layer's bound on each configuration.
            seconds: when they are over, the proof tells how far it came.
        """
        started = time.monotonic()
        found = _Course(cycles=cycles, within=self._within, ends=started + seconds)
        bounds = {}
        for floor, space in sorted(zip(floors, spaces, strict=True), key=lambda pair: pair[0]):
            bounds[f"{space.hw.config_hash:08x}"] = max(floor, self._one(space, floor, found))
        bounds = {key: min(bound, found.cycles) for key, bound in bounds.items()}
        return Proof(
            given=cycles,
            cycles=found.cycles,
            bound=min(bounds.values()),
            bounds=bounds,
            within=self._within,
            points=sum(space.raw_size for space in spaces),
            excluded=found.excluded,
            run=found.run,
            seconds=time.monotonic() - started,
            schedule=None if found.schedule is None else found.schedule.to_mapping(),
            hw=None if found.hw is None else f"{found.hw.config_hash:08x}",
        )

    def _one(self, space: ScheduleSpace, floor: int, found: _Course) -> int:
        """A lower bound of the cycles in one space; `found` may get better ones."""
        if floor > found.limit:
            found.excluded += space.raw_size
            return floor
        if space.raw_size > MAX_POINTS:
            return floor
        flats, bounds = self._sieve(space, found)
        if flats is None:
            return floor
        points = _points(space, flats)
        legal = NativeLowering(space.hw, space.workload).rules(points) == 0
        order = np.flatnonzero(legal)
        order = order[np.argsort(bounds[order], kind="stable")]
        flats, bounds, points = flats[order], bounds[order], points[order]
        found.excluded += space.raw_size - len(flats)
        done, size = 0, FIRST_ROUND
        while done < len(flats) and bounds[done] <= found.limit:
            if found.late:
                return int(bounds[done])
            end = min(done + size, int(np.searchsorted(bounds, found.limit, side="right")))
            whole = self._round(space, points[done:end], flats[done:end], found)
            if not whole:
                return int(bounds[done])
            done, size = end, min(2 * size, LAST_ROUND)
        found.excluded += len(flats) - done
        return found.limit + 1

    def _sieve(self, space: ScheduleSpace, found: _Course) -> tuple[Cycles | None, Cycles]:
        """Points whose bound does not exclude them, and their bounds; None: time ran out."""
        limit, raw = found.limit, space.raw_size

        def run(part: range, stopped: threading.Event) -> tuple[int, Cycles, Cycles] | None:
            if stopped.is_set() or found.late:
                return None
            least = bound.least(points_of(space, part.start, part.stop))
            kept = np.flatnonzero(least <= limit)
            return part.start, kept + part.start, least[kept]

        bound = ScheduleBound(space.hw, space.workload, self._memory)
        parts = [range(first, min(first + SIEVE, raw)) for first in range(0, raw, SIEVE)]
        kept = list(in_threads(run, parts, self._threads))
        whole = [each for each in kept if each is not None]
        if len(whole) < len(parts):
            return None, np.empty(0, dtype=np.int64)
        whole.sort(key=lambda each: each[0])
        return (
            np.concatenate([each[1] for each in whole]),
            np.concatenate([each[2] for each in whole]),
        )

    def _round(self, space: ScheduleSpace, points: Points, flats: Cycles, found: _Course) -> bool:
        """Run points under the limit; False when time ran out before all had run."""
        limit = found.limit

        def run(
            part: range, stopped: threading.Event
        ) -> tuple[range, npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
            if stopped.is_set() or found.late:
                return None
            twin, lowering = Twin(space.hw, self._memory), NativeLowering(space.hw, space.workload)
            batch = twin.batch(lowering, points[part.start : part.stop], max_cycles=limit)
            return part, batch.cycles, batch.refusals

        whole = True
        best: tuple[int, int] | None = None
        for answer in in_threads(run, list(_parts(len(points))), self._threads):
            if answer is None:
                whole = False
                continue
            part, cycles, refusals = answer
            ended = refusals != Refusal.CYCLE_LIMIT
            places = np.arange(part.start, part.stop)
            check_finished(space, flats[places[ended]], refusals[ended])
            found.run += len(part)
            if ended.any():
                at = places[ended][cycles[ended].argmin()]
                here = (int(cycles[ended].min()), int(flats[at]))
                best = here if best is None else min(best, here)
        if best is not None and best[0] < found.cycles:
            index = positions_of(space, np.array([best[1]]))[0]
            found.better(best[0], space.decode(tuple(index.tolist())), space.hw)
        return whole


class _Course:
    """How far a proof is."""

    def __init__(self, *, cycles: int, within: float, ends: float) -> None:
        self.cycles = cycles
        self.limit = beaten_by(cycles, within)
        self.excluded = self.run = 0
        self.schedule: Schedule | None = None
        self.hw: HwConfig | None = None
        self._within: Final = within
        self._ends: Final = ends

    @property
    def late(self) -> bool:
        """Whether time ran out."""
        return time.monotonic() > self._ends

    def better(self, cycles: int, schedule: Schedule, hw: HwConfig) -> None:
        """A schedule that refutes what was to be proven."""
        self.cycles, self.schedule, self.hw = cycles, schedule, hw
        self.limit = beaten_by(cycles, self._within)


def _parts(count: int) -> Iterator[range]:
    return (range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK))


def _points(space: ScheduleSpace, flats: Cycles) -> Points:
    """Points by their places in index order."""
    return schedule_points(space.knobs, positions_of(space, flats))
