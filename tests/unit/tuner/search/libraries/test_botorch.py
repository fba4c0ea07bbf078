# SPDX-License-Identifier: Apache-2.0
"""The Gaussian process finds a smooth optimum in few trials; its merit is stable."""

import numpy as np
import pytest
from support.search.grid import Grid

from tilewright.testing.tuner_contract import drive
from tilewright.tuner.search import Result, make_tuner

pytest.importorskip("botorch")

import torch

from tilewright.tuner.search.libraries.botorch_tuner import (
    WARM_UP,
    Belief,
    log_expected_improvement,
)


def bowl(point) -> float:
    return 10.0 + sum((p - 11) ** 2 for p in point)


def test_finds_a_smooth_optimum_far_sooner_than_random_search():
    for seed in range(3):
        tuner = make_tuner("botorch", Grid(30, 30, 30), seed=seed)
        drive(tuner, bowl, batches=[WARM_UP] + [4] * 8)  # 42 of 27,000 points
        assert tuner.best.value <= 20  # random search reaches 52 to 64 in as many


def test_a_process_without_spread_still_proposes():
    tuner = make_tuner("botorch", Grid(30, 30), seed=0)
    log = drive(tuner, lambda _: 5.0, batches=[8] * 5)
    assert len({index for index, _ in log}) == 40


def test_what_is_under_way_is_taken_into_account():
    tuner = make_tuner("botorch", Grid(40, 40), seed=0)
    drive(tuner, bowl, batches=[WARM_UP])
    waiting = tuner.ask(6)
    tuner.tell([Result(index=waiting[0].index, value=bowl(waiting[0].index))])
    later = {c.index for c in tuner.ask(6)}
    assert later.isdisjoint(c.index for c in waiting)


def test_a_batch_spreads_over_what_is_not_alike():
    # Two twins with the best mean, and one candidate that is nearly as good.
    mean = torch.tensor([0.0, 0.0, 0.1]).double()
    covariance = torch.tensor([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    belief = Belief([(0,), (1,), (2,)], mean, covariance, 0.0)
    assert [belief.choose() for _ in range(4)] == [(0,), (2,), (1,), None]


@pytest.mark.parametrize("z", [3.0, 0.5, -0.5, -0.999, -1.001, -2.0])
def test_log_expected_improvement_is_that_of_many_draws(z):
    draws = np.random.default_rng(0).normal(size=4_000_000)
    expected = np.log(2.0 * np.maximum(0.0, z + draws).mean())
    found = log_expected_improvement(
        torch.tensor([7.0 - 2.0 * z]).double(), torch.tensor([2.0]).double(), 7.0
    )
    assert float(found) == pytest.approx(expected, abs=0.01)


def test_log_expected_improvement_rises_where_the_improvement_underflows():
    z = torch.linspace(-2e4, 5, 5000).double()
    found = log_expected_improvement(-z, torch.ones_like(z), 0.0)
    assert torch.isfinite(found).all()
    assert (found.diff() > 0).all()
