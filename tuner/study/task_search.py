# SPDX-License-Identifier: Apache-2.0
"""The searches of a study's tasks, and the allocator that gives them measurements.

In shared mode each configuration of the race has one `TaskSearches`, in per-layer mode there is
one for the study. An arm of the allocator is a task; its slot is a number of measurements, each at
a price of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.allocate import ALLOCATORS, Arm, Slot, make_allocator, spend
from tilewright.tuner.measure.energy import EnergyModel
from tilewright.tuner.measure.measurement import Measurement
from tilewright.tuner.schedule.spaces import JointPoint, shape_of
from tilewright.tuner.search import TUNERS, Candidate, Result, Tuner, TunerError
from tilewright.tuner.search.space import Index
from tilewright.tuner.study.in_flight import run_in_flight
from tilewright.tuner.study.objective import TaskCost
from tilewright.tuner.study.proofs import settle
from tilewright.tuner.study.session import Proposal, Session


def task_arm(task: Workload, *, start: float | None = None, bound: float | None = None) -> Arm:
    """The arm of a task: tasks of equal kind, kernel and stride are alike."""
    return Arm(
        name=task.name,
        count=task.count,
        start=start,
        bound=bound,
        work=float(task.macs),
        group=f"{task.kind} {task.kernel_h}x{task.kernel_w}/{task.stride_h}",
    )


ALLOCATOR_SEED: Final = 0xA110C
"""What the allocator adds to its seed, apart from every place of a task: NumPy takes missing
entropy for 0, so without it the first task's tuner would draw what the allocator draws."""


@dataclass(kw_only=True)
class TaskSearch:
    """The search of one task."""

    task: Workload  # the workload
    # configuration of every point; None: a point is a `JointPoint` with its own
    hw: HwConfig | None
    tuner: Tuner[Any]  # proposes points
    origins: dict[Index, str]  # indices of the initial proposals to their origin
    bound: float  # no value is below it, on any configuration of the search
    # least under the study's objective; None before a valid measurement
    best_value: float | None = None
    best_point: Schedule | JointPoint | None = None  # the point of ``best_value``
    best: TaskCost | None = None  # cycles and energy there
    fewest_cycles: int | None = None  # of any valid measurement
    started: bool = False  # it was asked for a point
    measured: int = 0  # trials whose outcome it learned
    proven: bool = False  # its best is within the study's tolerance: nothing more is to be searched
    tries: int = 0  # proofs that were made of it
    awaited: bool = False  # the proof found a better point, which is asked for next

    @property
    def shape(self) -> str:
        """Identity of the workload without its epilogue: equal shapes share good schedules."""
        return shape_of(self.task)

    def ask(self, count: int) -> list[Candidate[Any]]:
        """Points to measure next; none when the search is exhausted."""
        self.started = True
        kind = type(self.tuner)
        with TUNERS.running(kind):
            found = list(self.tuner.ask(count))
            repeated = len({candidate.index for candidate in found}) < len(found)
            if repeated or not (found or self.tuner.exhausted):
                raise TunerError(
                    "ask must propose a new candidate each, and none only when it is exhausted",
                    field=f"tuner {kind.__name__}",
                    value=[candidate.index for candidate in found],
                    remedy="define _propose and leave ask to the base class",
                )
        return found

    def proposal(self, candidate: Candidate[Any], tuner: str) -> Proposal:
        """A candidate as a trial."""
        point = candidate.point
        hw, schedule = (self.hw, point) if self.hw is not None else (point.hw, point.schedule)
        return Proposal(
            task=self.task,
            hw=hw,
            schedule=schedule,
            origin=self.origins.get(candidate.index, tuner),
            incumbent=self.fewest_cycles,
        )

    def learn(
        self,
        candidate: Candidate[Any],
        hw: HwConfig,
        answer: Measurement,
        value: float | None,
        model: EnergyModel,
    ) -> None:
        """Take in one measurement, its value, and its energy by the study's model."""
        self.measured += 1
        self.awaited = False
        if value is not None and answer.cycles is not None:
            self.fewest_cycles = min(answer.cycles, self.fewest_cycles or answer.cycles)
            if self.best_value is None or value < self.best_value:
                energy = model.energy_pj(hw, answer.counters)
                self.best_value, self.best_point = value, candidate.point
                self.best = TaskCost(task=self.task, cycles=answer.cycles, energy=energy)
        with TUNERS.running(type(self.tuner)):
            noise = 0.0 if value is None else value * answer.relative_error
            self.tuner.tell([Result(index=candidate.index, value=value, noise=noise)])

    def suggest(self, point: Schedule | JointPoint, origin: str = "transfer") -> bool:
        """Try a point that is good for another task, or that a proof found, next."""
        try:
            index = self.tuner.space.encode(point)
        except TilewrightError:
            return False
        new = self.tuner.suggest(index)
        if new:
            self.origins[index] = origin
        return new


