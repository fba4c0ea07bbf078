# SPDX-License-Identifier: Apache-2.0
"""DCOC: its agents, its options, its loop."""

import numpy as np
import pytest

from tilewright.testing.analytic import BASE, RULES, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import TunerError, make_tuner
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning.confidence import (
    LEADERS,
    TEMPERATURE,
    CandidatePool,
    Selection,
    confidence_sampling,
    knob_modes,
    select,
    softmax_order,
)
from tilewright.tuner.search.learning.dcoc import DcocTuner
from tilewright.tuner.search.learning.planned import BATCH, WARM_UP
from tilewright.tuner.search.learning.surrogate import Surrogate, scores_of


@pytest.mark.parametrize("legality", ["mask", "penalty", "both"])
def test_improves_on_its_warm_up_however_it_learns_what_is_legal(legality) -> None:
    log = drive(DcocTuner(full_space(), seed=1, legality=legality), schedule_cost, batches=[8] * 6)
    assert min(v for _, v in log[WARM_UP:]) < min(v for _, v in log[:WARM_UP])


@pytest.mark.parametrize("option", ["legality", "selection", "view"])
def test_an_option_that_does_not_exist_is_refused(option) -> None:
    with pytest.raises(TunerError, match="no such value") as failure:
        make_tuner("dcoc", full_space(), seed=0, **{option: "other"})
    assert option in str(failure.value)


def test_learns_once_a_batch_whatever_the_size_of_the_asks() -> None:
    class Counted(DcocTuner):
        explored = 0

        def _explore(self):
            self.explored += 1
            return super()._explore()

    for batches in ([1] * 32, [BATCH] * 4, [32], [3] * 11):
        tuner = Counted(full_space(), seed=0)
        drive(tuner, schedule_cost, batches=[WARM_UP, *batches])
        assert tuner.explored <= 1 + sum(batches) // BATCH


def test_a_space_of_one_point_ends() -> None:
    space = ScheduleSpace(TASKS[0], BASE, RULES, "vta")
    only = space.sample(np.random.default_rng(0))
    space._verdicts = dict.fromkeys(space.enumerate(), "no") | {only: ""}
    tuner = DcocTuner(space, seed=0)
    log = drive(tuner, schedule_cost_vta, batches=[4, 4])
    assert [index for index, _ in log] == [only]
    assert tuner.exhausted


def schedule_cost_vta(schedule) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


# -- the surrogate ranks what it has not seen -----------------------------------------------------


def drawn(count, seed=0):
    space, rng = full_space(), np.random.default_rng(seed)
    indices = list(dict.fromkeys(space.sample(rng) for _ in range(3 * count)))[:count]
    return space, {index: schedule_cost(space.decode(index)) for index in indices}


def test_members_of_an_ensemble_disagree_more_about_what_they_have_not_seen() -> None:
    space, costs = drawn(120)
    points = list(costs)
    surrogate = Surrogate(FeatureEncoder(space), members=6)
    surrogate.fit({index: costs[index] for index in points[:30]})
    seen, unseen = surrogate.member_scores(points[:30]), surrogate.member_scores(points[30:])
    assert seen.shape == (6, 30)
    assert unseen.std(axis=0).mean() > seen.std(axis=0).mean() > 0


def test_scores_are_standardised_logarithms_and_lower_costs_score_higher() -> None:
    assert scores_of([100.0, 200.0, 400.0]).tolist() == pytest.approx([1.5**0.5, 0, -(1.5**0.5)])


@pytest.mark.parametrize("costs", [[0.0, 3.0, -2.0], [5.0, 5.0, 5.0], [None, None]])
def test_scores_are_finite_for_any_costs(costs) -> None:
    scores = scores_of(costs)
    assert np.isfinite(scores).all()
    order = [c for c in costs if c is not None]
    assert np.argsort(scores).tolist() == np.argsort([-c for c in order] or scores).tolist()


# -- which visited points are measured ------------------------------------------------------------


def pool_of(indices, values, scores=None) -> CandidatePool:
    return CandidatePool(
        indices=tuple(indices),
        features=np.array(indices, dtype=np.float32),
        scores=np.atleast_2d(np.array(values if scores is None else scores, dtype=np.float64)),
        values=np.array(values, dtype=np.float64),
    )


GRID = [(a, b, c) for a in range(5) for b in range(5) for c in range(5)]


@pytest.mark.parametrize("kind", list(Selection))
def test_a_small_pool_is_taken_whole(kind) -> None:
    pool = pool_of(GRID[:3], [1, 2, 3])
    assert select(kind, pool, 8, accept=lambda _: True, rng=np.random.default_rng(0)) == GRID[:3]


