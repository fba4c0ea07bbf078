# SPDX-License-Identifier: Apache-2.0
"""AutoTVM and its cost model."""

import numpy as np
import pytest

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import Result, TunerError, make_tuner
from tilewright.tuner.search.experience import Experience, costs_of
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.model_based.cost_model import CostModel, average_recall
from tilewright.tuner.search.model_based.planned_search import RANDOM_SHARE, Leaders, RandomShare

pytest.importorskip("xgboost")


def test_draws_at_random_until_a_plan_is_measured_and_in_the_last_part_of_each():
    def proposals(name: str, **options):
        return drive(make_tuner(name, full_space(), seed=3, **options), schedule_cost, batches=[40])

    # Larger plans hold larger random tails: 5 % of 40 is 2.
    tuner = make_tuner("autotvm", full_space(), seed=3, plan=40)
    first = [v for _, v in drive(tuner, schedule_cost, batches=[40])]
    second = [v for _, v in drive(tuner, schedule_cost, batches=[40])]
    assert np.median(second[:38]) < min(np.median(first), np.median(second[38:]))
    assert proposals("autotvm", plan=40) == proposals("autotvm", plan=400)


def noted(propose, tuner, own):
    """A proposal that is also written down; None leaves the point to chance."""

    def again():
        own.append(propose(tuner))
        return own[-1]

    return again


@pytest.mark.parametrize(("plan", "tails"), [(16, [0, 1, 1, 1, 1, 0]), (64, [3, 3, 3, 3, 4, 3])])
def test_a_twentieth_of_all_plans_is_random_however_small_a_plan_is(plan, tails, monkeypatch):
    share = RandomShare(RANDOM_SHARE)
    assert [share.of(plan) for _ in tails] == tails
    tuner = make_tuner("autotvm", full_space(), seed=3, plan=plan)
    drive(tuner, schedule_cost, batches=[plan])
    found = []
    for _ in tails[:3]:
        own = []
        monkeypatch.setattr(tuner, "_propose", noted(type(tuner)._propose, tuner, own))
        drive(tuner, schedule_cost, batches=[plan])
        found.append(own.count(None))
    assert found == tails[:3]


def test_refuses_an_empty_plan():
    with pytest.raises(TunerError, match="at least 1"):
        make_tuner("autotvm", full_space(), seed=0, plan=0)


def test_leaders_are_the_best_wanted_points_without_repetition():
    leaders = Leaders(2, lambda p: p != (9,))
    assert leaders.offer([(1,), (5,), (3,), (9,)], np.array([1.0, 5.0, 3.0, 9.0], dtype=np.float32))
    assert leaders.ranked() == [(5,), (3,)]
    assert not leaders.offer([(5,), (2,)], np.array([5.0, 2.0], dtype=np.float32))
    assert leaders.offer([(4,)], np.array([4.0], dtype=np.float32))
    assert leaders.ranked() == [(5,), (4,)]


# -- The cost model learns an order, and starts from what other tasks taught
NAMES = ("a", "b", "c")


def points(count: int, seed: int = 0):
    return np.random.default_rng(seed).random((count, 3), dtype=np.float32)


def costs(features):
    return 100.0 + 50 * features[:, 0].astype(np.float64) - 20 * features[:, 1]


def order(scores) -> float:
    """Rank correlation of scores with the true speeds of `points(200, seed=9)`."""
    truth = -costs(points(200, seed=9))
    places = [np.argsort(np.argsort(v)) for v in (scores, truth)]
    return float(np.corrcoef(*places)[0, 1])


def test_experience_orders_points_before_anything_is_measured_here():
    past = [
        Experience(task="x", names=("b", "a"), features=points(60)[:, [1, 0]], costs=c)
        for c in (costs(points(60)), 1000 * costs(points(60)))
    ]
    model = CostModel(NAMES, experience=past)
    assert model.ready
    assert order(model.score(points(200, seed=9))) > 0.85


def test_average_recall_counts_the_best_among_the_highest_scored():
    speeds = np.array([4.0, 3.0, 2.0, 1.0])
    assert average_recall(speeds, speeds, 4) == 1.0
    # n = 1: none of 1; n = 2: one of 2 (the second); n = 3: two of 3.
    scores = np.array([2.0, 3.0, 1.0, 4.0], dtype=np.float32)
    assert average_recall(scores, speeds, 3) == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)


def test_an_experience_keeps_results_and_is_matched_by_name():
    space = full_space()
    rng = np.random.default_rng(0)
    told = [Result(index=space.sample(rng), value=v) for v in (3.0, None, 5.0)]
    past = Experience.of("C", space, told)
    assert past.costs.tolist() == costs_of(told).tolist() == [3.0, np.inf, 5.0]
    encoder = FeatureEncoder(space)
    expected = encoder.encode([r.index for r in told])
    assert np.array_equal(past.columns(encoder.names), expected)
    found = past.columns(("nowhere", "tile_h.log2"))
    assert np.isnan(found[:, 0]).all()
    assert np.array_equal(found[:, 1], expected[:, encoder.names.index("tile_h.log2")])


def test_refuses_an_experience_whose_shapes_differ():
    with pytest.raises(TunerError, match="a cost a point"):
        Experience(task="x", names=NAMES, features=points(4), costs=np.ones(3))
