# SPDX-License-Identifier: Apache-2.0
"""The surrogate ranks what it has not seen."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from tilewright.testing.tuner_contract import full_space, schedule_cost
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning.surrogate import FAILED_MARGIN, Surrogate, scores_of


def drawn(count, seed=0):
    space, rng = full_space(), np.random.default_rng(seed)
    indices = list(dict.fromkeys(space.sample(rng) for _ in range(3 * count)))[:count]
    return space, {index: schedule_cost(space.decode(index)) for index in indices}


def test_ranks_points_that_it_has_not_seen() -> None:
    space, costs = drawn(160)
    points = list(costs)
    surrogate = Surrogate(FeatureEncoder(space))
    surrogate.fit({index: costs[index] for index in points[:80]})
    unseen = points[80:]
    rank = spearmanr(surrogate.scores(unseen), [-costs[index] for index in unseen])
    assert rank.statistic > 0.8


def test_a_new_fit_forgets_the_old_one() -> None:
    space, costs = drawn(40)
    surrogate = Surrogate(FeatureEncoder(space))
    surrogate.fit(costs)
    before = surrogate.scores(list(costs))
    surrogate.fit({index: 1 / cost for index, cost in costs.items()})
    assert spearmanr(before, surrogate.scores(list(costs))).statistic < -0.9


def test_members_of_an_ensemble_disagree_more_about_what_they_have_not_seen() -> None:
    space, costs = drawn(120)
    points = list(costs)
    surrogate = Surrogate(FeatureEncoder(space), members=6)
    surrogate.fit({index: costs[index] for index in points[:30]})
    seen, unseen = surrogate.member_scores(points[:30]), surrogate.member_scores(points[30:])
    assert seen.shape == (6, 30)
    assert unseen.std(axis=0).mean() > seen.std(axis=0).mean() > 0


def test_scores_are_standardised_logarithms_and_lower_costs_score_higher() -> None:
    scores = scores_of([100.0, 200.0, 400.0])
    assert scores.tolist() == pytest.approx([1.5**0.5, 0, -(1.5**0.5)])


def test_a_failed_trial_scores_below_every_measurement() -> None:
    scores = scores_of([100.0, None, 400.0])
    assert scores[1] == pytest.approx(scores[2] - FAILED_MARGIN)


@pytest.mark.parametrize("costs", [[0.0, 3.0, -2.0], [5.0, 5.0, 5.0], [None, None]])
def test_scores_are_finite_for_any_costs(costs) -> None:
    scores = scores_of(costs)
    assert np.isfinite(scores).all()
    order = [c for c in costs if c is not None]
    assert np.argsort(scores).tolist() == np.argsort([-c for c in order] or scores).tolist()
