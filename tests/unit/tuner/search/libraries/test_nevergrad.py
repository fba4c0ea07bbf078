# SPDX-License-Identifier: Apache-2.0
"""Nevergrad's differential evolution learns from what is told."""

import numpy as np
import pytest
from support.search.grid import Grid

from tilewright.testing.tuner_contract import drive
from tilewright.tuner.search import make_tuner

pytest.importorskip("nevergrad")


def bowl(point) -> float:
    return float(sum((p - 11) ** 2 for p in point))


def test_beats_random_search_on_a_bowl():
    def best(name: str, seed: int) -> float:
        tuner = make_tuner(name, Grid(60, 60, 60), seed=seed)
        drive(tuner, bowl, batches=[8] * 20)
        return tuner.best.value

    wins = [best("nevergrad-de", s) < best("random", s) for s in range(6)]
    assert np.mean(wins) >= 5 / 6


@pytest.mark.parametrize("ordered", [True, False])
def test_proposes_all_of_a_knob(ordered):
    tuner = make_tuner("nevergrad-de", Grid(5, 5, ordered=ordered), seed=1)
    log = drive(tuner, bowl, batches=[5] * 6)
    assert len(log) == 25


def test_failed_trials_do_not_attract():
    tuner = make_tuner("nevergrad-de", Grid(50, 50), seed=2)
    log = drive(tuner, lambda p: None if p[0] > 20 else bowl(p), batches=[8] * 20)
    failed = [value is None for _, value in log]
    assert np.mean(failed[100:]) < np.mean(failed[:40])
