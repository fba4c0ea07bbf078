# SPDX-License-Identifier: Apache-2.0
"""Mode *shared*: one configuration for the network, a schedule for each task on it.

The outer search is a race of configurations in rungs (successive halving: Jamieson and Talwalkar,
AISTATS 2016): each gets an equal slice of measurements, the better half of those on which *every*
task has a valid measurement goes on. A configuration whose network bound is no better than the
incumbent network cannot win and is neither built nor continued. Inside a configuration, the next
measurements go to the tasks that can still lose most cycles, and an improvement is suggested at
once to the tasks of the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tilewright.host.errors import TilewrightError
from tilewright.host.hwconfig import HwConfig
from tilewright.host.schedule import Schedule
from tilewright.host.workload import Workload
from tilewright.tuner.measurement import Measurement
from tilewright.tuner.search import Candidate, Result, Tuner
from tilewright.tuner.session import Proposal, Session
from tilewright.tuner.space import Index
from tilewright.tuner.spaces import ScheduleSpace
from tilewright.tuner.study_tuner import TunerFactory

FIRST_RUNG_SHARE: Final = 0.5
"""Share of the budget that the first rung may spend."""

TRIALS_PER_TASK: Final = 2
"""A configuration is worth its build only if each task gets this many trials in the first rung."""


@dataclass(kw_only=True)
class TaskSearch:
    """The search of one task on one configuration.

    Attributes:
        task: the workload.
        tuner: proposes schedules.
        origins: indices of the initial proposals to their origin.
        best_cycles, best_schedule: the best valid measurement; None before the first.
        spent: proposals so far.
        stale: proposals since the last improvement.
    """

    task: Workload
    tuner: Tuner[Schedule]
    origins: dict[Index, str]
    best_cycles: int | None = None
    best_schedule: Schedule | None = None
    spent: int = 0
    stale: int = 0

    @property
    def shape(self) -> str:
        """Identity of the workload without its epilogue: equal shapes share good schedules."""
        return replace(self.task, relu=True, residual=False).key

    def suggest(self, schedule: Schedule) -> None:
        """Try a schedule that is good for another task next."""
        try:
            index = self.tuner.space.encode(schedule)
        except TilewrightError:
            return
        if self.tuner.suggest(index):
            self.origins[index] = "transfer"

    def learn(self, candidate: Candidate[Schedule], answer: Measurement) -> None:
        """Take in one measurement."""
        value = answer.cycles if answer.valid else None
        self.stale += 1
        if value is not None and (self.best_cycles is None or value < self.best_cycles):
            self.best_cycles, self.best_schedule, self.stale = value, candidate.point, 0
        self.tuner.tell(
            [Result(index=candidate.index, value=None if value is None else float(value))]
        )


@dataclass(kw_only=True)
class Arm:
    """One configuration in the race.

    Attributes:
        hw: the configuration.
        bound: lower bound of the network's cycles on it.
        searches: one a task.
    """

    hw: HwConfig
    bound: int
    searches: list[TaskSearch] = field(default_factory=list)

    @property
    def network_cycles(self) -> int | None:
        """Cycles of the network with the best schedules; None until every task is measured."""
        total = 0
        for search in self.searches:
            if search.best_cycles is None:
                return None
            total += search.best_cycles * search.task.count
        return total


def run_shared(session: Session, configs: Sequence[HwConfig]) -> None:
    """Spend the session's budget on the race.

    Args:
        session: measures, counts and stores.
        configs: the configurations, the base first, the most promising next.
    """
    settings = session.settings
    tasks = len(settings.tasks)
    affordable = int(settings.budget * FIRST_RUNG_SHARE) // (TRIALS_PER_TASK * tasks)
    racing = list(configs[: max(1, affordable)])
    if len(racing) < len(configs):
        session.note(
            f"a budget of {settings.budget} serves {len(racing)} of {len(configs)} configurations"
        )
    if len(racing) == 1:
        share = settings.budget
    else:
        share = max(tasks, int(settings.budget * FIRST_RUNG_SHARE) // len(racing))
    arms = _first_rung(session, racing, share, TunerFactory(settings))
    while arms and session.left:
        arms = _survivors(arms)
        share = session.left if len(arms) == 1 else max(1, session.left // 2 // len(arms))
        before = session.left
        for arm in arms:
            _advance(session, arm, min(share, session.left))
        if session.left == before:
            if len(arms) == 1:
                session.note(f"{arms[0].hw.name}: every schedule of the space is measured")
                break
            arms = arms[:1]


def _first_rung(
    session: Session, configs: Sequence[HwConfig], share: int, factory: TunerFactory
) -> list[Arm]:
    """Give each configuration its first slice.

    Where a prior ranks the configurations, the base, which then is not the most promising one
    for being first, gets its untuned schedules alone until it survives.
    """
    arms: list[Arm] = []
    ranked = session.rules.schedule_prior is not None and len(configs) > 1
    for position, hw in enumerate(configs):
        bound = session.network_bound(hw)
        incumbent = _best(arms)
        if incumbent is not None and bound >= incumbent:
            _prune(session, hw, bound, incumbent)
            continue
        if not session.left:
            break
        session.record_config(hw, "measured")
        session.prepare(hw)
        if position + 1 < len(configs):
            session.prepare(configs[position + 1])
        arm = _arm(session, hw, bound, arms, factory, number=position)
        slice_ = len(arm.searches) if ranked and position == 0 else share
        _advance(session, arm, min(slice_, session.left))
        if arm.network_cycles is None:
            missing = [s.task.name for s in arm.searches if s.best_cycles is None]
            reason = f"no valid measurement of {', '.join(missing)}"
            session.record_config(hw, "incomplete", reason)
            session.note(f"{hw.name}: {reason}")
        arms.append(arm)
    return arms


def _survivors(arms: list[Arm]) -> list[Arm]:
    """The better half, best first, without those whose bound rules them out."""
    complete = [arm for arm in arms if arm.network_cycles is not None]
    if not complete:
        return arms[:1]
    complete.sort(key=lambda arm: arm.network_cycles or 0)
    incumbent = complete[0].network_cycles or 0
    half = complete[: max(1, len(complete) // 2)]
    return [half[0], *(arm for arm in half[1:] if arm.bound < incumbent)]


def _best(arms: Sequence[Arm]) -> int | None:
    totals = [arm.network_cycles for arm in arms if arm.network_cycles is not None]
    return min(totals) if totals else None


def _prune(session: Session, hw: HwConfig, bound: int, incumbent: int) -> None:
    reason = f"its bound of {bound:,} cycles is not below the incumbent's {incumbent:,}"
    session.record_config(hw, "pruned", reason)
    session.note(f"{hw.name}: not built, {reason}")


def _arm(
    session: Session,
    hw: HwConfig,
    bound: int,
    others: Sequence[Arm],
    factory: TunerFactory,
    number: int,
) -> Arm:
    """An arm whose searches start from the untuned schedule and the best of other arms.

    With a prior of whole spaces the untuned schedule is worth a measurement on the base alone,
    where it is what the study's result is compared with.
    """
    settings = session.settings
    arm = Arm(hw=hw, bound=bound)
    for task_number, task in enumerate(settings.tasks):
        space = ScheduleSpace(task, hw, session.rules, settings.space)
        origins: dict[Index, str] = {}
        try:
            if number == 0 or session.rules.schedule_prior is None:
                origins[space.encode(session.rules.default_schedule(hw, task))] = "default"
        except TilewrightError as error:
            session.note(f"{task.name}: no untuned schedule on {hw.name}: {error}")
        ranked = sorted(
            (arm for arm in others if arm.searches[task_number].best_cycles is not None),
            key=lambda arm: arm.searches[task_number].best_cycles or 0,
        )
        for other in ranked[:1]:
            schedule = other.searches[task_number].best_schedule
            try:
                if schedule is not None:
                    origins.setdefault(space.encode(schedule), "transfer")
            except TilewrightError:
                continue
        tuner = factory.make(
            space,
            seed=(number, task_number),
            initial=tuple(origins),
            prior=session.rules.prior(hw, task, settings.memory),
        )
        arm.searches.append(TaskSearch(task=task, tuner=tuner, origins=origins))
    return arm


def _advance(session: Session, arm: Arm, amount: int) -> None:
    """Give an arm some measurements: first one to each task, then where most can be gained."""
    end = session.left - amount
    while session.left > end:
        room = session.left - end
        wanted = _allocate(session, arm, min(room, session.settings.batch))
        fresh = [search for search in arm.searches if search.spent == 0]
        if fresh:
            fresh.sort(key=lambda s: -session.bound(arm.hw, s.task))
            wanted = [(search, 1) for search in fresh[:room]]
        asked: list[tuple[TaskSearch, Candidate[Schedule]]] = []
        for search, count in wanted:
            candidates = search.tuner.ask(count)
            search.spent += max(1, len(candidates))
            asked += [(search, candidate) for candidate in candidates]
        if not asked:
            if fresh:
                continue
            return
        proposals = [
            Proposal(
                task=search.task,
                hw=arm.hw,
                schedule=candidate.point,
                origin=search.origins.get(candidate.index, session.settings.tuner),
                incumbent=search.best_cycles,
            )
            for search, candidate in asked
        ]
        answers = session.measure(proposals)
        for (search, candidate), answer in zip(asked, answers, strict=True):
            search.learn(candidate, answer)
        for search, candidate in asked:
            if search.best_schedule == candidate.point:
                for sibling in arm.searches:
                    if sibling is not search and sibling.shape == search.shape:
                        sibling.suggest(candidate.point)


def _allocate(session: Session, arm: Arm, amount: int) -> list[tuple[TaskSearch, int]]:
    """Split a round: each measurement to the search with the most cycles left to gain.

    The gain is (best - bound) x count, discounted by the square of the proposals since the last
    improvement and in this round: a bound that cannot be reached must not draw the whole budget.
    A task without any valid measurement comes first.
    """
    open_searches = [s for s in arm.searches if not s.tuner.exhausted]
    shares = dict.fromkeys(range(len(open_searches)), 0)
    for _ in range(amount if open_searches else 0):

        def gain(number: int) -> float:
            search = open_searches[number]
            if search.best_cycles is None:
                left = float(2**62)
            else:
                left = float(search.best_cycles - session.bound(arm.hw, search.task))
            discount = (1 + shares[number] + search.stale) ** 2
            return left * search.task.count / discount

        shares[max(shares, key=gain)] += 1
    return [(open_searches[number], count) for number, count in shares.items() if count]
