# SPDX-License-Identifier: Apache-2.0
"""DynaTune's belief finds known curves, and its choices follow from it."""

import numpy as np
import pytest

from tilewright.tuner.allocate import Arm, Slot, make_allocator
from tilewright.tuner.allocate.belief import (
    DRAWS,
    HIGH,
    LOW,
    STEPS,
    WALKERS,
    Belief,
    fit_belief,
    log_power,
)

X = np.linspace(0.1, 5.0, 50)


def curve(a: float, b: float, c: float, x=X):
    return log_power(np.array([[a, b, c]]), np.asarray(x, dtype=float))[0]


def test_the_family_is_that_of_the_paper():
    x = np.array([0.5, 2.0])
    expected = 0.9 / (1 + (x / np.exp(0.3)) ** -1.5)
    assert curve(0.9, 0.3, -1.5, x) == pytest.approx(expected)
    assert np.isfinite(curve(1.0, 6.0, -6.0, [1e-300, 1e300])).all()


def test_chain_and_draws_have_the_published_sizes_and_keep_to_the_prior():
    belief = fit_belief(X, curve(1.1, 0.0, -1.0), seed=(2,))
    assert belief.chain.shape == (STEPS, WALKERS, 4)
    assert belief.draws.shape == (DRAWS, 4)
    assert ((belief.chain > LOW) & (belief.chain < HIGH)).all()
    assert (np.diff(belief.rates(np.linspace(0.1, 20, 40)), axis=1) >= 0).all()


@pytest.mark.parametrize("last", [0.7, 1.0, 1.4])
def test_no_belief_lies_below_the_last_best_at_the_horizon(last):
    """A late rise above a plateau: most rising curves that fit it pass below the last point."""
    x = np.array([0.2, 1.0, 2.0, 3.0, 4.0, 4.9])
    y = last * np.array([0.85, 0.86, 0.86, 0.86, 0.86, 1.0])
    free = fit_belief(x, y, seed=(5,))
    held = fit_belief(x, y, seed=(5,), horizon=5.9)
    assert (free.rates(5.9) < last).mean() > 0.2
    assert (held.rates(5.9) >= last).all()
    assert (log_power(held.chain.reshape(-1, 4), np.array([5.9])) >= last).all()
    assert held.acceptance > 0.05


def test_equal_seeds_give_equal_beliefs_and_others_other_ones():
    y = curve(1.1, 0.0, -1.0)
    one, two, three = (fit_belief(X, y, seed=s, steps=60) for s in ((1, 2), (1, 2), (1, 3)))
    assert np.array_equal(one.draws, two.draws)
    assert not np.array_equal(one.draws, three.draws)


def test_little_data_leaves_more_hope_and_doubt_than_a_long_plateau():
    short = fit_belief(X[:3], np.ones(3), seed=(3,))
    flat = fit_belief(X, np.ones(50), seed=(3,))
    hope = [b.expected_improvement(x[-1] + 1, 1.0) for b, x in ((short, X[:3]), (flat, X))]
    assert hope[0] > 2 * hope[1] > 0.001
    assert flat.expected_improvement(6.0, 1.0) < 0.03
    assert np.std(short.rates(2.0)) > np.std(flat.rates(6.0))


def test_expected_improvement_is_the_mean_rise_of_the_rate_as_a_saving():
    tiny = -30.0
    draws = np.array([[1.0, -50.0, -1.0, tiny], [0.5, -50.0, -1.0, tiny]])  # flat at 1 and 0.5
    belief = Belief(chain=np.zeros((0, 0, 4)), draws=draws, acceptance=1.0, start=0, seconds=0.0)
    assert belief.expected_improvement(3.0, 0.8) == pytest.approx(0.1 / 0.9)


def test_expected_improvement_agrees_with_sampling_the_prediction():
    draws = np.array([[1.0, -50.0, -1.0, np.log(0.1)], [0.9, -50.0, -1.0, np.log(0.2)]])
    belief = Belief(chain=np.zeros((0, 0, 4)), draws=draws, acceptance=1.0, start=0, seconds=0.0)
    noise = np.random.default_rng(0).normal(size=200_000)
    rises = [np.maximum(0.0, m + s * noise - 0.95).mean() for m, s in ((1.0, 0.1), (0.9, 0.2))]
    expected = np.mean(rises)
    assert belief.expected_improvement(2.0, 0.95) == pytest.approx(
        expected / (0.95 + expected), rel=0.01
    )


# -- the bandit ---------------------------------------------------------------------------------


def known(gains: dict[int, float]):
    """Fits that foretell the same for each arm: rates grow by 1 / (1 - gain)."""

    def fit(x, y, seed, horizon):
        share = gains[seed[-2]]
        draws = np.array([[y[-1] / (1 - share), -50.0, -1.0, -30.0]])
        return Belief(chain=np.zeros((0, 0, 4)), draws=draws, acceptance=1.0, start=0, seconds=0.0)

    return fit


