# SPDX-License-Identifier: Apache-2.0
"""The genetic algorithm breeds from what was good."""

import numpy as np

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search.plain.genetic import POPULATION, GeneticTuner
from tilewright.tuner.search.plain.random import RandomTuner


def test_beats_random_search_at_an_equal_budget() -> None:
    def best(kind: type, seed: int) -> float:
        tuner = kind(full_space(), seed=seed)
        drive(tuner, schedule_cost, batches=[8] * 20)
        return tuner.best.value

    wins = [best(GeneticTuner, s) <= best(RandomTuner, s) for s in range(10)]
    assert np.mean(wins) >= 0.8


def test_later_generations_are_better_than_the_sampled_population() -> None:
    tuner = GeneticTuner(full_space(), seed=5)
    values = [v for _, v in drive(tuner, schedule_cost, batches=[8] * 20)]
    assert np.median(values[-POPULATION:]) < np.median(values[:POPULATION])
