# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers learn from what is told, and stay quiet."""

import warnings

import numpy as np
import pytest
from support.search.grid import Grid

from tilewright.testing.tuner_contract import drive
from tilewright.tuner.search import make_tuner

pytest.importorskip("optuna")

import optuna

SAMPLERS = ("optuna-tpe", "optuna-cmaes", "optuna-nsga2")


def bowl(point) -> float:
    return float(sum((p - 11) ** 2 for p in point))


def best(name: str, seed: int, space) -> float:
    tuner = make_tuner(name, space, seed=seed)
    drive(tuner, bowl, batches=[8] * 15)
    return tuner.best.value


@pytest.mark.parametrize("name", SAMPLERS)
def test_beats_random_search_on_a_bowl(name):
    wins = [best(name, s, Grid(60, 60, 60)) < best("random", s, Grid(60, 60, 60)) for s in range(4)]
    assert np.mean(wins) >= 3 / 4


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-nsga2"])
def test_learns_an_unordered_knob(name):
    tuner = make_tuner(name, Grid(20, 60, ordered=False), seed=1)
    log = drive(tuner, lambda p: float(p[0] != 7) + 0.01 * p[1], batches=[8] * 15)
    assert np.mean([p[0] == 7 for p, _ in log[60:]]) > 0.15  # 1/20 by chance


def test_logs_and_warns_nothing_and_leaves_the_log_level_alone(capfd):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in SAMPLERS:
            drive(make_tuner(name, Grid(9, 9), seed=0), bowl, batches=[8] * 6)
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert capfd.readouterr() == ("", "")
