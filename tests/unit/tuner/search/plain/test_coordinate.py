# SPDX-License-Identifier: Apache-2.0
"""Coordinate descent finds separable optima fast and restarts from local ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grid import Grid

from tilewright.testing.tuner_contract import drive
from tilewright.tuner.search.plain.coordinate import CoordinateTuner
from tilewright.tuner.search.plain.random import RandomTuner
from tilewright.tuner.search.space import Index


@settings(max_examples=25, deadline=None)
@given(optimum=st.tuples(*[st.integers(0, 39)] * 4), seed=st.integers(0, 1000))
def test_reaches_a_separable_optimum_in_few_trials(optimum: Index, seed: int) -> None:
    tuner = CoordinateTuner(Grid(40, 40, 40, 40), seed=seed)

    def cost(point: Index) -> float:
        return float(sum(abs(a - b) for a, b in zip(point, optimum, strict=True)))

    drive(tuner, cost, batches=[8] * 50)
    assert tuner.best is not None
    assert tuner.best.value == 0  # 400 of 2,560,000 points


def test_restarts_from_a_local_optimum() -> None:
    def cost(point: Index) -> float:
        x, y = point
        return 50.0 + abs(x - 5) + abs(y - 5) if x < 32 else float(abs(x - 60) + abs(y - 50))

    tuner = CoordinateTuner(Grid(64, 64), seed=1, initial=((5, 5),))
    drive(tuner, lambda p: cost(p) if p != (37, 5) else None, batches=[4] * 150)
    assert tuner.best is not None
    assert tuner.best.value == 0


def test_tries_every_value_of_an_unordered_knob_around_the_centre() -> None:
    tuner = CoordinateTuner(Grid(7, ordered=False), seed=0, initial=((3,),))
    log = drive(tuner, lambda p: abs(p[0] - 3.0), batches=[1, 6])
    assert {i for i, _ in log} == {(k,) for k in range(7)}


@pytest.mark.parametrize("size", [200])
def test_beats_random_search_on_a_separable_cost(size: int) -> None:
    def cost(point: Index) -> float:
        return float(sum((p - 11) ** 2 for p in point))

    def best(kind: type, seed: int) -> float:
        tuner = kind(Grid(size, size, size), seed=seed)
        drive(tuner, cost, batches=[8] * 15)
        return tuner.best.value

    wins = [best(CoordinateTuner, s) < best(RandomTuner, s) for s in range(10)]
    assert np.mean(wins) >= 0.8
