# SPDX-License-Identifier: Apache-2.0
"""One network, seed and price of `bench.allocate`: what every allocator is run on.

The exact optimum in hindsight: what the best division of time among recorded searches gives.

With rested arms a network's cost is a sum of curves, one per arm, each of its own time only. So the
best that any allocator can have at a moment chooses one length of each search: a knapsack of
multiple choice. Only the trials at which a curve falls are choices, and of the partial sums over
the first arms only those count that no other beats in both time and cost (dynamic programming by
lists of undominated states; Kellerer, Pferschy and Pisinger, "Knapsack Problems", 2004, section
11.5). States whose relaxation cannot reach the goal, or is no better than a known solution, are
dropped: the relaxation takes parts of steps on the lower convex hulls of the arms still to come.
What is left is exact; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.allocate.trials import Price, Search, replay, tasks_of
from tilewright.tuner.allocate import Allocator, Arm, Course, make_allocator, run_slots
from tilewright.tuner.allocate.belief import Belief, fit_belief
from tilewright.tuner.search import TunerError
from tilewright.tuner.study.task_search import task_arm

Floats = npt.NDArray[np.float64]

SLACK: Final = 1e-9
"""Relative width kept around bounds, so that rounding of sums drops no optimum."""


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """A best division of time."""

    price: float  # paid over all arms
    cost: float  # of the network then, counts included
    trials: tuple[int, ...]  # of each arm's search, shape (arms,)


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """The undominated lengths of one search, ascending in price, the empty one first."""

    prices: Floats
    costs: Floats
    trials: npt.NDArray[np.int64]


class Oracle:
    """Exact optima over recorded searches.

    Args:
        starts: cost of each arm before its first trial, count included, shape (arms,).
        curves: one an arm: price spent on it, ascending, and its best cost, count included, after
            each trial: two arrays of shape (trials,).
    """

    def __init__(self, starts: Sequence[float], curves: Sequence[tuple[Floats, Floats]]) -> None:
        if not curves or len(starts) != len(curves):
            raise TunerError("needs one start a curve", field="starts", value=len(starts))
        for number, (prices, costs) in enumerate(curves):
            if prices.shape != costs.shape:
                raise TunerError("needs one price a cost", field="curves", value=number)
        # Arms of many choices last: lists of states stay short for longer.
        choices = [_choices(s, p, c) for s, (p, c) in zip(starts, curves, strict=True)]
        self._order: Final = sorted(range(len(choices)), key=lambda k: len(choices[k].prices))
        self._choices: Final = [choices[k] for k in self._order]
        self._tails: Final = [_Relaxation(self._choices[k:]) for k in range(len(choices) + 1)]

    @property
    def least(self) -> float:
        """Cost of the network when every search is run to its end."""
        return float(sum(c.costs[-1] for c in self._choices))

    def cheapest(self, goal: float) -> Optimum | None:
        """The least price at which the network costs at most ``goal``; None when it never does."""
        if goal < self.least * (1 - SLACK):
            return None
        return self._solve(goal=goal * (1 + SLACK), budget=np.inf)

    def best(self, budget: float) -> Optimum:
        """The least cost of the network for at most ``budget``."""
        if budget < 0:
            raise TunerError("must not be negative", field="budget", value=budget)
        found = self._solve(goal=np.inf, budget=budget * (1 + SLACK))
        assert found is not None  # the empty choice costs nothing
        return found

    def _solve(self, *, goal: float, budget: float) -> Optimum | None:
        """The least price under a goal, or, without a goal, the least cost under a budget."""
        by_price = np.isfinite(goal)
        prices, costs = np.zeros(1), np.zeros(1)
        parents: list[npt.NDArray[np.int64]] = []
        chosen: list[npt.NDArray[np.int64]] = []
        known = self._tails[0].rounded(0.0, 0.0, goal=goal, budget=budget)
        for level, choices in enumerate(self._choices):
            tail = self._tails[level + 1]
            all_prices = (prices[:, None] + choices.prices).ravel()
            all_costs = (costs[:, None] + choices.costs).ravel()
            kept = _undominated(all_prices, all_costs)
            prices, costs = all_prices[kept], all_costs[kept]
            if by_price:
                floor = prices + tail.price_for(goal - costs)
                alive = floor <= known * (1 + SLACK)
            else:
                floor = costs + tail.cost_for(budget - prices)
                alive = (prices <= budget) & (floor <= known * (1 + SLACK))
            prices, costs, kept, floor = prices[alive], costs[alive], kept[alive], floor[alive]
            if not len(prices):
                return None
            promising = int(np.argmin(floor))
            known = min(
                known,
                tail.rounded(prices[promising], costs[promising], goal=goal, budget=budget),
            )
            parents.append(kept // len(choices.prices))
            chosen.append(kept % len(choices.prices))
        last = int(np.argmin(prices if by_price else costs))
        price, cost = float(prices[last]), float(costs[last])
        trials = [0] * len(self._choices)
        state = last
        for level in reversed(range(len(self._choices))):
            pick = int(chosen[level][state])
            trials[self._order[level]] = int(self._choices[level].trials[pick])
            state = int(parents[level][state])
        return Optimum(price=price, cost=cost, trials=tuple(trials))


class _Relaxation:
    """The lower convex hull of the sum of several arms: what parts of steps could give."""

    def __init__(self, arms: Sequence[_Choices]) -> None:
        steps = sorted(
            (
                (hull.costs[i + 1] - hull.costs[i]) / (hull.prices[i + 1] - hull.prices[i]),
                hull.prices[i + 1] - hull.prices[i],
                hull.costs[i + 1] - hull.costs[i],
            )
            for hull in map(_hull, arms)
            for i in range(len(hull.prices) - 1)
        )
        self._prices = np.cumsum([0.0, *(price for _, price, _ in steps)])
        first = float(sum(arm.costs[0] for arm in arms))
        self._costs = first + np.cumsum([0.0, *(cost for _, _, cost in steps)])

    def cost_for(self, budgets: Floats) -> Floats:
        """A lower bound of the arms' cost for each budget."""
        costs: Floats = np.interp(budgets, self._prices, self._costs)
        return costs

    def price_for(self, goals: Floats) -> Floats:
        """A lower bound of the price at which the arms' cost is each goal; infinite: never."""
        found: Floats = np.interp(-goals, -self._costs, self._prices)
        found[goals < self._costs[-1] - SLACK * abs(self._costs[-1])] = np.inf
        return found

    def rounded(self, price: float, cost: float, *, goal: float, budget: float) -> float:
        """What is reached from a state by whole steps alone: an upper bound of the optimum."""
        if np.isfinite(goal):
            step = int(np.searchsorted(-self._costs, -(goal - cost)))
            return price + float(self._prices[step]) if step < len(self._prices) else np.inf
        step = int(np.searchsorted(self._prices, budget - price, side="right")) - 1
        return cost + float(self._costs[step]) if step >= 0 else np.inf


