# SPDX-License-Identifier: Apache-2.0
"""Advantages by hand."""

import numpy as np
import pytest

from tilewright.tuner.search.learning.mappo import generalised_advantages


def test_advantages_are_the_weighted_sum_of_all_later_surprises() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(6, 3)), rng.normal(size=(7, 3))
    found = generalised_advantages(rewards, values, discount=0.9, trace=0.8)
    for t in range(6):
        expected = sum(
            (0.9 * 0.8) ** (k - t) * (rewards[k] + 0.9 * values[k + 1] - values[k])
            for k in range(t, 6)
        )
        assert found[t] == pytest.approx(expected)


def test_advantages_with_full_trace_are_returns_minus_values() -> None:
    rewards, values = np.ones((3, 1)), np.array([[4.0], [0.0], [0.0], [10.0]])
    found = generalised_advantages(rewards, values, discount=0.5, trace=1.0)
    assert found[0, 0] == pytest.approx(1 + 0.5 + 0.25 + 0.125 * 10 - 4)


def test_nothing_follows_the_end_of_a_walk() -> None:
    walking = np.array([[True, True], [True, False]])
    rewards = np.array([[1.0, 1.0], [2.0, 9.0]], dtype=np.float32)
    values = np.array([[0.5, 0.5], [0.25, 0.0], [4.0, 0.0]], dtype=np.float32)
    gains = generalised_advantages(rewards, values, discount=0.9, trace=0.99, walking=walking)
    last = 2.0 + 0.9 * 4.0 - 0.25
    first = 1.0 + 0.9 * 0.25 - 0.5 + 0.9 * 0.99 * last
    assert gains[:, 0] == pytest.approx([first, last])
    assert gains[:, 1] == pytest.approx([0.5, 0.0])
