# SPDX-License-Identifier: Apache-2.0
"""The tables of the row unit: powers of two and binary logarithms of fractions.

A *bipartite* table (Das Sarma and Matula, *Faithful bipartite ROM reciprocal tables*, 1995) gives a
function of a fraction as a sum of two entries: one for its high and middle bits, and one for its
high and low bits, the slope of the function being about the same wherever the high bits are. Values
are taken in the middle of what a fraction stands for.

`host.machine.codegen` writes the tables to `rtl/generated/tw_pkg.sv` and for C++.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ARGUMENT_BITS: Final = 16
"""Fraction bits of an exponent, as EXP2 takes it and LOG_SUM gives it."""


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """A function of a fraction from 0 to 1 as a sum of two entries.

    Attributes:
        high, middle, low: bits of the fraction, the first ones the highest.
    """

    name: str  # in generated files
    meaning: str  # in their comments
    high: int
    middle: int
    low: int
    result_bits: int  # of the sum
    coarse: tuple[int, ...]  # entries by the high and middle bits
    fine: tuple[int, ...]  # entries by the high and low bits

    @property
    def index_bits(self) -> int:
        """Bits of the fraction."""
        return self.high + self.middle + self.low


def _bipartite(
    name: str,
    meaning: str,
    function: Callable[[float], float],
    bits: tuple[int, int, int],
    result_bits: int,
) -> LogTable:
    """The table whose entries halve the largest error of what shares them."""
    highs, middles, lows = (range(1 << count) for count in bits)
    high, middle, low = bits

    def value(h: int, m: int, k: int) -> float:
        index = ((h << middle | m) << low) | k
        return function((index + 0.5) / (1 << (high + middle + low)))

    def centre(values: list[float]) -> int:
        return round((min(values) + max(values)) / 2)

    fine = [
        [centre([value(h, m, k) - value(h, m, 0) for m in middles]) for k in lows] for h in highs
    ]
    coarse = [centre([value(h, m, k) - fine[h][k] for k in lows]) for h in highs for m in middles]
    return LogTable(
        name=name,
        meaning=meaning,
        high=high,
        middle=middle,
        low=low,
        result_bits=result_bits,
        coarse=tuple(coarse),
        fine=tuple(entry for entries in fine for entry in entries),
    )


EXP2: Final = _bipartite(
    "Exp2", "2^14 times 2^f of a fraction f", lambda f: math.ldexp(2.0**f, 14), (3, 3, 4), 15
)
"""2^f of a fraction f, with 14 bits behind the point."""

LOG2: Final = _bipartite(
    "Log2",
    "2^16 times log2(1 + f) of a fraction f",
    lambda f: math.ldexp(math.log2(1.0 + f), ARGUMENT_BITS),
    (4, 3, 4),
    16,
)
"""log2(1 + f) of a fraction f, with `ARGUMENT_BITS` bits behind the point."""

TABLES: Final = (EXP2, LOG2)
