# SPDX-License-Identifier: Apache-2.0
"""The interval of lost accuracy holds what all inputs lose, as often as it says."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.bench.framework.statistics import loss


def credits(worse: int, better: int, both: int) -> tuple[np.ndarray, np.ndarray]:
    """Right and all points, a point for each input, before and after."""
    before = np.array([1] * worse + [0] * better + [1] * both)
    after = np.array([0] * worse + [1] * better + [1] * both)
    return tuple(np.stack([right, np.ones_like(right)], axis=1) for right in (before, after))


def test_a_loss_is_the_difference_of_the_shares_in_percent_points() -> None:
    assert loss(*credits(5, 1, 220)).points == pytest.approx(100 * 4 / 226)
    before, after = np.array([[9, 10], [3, 5]]), np.array([[7, 10], [4, 5]])
    assert loss(before, after).points == pytest.approx(100 * (12 - 11) / 15)


def test_the_interval_is_that_of_bonett_and_price() -> None:
    worse, better, n = 5, 1, 226
    shares = (worse + 1) / (n + 2), (better + 1) / (n + 2)
    middle = shares[0] - shares[1]
    reach = 1.96 * np.sqrt((sum(shares) - middle**2) / (n + 2))
    found = loss(*credits(worse, better, n - worse - better))
    assert found.lowest == pytest.approx(100 * (middle - reach))
    assert found.highest == pytest.approx(100 * (middle + reach))


def test_no_difference_leaves_an_interval_that_more_inputs_narrow() -> None:
    few, many = loss(*credits(0, 0, 50)), loss(*credits(0, 0, 5000))
    assert few.points == many.points == 0
    assert few.lowest < many.lowest < 0 < many.highest < few.highest


def test_the_interval_holds_the_loss_of_all_inputs_mostly() -> None:
    """Inputs of many points each, which are lost together: an interval by points is too narrow."""
    rng = fresh_rng()
    inside = 0
    for _ in range(300):
        sizes = rng.integers(1, 20, 3000)
        before = np.stack([sizes, sizes], axis=1)
        after = np.stack([np.where(rng.random(3000) < 0.05, 0, sizes), sizes], axis=1)
        found = loss(before, after)
        inside += found.lowest < 5 < found.highest
    assert inside > 0.88 * 300  # 5 deviations below 95 %
