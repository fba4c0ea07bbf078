# SPDX-License-Identifier: Apache-2.0
"""Fronts and hypervolumes against brute force: every pair of points, every cell of a grid."""

import itertools

import numpy as np
import pytest
from support.randomness import fresh_rng, sample

from tilewright.tuner.search.fronts import front, gain, hypervolume


def beats(a, b) -> bool:
    return bool((a <= b).all() and (a < b).any())


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("number", sample(4, 40))
def test_fronts_of_drawn_points_equal_brute_force(number, objectives) -> None:
    rng = fresh_rng()
    # Few values, so that some points are equal and others tie in some objectives.
    values = rng.integers(0, 6, (int(rng.integers(1, 40)), objectives)).astype(float)
    kept = front(values)
    expected = {tuple(v) for v in values if not any(beats(other, v) for other in values)}
    assert {tuple(values[place]) for place in kept} == expected
    assert len(kept) == len(expected), "equal points count once"
    assert [tuple(values[p]) for p in kept] == sorted(tuple(values[p]) for p in kept)


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("number", sample(4, 40))
def test_the_hypervolume_of_drawn_points_is_the_cells_that_they_beat(number, objectives) -> None:
    rng = fresh_rng()
    size = int(rng.integers(1, 7))
    values = rng.integers(0, size + 2, (int(rng.integers(1, 20)), objectives)).astype(float)
    reference = np.full(objectives, float(size))
    cells = [
        cell
        for cell in itertools.product(range(size), repeat=objectives)
        if (values <= np.array(cell)).all(axis=1).any()
    ]
    assert hypervolume(values, reference) == pytest.approx(len(cells))
    point = rng.integers(0, size + 1, objectives).astype(float)
    both = hypervolume(np.vstack([values, point]), reference)
    assert gain(values, reference, point) == pytest.approx(both - len(cells))
