# SPDX-License-Identifier: Apache-2.0
"""One network, seed and price of `bench.allocate`: what every allocator is run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.bench.allocate.trials import Price, Search, replay, tasks_of
from tilewright.tuner.allocate import (
    Allocator,
    Arm,
    Course,
    make_allocator,
    run_slots,
)
from tilewright.tuner.allocate.belief import Belief, fit_belief
from tilewright.tuner.allocate.oracle import Oracle
from tilewright.tuner.study.task_search import task_arm

FRACTIONS = np.linspace(0, 1, 41)
"""Moments of the budget at which the courses are kept, for curves."""
LATE = 1.5
"""A challenger gets this multiple of the budget to reach what a baseline reached."""
STOPPING = (
    "dynamic-random", "dynamic-round-robin", "dynatune", "dynatune-share", "epsilon-greedy",
    "softmax",
)  # fmt: skip
"""Allocators that stop a task early in every regime."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """How searches are run.

    Attributes:
        untuned: the untuned schedule of each task is measured first and paid by all; without it a
            task starts from the first valid result of its search.
    """

    tuner: str  # search tuner of every task
    trials: int  # of a task in the sequential baseline
    slots: int  # in a task's equal share of the budget
    patience: int  # trials without an improvement after which a task is stopped early
    untuned: bool
    impatient: bool  # `sequential` too leaves a task early


REGIMES: Mapping[str, Regime] = {
    "study": Regime(
        tuner="genetic", trials=96, slots=6, patience=48, untuned=True, impatient=False
    ),
    "paper": Regime(
        tuner="autotvm", trials=1000, slots=16, patience=200, untuned=False, impatient=True
    ),
}
"""`study`: budgets of a study here. `paper`: as far as its text tells what DynaTune was judged in:
AutoTVM's search, its first valid result as the start, 1,000 trials, early stopping after 200."""


class Beliefs:
    """Fits that are kept: arms are rested, so allocators with equal tracks have equal beliefs."""

    def __init__(self) -> None:
        self.known: dict[Any, Belief] = {}
        self.seconds: list[float] = []
        self.acceptance: list[float] = []

    def fit(self, x: Any, y: Any, seed: tuple[int, ...], horizon: float | None) -> Belief:
        """`belief.fit_belief`, once for equal data."""
        key = (seed, horizon, len(x), float(x[-1]), float(y[0]), float(y[-1]))
        if key not in self.known:
            belief = self.known[key] = fit_belief(x, y, seed=seed, horizon=horizon)
            self.seconds.append(belief.seconds)
            self.acceptance.append(belief.acceptance)
        return self.known[key]


class Case:
    """One network, seed and price: the searches, the budget and the slot."""

    def __init__(
        self, network: str, seed: int, searches: Sequence[Search], price: Price, regime: Regime
    ) -> None:
        tasks = tasks_of(network)
        self.seed, self.searches, self.price, self.regime = seed, searches, price, regime
        self.arms: list[Arm] = [
            task_arm(
                task,
                start=None if search.start is None else float(search.start),
                bound=float(search.table.bound),
            )
            for task, search in zip(tasks, searches, strict=True)
        ]
        self.futures = [search.future(regime.trials, price) for search in searches]
        self._reach = [len(times) for times, _ in self.futures]
        firsts = [
            search.start or float(bests[np.isfinite(bests)][0])
            for search, (_, bests) in zip(searches, self.futures, strict=True)
        ]
        self.start = sum(arm.count * first for arm, first in zip(self.arms, firsts, strict=True))
        """Cost of the network before the first trial, or at the first valid results."""
        self.budget = sum(self._sequential_price(n) for n in range(len(searches)))
        self.slot = self.budget / (len(tasks) * regime.slots)
        self.warm_up = (
            sum(price.seconds(search.table.start) for search in searches) if regime.untuned else 0.0
        )

    def _sequential_price(self, arm: int) -> float:
        """Price of a task's share in the sequential baseline, early stopping included."""
        times, bests = self.futures[arm]
        if not self.regime.impatient:
            return float(times[-1])
        stale = 0
        before = np.inf
        for time, best in zip(times, bests, strict=True):
            stale = 0 if best < before else stale + 1
            before = best
            if stale >= self.regime.patience:
                return float(time)
        return float(times[-1])

    def run(self, name: str, *, beyond: float = 0.0, **options: Any) -> tuple[Course, Allocator]:
        """A run of an allocator, and the allocator after it."""
        if name == "sequential":
            options["trials"] = self.regime.trials
        if name in STOPPING or (name == "sequential" and self.regime.impatient):
            options = {"patience": self.regime.patience} | options
        allocator = make_allocator(name, self.arms, seed=self.seed, slot=self.slot, **options)
        pull = replay(self.searches, self.price)
        course = run_slots(allocator, pull, budget=self.budget)
        if beyond and course.costs[-1] > beyond:
            more = run_slots(
                allocator, pull, budget=(LATE - 1) * self.budget, until=lambda c: c <= beyond
            )
            course = Course(
                times=np.concatenate([course.times, course.times[-1] + more.times]),
                costs=np.concatenate([course.costs, more.costs]),
                overheads=np.concatenate([course.overheads, course.overheads[-1] + more.overheads]),
                choices=course.choices + more.choices,
            )
        self._reach = [
            max(reach, track.trials)
            for reach, track in zip(self._reach, allocator.tracks, strict=True)
        ]
        return course, allocator

    def oracle(self) -> tuple[Oracle, float]:
        """The exact optimum over the trials that any run so far has read, and what it adds to."""
        starts, curves, paid = [], [], 0.0
        for arm, search, reach in zip(self.arms, self.searches, self._reach, strict=True):
            times, bests = search.future(reach, self.price)
            first = 0 if search.start is not None else int(np.flatnonzero(np.isfinite(bests))[0])
            before = 0.0 if search.start is not None else float(times[first])
            paid += before
            starts.append(arm.count * float(search.start or bests[first]))
            curves.append((times[first:] - before, arm.count * bests[first:]))
        return Oracle(starts, curves), paid

    def cost_at(self, course: Course, fraction: float) -> float:
        """Network cost at a fraction of the budget."""
        cost = course.cost_at(fraction * self.budget)
        return self.start if np.isinf(cost) else min(cost, self.start)

    def area(self, costs: Sequence[float], floor: float) -> float:
        """Mean over the budget of the network's cost above a floor, as a share of the floor."""
        return float(np.mean([cost / floor - 1 for cost in costs[1:]]))
