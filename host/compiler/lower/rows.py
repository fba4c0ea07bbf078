# SPDX-License-Identifier: Apache-2.0
"""The layer of softmax or layer normalisation: rows of channels, on a row unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.host.compiler.lower.epilogue import clip_of
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import QLayerNorm, QSoftmax, QTensor
from tilewright.host.compiler.lower.workloads import refused, workload_on
from tilewright.host.lowering.row_layers import row_params
from tilewright.host.lowering.row_plan import plan_rows
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.row_functions import LayerNorm, RowFunction, Softmax, addend_planes
from tilewright.host.network.workload import Kind


def row_layer(
    hw: HwConfig,
    operator: QSoftmax | QLayerNorm,
    tensors: Sequence[QTensor],
    part_of: Callable[[str], ChannelSlice],
) -> Layer:
    """The layer of a function of all channels of each pixel."""
    function: RowFunction
    data, *masks, result = tensors
    for mask in masks:
        if mask.zero_point or mask.shape != (1, data.shape[1], 1, 1):
            raise refused(operator, "its mask is not one row of numbers with the zero point 0")
    clip = clip_of(operator.bounds, result)
    if isinstance(operator, QSoftmax):
        addend = None if operator.addend is None else np.moveaxis(operator.addend, 1, 3)
        function = Softmax.of(
            data.scale,
            result.scale,
            result.zero_point,
            addend,
            clip=clip,
            mask_scale=masks[0].scale if masks else None,
        )
    else:
        function = LayerNorm.of(
            operator.gamma,
            operator.beta,
            result.scale,
            result.zero_point,
            epsilon=operator.epsilon / data.scale**2,
            clip=clip,
        )
    operands = 1 + len(addend_planes(function))
    plan_rows(hw, data.shape, operands, masked=bool(masks))  # refuses what does not fit
    return Layer(
        name=operator.name,
        workload=workload_on(operator, data, kind=Kind.ROWS),
        data=part_of(data.name),
        weights=None,
        output=part_of(result.name),
        mask=part_of(masks[0].name) if masks else None,
        requant=row_params(function, data.shape[1]),
        operators=(operator.name,),
        rows=function,
    )
