# SPDX-License-Identifier: Apache-2.0
"""GEMM kernels: which loops the hardware runs and which a micro-op sequence enumerates.

A kernel is relative to the instruction's base fields, so all tiles of one shape share it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.isa import UOP_FIELDS

ITERATIONS_MAX: Final = (1 << 16) - 1
"""Most iterations of a hardware loop."""


class Axis(NamedTuple):
    """A loop: its trip count and the step of each operand, in tiles."""

    trips: int
    acc: int
    inp: int
    wgt: int


ONCE: Final = Axis(1, 0, 0, 0)


class Kernel(NamedTuple):
    """A micro-op sequence: output axes (outermost first), then reduction axes."""

    outputs: tuple[Axis, ...]
    reduction: tuple[Axis, ...]

    @property
    def length(self) -> int:
        """Micro-ops."""
        length = 1
        for axis in self.outputs:
            length *= axis.trips
        for axis in self.reduction:
            length *= axis.trips
        return length


class Gemm(NamedTuple):
    """A GEMM instruction's loops and kernel for one shape of tile."""

    outer: Axis
    inner: Axis
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
) -> Gemm:
    """Split one tile's loops into two hardware loops and a kernel with the fewest micro-ops.

    Scratchpad layouts: ACC [blocks_out][batches][rows][columns], INP
    [batches][inp_blocks][loaded rows][loaded columns], WGT [blocks_out][blocks_in][kh][kw].

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
        inp_blocks: input blocks of the INP tile.
        inp_per_out: input blocks from one output block's to the next one's (depthwise).
    """
    loaded_columns = (columns - 1) * column_step + (kernel_w - 1) * dilation_w + 1
    loaded_rows = (rows - 1) * row_step + (kernel_h - 1) * dilation_h + 1
    plane = loaded_rows * loaded_columns
    taps = kernel_h * kernel_w
    axes = [
        Axis(columns, 1, column_step, 0),
        Axis(rows, columns, row_step * loaded_columns, 0),
        Axis(batches, rows * columns, inp_blocks * plane, 0),
        Axis(blocks_out, batches * rows * columns, inp_per_out * plane, blocks_in * taps),
    ]
    merged = _merge([axis for axis in axes if axis.trips > 1])
    outer, inner = _hardware_loops(merged)
    outputs = tuple(axis for axis in reversed(merged) if axis not in (outer, inner))
    reduction = tuple(
        axis
        for axis in (
            Axis(blocks_in, 0, plane, taps),
            Axis(kernel_h, 0, dilation_h * loaded_columns, kernel_w),
            Axis(kernel_w, 0, dilation_w, 1),
        )
        if axis.trips > 1
    )
    kernel = Kernel(outputs, reduction)
    return Gemm(outer, inner, kernel, kernel.length)


def _merge(axes: list[Axis]) -> list[Axis]:
    """Join neighbouring axes (innermost first) that are one affine loop together."""
    merged: list[Axis] = []
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


def _hardware_loops(axes: list[Axis]) -> tuple[Axis, Axis]:
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
    for index, name in enumerate(("acc", "inp", "wgt"), start=1):
        total = np.zeros((1,) * len(axes), dtype=np.uint64)
        for position, axis in enumerate(axes):
            shape = [1] * len(axes)
            shape[position] = axis.trips
            steps = np.arange(axis.trips, dtype=np.uint64) * np.uint64(axis[index])
            total = total + steps.reshape(shape)
        fields[name] = np.broadcast_to(total, [axis.trips for axis in axes]).ravel()
    reductions = 1
    for axis in kernel.reduction:
        reductions *= axis.trips
    fields["first"] = (np.arange(kernel.length) % reductions == 0).astype(np.uint64)
    word = np.zeros(kernel.length, dtype=np.uint64)
    position = 0
    for field in UOP_FIELDS:
        word |= fields[field.name] << np.uint64(position)
        position += field.bits
    return word.astype("<u8").tobytes()
