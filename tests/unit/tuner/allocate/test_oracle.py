# SPDX-License-Identifier: Apache-2.0
"""The oracle over recorded searches is the exact optimum of every division of time."""

import itertools

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.bench.allocate.case import Oracle
from tilewright.testing.allocator_contract import arms_of, curves, make, read
from tilewright.tuner.allocate import ALLOCATORS, run_slots
from tilewright.tuner.search import TunerError


def searches(rng: np.random.Generator, arms: int, trials: int) -> tuple[list, list]:
    """Starts and curves with plateaus, falls of every size, and equal prices now and then."""
    starts, found = [], []
    for _ in range(arms):
        length = int(rng.integers(0, trials + 1))
        start = float(rng.integers(50, 400))
        falls = rng.integers(0, 60, length) * (rng.random(length) < 0.6)
        prices = np.cumsum(np.where(rng.random(length) < 0.5, 1.0, rng.random(length) + 0.01))
        starts.append(start)
        found.append((prices, np.maximum(1.0, start - np.cumsum(falls))))
    return starts, found


def every_division(starts, found):
    """Price and cost of every choice of a length of each search."""
    options = [
        [(0.0, start), *zip(prices.tolist(), costs.tolist(), strict=True)]
        for start, (prices, costs) in zip(starts, found, strict=True)
    ]
    for choice in itertools.product(*options):
        yield sum(price for price, _ in choice), sum(cost for _, cost in choice)


@pytest.mark.parametrize("repeat", range(25))
def test_it_agrees_with_trying_every_division(repeat):
    del repeat
    rng = fresh_rng()
    starts, found = searches(rng, int(rng.integers(1, 5)), 7)
    prices, costs = np.array(list(every_division(starts, found))).T
    oracle = Oracle(starts, found)
    assert oracle.least == costs.min()
    for budget in (0.0, *rng.uniform(0, prices.max() + 1, 6), *rng.choice(prices, 3)):
        best = oracle.best(float(budget))
        assert best.cost == costs[prices <= budget * (1 + 1e-9)].min()
        assert best.price <= budget * (1 + 1e-9)
        assert chosen(starts, found, best.trials) == (pytest.approx(best.price), best.cost)
    for goal in (*rng.uniform(costs.min(), costs.max() + 1, 6), *rng.choice(costs, 3)):
        first = oracle.cheapest(float(goal))
        assert first.price == pytest.approx(prices[costs <= goal].min())
        assert first.cost <= goal
        assert chosen(starts, found, first.trials) == (pytest.approx(first.price), first.cost)
    assert oracle.cheapest(costs.min() - 1) is None


def chosen(starts, found, trials):
    """Price and cost of a division by trials."""
    parts = [
        (found[k][0][n - 1], found[k][1][n - 1]) if n else (0.0, starts[k])
        for k, n in enumerate(trials)
    ]
    return sum(price for price, _ in parts), sum(cost for _, cost in parts)


def test_it_beats_the_steepest_chord_where_that_is_no_optimum():
    """What the heuristic before it lost: the steepest fall is not part of the best division."""
    found = [
        (np.array([3.0]), np.array([60.0])),  # 40 for 3: the steepest
        (np.array([2.0]), np.array([75.0])),  # 25 for 2
        (np.array([2.0]), np.array([75.0])),
    ]
    oracle = Oracle([100.0] * 3, found)
    assert oracle.best(4.0).cost == 250.0
    assert oracle.best(4.0).trials == (0, 1, 1)


@pytest.mark.parametrize("name", list(ALLOCATORS))
def test_no_allocator_is_ever_below_it(name):
    recorded = curves(13)
    arms = arms_of(recorded)
    positions = [0] * len(recorded)
    allocator = make(name, recorded)
    course = run_slots(
        allocator, lambda k, length: read(recorded, positions, k, length), budget=300.0
    )
    oracle = Oracle(
        [arm.count * arm.start for arm in arms],
        [
            (np.cumsum(prices), arm.count * np.minimum(arm.start, np.minimum.accumulate(values)))
            for arm, (prices, values) in zip(arms, recorded, strict=True)
        ],
    )
    for n in range(0, len(course.times), 40):
        assert oracle.best(course.times[n]).cost <= course.costs[n] * (1 + 1e-9)
        assert oracle.cheapest(course.costs[n]).price <= course.times[n] * (1 + 1e-9)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(TunerError, match="starts"):
        Oracle([1.0], [])
    with pytest.raises(TunerError, match="curves"):
        Oracle([1.0], [(np.ones(2), np.ones(3))])
    with pytest.raises(TunerError, match="budget"):
        Oracle([1.0], [(np.ones(1), np.ones(1))]).best(-1.0)