class TaskSearches:
    """Searches of distinct tasks that share measurements as an allocator decides.

    The first point of every search is measured before the first slot, the task with the largest
    bound first: all of them together, so that no worker waits.

    Attributes:
        proving: whether a search ends when its best is proven within the study's tolerance.
        configs: what the searches choose from where each point has its own configuration.
    """

    def __init__(
        self,
        session: Session,
        searches: Sequence[TaskSearch],
        *,
        seed: tuple[int, ...],
        transfer: bool,
    ) -> None:
        settings = session.settings
        self.searches: Final = tuple(searches)
        self._order: Final = sorted(searches, key=lambda s: -s.bound)
        self.allocator: Final = make_allocator(
            settings.allocator,
            [task_arm(search.task, bound=search.bound) for search in self._order],
            seed=(settings.seed, *seed, ALLOCATOR_SEED),
            slot=settings.batch,
        )
        self._session: Final = session
        self._transfer: Final = transfer
        self._first: Final[dict[int, Slot]] = {}
        self._room = 0
        self.proving = False
        self.configs: tuple[HwConfig, ...] = ()

    @property
    def parts(self) -> list[TaskCost] | None:
        """The best of every task, in network order; None until each has a valid measurement."""
        parts = [search.best for search in self.searches if search.best is not None]
        return parts if len(parts) == len(self.searches) else None

    @property
    def proven(self) -> bool:
        """Whether every search has ended with a proof."""
        return all(search.proven for search in self.searches)

    def finish(self) -> None:
        """Prove what is open when the measurements end; what a proof finds is measured."""
        if not self.proving:
            return
        for arm, search in enumerate(self._order):
            settle(self._session, search, self.configs, last=True)
            if search.awaited and self._session.left:
                self._measure({arm: 1})

    def advance_in_batches(self, amount: int) -> None:
        """Spend some measurements slot by slot, fewer when every search is exhausted."""
        self._room = amount
        spend(self.allocator, self._pull, amount)

    def _pull(self, arm: int, length: float) -> Slot:
        search = self._order[arm]
        if not search.started:
            fresh = [k for k, search in enumerate(self._order) if not search.started]
            self._first.update(self._measure(dict.fromkeys(fresh[: self._room], 1)))
        slot = self._first.pop(arm, None)
        if self.settled(search):
            # The measurement of what the proof found, if it found something, is the last one.
            if slot is None and search.awaited:
                slot = self._measure({arm: 1})[arm]
            slot = slot or Slot(prices=(), values=(), exhausted=True)
            slot = replace(slot, exhausted=not search.awaited)
        elif slot is None:
            slot = self._measure({arm: int(length)})[arm]
        self._room -= len(slot.prices)
        return slot

    def _measure(self, counts: dict[int, int]) -> dict[int, Slot]:
        """Ask some searches for points, measure them side by side, and let the searches learn."""
        session = self._session
        asked = [
            (arm, candidate)
            for arm, count in counts.items()
            for candidate in self._order[arm].ask(count)
        ]
        proposals = [
            self._order[arm].proposal(candidate, session.settings.tuner) for arm, candidate in asked
        ]
        answers = session.measure(proposals) if proposals else []
        values: dict[int, list[float | None]] = {arm: [] for arm in counts}
        for (arm, candidate), proposal, answer in zip(asked, proposals, answers, strict=True):
            value = session.objective.value(proposal.hw, proposal.task, answer)
            self._order[arm].learn(candidate, proposal.hw, answer, value, session.energy)
            values[arm].append(value)
        for arm, candidate in asked:
            self.tell_siblings(self._order[arm], candidate.point)
        return {
            arm: Slot(
                prices=(1.0,) * len(found),
                values=tuple(found),
                exhausted=self._order[arm].tuner.exhausted,
            )
            for arm, found in values.items()
        }

    def choose(self) -> tuple[int, TaskSearch] | None:
        """The arm that the allocator gives the next slot, and its search; None: none."""
        with ALLOCATORS.running(type(self.allocator)):
            arm = self.allocator.choose()
        return None if arm is None else (arm, self._order[arm])

    def settled(self, search: TaskSearch) -> bool:
        """Whether a search has ended with a proof, if proofs end searches."""
        return self.proving and settle(self._session, search, self.configs)

    def tell_siblings(self, search: TaskSearch, point: Schedule | JointPoint) -> None:
        """Suggest a point to searches of the same shape, if it is the best of its own."""
        if not self._transfer or search.best_point != point:
            return
        for sibling in self._order:
            if sibling is not search and sibling.shape == search.shape:
                sibling.suggest(point)


