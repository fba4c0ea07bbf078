# SPDX-License-Identifier: Apache-2.0
"""The layers that exchange channels and pixels: identity times the tensor as weights.

GEMM sums over the channels of its weights, and the pixels of a tensor that is loaded as weights are
output channels. An identity of all channels would be zeros mostly. So some blocks of channels at a
time are multiplied by an identity of their own, and fill the pixels of the result that they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from tilewright.host.compiler.lower.attention import ProductLayers, WeightFactor
from tilewright.host.compiler.lower.epilogue import epilogue
from tilewright.host.compiler.lower.layer_graph import ChannelSlice
from tilewright.host.compiler.lower.qgraph import UNBOUNDED, QTensor, QTurn
from tilewright.host.compiler.lower.workloads import label_of, refused
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import Spread, output_block
from tilewright.host.network.workload import dense

_BLOCKS: Final = 4
"""Blocks of channels of a layer: fewer make more layers, more multiply more zeros."""


def turn_layers(
    hw: HwConfig,
    operator: QTurn,
    data: QTensor,
    result: QTensor,
    part_of: Callable[[str], ChannelSlice],
) -> ProductLayers:
    """The layers of an exchange."""
    if hw.batch != 1:
        raise refused(operator, "a tensor is a weight operand only where the array's batch is 1")
    channels, pixels = data.shape[1], result.shape[1]
    rows = replace(data, shape=(1, channels, pixels, 1))
    factor = WeightFactor(hw, operator)
    weights, packing = factor.as_weights(part_of(data.name), rows, pixels, zeros=True)
    # Packed tokens are parts of blocks: those of all channels at once.
    step = channels if packing is not None else _BLOCKS * output_block(hw)
    requant = epilogue(
        units=np.full(pixels, data.scale),
        bias=np.full(pixels, -data.zero_point, float),
        output=result,
        bounds=UNBOUNDED,
        where=operator.name,
    )
    for first in range(0, channels, step):
        count = min(step, channels - first)
        factor.append(
            name=f"{operator.name}/{first}",
            workload=dense(label_of(operator.name), count, count, pixels),
            requant=requant,
            data=np.eye(count, dtype=np.int8)[None, :, :, None],
            weights=replace(weights, channel=weights.channel + first),
            weight_packing=packing,
            output=part_of(result.name),
            spread=None if count == channels else Spread.of_rows(first, channels),
        )
    return factor.found
