# SPDX-License-Identifier: Apache-2.0
"""What VECTOR computes, one element at a time in unbounded integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tilewright.host.machine.isa import Reduce, VectorOp
from tilewright.host.network.row_arithmetic import exp2, log2

LOW, HIGH = -(2**31), 2**31 - 1


def saturated(value: int) -> int:
    return min(max(value, LOW), HIGH)


def signed(value: int, bits: int) -> int:
    """The lowest bits as two's complement."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


OPERATIONS: dict[int, Callable[[int, int], int]] = {
    VectorOp.MIN: min,
    VectorOp.MAX: max,
    VectorOp.ADD: lambda x, y: saturated(x + y),
    VectorOp.SUB: lambda x, y: saturated(x - y),
    VectorOp.SHR: lambda x, y: x >> min(max(y, 0), 31),
    VectorOp.MUL: lambda x, y: saturated(x * signed(y, 18)),
    VectorOp.MOV: lambda x, y: y,
    VectorOp.SQUARE: lambda x, y: saturated(x * signed(x, 18)),
    VectorOp.EXP2: lambda x, y: int(exp2(x)),
}


def requantised(acc: int, residual: int, p: Mapping[str, int], low: int, high: int) -> int:
    """Rounded once, half to even."""
    total = (acc + p["bias"]) * p["m1"] + residual * p["m2"] * 256
    return min(max(round(Fraction(total, 2 ** p["shift"])) + p["zero_point"], low), high)


def reduced(kind: int, values: Sequence[int]) -> int:
    """What a reduction leaves of a row."""
    if kind == Reduce.MAX:
        return max(values)
    total = signed(sum(values), 48)
    return int(log2(total)) if kind == Reduce.LOG_SUM else saturated(total)
