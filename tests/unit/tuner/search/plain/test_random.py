# SPDX-License-Identifier: Apache-2.0
"""Random search ignores results."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.search.grid import Grid

from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
from tilewright.tuner.search.plain.coordinate import CoordinateTuner
from tilewright.tuner.search.plain.guided import GuidedTuner
from tilewright.tuner.search.space import Index
from tilewright.tuner.search.tuner import SCAN_LIMIT


class Sparse(Grid):
    """A space that is too large to scan, of which few points are valid."""

    def __init__(self) -> None:
        super().__init__(40, 40, 40)
        drawn = np.random.default_rng(0).integers(40, size=(2000, 3))
        self.points = {tuple(point) for point in drawn.tolist()}
        assert self.raw_size > SCAN_LIMIT

    def _refusal(self, index: Index) -> str:
        return "" if index in self.points else "not valid"


def test_a_sparse_space_does_not_end_where_drawing_finds_nothing_new() -> None:
    """It ended with a third of the points."""
    space = Sparse()
    tuner = make_tuner("random", space, seed=1)
    log = drive(tuner, lambda point: float(sum(point)), batches=[64] * 40)
    assert tuner.exhausted
    assert len({index for index, _ in log}) == len(log)
    assert len(log) > 0.9 * len(space.points)


# -- coordinate descent finds separable optima fast and restarts from local ones ------------------


@settings(max_examples=25, deadline=None)
@given(optimum=st.tuples(*[st.integers(0, 39)] * 4), seed=st.integers(0, 1000))
def test_reaches_a_separable_optimum_in_few_trials(optimum: Index, seed: int) -> None:
    tuner = CoordinateTuner(Grid(40, 40, 40, 40), seed=seed)

    def cost(point: Index) -> float:
        return float(sum(abs(a - b) for a, b in zip(point, optimum, strict=True)))

    drive(tuner, cost, batches=[8] * 50)
    assert tuner.best is not None
    assert tuner.best.value == 0  # 400 of 2,560,000 points


def test_restarts_from_a_local_optimum() -> None:
    def cost(point: Index) -> float:
        x, y = point
        return 50.0 + abs(x - 5) + abs(y - 5) if x < 32 else float(abs(x - 60) + abs(y - 50))

    tuner = CoordinateTuner(Grid(64, 64), seed=1, initial=((5, 5),))
    drive(tuner, lambda p: cost(p) if p != (37, 5) else None, batches=[4] * 150)
    assert tuner.best is not None
    assert tuner.best.value == 0


# -- guided search uses its prior, and survives a wrong one ---------------------------------------


def truth(schedule: Schedule) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


def test_a_true_prior_beats_random_search_at_the_same_budget() -> None:
    guided = make_tuner("guided", full_space(), seed=1, prior=truth)
    random = make_tuner("random", full_space(), seed=1)
    best = [
        min(v for _, v in drive(t, schedule_cost, batches=[4] * 4) if v) for t in (guided, random)
    ]
    assert best[0] < best[1]


@pytest.mark.parametrize("seed", range(3))
def test_an_inverted_prior_does_not_stop_it_from_improving(seed: int) -> None:
    tuner = GuidedTuner(full_space(), seed=seed, prior=lambda s: -truth(s))
    log = [v for _, v in drive(tuner, schedule_cost, batches=[4] * 12) if v]
    assert min(log) < log[0]
