# SPDX-License-Identifier: Apache-2.0
"""The cost model learns an order, and starts from what other tasks taught."""

import numpy as np
import pytest

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search import Result, TunerError
from tilewright.tuner.search.experience import Experience, costs_of
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.model_based.cost_model import CostModel, average_recall, relative_speed

pytest.importorskip("xgboost")

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


@pytest.mark.parametrize("objective", ["rank", "regression"])
def test_orders_points_that_it_has_not_seen(objective):
    model = CostModel(NAMES, objective=objective)
    assert not model.ready
    model.fit(points(64), costs(points(64)))
    assert model.ready
    assert order(model.score(points(200, seed=9))) > 0.9


def test_failed_trials_rank_last():
    features = points(64)
    told = np.where(features[:, 2] > 0.5, np.inf, costs(features))
    model = CostModel(NAMES)
    model.fit(features, told)
    fresh = points(100, seed=3)
    scores = model.score(fresh)
    assert scores[fresh[:, 2] > 0.55].mean() < np.quantile(scores[fresh[:, 2] < 0.45], 0.1)


def test_experience_orders_points_before_anything_is_measured_here():
    past = [
        Experience(task="x", names=("b", "a"), features=points(60)[:, [1, 0]], costs=c)
        for c in (costs(points(60)), 1000 * costs(points(60)))
    ]
    model = CostModel(NAMES, experience=past)
    assert model.ready
    assert order(model.score(points(200, seed=9))) > 0.85


def test_few_measurements_and_experience_order_better_than_the_measurements_alone():
    past = [Experience(task="x", names=NAMES, features=points(100), costs=costs(points(100)))]
    warm, cold = CostModel(NAMES, experience=past), CostModel(NAMES)
    few = points(6, seed=4)
    for model in (warm, cold):
        model.fit(few, costs(few))
    fresh = points(200, seed=9)
    assert order(warm.score(fresh)) > order(cold.score(fresh)) + 0.1


def test_misleading_experience_is_forgotten_with_enough_measurements():
    past = [
        Experience(task="x", names=NAMES, features=points(100), costs=-costs(points(100)) + 200)
    ]
    warm, cold = CostModel(NAMES, experience=past), CostModel(NAMES)
    assert order(warm.score(points(200, seed=9))) < -0.8
    many = points(240, seed=4)
    for model in (warm, cold):
        model.fit(many, costs(many))
    fresh = points(200, seed=9)
    assert np.array_equal(warm.score(fresh), cold.score(fresh))


def test_average_recall_counts_the_best_among_the_highest_scored():
    speeds = np.array([4.0, 3.0, 2.0, 1.0])
    assert average_recall(speeds, speeds, 4) == 1.0
    # n = 1: none of 1; n = 2: one of 2 (the second); n = 3: two of 3.
    scores = np.array([2.0, 3.0, 1.0, 4.0], dtype=np.float32)
    assert average_recall(scores, speeds, 3) == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)


def test_relative_speed_is_one_for_the_best_and_zero_for_a_failure():
    assert relative_speed(np.array([20.0, 10.0, np.inf])).tolist() == [0.5, 1.0, 0.0]


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
