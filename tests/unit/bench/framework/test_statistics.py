# SPDX-License-Identifier: Apache-2.0
"""Medians, intervals over few tasks and corrected tests against independent ones."""

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.randomness import fresh_rng

from tilewright.bench.arena.records import PRICES, break_even
from tilewright.bench.commands import IntervalsSettings
from tilewright.bench.framework import coverage
from tilewright.bench.framework.coverage import POPULATIONS, Intervals
from tilewright.bench.framework.statistics import (
    clustered_median,
    compare_pairs,
    geometric_mean,
    holm,
    loss,
    rank_correlation,
    ratios_of_medians,
    typical,
    typical_ratio,
)


@given(st.lists(st.tuples(st.integers(1, 129), st.integers(1, 129)), min_size=1, max_size=8))
def test_equal_ratios_have_equal_ranks(pairs):
    """Of whole numbers, by exact fractions and every assignment of signs."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    sizes = [Fraction(max(pair), min(pair)) for pair in pairs]
    twice = [sum((s < o) + (s <= o) for s in sizes) + 1 for o in sizes]  # mean ranks, doubled
    ranks = [rank for rank, size in zip(twice, sizes, strict=True) if size != 1]
    upper = [ours > theirs for ours, theirs in pairs if ours != theirs]
    positive = sum(rank for rank, up in zip(ranks, upper, strict=True) if up)
    tail = min(positive, sum(ranks) - positive)
    sums = [sum(itertools.compress(ranks, signs))
            for signs in itertools.product((0, 1), repeat=len(ranks))]  # fmt: skip
    expected = min(1.0, 2 * sum(total <= tail for total in sums) / len(sums))
    assert compare_pairs({"one": logs})["one"].p == pytest.approx(expected, abs=1e-12)


def test_a_difference_that_is_no_number_is_refused():
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite numbers: one"):
            compare_pairs({"one": [1.0, wrong]})


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=9))
def test_a_typical_value_is_what_the_signed_rank_test_does_not_refuse(values):
    """By counting every assignment of signs; a value between two means of pairs has no ties."""
    found = typical([[float(v)] for v in values])
    means = sorted((a + b) / 2 for n, a in enumerate(values) for b in values[n:])
    assert found.value == statistics.median(means)

    def p_value(centre: float) -> float:
        away = [v - centre for v in values]
        ranks = stats.rankdata(np.abs(away), method="ordinal")
        sums = [sum(r for r, up in zip(ranks, signs, strict=True) if up)
                for signs in itertools.product((False, True), repeat=len(away))]  # fmt: skip
        own = sum(r for r, v in zip(ranks, away, strict=True) if v > 0)
        low, high = (sum(s <= own for s in sums), sum(s >= own for s in sums))
        return min(1.0, 2 * min(low, high) / len(sums))

    if len(values) >= 6 and len(set(means)) == len(means):
        step = 1e-6
        assert p_value(found.low + step) > 0.05
        assert p_value(found.high - step) > 0.05
        assert p_value(found.low - step) <= 0.05
        assert p_value(found.high + step) <= 0.05
    elif len(values) < 6:
        assert (found.low, found.high) == (min(values), max(values))


@given(st.lists(st.integers(1, 99), min_size=1, max_size=60))
def test_bounds_of_a_median_are_those_of_the_sign_test(values):
    found, ordered = clustered_median([[v] for v in values]), sorted(values)
    assert found.value == statistics.median_low(values)
    place = ordered.index(found.low) if values else 0
    tail = stats.binom.cdf(np.arange(len(values)), len(values), 0.5)
    fits = [k for k in range((len(values) + 1) // 2) if tail[k] <= 0.025]
    expected = fits[-1] if fits else 0
    assert (found.low, found.high) == (ordered[expected], ordered[-1 - expected])
    assert place <= expected


def test_an_interval_holds_the_truth_of_new_tasks_as_often_as_it_says(monkeypatch):
    """Runs of a task are alike: an interval over runs would be far too narrow."""
    monkeypatch.setattr(coverage, "TIMES", 60)
    study = Intervals(IntervalsSettings(samples=400, seed=0))
    for name in ("typical value", "median", "typical ratio"):
        for effects in POPULATIONS:
            cell = {"interval": name, "effects": effects, "clusters": 12}
            (row,) = study.measure(cell)
            assert 0.92 < row["share"] <= 1, cell  # 95 % less three deviations of 400 samples
    rng, narrow = np.random.default_rng(5), 0
    for _ in range(200):
        tasks = [rng.normal(rng.normal(2.0, 1.0), 0.2, size=10) for _ in range(12)]
        runs = typical([[v] for v in np.concatenate(tasks)])
        narrow += runs.low <= 2.0 <= runs.high
    assert narrow < 140


def test_a_ratio_is_of_medians_on_the_same_tasks():
    rng = np.random.default_rng(2)
    below = [rng.integers(5, 200) * np.ones(4) for _ in range(30)]
    above = [3 * task for task in below]
    # However the tasks differ, the one side is thrice the other.
    ratios = ratios_of_medians(above, below)
    assert ratios == [3.0] * 30
    ratio = typical_ratio([[r] for r in ratios])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3.0, 3.0, 3.0))
    with pytest.raises(ValueError, match="same clusters"):
        ratios_of_medians(above[1:], below)


def test_an_empty_cluster_is_refused():
    for make in (typical, clustered_median, geometric_mean):
        with pytest.raises(ValueError, match="every cluster"):
            make([[1.0], []])
        with pytest.raises(ValueError, match="every cluster"):
            make([])


def test_holm_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_verdicts_name_the_lower_side_and_leave_ties_ties():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=60)
    found = compare_pairs(
        {
            "lower": -np.ones(60),
            "higher": np.ones(60),
            "equal": np.zeros(60),
            "mixed": noise - rng.permutation(noise),
        }
    )
    verdicts = {name: test.verdict for name, test in found.items()}
    assert verdicts == {"lower": "better", "higher": "worse", "equal": "tie", "mixed": "tie"}
    assert (found["lower"].wins, found["lower"].losses) == (60, 0)
    assert found["equal"].p_holm == 1.0


def test_correction_can_turn_a_finding_into_a_tie():
    differences = [-1.0] * 6 + [1.0]
    p = compare_pairs({"one": differences})["one"].p
    family = {f"{n}": differences for n in range(20)}
    assert all(test.p == p and test.p_holm == min(1, 20 * p) for test in
               compare_pairs(family).values())  # fmt: skip


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=10).filter(any))
def test_a_p_value_counts_every_assignment_of_signs(differences):
    """Pratt: equal values are ranked and then left out; tied ranks are averages."""
    ranks = stats.rankdata(np.abs(differences))
    kept = [(r, d > 0) for r, d in zip(ranks, differences, strict=True) if d]
    own = sum(r for r, up in kept if up)
    sums = [sum(r for (r, _), up in zip(kept, signs, strict=True) if up)
            for signs in itertools.product((False, True), repeat=len(kept))]  # fmt: skip
    low = sum(s <= own + 1e-9 for s in sums) / len(sums)
    high = sum(s >= own - 1e-9 for s in sums) / len(sums)
    expected = min(1.0, 2 * min(low, high))
    assert compare_pairs({"one": differences})["one"].p == pytest.approx(expected)


def test_break_even_balances_the_bills():
    price = break_even(overhead=10, trials=100, other_overhead=1, other_trials=400)
    assert price is not None
    assert 10 + 100 * price == pytest.approx(1 + 400 * price)


def test_break_even_without_a_price():
    assert break_even(1, 100, 2, 100) == 0.0
    assert break_even(2, 100, 1, 100) is None
    assert break_even(1, 100, 2, 50) is None


def test_prices_are_linear_and_a_board_is_called_an_assumption():
    rtl = PRICES["rtl"]
    assert rtl.of(2, 20) == pytest.approx(2 * rtl.of(1, 10))
    assert "assumed" in PRICES["board"].source


def test_geometric_means_weigh_layers_alike_and_have_an_interval_of_student():
    found = geometric_mean([[2.0], [8.0, 8.0, 8.0], [4.0]])
    assert found.value == pytest.approx(4.0)
    logs = np.log([2.0, 8.0, 4.0])
    expected = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(expected)))
    alone = geometric_mean([[3.0]])
    assert (alone.low, alone.value, alone.high) == pytest.approx((3.0, 3.0, 3.0))


@pytest.mark.parametrize("sides", [([1, 2], [1, 2]), ([5, 5, 5], [1, 2, 3]), ([], [])])
def test_too_few_pairs_and_a_constant_side_have_none(sides) -> None:
    assert rank_correlation(*sides) is None


def test_it_is_spearmans() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == 1
    assert rank_correlation([1, 2, 3, 3], [9, 7, 3, 1]) == pytest.approx(-0.9487)


# -- the interval of lost accuracy holds what all inputs lose, as often as it says ----------------


def credits(worse: int, better: int, both: int) -> tuple[np.ndarray, np.ndarray]:
    """Right and all points, a point for each input, before and after."""
    before = np.array([1] * worse + [0] * better + [1] * both)
    after = np.array([0] * worse + [1] * better + [1] * both)
    return tuple(np.stack([right, np.ones_like(right)], axis=1) for right in (before, after))


def test_the_interval_is_that_of_bonett_and_price() -> None:
    worse, better, n = 5, 1, 226
    shares = (worse + 1) / (n + 2), (better + 1) / (n + 2)
    middle = shares[0] - shares[1]
    reach = 1.96 * np.sqrt((sum(shares) - middle**2) / (n + 2))
    found = loss(*credits(worse, better, n - worse - better))
    assert found.lowest == pytest.approx(100 * (middle - reach))
    assert found.highest == pytest.approx(100 * (middle + reach))


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