def told(allocator, slots: int) -> list[int]:
    """Choices when no trial improves on 100 cycles."""
    chosen = []
    for _ in range(slots):
        arm = allocator.choose()
        chosen.append(arm)
        allocator.tell(arm, Slot(prices=(1.0,), values=(100.0,)))
    return chosen


ARMS = [Arm(name="a", start=100.0), Arm(name="b", start=100.0), Arm(name="c", start=100.0, count=5)]


def make(gains, arms=ARMS, name="dynatune-share", **options):
    return make_allocator(
        name, arms, seed=0, slot=1.0, fit=known(gains), **({"patience": 10**6} | options)
    )


def test_forecasts_are_kept_with_what_came():
    allocator = make({0: 0.2, 1: 0.1, 2: 0.03}, exploration=0.0)
    for value in (100.0, 100.0, 100.0, 60.0):
        allocator.tell(allocator.choose(), Slot(prices=(1.0,), values=(value,)))
    assert allocator.forecasts == [(0, pytest.approx(0.2), pytest.approx(0.4))]


def test_the_slot_goes_to_the_largest_expected_gain_count_included():
    assert set(told(make({0: 0.2, 1: 0.1, 2: 0.03}, exploration=0.0), 10)[3:]) == {0}
    assert set(told(make({0: 0.2, 1: 0.1, 2: 0.05}, exploration=0.0), 10)[3:]) == {2}


@pytest.mark.parametrize(("name", "unit"), [("dynatune", 2e-3), ("dynatune-share", 1 / 700)])
def test_the_bonus_is_the_root_of_the_constant_too(name, unit):
    """E + sqrt(C ln t / c), as the paper; C stands inside the root."""
    units = {"ms_per_cost": unit} if name == "dynatune" else {}
    chosen = told(make({0: 0.2, 1: 0.1, 2: 0.0}, name=name, exploration=0.0025, **units), 60)
    counts = [0, 0, 0]
    for t, arm in enumerate(chosen):
        if t >= 3:
            promises = np.array([0.2 * 100, 0.1 * 100, 0.0]) * unit
            scores = promises + np.sqrt(0.0025 * np.log(t) / np.array(counts))
            assert arm == int(np.argmax(scores))
        counts[arm] += 1
    assert min(counts) > 1
    outside = make({0: 0.2, 1: 0.1, 2: 0.0}, name=name, exploration=0.0025**2, **units)
    assert told(outside, 60) != chosen


def test_shares_do_not_depend_on_the_unit_of_cost_and_milliseconds_do():
    def slots(unit: float, name: str) -> list[int]:
        arms = [Arm(name=a.name, start=unit * 100.0, count=a.count) for a in ARMS]
        allocator = make({0: 0.2, 1: 0.1, 2: 0.01}, arms=arms, name=name)
        chosen = []
        for _ in range(60):
            arm = allocator.choose()
            chosen.append(arm)
            allocator.tell(arm, Slot(prices=(1.0,), values=(unit * 100.0,)))
        return chosen

    assert slots(1.0, "dynatune-share") == slots(1000.0, "dynatune-share")
    assert slots(1.0, "dynatune") != slots(100_000.0, "dynatune")


@pytest.mark.parametrize(("cycles", "constant"), [(40_000.0, 0.2), (60_000.0, 2.0)])
def test_dynatune_uses_the_published_constants_in_milliseconds(cycles, constant):
    """0.2 where the network takes less than 1 ms at first, else 2; the clock is 100 MHz here."""
    arms = [Arm(name="a", start=cycles), Arm(name="b", start=cycles)]

    def slots(**options) -> list[int]:
        allocator = make({0: 0.9, 1: 0.1}, arms=arms, name="dynatune", **options)
        chosen = []
        for _ in range(80):
            arm = allocator.choose()
            chosen.append(arm)
            allocator.tell(arm, Slot(prices=(1.0,), values=(cycles,)))
        return chosen

    assert slots() == slots(exploration=constant)
    assert slots() != slots(exploration=2.2 - constant)


# -- other selections on the same belief ----------------------------------------------------------


def test_softmax_draws_by_what_the_belief_promises():
    gains = {0: 0.2, 1: 0.1, 2: 0.001}

    def shares(temperature: float) -> np.ndarray:
        chosen = told(make(gains, name="softmax", temperature=temperature), 600)[3:]
        return np.bincount(chosen, minlength=3) / len(chosen)

    weights = np.exp(np.array([0.2 * 100, 0.1 * 100, 0.001 * 500]) / 20.0 / 0.25)
    assert shares(0.25) == pytest.approx(weights / weights.sum(), abs=0.06)
    assert shares(1e-3)[0] == 1.0
    assert shares(100.0) == pytest.approx(np.full(3, 1 / 3), abs=0.08)
