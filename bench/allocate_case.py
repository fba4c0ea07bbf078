# SPDX-License-Identifier: Apache-2.0
"""One network, seed and price of `bench/allocate.py`: what every allocator is run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from allocate_trials import Price, Search, replay, tasks_of

from tilewright.tuner.allocate import (
    Allocator,
    Arm,
    Course,
    make_allocator,
    run_slots,
    task_arm,
)
from tilewright.tuner.allocate.belief import Belief, fit_belief

FRACTIONS = np.linspace(0, 1, 41)
"""Moments of the budget at which the courses are kept, for curves."""
FORESIGHT = 2
"""Hindsight knows this multiple of ``--trials`` trials of each task."""
LATE = 1.5
"""DynaTune gets this multiple of the budget to reach what a baseline reached."""


class Beliefs:
    """Fits that are kept: arms are rested, so variants with equal tracks have equal beliefs."""

    def __init__(self) -> None:
        self.known: dict[Any, Belief] = {}
        self.seconds: list[float] = []
        self.acceptance: list[float] = []

    def fit(self, x: Any, y: Any, seed: tuple[int, ...]) -> Belief:
        """`belief.fit_belief`, once for equal data."""
        key = (seed, len(x), float(x[-1]), float(y[0]), float(y[-1]))
        if key not in self.known:
            belief = self.known[key] = fit_belief(x, y, seed=seed)
            self.seconds.append(belief.seconds)
            self.acceptance.append(belief.acceptance)
        return self.known[key]


class Case:
    """One network, seed and price: the searches, the budget and the slot.

    Args:
        network: name.
        seed: of the searches and of the allocators.
        searches: one a task, from the beginning.
        price: of a trial.
        trials: of each task in the sequential baseline.
        slots: in a task's equal share of the budget.
    """

    def __init__(
        self, network: str, seed: int, searches: Sequence[Search], price: Price,
        *, trials: int, slots: int,
    ) -> None:  # fmt: skip
        tasks = tasks_of(network)
        self.seed, self.searches, self.price, self.trials = seed, searches, price, trials
        self.arms: list[Arm] = [
            task_arm(
                task,
                start=float(search.table.start.cycles),
                bound=float(search.table.bound),
            )
            for task, search in zip(tasks, searches, strict=True)
        ]
        self.start = sum(arm.count * (arm.start or 0) for arm in self.arms)
        self.futures = [search.future(trials, price) for search in searches]
        self.budget = float(sum(times[-1] for times, _ in self.futures))
        self.slot = self.budget / (len(tasks) * slots)
        self.warm_up = sum(price.seconds(search.table.start) for search in searches)

    def run(self, name: str, *, beyond: float = 0.0, **options: Any) -> tuple[Course, Allocator]:
        """A run of an allocator, and the allocator after it.

        Args:
            name: of the allocator.
            beyond: network cost to go on for after the budget, up to `LATE` times as long.
            options: of the allocator.
        """
        if name == "sequential":
            options["trials"] = self.trials
        if name == "hindsight":
            options["futures"] = [
                s.future(FORESIGHT * self.trials, self.price) for s in self.searches
            ]
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
        return course, allocator

    def cost_at(self, course: Course, fraction: float) -> float:
        """Network cost at a fraction of the budget."""
        cost = course.cost_at(fraction * self.budget)
        return self.start if np.isinf(cost) else min(cost, self.start)

    def area(self, course: Course, floor: float) -> float:
        """Mean over the budget of the network's cost above a floor, as a share of the floor."""
        return float(np.mean([self.cost_at(course, f) / floor - 1 for f in FRACTIONS[1:]]))