def test_the_softmax_draws_confident_points_first_but_not_always() -> None:
    values = np.array([0.0] * 20 + [1.0] * 20)
    firsts = [softmax_order(values, np.random.default_rng(seed))[0] for seed in range(200)]
    share = np.mean([first >= 20 for first in firsts])
    # Values of -1 and 1 deviation: odds of exp(2 / temperature).
    odds = np.exp(2 / TEMPERATURE)
    assert share == pytest.approx(odds / (1 + odds), abs=0.08)
    assert len(set(firsts)) > 15
    assert sorted(softmax_order(values, np.random.default_rng(0))) == list(range(40))


def test_the_mode_takes_the_most_frequent_position_of_each_knob() -> None:
    assert knob_modes([(1, 0, 2), (1, 3, 0), (0, 3, 0)]) == (1, 3, 0)
    assert knob_modes([(2, 5), (1, 4)]) == (2, 5)


def confident(rng, accept=lambda _: True, missing=()):
    """A pool in which confidence is the number of knobs at 4, and what is sampled of it."""
    indices = [i for i in GRID if i not in missing]
    pool = pool_of(indices, [float(sum(p == 4 for p in i)) for i in indices])
    return pool, confidence_sampling(pool, 8, accept=accept, rng=rng)


def drawn_and_kept(pool, seed):
    """What a seed must draw for 8 places and keep of it, and the generator afterwards."""
    rng, leaders = np.random.default_rng(seed), pool.leaders(LEADERS * 8)
    drawn = softmax_order(leaders.values, rng)[:8]
    threshold = np.median(leaders.values[drawn])
    return [leaders.indices[i] for i in drawn if leaders.values[i] >= threshold], rng


def test_places_under_the_threshold_go_to_the_mode_and_to_draws_from_everywhere() -> None:
    for seed in range(20):
        pool, chosen = confident(np.random.default_rng(seed), missing=[(4, 4, 4)])
        kept, rng = drawn_and_kept(pool, seed)
        mode = knob_modes(kept)
        made = [mode] if mode not in kept and len(kept) < 8 else []
        anywhere = [pool.indices[i] for i in softmax_order(pool.values, rng)]
        later = [i for i in anywhere if i not in kept and i != mode]
        assert chosen == [*kept, *made, *later][:8]


def test_leaders_are_the_most_confident_points_and_half_of_what_is_measured() -> None:
    pool = pool_of(GRID, np.random.default_rng(0).permutation(125))
    best = {pool.indices[i] for i in np.argsort(-pool.values)[: LEADERS * 8]}
    assert set(pool.leaders(LEADERS * 8).indices) == best
    others = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        chosen = confidence_sampling(pool, 8, accept=lambda _: False, rng=rng)
        assert len(set(chosen) & best) >= 4
        others += len(set(chosen) - best)
    assert others > 10


def test_the_synthesised_point_is_new_and_only_taken_when_it_may_be_measured() -> None:
    outside = [(4, 4, 4), (4, 4, 0), (4, 0, 4), (0, 4, 4)]
    made = set()
    for seed in range(40):
        _, chosen = confident(np.random.default_rng(seed), missing=outside)
        made |= {i for i in chosen if i in outside}
        _, refused = confident(np.random.default_rng(seed), accept=lambda _: False, missing=outside)
        assert not set(refused) & set(outside)
        assert len(refused) == 8
    assert (4, 4, 4) in made


def test_top_takes_the_best_scores_of_the_surrogate() -> None:
    pool = pool_of(GRID, np.zeros(125), np.arange(125))
    chosen = select(Selection.TOP, pool, 3, accept=bool, rng=np.random.default_rng(0))
    assert chosen == [GRID[124], GRID[123], GRID[122]]


def test_kmeans_takes_one_point_of_each_cluster() -> None:
    corners = [(0, 0, 0), (90, 0, 0), (0, 90, 0), (0, 0, 90)]
    points = [(a + i, b + j, c + k) for a, b, c in corners for i, j, k in GRID]
    pool = pool_of(points, np.zeros(500))
    for seed in range(5):
        chosen = select(Selection.KMEANS, pool, 4, accept=bool, rng=np.random.default_rng(seed))
        assert {tuple(p // 90 * 90 for p in i) for i in chosen} == set(corners)


def test_thompson_takes_favourites_of_different_members() -> None:
    scores = np.zeros((3, 125))
    scores[0, 10] = scores[1, 20] = scores[2, 30] = 1.0
    pool = pool_of(GRID, np.zeros(125), scores)
    chosen = {
        select(Selection.THOMPSON, pool, 1, accept=bool, rng=np.random.default_rng(seed))[0]
        for seed in range(30)
    }
    assert chosen == {GRID[10], GRID[20], GRID[30]}
