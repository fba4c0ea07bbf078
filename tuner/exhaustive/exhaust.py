# SPDX-License-Identifier: Apache-2.0
"""Exhaustive truth: the cycles of every legal schedule of a layer, on the twin.

What was measured stands in a `LandscapeFile`, so that a stopped enumeration goes on where it was.
Tuners are judged by the optimum in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from tilewright.host.machine.board import MemoryModel
from tilewright.host.network.schedule import Schedule
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.landscape_file import ILLEGAL, NOT_YET, Cycles, LandscapeFile
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.space import SpaceError

P = TypeVar("P")
T = TypeVar("T")

CHUNK: Final = 256
"""Points between two saves."""

MAX_POINTS: Final = 50_000_000
"""Largest space that is enumerated: 400 MB of cycles."""

Progress = Callable[[int, int], None]
"""Called with points done and points in all."""


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Every point of a schedule space with its cycles."""

    space: ScheduleSpace  # what was enumerated
    memory: MemoryModel  # DRAM timing
    cycles: Cycles  # int64 of shape (points,), in index order; `ILLEGAL` where the schedule is not

    @property
    def legal(self) -> Cycles:
        """Cycles of the legal schedules, ascending."""
        return np.sort(self.cycles[self.cycles > 0])

    @property
    def best(self) -> tuple[Schedule, int]:
        """The first schedule with the fewest cycles."""
        return self.ranked(0)

    def ranked(self, place: int) -> tuple[Schedule, int]:
        """The legal schedule at a place of the ranking (0: best) and its cycles."""
        legal = np.flatnonzero(self.cycles > 0)
        if place >= len(legal):
            raise SpaceError(
                "too few legal schedules",
                field=self.space.workload.name,
                value=len(legal),
                remedy="enlarge the scratchpads",
            )
        order = legal[np.argsort(self.cycles[legal], kind="stable")]
        return _schedule(self.space, int(order[place])), int(self.cycles[order[place]])

    def share_within(self, ratio: float) -> float:
        """Share of the legal schedules whose cycles are at most ``ratio`` times the optimum."""
        legal = self.legal
        return float((legal <= ratio * legal[0]).mean()) if len(legal) else 0.0

    def summary(self) -> dict[str, Any]:
        """Counts, optimum and distribution, as plain values."""
        legal = self.legal
        found: dict[str, Any] = {"points": len(self.cycles), "legal": len(legal)}
        if len(legal):
            schedule, cycles = self.best
            found |= {
                "optimum_cycles": cycles,
                "optimum": schedule.to_mapping(),
                "optima": int((legal == cycles).sum()),
                "quantiles": {
                    str(q): int(np.quantile(legal, q / 100, method="lower"))
                    for q in (1, 10, 25, 50, 75, 90, 99, 100)
                },
                "share_within": {str(r): self.share_within(r) for r in (1.01, 1.05, 1.1, 2.0)},
            }
        return found


def exhaust(
    space: ScheduleSpace,
    memory: MemoryModel,
    folder: Path,
    *,
    identity: str,
    workers: int = 2,
    on_progress: Progress | None = None,
) -> Landscape:
    """Measure every point of a space on the twin."""
    points = space.raw_size
    if points > MAX_POINTS:
        raise SpaceError(
            f"at most {MAX_POINTS:,} points can be enumerated",
            field=space.workload.name,
            value=points,
            remedy="enumerate space vta",
        )
    least = host_rules().bound(space.hw, space.workload, memory).cycles
    file = LandscapeFile(folder, space, memory, identity, least=least)
    cycles = file.values
    missing = [
        (start, min(start + CHUNK, points))
        for start in range(0, points, CHUNK)
        if (cycles[start : start + CHUNK] == NOT_YET).any()
    ]
    done = points - sum(end - start for start, end in missing)
    if on_progress is not None:
        on_progress(done, points)
    for start, found in _measure(space, memory, missing, workers):
        file.keep(np.arange(start, start + len(found)), found)
        file.flush()
        done += len(found)
        if on_progress is not None:
            on_progress(done, points)
    return Landscape(space=space, memory=memory, cycles=cycles)


def _measure(
    space: ScheduleSpace, memory: MemoryModel, chunks: list[tuple[int, int]], workers: int
) -> Iterator[tuple[int, Cycles]]:
    """(start, cycles) of each chunk as it is done."""

    def run(part: list[tuple[int, int]], stopped: threading.Event) -> list[tuple[int, Cycles]]:
        done: list[tuple[int, Cycles]] = []
        twin, lowering = Twin(space.hw, memory), NativeLowering(space.hw, space.workload)
        for start, end in part:
            if stopped.is_set():
                break
            batch = twin.batch(lowering, points_of(space, start, end))
            check_finished(space, np.arange(start, end), batch.refusals)
            done.append((start, np.where(batch.rules != 0, ILLEGAL, batch.cycles)))
        return done

    # Small parts in random order: slow regions of the space are spread over the threads.
    order = np.random.default_rng(0).permutation(len(chunks))
    parts = [[chunks[i] for i in order[k : k + 4]] for k in range(0, len(chunks), 4)]
    for done in in_threads(run, parts, workers):
        yield from done


def in_threads(
    run: Callable[[P, threading.Event], T], parts: Sequence[P], workers: int
) -> Iterator[T]:
    """What is found of each part, as it is done; whoever stops asking stops the work."""
    stopped = threading.Event()
    with ThreadPoolExecutor(workers) as pool:  # which waits for what runs when it is left
        futures = [pool.submit(run, part, stopped) for part in parts]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            stopped.set()
            for future in futures:
                future.cancel()


def points_of(space: ScheduleSpace, start: int, end: int) -> Points:
    """The points of an index range as the native lowering takes them."""
    return schedule_points(space.knobs, positions_of(space, np.arange(start, end)))


def positions_of(space: ScheduleSpace, flats: Cycles) -> Cycles:
    """Positions of points by their places in index order, int64 of shape (points, knobs)."""
    sizes = tuple(len(knob) for knob in space.knobs)
    return np.stack(np.unravel_index(flats, sizes), axis=1)


def check_finished(space: ScheduleSpace, flats: Cycles, refusals: Cycles) -> None:
    """Raise when a legal schedule did not end by itself.

    Args:
        space: of the schedules.
        flats: their places in index order, shape (schedules,).
        refusals: of the twin, shape (schedules,).
    """
    if (refusals != Refusal.NONE).any():
        first = int(np.flatnonzero(refusals)[0])
        raise SpaceError(
            f"a legal schedule must finish ({Refusal(refusals[first]).name})",
            field=space.workload.name,
            value=_schedule(space, int(flats[first])).to_mapping(),
            remedy="this is a defect of Tilewright: please report it with this line",
        )


def _schedule(space: ScheduleSpace, flat: int) -> Schedule:
    return space.decode(tuple(positions_of(space, np.array([flat]))[0].tolist()))
