# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation in integers against float64."""

import numpy as np
import pytest

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.log_tables import TABLES
from tilewright.host.network.row_arithmetic import exp2, log2
from tilewright.host.network.row_functions import (
    NORMAL_BITS,
    PROBABILITY_BITS,
    LayerNorm,
    Softmax,
    layer_norm,
    mask_scale,
    normalised,
    softmax,
    softmax_probabilities,
)


def exact_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("length", [8, 64, 197, 1024])
@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_softmax_is_within_2_parts_in_1000_before_it_is_rounded(length, spread) -> None:
    x = np.random.default_rng(length).normal(0, spread, (50, length))
    scale = float(np.abs(x).max() / 127)
    rows = np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
    function = Softmax.of(scale)
    exact = exact_softmax(rows * scale)
    found = softmax_probabilities(rows, function) / 2**PROBABILITY_BITS
    assert np.abs(found / exact - 1)[exact > 2**-12].max() < 2e-3
    steps = np.clip(exact * 256, 0, 255) - (softmax(rows, function).astype(int) + 128)
    assert np.abs(steps).max() < 0.5 + 256 * 1.2e-3


ADDENDS = {
    "causal mask": lambda t, rng: np.where(np.tri(t) > 0, 0, -np.inf),
    "mask of -10000": lambda t, rng: np.where(rng.random((t, t)) < 0.5, 0, -1e4),
    "positions": lambda t, rng: rng.normal(0, 0.5, (t, t)),
    "wide positions": lambda t, rng: rng.normal(0, 4, (t, t)),
    "slope and mask": lambda t, rng: np.where(np.tri(t) > 0, 0.25 * np.arange(t), -np.inf),
}


@pytest.mark.parametrize("addend", ADDENDS)
@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_softmax_of_a_sum_is_as_good_and_masks_are_exact(addend, spread) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(0, spread, (1, 61, 1, 61))
    added = np.ascontiguousarray(ADDENDS[addend](61, rng)[None, :, None])
    scale = float(np.abs(x).max() / 127)
    rows = np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
    function = Softmax.of(scale, addend=added)
    exact = exact_softmax(rows * scale + added)
    found = softmax_probabilities(rows, function) / 2**PROBABILITY_BITS
    assert np.abs(found / np.maximum(exact, 1e-30) - 1)[exact > 2**-12].max() < 4e-3
    assert (found[np.isneginf(added) | (added == -1e4)] == 0).all()
    steps = np.clip(exact * 256, 0, 255) - (softmax(rows, function).astype(int) + 128)
    assert np.abs(steps).max() < 0.5 + 256 * 1.2e-3


@pytest.mark.parametrize(
    ("scale", "value"), [(0.1, np.nan), (0.1, np.inf), (1e-4, -0.5), (70.0, -0.5)]
)
def test_an_addend_that_two_planes_do_not_hold_is_refused(scale, value) -> None:
    added = np.zeros((1, 1, 1, 8))
    added[..., :2] = -1e4, value
    with pytest.raises(WorkloadError, match=r"softmax: (addend|scale)"):
        Softmax.of(scale, addend=added)


def random_mask(length: int, rng: np.random.Generator) -> np.ndarray:
    mask = np.where(rng.random(length) < 0.4, -128, 0).astype(np.int8)
    mask[rng.integers(length)] = 0
    return mask


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.02, 0.9, 40.0])
def test_masked_places_are_0_and_the_others_as_if_they_were_alone(scale) -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(-128, 128, (40, 61)).astype(np.int8)
    rows[:20] = rng.choice([-128, 127], (20, 61))
    mask = random_mask(61, rng)
    function = Softmax.of(scale, mask_scale=mask_scale(scale))
    rows[20:30, mask < 0] = 127
    found = softmax_probabilities(rows, function, mask)
    assert (found[:, mask < 0] == 0).all()
    assert (
        found[:, mask == 0] == softmax_probabilities(rows[:, mask == 0], Softmax.of(scale))
    ).all()
    everywhere = softmax_probabilities(rows, function, np.full(61, -128, np.int8))
    assert (everywhere == softmax_probabilities(rows, Softmax.of(scale))).all()


@pytest.mark.parametrize("addend", ADDENDS)
def test_a_mask_beside_a_constant_is_exact_where_its_scale_holds_both(addend) -> None:
    rng = np.random.default_rng(9)
    added = np.ascontiguousarray(ADDENDS[addend](61, rng)[None, :, None])
    rows = rng.integers(-128, 128, added.shape).astype(np.int8)
    mask = random_mask(61, rng)
    numbers = added[added > -1000]
    scale = mask_scale(0.1, float(np.ptp(numbers)))
    function = Softmax.of(0.1, addend=added, mask_scale=scale)
    seen = (added > -1000) & (mask == 0)
    found = softmax_probabilities(rows, function, mask)
    held = seen.any(axis=-1)
    assert held.mean() > 0.5
    assert (found[held][~seen[held]] == 0).all()
    exact = exact_softmax(np.where(seen, rows * 0.1 + added, -np.inf)[held])
    relative = found[held] / 2**PROBABILITY_BITS / np.maximum(exact, 1e-30) - 1
    assert np.abs(relative)[exact > 2**-12].max() < 4e-3


