# SPDX-License-Identifier: Apache-2.0
"""The layers of a product inside windows: attention that sees the tokens of its window alone.

Tokens of windows follow each other as the pixels of one tensor. Each window is a product of its
own, on its pixels. As in `attention`, one factor is loaded as weights, whose tokens are output
channels, in whole tiles. Where windows have another number of tokens, the last tile has tokens of
the next window, which are output channels without multipliers. So the tensor has room for a whole
tile behind its last window; that is a copy, which `room` spares where it can. Where a window does
not begin at a beat of the bus, all windows are moved apart instead, to where tiles begin.

Values are turned window by window: identity times a window's values as weights. The tokens of a
window are then channels that begin at a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tilewright.host.compiler.lower.attention import ProductLayers, WeightFactor
from tilewright.host.compiler.lower.epilogue import epilogue, operator_epilogue
from tilewright.host.compiler.lower.gathers import gather_layer
from tilewright.host.compiler.lower.layer_graph import ChannelSlice
from tilewright.host.compiler.lower.qgraph import UNBOUNDED, QGather, QMatmul, QTensor
from tilewright.host.compiler.lower.workloads import label_of, refused
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import Spread, blocks_of, output_block
from tilewright.host.network.workload import dense

PartOf = Callable[[str], ChannelSlice]


def window_product_layers(
    hw: HwConfig,
    operator: QMatmul,
    factors: tuple[QTensor, QTensor],
    result: QTensor,
    part_of: PartOf,
) -> ProductLayers:
    """The layers of a product of one head."""
    a, b = factors
    if hw.batch != 1 or hw.block_in < hw.block_out:
        raise refused(
            operator, "products in windows need a batch of 1 and block_in at least block_out"
        )
    if a.zero_point or b.zero_point:
        raise refused(operator, "factors of a product must have the zero point 0")
    depth, tokens = a.shape[1], a.shape[2] // operator.windows
    inner = b.shape[2] // operator.windows
    count, b_depth = (inner, b.shape[1])[:: 1 if operator.b_rows_are_outputs else -1]
    shape = (1, count, a.shape[2], 1)
    if a.shape[0] != 1 or b.shape[0] != 1 or b_depth != depth or result.shape != shape:
        raise refused(operator, "the shapes of the factors do not match")
    if b.shape[1] % output_block(hw):
        raise refused(
            operator, f"the channels of a head are {b.shape[1]}, no multiple of {output_block(hw)}"
        )
    made = _Windows(hw, operator)
    weights, step = made.windows_as_weights(part_of(b.name), b)
    parts = [replace(weights, pixel=weights.pixel + window * step) for window in made.numbers]
    if not operator.b_rows_are_outputs:
        parts = made.turned_windows(parts, b)
    requant = operator_epilogue(
        operator,
        result,
        units=np.full(count, a.scale * b.scale * operator.factor),
        bias=np.zeros(count),
    )
    data = part_of(a.name)
    for window, first in zip(made.numbers, parts, strict=True):
        made.append(
            name=f"{operator.name}/{window}",
            workload=dense(label_of(operator.name), tokens, depth, count),
            requant=requant,
            data=replace(data, pixel=data.pixel + window * tokens),
            weights=first,
            output=part_of(result.name),
            spread=Spread.of_rows(window * tokens, result.shape[2]),
        )
    return made.found


class _Windows(WeightFactor):
    def __init__(self, hw: HwConfig, operator: QMatmul) -> None:
        super().__init__(hw, operator)
        self.numbers = range(operator.windows)

    def windows_as_weights(self, part: ChannelSlice, tensor: QTensor) -> tuple[ChannelSlice, int]:
        """Where each window of a tensor begins with whole tiles; tokens from window to window."""
        hw, stored = self._hw, self._block
        tokens = tensor.shape[2] // len(self.numbers)
        whole = blocks_of(tokens, stored) * stored  # values are turned in stored blocks
        if tokens * stored % min(hw.wgt_tile_bytes, hw.axi_bytes):
            return self._apart(part, tensor, whole), whole
        rows = blocks_of(tensor.shape[2] - tokens + whole, hw.block_out) * hw.block_out
        return (part if rows == tensor.shape[2] else self._copied(part, tensor, rows)), tokens

    def _apart(self, part: ChannelSlice, tensor: QTensor, step: int) -> ChannelSlice:
        """A copy whose windows begin at every so many tokens."""
        windows, pixels = len(self.numbers), tensor.shape[2]
        copy = self._tensor("apart", (1, tensor.shape[1], windows * step, 1), tensor)
        places = np.add.outer(np.arange(windows) * (pixels // windows), np.arange(step)).reshape(-1)
        move = QGather(
            name=copy.name,
            inputs=(tensor.name,),
            output=copy.name,
            pixels=np.minimum(places, pixels - 1),
        )
        target = ChannelSlice(tensor=copy.name)
        layer = gather_layer(move, tensor, copy, (part, target), self._hw.block_out)
        self.found.layers.append(replace(layer, operators=(self._operator.name,)))
        return target

    def turned_windows(self, parts: Sequence[ChannelSlice], tensor: QTensor) -> list[ChannelSlice]:
        """Channels and tokens of each window exchanged: identity times its tokens as weights."""
        count, tokens = tensor.shape[1], tensor.shape[2] // len(self.numbers)
        step = blocks_of(tokens, self._block) * self._block
        turned = self._tensor("turned", (1, step * len(parts), count, 1), tensor)
        # All of a stored block is computed: GEMM reads zeros behind the last token.
        requant = epilogue(
            units=np.full(step, tensor.scale),
            bias=np.zeros(step),
            output=turned,
            bounds=UNBOUNDED,
            where=turned.name,
        )
        requant = replace(
            requant, m1=np.where(np.arange(step) < tokens, requant.m1, 0).astype(np.int16)
        )
        found = [ChannelSlice(tensor=turned.name, channel=window * step) for window in self.numbers]
        for window, part in zip(self.numbers, parts, strict=True):
            self.append(
                name=f"{turned.name}/{window}",
                workload=dense(label_of(self._operator.name), count, count, step),
                requant=requant,
                data=np.eye(count, dtype=np.int8)[None, :, :, None],
                weights=part,
                output=found[window],
            )
        return found
