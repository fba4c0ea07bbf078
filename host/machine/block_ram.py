# SPDX-License-Identifier: Apache-2.0
"""What an FPGA memory costs: block RAMs or LUT RAMs of one simple dual-port memory.

Follows the cost rules by which Yosys (`memory_libmap` with the 7-series library) chooses between
block RAM and LUT RAM and picks the aspect ratio, for a memory with one write and one clocked read
port. Primitives: Xilinx UG473 chapter 1 (18 and 36 Kb block RAM) and UG474 (RAM32M, RAM64M).
UltraScale+ has the same block RAM and the same LUT RAM per LUT.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

_BYTE_BITS: Final = 9
"""Data bits of a block RAM that share a write enable."""


@dataclass(frozen=True, kw_only=True)
class _Primitive:
    """A memory primitive, or one that is configured as such."""

    kind: str  # resource that it uses
    address_bits: int  # log2 of its depth at a width of one bit
    widths: tuple[tuple[int, int], ...]  # usable data widths by log2 of the depth that they cost
    cost: int  # what one instance costs
    width_cost: int  # part of `cost` that is counted by the data bits in use
    write_bits: int  # bits that share a write enable; 0: the whole width


_BLOCK_WIDTHS: Final = ((0, 1), (1, 2), (2, 4), (3, 9), (4, 18), (5, 36))
_PRIMITIVES: Final = (
    _Primitive(kind="ramb18", address_bits=14, widths=_BLOCK_WIDTHS, cost=129,
               width_cost=0, write_bits=_BYTE_BITS),
    _Primitive(kind="ramb36", address_bits=15, widths=(*_BLOCK_WIDTHS, (6, 72)), cost=257,
               width_cost=0, write_bits=_BYTE_BITS),
    _Primitive(kind="lutram", address_bits=5, widths=((0, 6),), cost=8, width_cost=7,
               write_bits=0),
    _Primitive(kind="lutram", address_bits=6, widths=((0, 3),), cost=8, width_cost=7,
               write_bits=0),
)  # fmt: skip
_LUTS_OF_LUTRAM: Final = 4


@dataclass(frozen=True, kw_only=True)
class MemoryCost:
    """Block RAMs of a memory; all zero when registers are cheaper."""

    ramb36: int = 0
    ramb18: int = 0
    lutram: int = 0  # LUTs used as memory

    def times(self, count: int) -> MemoryCost:
        """The cost of ``count`` such memories."""
        return MemoryCost(
            ramb36=count * self.ramb36, ramb18=count * self.ramb18, lutram=count * self.lutram
        )


@functools.cache
def memory_cost(
    *, width: int, depth: int, write_bits: int, used: tuple[bool, ...] | None = None
) -> MemoryCost:
    """Map one memory."""
    best_cost: float = width * depth  # a register for each bit
    chosen: tuple[_Primitive, int] | None = None
    groups = width // write_bits
    for primitive in _PRIMITIVES:
        for log_width, unit in primitive.widths:
            stacks = -(-depth // (1 << (primitive.address_bits - log_width)))
            row_bits = _column(primitive, unit, write_bits) * groups
            cost: float = (primitive.cost - primitive.width_cost) * -(-stacks * row_bits // unit)
            cost += primitive.width_cost * stacks * width / unit
            if stacks > 1:  # read multiplexers and write decoders between the stacks
                cost += ((stacks - 1) * width + stacks * groups) / 2
            if cost < best_cost:
                best_cost, chosen = cost, (primitive, log_width)
    if chosen is None:
        return MemoryCost()
    primitive, log_width = chosen
    unit = dict(primitive.widths)[log_width]
    stacks = -(-depth // (1 << (primitive.address_bits - log_width)))
    instances = _instances(
        unit, stacks, _column(primitive, unit, write_bits), width, write_bits, used
    )
    luts = _LUTS_OF_LUTRAM if primitive.kind == "lutram" else 1
    return MemoryCost(**{primitive.kind: instances * luts})


def _column(primitive: _Primitive, unit: int, write_bits: int) -> int:
    """Bits that an independently written group takes in a primitive used ``unit`` bits wide."""
    grain = min(primitive.write_bits or unit, unit)
    return -(-write_bits // grain) * grain


def _instances(
    unit: int, stacks: int, column: int, width: int, write_bits: int, used: tuple[bool, ...] | None
) -> int:
    """Primitives that hold at least one bit that is read."""
    row_bits = column * (width // write_bits)
    if used is None:
        return -(-stacks * row_bits // unit)
    keep = set()
    for bit, read in enumerate(used):
        if read:
            place = bit // write_bits * column + bit % write_bits
            keep |= {(place + stack * row_bits) // unit for stack in range(stacks)}
    return len(keep)