def test_a_mask_is_given_where_there_is_a_factor_for_it_and_nowhere_else() -> None:
    rows, mask = np.zeros((1, 4), np.int8), np.zeros(4, np.int8)
    for function, given in ((Softmax.of(0.1), mask), (Softmax.of(0.1, mask_scale=0.2), None)):
        with pytest.raises(WorkloadError, match="softmax: mask"):
            softmax(rows, function, given)
    with pytest.raises(WorkloadError, match="softmax: mask"):
        Softmax.of(0.1, mask_scale=100.0)


@pytest.mark.parametrize("channels", [16, 48, 128, 768, 4096])
@pytest.mark.parametrize("outlier", [0, 4])
def test_layer_norm_is_within_a_quarter_step_before_it_is_rounded(channels, outlier) -> None:
    rng = np.random.default_rng(channels + outlier)
    x = rng.normal(0.3, 1, (40, channels)) * np.exp(rng.normal(0, 0.5, (40, 1)))
    x[:, :2] += 3.0 * outlier
    rows = np.clip(np.rint(x / (np.abs(x).max() / 127)), -128, 127).astype(np.int8)
    gamma, beta = rng.normal(1, 0.4, channels), rng.normal(0, 0.5, channels)
    y = rows.astype(float)
    y = (y - y.mean(axis=-1, keepdims=True)) / y.std(axis=-1, keepdims=True)
    unscaled = normalised(rows, LayerNorm.of(gamma, beta, 0.05)) / 2**NORMAL_BITS
    assert np.abs(unscaled - y).max() < 0.25 * np.abs(y).max() / 127
    y = y * gamma + beta
    scale = float(np.abs(y).max() / 127)
    found = layer_norm(rows, LayerNorm.of(gamma, beta, scale))
    assert np.abs(found - y / scale).max() < 0.8
    assert np.abs(found - y / scale).mean() < 0.27  # rounding alone makes 0.25


@pytest.mark.parametrize("channels", [2, 5, 32, 197, 1024])
def test_rows_of_two_values_are_within_six_tenths_of_a_step(channels) -> None:
    """The factor of the widest rows has 8 bits."""
    rng = np.random.default_rng(channels)
    rows = rng.choice(np.array([-128, 127], dtype=np.int8), (100, channels))
    rows[:, 0], rows[:, 1] = -128, 127
    y = rows.astype(float)
    y = (y - y.mean(axis=-1, keepdims=True)) / y.std(axis=-1, keepdims=True)
    found = normalised(rows, LayerNorm.of(np.ones(channels), np.zeros(channels), 1.0))
    assert np.abs(found / 2**NORMAL_BITS - y).max() < 0.6 * np.abs(y).max() / 127


@pytest.mark.parametrize("epsilon", [-1e-9, np.inf, np.nan])
def test_layer_norm_refuses_an_epsilon_that_is_none(epsilon) -> None:
    with pytest.raises(WorkloadError, match="epsilon"):
        LayerNorm.of(np.ones(4), np.zeros(4), 1.0, epsilon=epsilon)


@pytest.mark.parametrize("shape", [(0,), (5000,), (4, 4)])
def test_layer_norm_refuses_parameters_of_other_shapes(shape) -> None:
    with pytest.raises(WorkloadError, match="gamma, beta"):
        LayerNorm.of(np.ones(shape), np.zeros(shape), 1.0)


# -- powers of two and binary logarithms of the row unit against floats ---------------------------

ONE = 1 << 16


def test_powers_are_within_6_parts_in_10000_of_the_float() -> None:
    exponent = np.arange(16 * ONE, 31 * ONE, 7)
    exact = 2.0 ** (exponent / ONE)
    assert np.abs(exp2(exponent) / exact - 1).max() < 6e-4


@pytest.mark.parametrize(
    ("exponent", "power"), [(-(2**31), 0), (-1, 0), (0, 1), (ONE, 2), (30 * ONE, 2**30)]
)
def test_powers_at_the_ends(exponent: int, power: int) -> None:
    assert abs(int(exp2(exponent)) - power) <= 6e-4 * power


def test_logarithms_are_within_4_parts_in_10000_of_the_value() -> None:
    rng = np.random.default_rng(1)
    value = np.unique(np.rint(2.0 ** rng.uniform(1, 47, 200_000)).astype(np.int64))
    error = log2(value) / ONE - np.log2(value)
    assert np.abs(error).max() * np.log(2) < 4e-4


def test_the_leading_one_is_found_in_every_place() -> None:
    places = np.arange(1, 47)
    assert (log2(np.int64(1) << places) >> 16).tolist() == places.tolist()
    assert (log2((np.int64(2) << places) - 1) >> 16).tolist() == places.tolist()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_sum_of_entries_overflows(table) -> None:
    assert min(table.coarse) >= 0
    assert min(table.fine) >= 0
    assert max(table.coarse) + max(table.fine) < 2 ** (table.result_bits + 1)
    size = 1 << table.middle
    fine = [max(table.fine[h << table.low : (h + 1) << table.low]) for h in range(1 << table.high)]
    worst = max(entry + fine[index // size] for index, entry in enumerate(table.coarse))
    assert worst < 2**table.result_bits
