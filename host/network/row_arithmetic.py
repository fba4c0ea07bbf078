# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the row unit: powers of two, binary logarithms and sums of rows, exact.

This module is the authority on these functions; the RTL and every device agree.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.isa import HELD_BITS, SUM_BITS
from tilewright.host.machine.log_tables import ARGUMENT_BITS, EXP2, LOG2, LogTable

Ints = npt.NDArray[np.int64]

_GREATEST: Final = (31 << ARGUMENT_BITS) - 1
"""Greatest exponent whose power of two is an int32."""


def _entries(table: LogTable) -> Ints:
    """A table's value for every index."""
    coarse = np.array(table.coarse).reshape(1 << table.high, 1 << table.middle, 1)
    fine = np.array(table.fine).reshape(1 << table.high, 1, 1 << table.low)
    entries: Ints = (coarse + fine).reshape(-1)
    return entries


_EXP2: Final = _entries(EXP2)
_LOG2: Final = _entries(LOG2)


def exp2(exponent: npt.ArrayLike) -> Ints:
    """About 2^(exponent / 2^16), rounded down: the operation EXP2.

    Below 0 it is 0; exponents of 31 * 2^16 and more count as the greatest below.

    Args:
        exponent: int32 values of any shape.
    """
    given = np.asarray(exponent, dtype=np.int64)
    a = np.clip(given, 0, _GREATEST)
    index = (a >> (ARGUMENT_BITS - EXP2.index_bits)) & ((1 << EXP2.index_bits) - 1)
    power = (_EXP2[index] << (31 - EXP2.result_bits)) >> (30 - (a >> ARGUMENT_BITS))
    return np.where(given < 0, 0, power)


def log2(value: npt.ArrayLike) -> Ints:
    """The binary logarithm of a value, about, times 2^16: what LOG_SUM makes of a sum; 0 below 2.

    Args:
        value: integers below 2^48 of any shape.
    """
    v = np.maximum(np.asarray(value, dtype=np.int64), 1)
    leading = np.zeros_like(v)
    for shift in (32, 16, 8, 4, 2, 1):
        leading += np.where(v >> (leading + shift) > 0, shift, 0)
    fraction = (v << (SUM_BITS - 1 - leading)) & ((1 << (SUM_BITS - 1)) - 1)
    index = fraction >> (SUM_BITS - 1 - LOG2.index_bits)
    return np.where(v < 2, 0, (leading << ARGUMENT_BITS) + _LOG2[index])


def saturated(value: npt.ArrayLike) -> Ints:
    """Integers as ADD, SUB and MUL leave them: within int32."""
    result: Ints = np.clip(np.asarray(value, dtype=np.int64), -(2**31), 2**31 - 1)
    return result


def low_bits(value: npt.ArrayLike, bits: int) -> Ints:
    """The lowest bits of integers, as a signed number."""
    half = np.int64(1) << (bits - 1)
    return ((np.asarray(value, dtype=np.int64) + half) & (2 * half - 1)) - half


def held(value: npt.ArrayLike) -> Ints:
    """What MUL takes of an ACC tile as its second operand."""
    return low_bits(value, HELD_BITS)
