# SPDX-License-Identifier: Apache-2.0
"""CHAMELEON: the agent learns to walk uphill, and clustering picks few points of many."""

import numpy as np
import pytest

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
from tilewright.tuner.search.model_based.planned_search import Leaders

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from tilewright.tuner.search.learning.chameleon import AdaptiveExploration, adaptive_sample, mode


@pytest.mark.parametrize("name", ["chameleon", "chameleon-code"])
def test_what_it_plans_beats_what_it_drew(name):
    for seed in range(3):
        tuner = make_tuner(name, full_space(), seed=seed, plan=24)
        drawn = [v for _, v in drive(tuner, schedule_cost, batches=[24])]
        planned = [v for _, v in drive(tuner, schedule_cost, batches=[8])]
        assert np.median(planned) < np.quantile(drawn, 0.25)


class Recorder(Leaders):
    """Remembers the mean score of each offer."""

    def __init__(self) -> None:
        super().__init__(16, lambda _: True)
        self.means: list[float] = []
        self.points: list = []

    def offer(self, points, scores):
        self.means.append(float(scores.mean()))
        self.points += points
        return super().offer(points, scores) or True


def small_tiles(points):
    return np.array([-p[1] - p[2] for p in points], dtype=np.float32)


@pytest.mark.parametrize("settling", [False, True])
def test_walks_stay_on_valid_points_and_get_better(settling):
    space = full_space()
    exploration = AdaptiveExploration(space, np.random.default_rng(1), settling=settling)
    searches = []
    for _ in range(6 if settling else 1):
        searches.append(Recorder())
        exploration.maximise(small_tiles, searches[-1])
    assert all(space.valid(point) for search in searches for point in search.points)
    # Settling walks alternate with their starts; the others go on from where they stand.
    walks = [search.means[1 :: 2 if settling else 1] for search in searches]
    count = len(walks[0]) if settling else 3
    assert np.mean(walks[-1][-count:]) > np.mean(walks[0][:count]) + 2


def clouds(count: int):
    """Points in tight groups of four around the first three points of a line."""
    space = full_space()
    rng = np.random.default_rng(0)
    return space, list(dict.fromkeys(space.sample(rng) for _ in range(400)))[:count]


def test_what_may_not_be_measured_is_replaced_by_the_mode():
    space, points = clouds(40)
    common = tuple(int(p) for p in mode(np.array(points)))
    assert adaptive_sample(space, points, wanted=lambda p: p == common, seed=0) == [common]
    assert adaptive_sample(space, points, wanted=lambda _: False, seed=0) == []


def test_few_points_are_taken_as_they_are():
    space, points = clouds(5)
    assert adaptive_sample(space, points, wanted=lambda p: p != points[0], seed=0) == points[1:]
