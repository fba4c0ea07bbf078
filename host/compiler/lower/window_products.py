# SPDX-License-Identifier: Apache-2.0
"""The layers of a product inside windows: attention that sees the tokens of its window alone.

Tokens of windows follow each other as the pixels of one tensor. Each window is a product of its
own, on its pixels. As in `attention`, one factor is loaded as weights, whose tokens are output
channels. So each window of it begins at a block of tokens: where windows have another number of
tokens, all of them are moved apart at once. What lies in between belongs to output channels without
multipliers.

Values are turned at once, too: identity times all windows' values as weights. The tokens of a
window are then channels that begin at a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilewright.host.compiler.lower.attention import ProductLayers
from tilewright.host.compiler.lower.epilogue import epilogue, operator_epilogue
from tilewright.host.compiler.lower.gathers import gather_layer
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import UNBOUNDED, QGather, QMatmul, QTensor, Shape
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
    """The layers of a product of one head.

    Args:
        hw: whose blocks the factors must lie in.
        operator: what they belong to.
        factors: its inputs.
        result: its output.
        part_of: where a tensor is stored.

    Raises:
        WorkloadError: a configuration that does not take it, zero points, or shapes that do not
            multiply.
    """
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
    weights, step = made.apart(part_of(b.name), b)
    if not operator.b_rows_are_outputs:
        weights = made.turned(weights, b)
    requant = operator_epilogue(
        operator,
        result,
        units=np.full(count, a.scale * b.scale * operator.factor),
        bias=np.zeros(count),
    )
    data = part_of(a.name)
    for window in range(operator.windows):
        first = (
            replace(weights, pixel=weights.pixel + window * step)
            if operator.b_rows_are_outputs
            else replace(weights, channel=weights.channel + window * step)
        )
        made.append(
            name=f"{operator.name}/{window}",
            workload=dense(label_of(operator.name), tokens, depth, count),
            requant=requant,
            data=replace(data, pixel=data.pixel + window * tokens),
            weights=first,
            output=part_of(result.name),
            spread=Spread(
                first_row=window * tokens,
                first_column=0,
                row_step=1,
                column_step=1,
                height=result.shape[2],
                width=1,
            ),
        )
    return made.found


class _Windows:
    def __init__(self, hw: HwConfig, operator: QMatmul) -> None:
        self.found = ProductLayers()
        self._hw = hw
        self._operator = operator

    def append(self, **values: object) -> None:
        """A layer."""
        layer = Layer(operators=(self._operator.name,), **values)  # type: ignore[arg-type]  # as named
        self.found.layers.append(layer)

    def _tensor(self, name: str, shape: Shape, like: QTensor) -> QTensor:
        made = replace(like, name=f"{self._operator.name}/{name}", shape=shape)
        self.found.tensors[made.name] = made
        return made

    def _step(self, tensor: QTensor) -> int:
        """Tokens from window to window, where each begins at a block."""
        tokens = tensor.shape[2] // self._operator.windows
        return blocks_of(tokens, output_block(self._hw)) * output_block(self._hw)

    def apart(self, part: ChannelSlice, tensor: QTensor) -> tuple[ChannelSlice, int]:
        """Where the windows of a tensor begin at blocks of tokens, and tokens between them."""
        windows, pixels, step = self._operator.windows, tensor.shape[2], self._step(tensor)
        tokens = pixels // windows
        if step == tokens:
            return part, step
        copy = self._tensor("apart", (1, tensor.shape[1], windows * step, 1), tensor)
        places = np.add.outer(np.arange(windows) * tokens, np.arange(step)).reshape(-1)
        move = QGather(
            name=copy.name,
            inputs=(tensor.name,),
            output=copy.name,
            pixels=np.minimum(places, pixels - 1),
        )
        target = ChannelSlice(tensor=copy.name)
        layer = gather_layer(move, tensor, copy, (part, target), self._hw.block_out)
        self.found.layers.append(replace(layer, operators=(self._operator.name,)))
        return target, step

    def turned(self, part: ChannelSlice, tensor: QTensor) -> ChannelSlice:
        """Channels and tokens exchanged: identity times the tensor, whose windows lie apart."""
        count, step = tensor.shape[1], self._step(tensor)
        tokens, outputs = tensor.shape[2] // self._operator.windows, step * self._operator.windows
        turned = self._tensor("turned", (1, outputs, count, 1), tensor)
        requant = epilogue(
            units=np.full(outputs, tensor.scale),
            bias=np.zeros(outputs),
            output=turned,
            bounds=UNBOUNDED,
            where=turned.name,
        )
        between = np.arange(outputs) % step >= tokens
        self.append(
            name=turned.name,
            workload=dense(label_of(self._operator.name), count, count, outputs),
            requant=replace(requant, m1=np.where(between, 0, requant.m1).astype(np.int16)),
            data=np.eye(count, dtype=np.int8)[None, :, :, None],
            weights=part,
            output=ChannelSlice(tensor=turned.name),
        )
        return ChannelSlice(tensor=turned.name)
