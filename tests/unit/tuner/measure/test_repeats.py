# SPDX-License-Identifier: Apache-2.0
"""Repeated runs: the median stands, outliers do not count, and the interval says enough."""

import statistics

import pytest
from support.randomness import generator

from tilewright.tuner.measure.board_trial import MOST_RUNS, NARROW, summarise


def test_equal_runs_are_enough_after_three():
    assert not summarise([500]).enough
    assert not summarise([500, 500]).enough
    three = summarise([500, 500, 500])
    assert three.enough
    assert (three.median, three.standard_error, three.outliers) == (500, 0.0, ())


def test_a_run_beside_which_something_else_happened_does_not_count():
    found = summarise([1000, 1004, 996, 1002, 1800, 998])
    assert found.outliers == (1800,)
    assert found.kept == (1000, 1004, 996, 1002, 998)
    assert found.median == 1000


def test_few_runs_have_no_outliers():
    found = summarise([2093, 2093, 2022, 2093])
    assert found.outliers == ()
    assert not found.enough


def test_a_board_that_never_settles_is_asked_no_more_than_so_often():
    assert not summarise([100, 900] * 9).enough
    assert summarise([100, 900] * (MOST_RUNS // 2)).enough


def test_the_median_is_a_run_that_was_made():
    assert summarise([10, 20]).median == 10


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.05])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(spread):
    rng = generator(f"repeats {spread}")
    held, counts = [], []
    for _ in range(2000):
        runs: list[int] = []
        while True:
            runs.append(int(rng.normal(100_000, 100_000 * spread)))
            found = summarise(runs)
            if found.enough:
                break
        held.append(abs(statistics.median(found.kept) - 100_000) <= found.half_interval)
        counts.append(len(runs))
        assert found.half_interval <= NARROW * found.median or len(runs) == MOST_RUNS
    assert statistics.mean(held) > 0.85  # stopping when it looks narrow costs some of 95 %
    assert counts[0] >= 3
