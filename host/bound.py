# SPDX-License-Identifier: Apache-2.0
"""The bound of a layer: no schedule on this array and memory can take fewer cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.host.board import MemoryModel
from tilewright.host.hwconfig import PARAM_BYTES_PER_CHANNEL, HwConfig
from tilewright.host.lowering.geometry import geometry
from tilewright.host.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lower bound of a workload's cycles.

    Attributes:
        cycles: the largest of the parts below, rounded up.
        limiter: which part that is: ``mac``, ``read``, ``write`` or ``shared``.
        mac_cycles: tile products, channels in whole blocks, kernel columns folded where the
            lowering folds them.
        read_bytes: input pixels that some kernel position touches, weights, parameters and
            residual, each once, without the padding of blocks.
        write_bytes: the output, once.
    """

    cycles: int
    limiter: str
    mac_cycles: int
    read_bytes: int
    write_bytes: int


def _touched(*, out: int, stride: int, pad: int, kernel: int, dilation: int, size: int) -> int:
    """Positions of an axis that some kernel position reads."""
    return len(
        {
            position
            for tap in range(kernel)
            for position in range(tap * dilation - pad, tap * dilation - pad + out * stride, stride)
            if 0 <= position < size
        }
    )


def bound(hw: HwConfig, workload: Workload, memory: MemoryModel) -> Bound:
    """The bound of a workload on a configuration and memory.

    A channel moves at most min(AXI width, the memory's figure) bytes a cycle; where the
    memory model shares its bandwidth, both directions together also obey that.
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
    read = (
        workload.n * workload.channels_in * rows * columns
        + math.prod(workload.weight_shape)
        + workload.channels_out * PARAM_BYTES_PER_CHANNEL
        + (output if workload.residual else 0)
    )
    parts = {
        "mac": float(geometry(hw, workload).mac_tiles),
        "read": read / min(hw.axi_bytes, memory.read_bytes_per_cycle),
        "write": output / min(hw.axi_bytes, memory.write_bytes_per_cycle),
    }
    if memory.shared_bytes_per_cycle > 0:
        parts["shared"] = (read + output) / memory.shared_bytes_per_cycle
    limiter = max(parts, key=lambda name: parts[name])
    return Bound(
        cycles=math.ceil(parts[limiter]),
        limiter=limiter,
        mac_cycles=int(parts["mac"]),
        read_bytes=read,
        write_bytes=output,
    )