@dataclass(kw_only=True)
class _OpenSlot:
    """A slot of which not all trials have ended."""

    arm: int
    search: TaskSearch
    left: int  # trials that may still be asked for
    last: bool = False  # the search has ended with a proof
    running: int = 0  # trials on their way
    values: list[float | None] = field(default_factory=list)


class OverlappingSlots:
    """Spends measurements of some searches one by one (`in_flight.Course`).

    The next slot begins when the trials of the last one have all begun. A search has one trial in
    its first slot, so that all of them are measured once before one is measured often.
    """

    def __init__(self, session: Session, searches: TaskSearches, amount: int) -> None:
        self._session: Final = session
        self._searches: Final = searches
        self._room = amount
        self._slot: _OpenSlot | None = None

    def wish(self) -> tuple[Proposal, Any] | None:
        """See `in_flight.Course.wish`."""
        session = self._session
        while self._room and session.left and (slot := self._slot or self._next_slot()):
            found = slot.search.ask(1) if slot.left else []
            self._room -= len(found)
            slot.running += len(found)
            slot.left = slot.left - 1 if found and self._room else 0
            self._slot = slot if slot.left else None
            if found:
                proposal = slot.search.proposal(found[0], session.settings.tuner)
                return proposal, (slot, found[0], proposal)
            self._close(slot)
        return None

    def learn(self, ticket: Any, answer: Measurement) -> None:
        """See `in_flight.Course.learn`."""
        slot, candidate, proposal = ticket
        session, search = self._session, slot.search
        value = session.objective.value(proposal.hw, proposal.task, answer)
        search.learn(candidate, proposal.hw, answer, value, session.energy)
        self._searches.tell_siblings(search, candidate.point)
        slot.values.append(value)
        slot.running -= 1
        self._close(slot)

    def _next_slot(self) -> _OpenSlot | None:
        chosen = self._searches.choose()
        if chosen is None:
            return None
        arm, search = chosen
        length = self._session.settings.batch if search.started else 1
        if self._searches.settled(search):
            return _OpenSlot(arm=arm, search=search, left=int(search.awaited), last=True)
        return _OpenSlot(arm=arm, search=search, left=length)

    def _close(self, slot: _OpenSlot) -> None:
        """Tell the allocator of a slot all of whose trials have ended."""
        if slot.left or slot.running:
            return
        self._searches.allocator.tell(
            slot.arm,
            Slot(
                prices=(1.0,) * len(slot.values),
                values=tuple(slot.values),
                exhausted=not slot.search.awaited if slot.last else slot.search.tuner.exhausted,
            ),
        )


def advance_together(session: Session, shares: Sequence[tuple[TaskSearches, int]]) -> None:
    """Spend a share of measurements of each, as far as the budget goes.

    They overlap if the study is asynchronous.
    """
    if session.settings.asynchronous:
        run_in_flight(session, [OverlappingSlots(session, each, share) for each, share in shares])
    else:
        for searches, share in shares:
            searches.advance_in_batches(min(share, session.left))
