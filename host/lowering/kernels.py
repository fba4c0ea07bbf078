# SPDX-License-Identifier: Apache-2.0
"""GEMM kernels: which loops the hardware runs and which a micro-op sequence enumerates.

A kernel is relative to the instruction's base fields, so all tiles of one shape share it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.isa import UOP_FIELDS
from tilewright.host.network.layout import blocks_of

ITERATIONS_MAX: Final = (1 << 16) - 1
"""Most iterations of a hardware loop."""


class GemmLoop(NamedTuple):
    """A loop: its trip count and the step of each operand, in tiles."""

    trips: int
    acc: int
    inp: int
    wgt: int


ONCE: Final = GemmLoop(1, 0, 0, 0)


class Kernel(NamedTuple):
    """A micro-op sequence: output axes (outermost first), then reduction axes.

    The reduction ends after `products` micro-ops, which is less than its axes' product when the
    last stored block of the input is not filled.
    """

    outputs: tuple[GemmLoop, ...]
    reduction: tuple[GemmLoop, ...]
    products: int

    @property
    def length(self) -> int:
        """Micro-ops."""
        return self.products * prod(axis.trips for axis in self.outputs)


class Gemm(NamedTuple):
    """A GEMM instruction's loops and kernel for one shape of tile."""

    outer: GemmLoop
    inner: GemmLoop
    kernel: Kernel
    length: int
    """Micro-ops of the kernel."""


@lru_cache(maxsize=16384)
def gemm_loops(
    *,
    blocks_out: int,
    blocks_in: int,
    batches: int,
    rows: int,
    columns: int,
    kernel_h: int,
    kernel_w: int,
    row_step: int,
    column_step: int,
    dilation_h: int,
    dilation_w: int,
    inp_blocks: int,
    inp_per_out: int,
    interleave: int,
) -> Gemm:
    """Split one tile's loops into two hardware loops and a kernel with the fewest micro-ops.

    Scratchpad layouts: ACC [blocks_out][batches][rows][columns], INP
    [batches][inp_blocks / interleave][loaded rows][loaded columns][interleave], WGT
    [blocks_out][blocks_in][kh][kw].

    Args:
        blocks_out: output-channel blocks.
        blocks_in: input blocks that each of them reduces over.
        batches: batch tiles.
        rows: output rows.
        columns: output columns.
        kernel_h: kernel rows.
        kernel_w: kernel columns.
        row_step: loaded rows from one output row to the next.
        column_step: loaded columns from one output column to the next.
        dilation_h: loaded rows from one kernel row to the next.
        dilation_w: loaded columns from one kernel column to the next.
        inp_blocks: input blocks of the INP tile; whole stored blocks are loaded.
        inp_per_out: input blocks from one output block's to the next one's (depthwise); whole
            stored blocks.
        interleave: input blocks of a stored block.
    """
    loaded_columns = (columns - 1) * column_step + (kernel_w - 1) * dilation_w + 1
    loaded_rows = (rows - 1) * row_step + (kernel_h - 1) * dilation_h + 1
    line = loaded_columns * interleave
    plane = loaded_rows * line
    taps = kernel_h * kernel_w
    planes, per_out = blocks_of(inp_blocks, interleave), inp_per_out // interleave
    axes = [
        GemmLoop(columns, 1, column_step * interleave, 0),
        GemmLoop(rows, columns, row_step * line, 0),
        GemmLoop(batches, rows * columns, planes * plane, 0),
        GemmLoop(blocks_out, batches * rows * columns, per_out * plane, blocks_in * taps),
    ]
    merged = _merge([axis for axis in axes if axis.trips > 1])
    outer, inner = _hardware_loops(merged)
    outputs = tuple(axis for axis in reversed(merged) if axis not in (outer, inner))
    reduction = tuple(
        axis
        for axis in (
            GemmLoop(blocks_of(blocks_in, interleave), 0, plane, interleave * taps),
            GemmLoop(min(blocks_in, interleave), 0, 1, taps),
            GemmLoop(kernel_h, 0, dilation_h * line, kernel_w),
            GemmLoop(kernel_w, 0, dilation_w * interleave, 1),
        )
        if axis.trips > 1
    )
    kernel = Kernel(outputs, reduction, blocks_in * taps)
    return Gemm(outer, inner, kernel, kernel.length)


def _merge(axes: list[GemmLoop]) -> list[GemmLoop]:
    """Join neighbouring axes (innermost first) that are one affine loop together."""
    merged: list[GemmLoop] = []
    for axis in axes:
        if merged:
            last = merged[-1]
            trips = last.trips * axis.trips
            steps = (last.trips * last.acc, last.trips * last.inp, last.trips * last.wgt)
            if axis[1:] == steps and trips <= ITERATIONS_MAX:
                merged[-1] = last._replace(trips=trips)
                continue
        merged.append(axis)
    return merged


def _hardware_loops(axes: list[GemmLoop]) -> tuple[GemmLoop, GemmLoop]:
    """The two longest axes (outer, inner): what is left needs the fewest micro-ops."""
    if not axes:
        return ONCE, ONCE
    if len(axes) == 1:
        return ONCE, axes[0]
    inner, outer = max(combinations(axes, 2), key=lambda pair: pair[0].trips * pair[1].trips)
    return outer, inner


@lru_cache(maxsize=1024)
def kernel_bytes(kernel: Kernel) -> bytes:
    """The kernel's micro-ops, 8 bytes each, as they lie in DRAM."""
    fields: dict[str, npt.NDArray[np.uint64]] = {}
    axes = [*kernel.outputs, *kernel.reduction]
    outputs = prod(axis.trips for axis in kernel.outputs)
    for index, name in enumerate(("acc", "inp", "wgt"), start=1):
        total = np.zeros((1,) * len(axes), dtype=np.uint64)
        for position, axis in enumerate(axes):
            shape = [1] * len(axes)
            shape[position] = axis.trips
            steps = np.arange(axis.trips, dtype=np.uint64) * np.uint64(axis[index])
            total = total + steps.reshape(shape)
        every = np.broadcast_to(total, [axis.trips for axis in axes]).reshape(outputs, -1)
        fields[name] = every[:, : kernel.products].ravel()
    fields["first"] = (np.arange(kernel.length) % kernel.products == 0).astype(np.uint64)
    word = np.zeros(kernel.length, dtype=np.uint64)
    position = 0
    for field in UOP_FIELDS:
        word |= fields[field.name] << np.uint64(position)
        position += field.bits
    return word.astype("<u8").tobytes()
