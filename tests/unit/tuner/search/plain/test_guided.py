# SPDX-License-Identifier: Apache-2.0
"""Guided search uses its prior, and survives a wrong one."""

import pytest

from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
from tilewright.tuner.search.plain.guided import EXPLORE_EVERY, GuidedTuner


def truth(schedule: Schedule) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


def test_a_true_prior_beats_random_search_at_the_same_budget() -> None:
    guided = make_tuner("guided", full_space(), seed=1, prior=truth)
    random = make_tuner("random", full_space(), seed=1)
    best = [
        min(v for _, v in drive(t, schedule_cost, batches=[4] * 4) if v) for t in (guided, random)
    ]
    assert best[0] < best[1]


def test_proposes_in_the_order_of_the_prior_between_explorations() -> None:
    tuner = GuidedTuner(full_space(), seed=2, prior=truth)
    predicted = [truth(c.point) for c in tuner.ask(EXPLORE_EVERY - 1)]
    assert predicted == sorted(predicted)


@pytest.mark.parametrize("seed", range(3))
def test_an_inverted_prior_does_not_stop_it_from_improving(seed: int) -> None:
    tuner = GuidedTuner(full_space(), seed=seed, prior=lambda s: -truth(s))
    log = [v for _, v in drive(tuner, schedule_cost, batches=[4] * 12) if v]
    assert min(log) < log[0]


def test_each_point_is_scored_once() -> None:
    scored: list[Schedule] = []

    def prior(schedule: Schedule) -> float:
        scored.append(schedule)
        return truth(schedule)

    drive(GuidedTuner(full_space(), seed=3, prior=prior), schedule_cost, batches=[4] * 6)
    assert len(scored) == len(set(scored))
