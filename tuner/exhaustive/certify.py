# SPDX-License-Identifier: Apache-2.0
"""The optimum of a network over configurations and schedules, certified by enumeration.

Cycles depend on a configuration's timing class alone (`shortlist.timing_class`); scratchpad
depths only decide which schedules are legal. So one enumeration on the twin serves all depths of a
class: the schedules that are legal with the largest depths are measured once, and for each choice
of depths that fits the board and is not dominated by another, the best legal schedule of every
task is looked up.

    optimum = min over classes, depths of  sum over tasks of  count x min over legal schedules

Branch and bound: a class whose network bound is not below the best network known is left out, and
a schedule is measured no longer than a network with it could still win, if every other task took
its bound. What is left out cannot be optimal. When time runs out before every class is decided, the
result is the best known and not certified.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.names import counted
from tilewright.host.machine.board import Board, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.device import Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import in_threads, positions_of
from tilewright.tuner.exhaustive.landscape_file import Cycles
from tilewright.tuner.exhaustive.options import CertifyOptions
from tilewright.tuner.schedule.network_prior import roomiest
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.shortlist import class_starts, largest_depths, timing_class
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import HardwareSpace, ScheduleSpace
from tilewright.tuner.search.space import SpaceError

CHUNK: Final = 128
"""Schedules that a thread measures between two looks at the clock."""

MAX_POINTS: Final = 4_000_000
"""Largest schedule space of a layer that is enumerated."""


class Verdict(StrEnum):
    """What became of a timing class."""

    ENUMERATED = "enumerated"
    PRUNED = "pruned"
    """Its bound is not below the best network."""
    OPEN = "open"
    """Time ran out."""


@dataclass(frozen=True, kw_only=True)
class ClassResult:
    """What is known of one timing class."""

    hw: HwConfig  # a configuration of the class; the best one where it was enumerated
    bound: int  # lower bound of the network's cycles in the class
    verdict: Verdict  # how it was decided
    # the network's least below the best known before; None: none are, or not enumerated
    cycles: int | None = None
    depths: int = 0  # choices of depths that were compared
    schedules: int = 0  # schedules measured


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The best network, and whether there can be no better one."""

    cycles: int | None  # of the network; None when nothing below the limit exists
    hw: HwConfig | None  # its configuration
    schedules: dict[str, Schedule]  # task names to their schedules
    certified: bool  # every class was enumerated or pruned
    lower_bound: int  # no network takes fewer cycles; equals ``cycles`` when certified
    classes: tuple[ClassResult, ...]  # what became of each, by ascending bound
    seconds: float  # wall-clock


@dataclass(frozen=True)
class _Group:
    """Tasks that take equal cycles, with the sum of their counts."""

    task: Workload
    count: int
    names: tuple[str, ...]


@dataclass(kw_only=True)
class _Best:
    """The best network so far; cycles are a strict limit for others."""

    cycles: float
    hw: HwConfig | None = None
    schedules: dict[str, Schedule]


