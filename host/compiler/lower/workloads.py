# SPDX-License-Identifier: Apache-2.0
"""Pieces that layers are made of: workloads on tensors, parts of weights and parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.compiler.lower.qgraph import QConv, QOperator, QPool, QTensor
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.int4_tiles import HIGHEST, LOWEST, are_packable, has_scales
from tilewright.host.network.layout import folds, output_block, weight_tiles
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.workload import Kind, Workload

Int8Array = npt.NDArray[np.int8]


def refused(operator: QOperator, why: str) -> WorkloadError:
    """Why the accelerator does not compute an operator in this form."""
    return WorkloadError(why, field=operator.name, remedy="run this operator on the CPU")


def workload_on(operator: QOperator, data: QTensor, **values: Any) -> Workload:
    """A workload on a tensor: of one pixel and as many channels, where ``values`` say no other."""
    n, channels, height, width = data.shape
    shape = {"n": n, "height": height, "width": width, "channels_in": channels}
    plain = {**shape, "channels_out": channels, "relu": False}
    return Workload(name=label_of(operator.name), **{**plain, **values})


def window_workload(operator: QConv, data: QTensor, weights: Int8Array, **values: Any) -> Workload:
    """A convolution's workload, all its groups in one; ``values`` say what is otherwise."""
    channels, outputs = data.shape[1], len(weights)
    depthwise = operator.groups > 1 and operator.groups == channels == outputs
    plain = {
        **window_of(operator, weights.shape[2:]),
        "kind": Kind.DEPTHWISE if depthwise else Kind.CONV2D,
        "channels_out": outputs,
        "dilation_h": operator.dilation[0],
        "dilation_w": operator.dilation[1],
        "residual": len(operator.inputs) > 1,
    }
    return workload_on(operator, data, **{**plain, **values})


def outputs_at_once(hw: HwConfig, workload: Workload) -> int:
    """Output channels of a layer: all, or as many as PARAM holds where no other schedule is legal.

    A number that divides the workload's, in whole stored blocks.
    """
    channels, unit = workload.channels_out, output_block(hw)
    if channels <= hw.param_depth * hw.block_out or channels % unit:
        return channels
    try:
        default_schedule(hw, workload)
        return channels
    except ScheduleError:
        fits = hw.param_depth * hw.block_out // unit * unit
        return max((n for n in range(unit, fits + 1, unit) if channels % n == 0), default=channels)


def pool_workload(operator: QPool, data: QTensor) -> Workload:
    """A pool's workload: an average is a depthwise convolution."""
    kind = Kind.MAXPOOL if operator.maximum else Kind.DEPTHWISE
    return workload_on(operator, data, **window_of(operator, operator.kernel), kind=kind)


def weight_bits_of(hw: HwConfig, workload: Workload, weights: Int8Array) -> int:
    """Bits of a layer's weights: 4 where all fit and the accelerator unpacks them.

    Groups are those of tiles as they lie in DRAM: with kernel columns folded or, behind another
    layer, not (`region.as_computed` decides).
    """
    if workload.kind is not Kind.CONV2D or not hw.int4_weights:
        return 8
    forms = {False, folds(hw, workload)}
    return 4 if any(fits_int4(hw, weights, folded=folded) for folded in forms) else 8


def fits_int4(hw: HwConfig, weights: Int8Array, *, folded: bool) -> bool:
    """Whether the accelerator can keep a convolution's weights packed."""
    if LOWEST <= weights.min() <= weights.max() <= HIGHEST:
        return True
    if not has_scales(hw):
        return False
    return are_packable(weight_tiles(weights, hw, depthwise=False, folded=folded), hw)


def is_too_large(hw: HwConfig, average: Workload) -> bool:
    """Whether GEMM does not take an average over windows, and the vector unit does."""
    padding = average.pad_top, average.pad_bottom, average.pad_left, average.pad_right
    if any(padding):
        return False
    try:
        default_schedule(hw, average)
    except ScheduleError:
        return True
    return False


def window_of(operator: QConv | QPool, kernel: tuple[int, ...]) -> dict[str, int]:
    """Kernel, strides and padding as fields of a workload."""
    top, left, bottom, right = operator.pads
    return {
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_h": operator.stride[0],
        "stride_w": operator.stride[1],
        "pad_top": top,
        "pad_left": left,
        "pad_bottom": bottom,
        "pad_right": right,
    }


def label_of(name: str) -> str:
    """A workload's name for an operator's."""
    text = "".join(c if c.isalnum() or c in "_-." else "." for c in name).strip(".")
    return text or "layer"


def channels_of(requant: RequantParams, rows: slice) -> RequantParams:
    """The parameters of some output channels."""
    arrays = {n: getattr(requant, n)[rows] for n in ("bias", "m1", "m2", "shift", "zero_point")}
    return replace(requant, **arrays)


def merge_groups(weights: Int8Array, groups: int, merged: int) -> Int8Array:
    """Weights (O, I/groups, KH, KW) as (O, I/merged, KH, KW), zero outside a group's channels."""
    if groups == merged:
        return weights
    outputs, depth, kernel_h, kernel_w = weights.shape
    share = groups // merged
    wide = np.zeros((outputs, depth * share, kernel_h, kernel_w), dtype=np.int8)
    rows = outputs // groups
    for group in range(groups):
        place = group % share * depth
        wide[group * rows : (group + 1) * rows, place : place + depth] = weights[
            group * rows : (group + 1) * rows
        ]
    return wide
