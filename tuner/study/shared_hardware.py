# SPDX-License-Identifier: Apache-2.0
"""Mode *shared*: one configuration for the network, a schedule for each task on it.

Configurations are compared by successive halving (Jamieson and Talwalkar, AISTATS 2016). In each
rung every configuration gets an equal number of measurements. The better half of those on which
*every* task has a valid measurement goes on. A configuration whose bound is no better than the best
network cannot win, so it is neither built nor continued. Inside a configuration an allocator says
which task is measured next. An improvement is suggested at once to the tasks of the same shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import counted
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.space import Index
from tilewright.tuner.study.objective import Objective
from tilewright.tuner.study.session import Session
from tilewright.tuner.study.task_search import TaskSearch, TaskSearches, advance_together
from tilewright.tuner.study.tuner_factory import TunerFactory

FIRST_RUNG_SHARE: Final = 0.5
"""Share of the budget that the first rung may spend."""

CLEARLY: Final = 1.05
"""More measurements may turn a smaller difference in cycles or energy between configurations."""

TRIALS_PER_TASK: Final = 2
"""A configuration is worth its build only if each task gets this many trials in the first rung."""


@dataclass(kw_only=True)
class Candidate:
    """One configuration in the search."""

    hw: HwConfig  # the configuration
    bound: float  # no network on it has a lower value
    tasks: TaskSearches  # the searches of its tasks, under their allocator
    objective: Objective  # values networks

    @property
    def network(self) -> float | None:
        """Value of the network with the best schedules; None until every task is measured."""
        parts = self.tasks.parts
        return None if parts is None else self.objective.network(self.hw, parts)


def run_shared(session: Session, configs: Sequence[HwConfig]) -> None:
    """Spend the session's budget on configurations."""
    settings = session.settings
    tasks = len(settings.tasks)
    affordable = int(settings.budget * FIRST_RUNG_SHARE) // (TRIALS_PER_TASK * tasks)
    tried = list(configs[: max(1, affordable)])
    if len(tried) < len(configs):
        session.note(
            f"a budget of {settings.budget} serves {len(tried)} of "
            f"{counted(len(configs), 'configuration')}"
        )
    if len(tried) == 1:
        share = settings.budget
    else:
        share = max(tasks, int(settings.budget * FIRST_RUNG_SHARE) // len(tried))
    candidates = _first_rung(session, tried, share, TunerFactory.of(session))
    while candidates and session.left:
        candidates = _survivors(candidates)
        share = (
            session.left if len(candidates) == 1 else max(1, session.left // 2 // len(candidates))
        )
        before = session.left
        for candidate in candidates:
            candidate.tasks.proving = settings.within is not None and len(candidates) == 1
        advance_together(session, [(candidate.tasks, share) for candidate in candidates])
        if session.left == before:
            if len(candidates) == 1:
                if not candidates[0].tasks.proven:
                    session.note(
                        f"{candidates[0].hw.name}: no schedule is left that is not measured"
                    )
                break
            candidates = candidates[:1]
    if candidates:
        winner = _survivors(candidates)[0]
        if settings.within is not None:
            winner.tasks.proving = True
            winner.tasks.finish()
        for hw in (winner.hw,) if settings.within is None else tried:
            session.tighten(hw)


def _first_rung(
    session: Session, configs: Sequence[HwConfig], share: int, factory: TunerFactory
) -> list[Candidate]:
    """Give each configuration its first slice.

    Where a prior ranks the configurations, the base, which then is not the most promising one
    for being first, gets its untuned schedules alone until it survives.
    """
    candidates: list[Candidate] = []
    ranked = session.rules.ranks and len(configs) > 1
    for position, hw in enumerate(configs):
        incumbent = _best(candidates)
        beaten = incumbent is not None and session.network_value_bound(hw) >= incumbent
        if incumbent is not None and beaten and not session.objective.keeps_front:
            _prune(session, hw, incumbent)
            continue
        if not session.left:
            break
        session.record_config(hw, "measured")
        session.prepare(hw)
        if position + 1 < len(configs):
            session.prepare(configs[position + 1])
        candidate = _candidate(session, hw, candidates, factory, number=position)
        candidate.tasks.proving = session.settings.within is not None and len(configs) == 1
        slice_ = len(session.settings.tasks) if ranked and position == 0 else share
        advance_together(session, [(candidate.tasks, slice_)])
        if candidate.network is None:
            missing = [s.task.name for s in candidate.tasks.searches if s.best is None]
            reason = f"no valid measurement of {', '.join(missing)}"
            session.record_config(hw, "incomplete", reason)
            session.note(f"{hw.name}: {reason}")
        candidates.append(candidate)
    return candidates


def _survivors(candidates: list[Candidate]) -> list[Candidate]:
    """The better half, best first, without those whose bound rules them out; or the front."""
    complete = [candidate for candidate in candidates if candidate.network is not None]
    if not complete:
        return candidates[:1]
    complete.sort(key=lambda candidate: candidate.network or 0.0)
    if complete[0].objective.keeps_front:
        return [each for each in complete if not any(_beats(other, each) for other in complete)]
    incumbent = complete[0].network
    half = complete[: max(1, len(complete) // 2)]
    return [
        half[0],
        *(candidate for candidate in half[1:] if incumbent is None or candidate.bound < incumbent),
    ]


def _beats(candidate: Candidate, other: Candidate) -> bool:
    """Whether a network is smaller than another one, and better by `CLEARLY` otherwise."""
    mine, theirs = (
        each.objective.costs(each.hw, each.tasks.parts or []) for each in (candidate, other)
    )
    return mine[2] <= theirs[2] and all(
        a <= b / CLEARLY for a, b in zip(mine[:2], theirs[:2], strict=True)
    )


def _best(candidates: Sequence[Candidate]) -> float | None:
    values = [candidate.network for candidate in candidates if candidate.network is not None]
    return min(values) if values else None


def _prune(session: Session, hw: HwConfig, incumbent: float) -> None:
    bound, unit = session.network_value_bound(hw), session.objective.unit
    reason = f"its bound of {bound:,.0f} {unit} is not below the incumbent's {incumbent:,.0f}"
    session.record_config(hw, "pruned", reason)
    session.note(f"{hw.name}: not built, {reason}")


def _candidate(
    session: Session, hw: HwConfig, others: Sequence[Candidate], factory: TunerFactory, number: int
) -> Candidate:
    """A candidate whose searches start from the untuned schedule and what is good elsewhere.

    That is the best of the other candidates, and what the study was warm-started with. With a
    prior of whole spaces the untuned schedule is worth a measurement on the base alone, where it
    is what the study's result is compared with.
    """
    searches = [
        _search(session, hw, task, _known(session, hw, others, place), factory, (number, place))
        for place, task in enumerate(session.settings.tasks)
    ]
    return Candidate(
        hw=hw,
        bound=session.network_value_bound(hw),
        tasks=TaskSearches(session, searches, seed=(number,), transfer=True),
        objective=session.objective,
    )


def _known(
    session: Session, hw: HwConfig, others: Sequence[Candidate], place: int
) -> list[Schedule]:
    """Schedules that are good for a task elsewhere: the warm start's, then the best candidate's."""
    warm = session.settings.warm_start
    task = session.settings.tasks[place]
    found = [] if warm is None else [schedule for _, schedule in warm.schedules(task, hw)]
    searches = [candidate.tasks.searches[place] for candidate in others]
    measured = [s for s in searches if s.best_value is not None]
    for search in sorted(measured, key=lambda s: s.best_value or 0.0)[:1]:
        if isinstance(search.best_point, Schedule):
            found.append(search.best_point)
    return found


def _search(
    session: Session,
    hw: HwConfig,
    task: Workload,
    known: Sequence[Schedule],
    factory: TunerFactory,
    seed: tuple[int, int],
) -> TaskSearch:
    space = ScheduleSpace(task, hw, session.rules, session.settings.space)
    origins: dict[Index, str] = {}
    try:
        if seed[0] == 0 or not session.rules.ranks:
            origins[space.encode(session.rules.default_schedule(hw, task))] = "default"
    except TilewrightError as error:
        session.note(f"{task.name}: no untuned schedule on {hw.name}: {error}")
    for schedule in known:
        with contextlib.suppress(TilewrightError):  # it lies outside this space
            origins.setdefault(space.encode(schedule), "transfer")
    tuner = factory.make(
        space,
        seed=seed,
        initial=tuple(origins),
        prior=session.rules.prior(hw, task, session.settings.memory),
    )
    bound = session.objective.bound(hw, task, session.bound(hw, task))
    return TaskSearch(task=task, hw=hw, tuner=tuner, origins=origins, bound=bound)
