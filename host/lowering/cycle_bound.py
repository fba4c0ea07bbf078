# SPDX-License-Identifier: Apache-2.0
"""The bound of a layer: no schedule on this array and memory can take fewer cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, HwConfig
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.workload import Kind, Workload


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lower bound of a workload's cycles.

    Attributes:
        limiter: which part that is: ``mac`` (``vector`` for a max pool), ``read``, ``write`` or
            ``shared``.
        mac_cycles: tile products, channels in whole blocks, kernel columns folded where the
            lowering folds them; 0 for a max pool.
        vector_cycles: what the vector unit takes for a max pool: every output tile once for each
            kernel position, but those above and below the image, and once to requantise, in parts
            of ``vector_lanes`` elements; 0 for other workloads, whose epilogue runs behind GEMM.
        read_bytes: input pixels that some kernel position touches, weights, parameters and
            residual, each once, without the padding of blocks.
    """

    cycles: int  # the largest of the parts below, rounded up
    limiter: str
    mac_cycles: int
    vector_cycles: int
    read_bytes: int
    write_bytes: int  # the output, once


def _touched(*, out: int, stride: int, pad: int, kernel: int, dilation: int, size: int) -> int:
    """Positions of an axis that some kernel position reads; costs no more on a longer axis."""
    runs: dict[int, list[tuple[int, int]]] = {}  # by position modulo stride, in steps of stride
    for tap in range(kernel):
        step, remainder = divmod(tap * dilation - pad, stride)
        last = (size - 1 - remainder) // stride
        runs.setdefault(remainder, []).append((max(step, 0), min(step + out - 1, last)))
    touched = 0
    for ranges in runs.values():
        end = -1
        for first, last in sorted(ranges):
            touched += max(last - max(first, end + 1) + 1, 0)
            end = max(end, last)
    return touched


_ROW_PASSES: Final = 6
"""Of a tile through VECTOR in layer normalisation; softmax has one more."""


def _vector_cycles(hw: HwConfig, workload: Workload) -> int:
    """Cycles of the vector unit without convolution; channels and batch in whole blocks."""
    tiles = blocks_of(workload.n, hw.batch) * blocks_of(workload.channels_out, hw.block_out)
    tiles *= hw.out_tile_bytes // hw.vector_lanes
    if workload.kind.pairs:  # move, multiply, requantise; a factor of one pixel moves once
        pixels = workload.height * workload.width
        moved = 1 if workload.kind is Kind.SCALE else pixels
        return tiles * (moved + 2 * pixels)
    if not workload.kind.alone:
        passes_of_tile = _ROW_PASSES if workload.kind is Kind.ROWS else 1
        return tiles * workload.height * workload.width * passes_of_tile

    def passes(out: int) -> int:
        top = out * workload.stride_h - workload.pad_top
        stored = min(top + workload.kernel_h, workload.height) - max(top, 0)
        return max(stored * workload.kernel_w, 1) + 1

    # Windows between `first` and `end` are whole: there are many; the others reach into padding.
    outs = workload.out_height
    first = min(math.ceil(workload.pad_top / workload.stride_h), outs)
    fitting = (workload.height - workload.kernel_h + workload.pad_top) // workload.stride_h + 1
    end = max(min(fitting, outs), first)
    whole = (end - first) * (workload.kernel_h * workload.kernel_w + 1)
    total = whole + sum(map(passes, (*range(first), *range(end, outs))))
    return tiles * workload.out_width * total


def bound(
    hw: HwConfig, workload: Workload, memory: MemoryModel, *, read_bytes: int | None = None
) -> Bound:
    """The bound of a workload on a configuration and memory.

    A channel moves at most min(AXI width, the memory's figure) bytes per cycle; where the
    memory model shares its bandwidth, both directions together also obey that. The last beat takes
    at most one cycle: nothing waits until the channel is free behind it.

    Args:
        hw: the configuration.
        workload: what is computed.
        memory: the memory.
        read_bytes: most that it reads in its place, behind layers with which it shares operands;
            None: it is alone.
    """
    rows = _touched(
        out=workload.out_height,
        stride=workload.stride_h,
        pad=workload.pad_top,
        kernel=workload.kernel_h,
        dilation=workload.dilation_h,
        size=workload.height,
    )
    columns = _touched(
        out=workload.out_width,
        stride=workload.stride_w,
        pad=workload.pad_left,
        kernel=workload.kernel_w,
        dilation=workload.dilation_w,
        size=workload.width,
    )
    output = math.prod(workload.output_shape)
    weighs = workload.kind.weighs
    weights = math.prod(workload.weight_shape)
    if weighs and geometry(hw, workload).int4:
        weights = -(-weights * hw.int4_tile_bytes // hw.wgt_tile_bytes)
    read = (
        workload.n * workload.channels_in * rows * columns
        + weights
        + math.prod(workload.factor_shape)
        + (0 if workload.kind is Kind.GATHER else workload.channels_out * PARAM_BYTES_PER_CHANNEL)
        + (output if workload.residual else 0)
    )
    read = read if read_bytes is None else min(read, read_bytes)
    compute = geometry(hw, workload).mac_tiles if weighs else _vector_cycles(hw, workload)
    parts = {
        "mac" if weighs else "vector": float(compute),
    }
    moved = {"read": read, "write": output, "shared": read + output}
    for (name, nbytes), beat in zip(moved.items(), memory.beat_cycles(hw.axi_bytes), strict=True):
        parts[name] = nbytes / hw.axi_bytes * beat - max(0.0, beat - 1)
    limiter = max(parts, key=lambda name: parts[name])
    return Bound(
        cycles=math.ceil(parts[limiter]),
        limiter=limiter,
        mac_cycles=compute if weighs else 0,
        vector_cycles=0 if weighs else compute,
        read_bytes=read,
        write_bytes=output,
    )
