# SPDX-License-Identifier: Apache-2.0
"""Powers of two and binary logarithms of the row unit against floats."""

import numpy as np
import pytest

from tilewright.host.machine.log_tables import TABLES
from tilewright.host.network.row_arithmetic import exp2, held, log2, low_bits

ONE = 1 << 16


def test_powers_are_within_6_parts_in_10000_of_the_float() -> None:
    exponent = np.arange(16 * ONE, 31 * ONE, 7)
    exact = 2.0 ** (exponent / ONE)
    assert np.abs(exp2(exponent) / exact - 1).max() < 6e-4


def test_small_powers_are_rounded_down() -> None:
    exponent = np.arange(0, 16 * ONE, 5)
    exact = 2.0 ** (exponent / ONE)
    error = exp2(exponent) - exact
    assert error.max() < 6e-4 * 2**16
    assert (error > -1 - 6e-4 * exact).all()


@pytest.mark.parametrize(
    ("exponent", "power"),
    [(-(2**31), 0), (-1, 0), (0, 1), (ONE, 2), (30 * ONE, 2**30)],
)
def test_powers_at_the_ends(exponent: int, power: int) -> None:
    assert abs(int(exp2(exponent)) - power) <= 6e-4 * power


def test_exponents_of_31_and_more_count_as_the_greatest_below() -> None:
    greatest = int(exp2(31 * ONE - 1))
    assert exp2([31 * ONE, 32 * ONE, 2**31 - 1]).tolist() == [greatest] * 3
    assert greatest < 2**31


def test_logarithms_are_within_4_parts_in_10000_of_the_value() -> None:
    rng = np.random.default_rng(1)
    value = np.unique(np.rint(2.0 ** rng.uniform(1, 47, 200_000)).astype(np.int64))
    error = log2(value) / ONE - np.log2(value)
    assert np.abs(error).max() * np.log(2) < 4e-4


@pytest.mark.parametrize("value", [-(2**47), -1, 0, 1])
def test_the_logarithm_of_what_is_below_2_is_0(value: int) -> None:
    assert log2(value) == 0


def test_the_leading_one_is_found_in_every_place() -> None:
    places = np.arange(1, 47)
    assert (log2(np.int64(1) << places) >> 16).tolist() == places.tolist()
    assert (log2((np.int64(2) << places) - 1) >> 16).tolist() == places.tolist()


def test_what_mul_holds_are_18_bits() -> None:
    values = [0, 2**17 - 1, 2**17, -(2**17), -(2**17) - 1, 2**31 - 1]
    assert held(values).tolist() == [0, 2**17 - 1, -(2**17), -(2**17), 2**17 - 1, -1]
    assert low_bits(2**47, 48) == -(2**47)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_sum_of_entries_overflows(table) -> None:
    assert min(table.coarse) >= 0
    assert min(table.fine) >= 0
    assert max(table.coarse) + max(table.fine) < 2 ** (table.result_bits + 1)
    size = 1 << table.middle
    fine = [max(table.fine[h << table.low : (h + 1) << table.low]) for h in range(1 << table.high)]
    worst = max(entry + fine[index // size] for index, entry in enumerate(table.coarse))
    assert worst < 2**table.result_bits