def _choices(start: float, prices: Floats, costs: Floats) -> _Choices:
    falls = np.flatnonzero(np.diff(np.append(start, np.minimum.accumulate(costs))) < 0)
    return _Choices(
        prices=np.append(0.0, prices[falls]).astype(np.float64),
        costs=np.append(start, costs[falls]).astype(np.float64),
        trials=np.append(0, falls + 1),
    )


def _hull(arm: _Choices) -> _Choices:
    """The corners of the lower convex hull of an arm's choices."""
    kept: list[int] = []
    for i in range(len(arm.prices)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            before = (arm.costs[b] - arm.costs[a]) * (arm.prices[i] - arm.prices[b])
            after = (arm.costs[i] - arm.costs[b]) * (arm.prices[b] - arm.prices[a])
            if before < after:
                break
            kept.pop()
        kept.append(i)
    return _Choices(prices=arm.prices[kept], costs=arm.costs[kept], trials=arm.trials[kept])


def _undominated(prices: Floats, costs: Floats) -> npt.NDArray[np.int64]:
    """Positions that no other beats in both, ascending in price."""
    order = np.lexsort((costs, prices))
    sorted_costs = costs[order]
    before = np.minimum.accumulate(np.append(np.inf, sorted_costs[:-1]))
    return order[sorted_costs < before].astype(np.int64)


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
    """How searches are run: with ``untuned``, or from the first valid result of each search."""

    tuner: str  # search tuner of every task
    trials: int  # of a task in the sequential baseline
    slots: int  # in a task's equal share of the budget
    patience: int  # trials without an improvement after which a task is stopped early
    untuned: bool  # each task's untuned schedule is measured first, and paid by all
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