class Certifier:
    """Certifies the optimum of one network on one board."""

    def __init__(
        self,
        tasks: Sequence[Workload],
        *,
        board: Board,
        memory: MemoryModel,
        base: HwConfig,
        rules: Rules,
        settings: CertifyOptions,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._groups: Final = _grouped(tasks)
        self._board: Final = board
        self._memory: Final = memory
        self._base: Final = base
        self._rules: Final = rules
        self._kind: Final = settings.space
        self._limit: Final = math.inf if settings.limit is None else settings.limit
        self._threads: Final = settings.workers or os.cpu_count() or 1
        self._note: Final = note
        self._end: Final = time.monotonic() + settings.seconds

    def run(self) -> Certificate:
        """Decide every class, in the order of their bounds."""
        started = time.monotonic()
        best = _Best(cycles=self._limit, schedules={})
        starts = class_starts(self._board, self._base, self._rules)
        if not starts:
            raise SpaceError(
                "no configuration fits the board",
                field=self._board.name,
                remedy="name a larger board, or a smaller base",
            )
        ranked = sorted(((self._bound(hw), timing_class(hw), s, hw) for s, hw in starts),
                        key=lambda entry: entry[:2])  # fmt: skip
        classes = []
        for bound, _, space, hw in ranked:
            if bound >= best.cycles:
                classes.append(ClassResult(hw=hw, bound=bound, verdict=Verdict.PRUNED))
            elif time.monotonic() > self._end:
                classes.append(ClassResult(hw=hw, bound=bound, verdict=Verdict.OPEN))
            else:
                classes.append(self._enumerate(space, hw, bound, best))
        unsure = [c.bound for c in classes if c.verdict is Verdict.OPEN]
        found = None if best.hw is None else int(best.cycles)
        if not unsure and math.isinf(best.cycles):
            raise SpaceError(
                "no configuration runs every task",
                field=self._board.name,
                remedy="leave the task out that is too large, or name a larger board",
            )
        if found is None and self._limit < ranked[0][0]:
            floor = ranked[0][0]  # a limit that no network can have
        else:
            floor = min([*unsure, *([int(best.cycles)] if math.isfinite(best.cycles) else [])])
        return Certificate(
            cycles=found,
            hw=best.hw,
            schedules=best.schedules,
            certified=not unsure,
            lower_bound=floor,
            classes=tuple(classes),
            seconds=time.monotonic() - started,
        )

    def _bound(self, hw: HwConfig) -> int:
        return sum(self._task_bound(hw, group) for group in self._groups)

    def _task_bound(self, hw: HwConfig, group: _Group) -> int:
        return group.count * self._rules.bound(hw, group.task, self._memory).cycles

    # -- one class --------------------------------------------------------------------------

    def _enumerate(
        self, space: HardwareSpace, hw: HwConfig, bound: int, best: _Best
    ) -> ClassResult:
        choices = largest_depths(space, self._rules)
        roomy = roomiest(choices)
        self._note(f"{hw.name}: bound {bound:,}, {counted(len(choices), 'choice')} of depths")
        totals = np.zeros(len(choices))
        places: list[list[int]] = []
        grids: list[tuple[ScheduleSpace, Points, npt.NDArray[np.int64]]] = []
        measured = 0
        for group in self._groups:
            schedule_space = ScheduleSpace(group.task, roomy, self._rules, self._kind)
            points, positions = _all_points(schedule_space)
            legal = NativeLowering(roomy, group.task).rules(points) == 0
            points, positions = points[legal], positions[legal]
            slack = best.cycles - bound + self._task_bound(hw, group)
            limit = 0 if math.isinf(slack) else int(slack // group.count)
            cycles = self._measure(roomy, group.task, points, limit)
            if cycles is None:
                return ClassResult(hw=hw, bound=bound, verdict=Verdict.OPEN)
            measured += len(points)
            costs, found = self._by_depths(choices, group.task, points, cycles)
            totals += group.count * costs
            places.append(found)
            grids.append((schedule_space, points, positions))
            self._note(
                f"  {group.task.name}: {counted(len(points), 'schedule')}, best {costs.min():,.0f}"
            )
        winner = int(totals.argmin())
        chosen = choices[winner]
        result = ClassResult(
            hw=chosen, bound=bound, verdict=Verdict.ENUMERATED, depths=len(choices),
            schedules=measured, cycles=None if math.isinf(totals[winner]) else int(totals[winner]),
        )  # fmt: skip
        if totals[winner] < best.cycles:
            best.cycles, best.hw = float(totals[winner]), chosen
            best.schedules = {
                name: grid[0].decode(tuple(grid[2][place[winner]].tolist()))
                for group, place, grid in zip(self._groups, places, grids, strict=True)
                for name in group.names
            }
        return result

    def _measure(self, hw: HwConfig, task: Workload, points: Points, limit: int) -> Cycles | None:
        """Cycles of legal schedules; 0 where they exceed a limit; None when time ran out."""

        def run(part: range, stopped: threading.Event) -> tuple[int, Cycles | None]:
            twin, lowering = Twin(hw, self._memory), NativeLowering(hw, task)
            found = np.zeros(len(part), dtype=np.int64)
            for first in range(0, len(part), CHUNK):
                if stopped.is_set() or time.monotonic() > self._end:
                    return part.start, None
                rows = points[part.start + first : min(part.start + first + CHUNK, part.stop)]
                batch = twin.batch(lowering, rows, max_cycles=limit)
                if not np.isin(batch.refusals, (Refusal.NONE, Refusal.CYCLE_LIMIT)).all():
                    raise SpaceError("a legal schedule must finish", field=task.name)
                found[first : first + len(rows)] = batch.cycles
            return part.start, found

        step = max(1, -(-len(points) // (4 * self._threads)))
        parts = [
            range(first, min(first + step, len(points))) for first in range(0, len(points), step)
        ]
        found, whole = np.zeros(len(points), dtype=np.int64), True
        for first, cycles in in_threads(run, parts, self._threads):
            if cycles is None:
                whole = False
            else:
                found[first : first + len(cycles)] = cycles
        return found if whole else None

    def _by_depths(
        self, choices: Sequence[HwConfig], task: Workload, points: Points, cycles: Cycles
    ) -> tuple[npt.NDArray[np.float64], list[int]]:
        """Least cycles under each choice of depths (infinite: none), and whose they are."""
        order = np.flatnonzero(cycles)
        order = order[np.argsort(cycles[order], kind="stable")]
        costs, places = np.full(len(choices), math.inf), [0] * len(choices)
        for number, hw in enumerate(choices):
            legal = NativeLowering(hw, task).rules(points[order]) == 0
            if legal.any():
                places[number] = int(order[legal.argmax()])
                costs[number] = cycles[places[number]]
        return costs, places


def _all_points(space: ScheduleSpace) -> tuple[Points, npt.NDArray[np.int64]]:
    if space.raw_size > MAX_POINTS:
        raise SpaceError(
            f"at most {MAX_POINTS:,} schedules of a layer can be enumerated",
            field=space.workload.name,
            value=space.raw_size,
            remedy="certify space vta",
        )
    positions = positions_of(space, np.arange(space.raw_size))
    return schedule_points(space.knobs, positions), positions


def _grouped(tasks: Sequence[Workload]) -> tuple[_Group, ...]:
    """Tasks by what their cycles depend on."""
    found: dict[str, list[Workload]] = {}
    for task in tasks:
        found.setdefault(replace(task, relu=True).key, []).append(task)
    return tuple(
        _Group(group[0], sum(task.count for task in group), tuple(task.name for task in group))
        for group in found.values()
    )


def class_lines(certificate: Certificate) -> Iterator[str]:
    """One line for each class, then the verdict."""
    for result in certificate.classes:
        text = f"{result.verdict} {result.hw.name}: bound {result.bound:,}"
        if result.verdict is Verdict.ENUMERATED:
            best = "no better network" if result.cycles is None else f"best {result.cycles:,}"
            schedules = counted(result.schedules, "schedule")
            text += f", {best} ({schedules}, {counted(result.depths, 'choice')} of depths)"
        yield text
    if certificate.cycles is None:
        yield "no network below the limit" + ("" if certificate.certified else " found in time")
        return
    kind = "certified optimum" if certificate.certified else "best known"
    yield f"{kind}: {certificate.cycles:,} cycles on {certificate.hw and certificate.hw.name}"
    if not certificate.certified:
        yield f"no network takes fewer than {certificate.lower_bound:,} cycles"
