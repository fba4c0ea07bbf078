# SPDX-License-Identifier: Apache-2.0
"""From a fused `QGraph` to layers: workloads with integer parameters, on tensors and parts of them.

The integer parameters decided here are the definition of the network's int8 arithmetic:
`host.compiler.lower.integer` evaluates them with `host.network.golden`, and every device must
return its bits.

- accumulator unit of a channel: ``data scale * weight scale``; biases are rounded to it, half to
  even;
- multipliers: `host.network.requant.snap_scales` of ``accumulator unit / output scale`` and
  ``residual scale / output scale``;
- products of two tensors: see `host.compiler.lower.products`;
- zero points: that of the data is the padding value and goes into the bias
  (``-zero_point * sum of weights``); that of the output is added after the rounding; that of a
  residual goes into the bias, rounded to the accumulator unit (at most 1/64 of a step of the data);
- activation bounds become clip bounds: ``rint(bound / scale) + zero_point``, saturated to int8;
- before a table, all of this is for the scale and zero point of what the table is addressed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.attention import (
    product_layers,
    split_heads,
    turn_layers,
    window_product_layers,
)
from tilewright.host.compiler.lower.channels import Lying, StoredGraph, store_channels
from tilewright.host.compiler.lower.convolutions import enlarging_layers, phases
from tilewright.host.compiler.lower.epilogue import (
    COPY_WEIGHT,
    beside_residual,
    copy_weight,
    operator_epilogue,
    rounded_result,
)
from tilewright.host.compiler.lower.gathers import gather_layer
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.compiler.lower.products import expand_prelus, product_layer
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConv,
    QEnlarge,
    QExtreme,
    QGather,
    QGraph,
    QLayerNorm,
    QMatmul,
    QMultiply,
    QOperator,
    QPool,
    QRescale,
    QReshape,
    QSoftmax,
    QStack,
    QTensor,
    QTurn,
)
from tilewright.host.compiler.lower.reach import within_reach
from tilewright.host.compiler.lower.room import write_with_room
from tilewright.host.compiler.lower.rows import row_layer
from tilewright.host.compiler.lower.workloads import (
    channels_of,
    is_too_large,
    merge_groups,
    outputs_at_once,
    pool_workload,
    refused,
    weight_bits_of,
    window_workload,
    workload_on,
)
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import Spread, output_block
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.workload import Kind, Workload

Int8Array = npt.NDArray[np.int8]


def layer_graph(graph: QGraph, hw: HwConfig) -> LayerGraph:
    """Turn a fused graph into layers."""
    for operator in graph.operators:
        if operator.lookup is not None and not hw.activation_table:
            raise refused(operator, "it needs an activation table (activation_table: 1)")
        if isinstance(operator, QSoftmax | QLayerNorm) and not hw.row_unit:
            raise refused(operator, "it needs a row unit (row_unit: 1)")
    graph, of_windows = within_reach(graph, hw)
    graph, of_heads = split_heads(graph)
    graph, of_prelus = expand_prelus(graph)
    stored = store_channels(graph, output_block(hw))
    origins = {**of_windows, **of_heads, **of_prelus}
    origins |= {copy: origins.get(name, name) for copy, name in stored.origins.items()}
    return _Layers(stored, hw, origins).build()


_FAR_OFF: Final = 0.25
"""Steps that a sum may be off before its terms are exchanged for a better one."""


def _spaced(operator: QConv) -> Int8Array:
    """Weights with the zeros between that a dilation means."""
    weights, steps = operator.weights, operator.dilation
    sides = [(side - 1) * step + 1 for side, step in zip(weights.shape[2:], steps, strict=True)]
    wide = np.zeros((*weights.shape[:2], *sides), np.int8)
    wide[..., :: steps[0], :: steps[1]] = weights
    return wide


def _outputs_first(weights: Int8Array, groups: int) -> Int8Array:
    """Weights (I, O/groups, KH, KW) as (O, I/groups, KH, KW)."""
    inputs, outputs, *kernel = weights.shape
    parts = weights.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    return parts.reshape(groups * outputs, inputs // groups, *kernel)


class _Layers:
    def __init__(self, graph: StoredGraph, hw: HwConfig, origins: Mapping[str, str]) -> None:
        self.graph = graph
        self.origins = origins
        self.hw = hw
        self.alignment = output_block(hw)
        self.tensors = dict(graph.tensors)
        self.layers: list[Layer] = []
        self.aliases: dict[str, str] = {}
        self.rooms: set[str] = set()
        """Tensors that are copies with more rows."""

    def build(self) -> LayerGraph:
        for operator in self.graph.operators:
            self._compute(operator)
        used = {*self.graph.inputs, *self.graph.outputs}
        for layer in self.layers:
            used.update((*layer.reads(), layer.output.tensor))
        used.update(self.aliases.values())
        graph = LayerGraph(
            name=self.graph.name,
            tensors={n: t for n, t in self.tensors.items() if n in used or n in self.aliases},
            layers=tuple(map(self._named, self.layers)),
            inputs=self.graph.inputs,
            outputs=self.graph.outputs,
            constants={n: v for n, v in self.graph.constants.items() if n in used},
            aliases=self.aliases,
            lies=self._lies(),
        )
        return write_with_room(graph, self.rooms)

    def _named(self, layer: Layer) -> Layer:
        """A layer with the operators of the model that it computes."""
        operators = tuple(self.origins.get(name, name) for name in layer.operators)
        return replace(layer, operators=operators)

    def _compute(self, operator: QOperator) -> None:
        match operator:
            case QConv(transposed=False):
                self._conv(operator)
            case QConv():
                self._transposed_conv(operator)
            case QPool():
                self._pool(operator)
            case QAdd():
                self._add(operator)
            case QRescale():
                self._copy(operator, operator.inputs[0])
            case QStack():
                self._stack(operator)
            case QReshape():
                self._reshape(operator)
            case QMatmul() | QTurn():
                self._multiply_tensors(operator)
            case QMultiply() | QExtreme():
                self._product(operator)
            case QSoftmax() | QLayerNorm():
                self._rows(operator)
            case QEnlarge() | QGather():
                self._place_pixels(operator)
            case _:
                raise refused(operator, "not an operator of the accelerator")

    # -- tensors ----------------------------------------------------------------------------

    def _tensor(self, name: str) -> QTensor:
        return self.tensors[name]

    def _part(self, name: str, channel: int = 0) -> ChannelSlice:
        """The channels of a tensor from one on, where they are stored."""
        while name in self.graph.parts:
            name, first = self.graph.parts[name]
            channel += first
        return ChannelSlice(tensor=name, channel=channel)

    def _lies(self) -> dict[str, Lying]:
        """Tensors of the model that are channels of a stored tensor."""
        found = {}
        for name, at in self.graph.lies.items():
            part = self._part(at.tensor)
            channels = tuple(part.channel + channel for channel in at.channels)
            own, whole = self._tensor(at.tensor), self._tensor(part.tensor)
            scales = at.scales
            if not scales and (own.scale, own.zero_point) != (whole.scale, whole.zero_point):
                scales = ((own.scale, own.zero_point),) * len(channels)
            found[name] = Lying(tensor=part.tensor, channels=channels, scales=scales)
        return found

    def _sliceable(self, operator: QOperator, tensor: QTensor, channels: list[int]) -> None:
        """Refuse parts of a tensor that do not begin at a block of channels."""
        if len(channels) > 1 and tensor.shape[0] != 1:
            raise refused(operator, "parts of a tensor need a batch of 1")
        for channel in channels:
            if channel % self.alignment:
                raise refused(
                    operator,
                    f"channels are split at {channel}, not at a multiple of {self.alignment}",
                )

    def _append(
        self, operator: QOperator, workload: Workload, requant: RequantParams, **parts: Any
    ) -> None:
        """A layer for an operator; ``parts`` are other attributes of it."""
        values = {"name": operator.name, "operators": (operator.name,), **parts}
        self.layers.append(Layer(workload=workload, requant=requant, **values))

    # -- operators --------------------------------------------------------------------------

    def _conv(self, operator: QConv) -> None:
        data = self._tensor(operator.inputs[0])
        channels, outputs = data.shape[1], operator.weights.shape[0]
        output, target = self._part(operator.output), self._tensor(operator.output)
        units = data.scale * operator.weight_scales
        weights = operator.weights
        empty = ~weights.reshape(outputs, -1).any(axis=1)
        # Without weights a channel is its bias; any unit holds it.
        rounded = rounded_result(operator, target)
        units = np.where(empty, rounded.scale / 256, units)
        if not np.all(units > 0):
            raise refused(operator, "a weight scale is 0")
        residual = self._tensor(operator.inputs[1]) if len(operator.inputs) > 1 else None
        if residual is not None:
            weights, units = beside_residual(weights, units, rounded, residual)
        sums = weights.astype(np.int64).sum(axis=(1, 2, 3))
        bias = operator.bias / units - data.zero_point * sums
        requant = operator_epilogue(
            operator,
            target,
            units=units,
            bias=bias,
            residual=residual,
            subtracts=operator.subtracts,
        )
        base = window_workload(
            operator,
            data,
            weights,
            relu=requant.clip_min == rounded.zero_point and requant.clip_min > -128,
        )
        depthwise = base.kind is Kind.DEPTHWISE
        groups = 1 if depthwise else self._merged_groups(operator, channels, outputs)
        if not depthwise:
            weights = merge_groups(weights, operator.groups, groups)
        step_in, step_out = channels // groups, outputs // groups
        self._sliceable(operator, data, [g * step_in for g in range(groups)])
        self._sliceable(operator, target, [output.channel + g * step_out for g in range(groups)])
        base = replace(base, channels_in=step_in, channels_out=step_out)
        most = step_out if data.shape[0] > 1 else outputs_at_once(self.hw, base)
        for number, first in enumerate(range(0, outputs, most)):
            rows = slice(first, min(first + most, outputs))
            source = rows.start if depthwise else first // step_out * step_in
            part = np.ascontiguousarray(weights[rows])
            inputs = len(part) if depthwise else step_in
            own = replace(base, channels_in=inputs, channels_out=len(part))
            self._append(
                operator,
                replace(own, weight_bits=weight_bits_of(self.hw, own, part)),
                channels_of(requant, rows),
                name=operator.name if most == outputs else f"{operator.name}/{number}",
                data=self._part(data.name, source),
                weights=part,
                output=replace(output, channel=output.channel + rows.start),
                residual=None if residual is None else self._part(residual.name, rows.start),
                pad_value=data.zero_point,
            )

    def _transposed_conv(self, operator: QConv) -> None:
        """One plain convolution for each phase of the strides, on every stride-th output pixel."""
        data = self._tensor(operator.inputs[0])
        output, target = self._part(operator.output), self._tensor(operator.output)
        channels, outputs = data.shape[1], target.shape[1]
        by_channel = 1 < operator.groups == channels == outputs
        groups = 1 if by_channel else self._merged_groups(operator, channels, outputs)
        weights = _spaced(operator)
        if not by_channel:
            weights = merge_groups(
                _outputs_first(weights, operator.groups), operator.groups, groups
            )
        step_in, step_out = channels // groups, outputs // groups
        self._sliceable(operator, data, [g * step_in for g in range(groups)])
        self._sliceable(operator, target, [output.channel + g * step_out for g in range(groups)])
        units = data.scale * operator.weight_scales
        if not np.all(units > 0):
            raise refused(operator, "a weight scale is 0")
        rows = phases(data.shape[2], weights.shape[2], operator.stride[0], operator.pads[0],
                      target.shape[2])  # fmt: skip
        columns = phases(data.shape[3], weights.shape[3], operator.stride[1], operator.pads[1],
                         target.shape[3])  # fmt: skip
        rounded = rounded_result(operator, target)
        for number, (row, column) in enumerate(product(rows, columns)):
            taps = column.take(row.take(weights, 2), 3)
            sums = taps.astype(np.int64).sum(axis=(1, 2, 3))
            requant = operator_epilogue(
                operator,
                target,
                units=units,
                bias=operator.bias / units - data.zero_point * sums,
            )
            workload = workload_on(
                operator,
                data,
                kind=Kind.DEPTHWISE if by_channel else Kind.CONV2D,
                channels_in=step_in,
                channels_out=step_out,
                kernel_h=taps.shape[2],
                kernel_w=taps.shape[3],
                pad_top=row.pad_low,
                pad_bottom=row.pad_high,
                pad_left=column.pad_low,
                pad_right=column.pad_high,
                relu=requant.clip_min == rounded.zero_point and requant.clip_min > -128,
            )
            spread = Spread(
                first_row=row.first,
                first_column=column.first,
                row_step=operator.stride[0],
                column_step=operator.stride[1],
                height=target.shape[2],
                width=target.shape[3],
            )
            for group in range(groups):
                part = slice(group * step_out, (group + 1) * step_out)
                self._append(
                    operator,
                    workload,
                    channels_of(requant, part),
                    name=f"{operator.name}/{number * groups + group}",
                    data=self._part(data.name, group * step_in),
                    weights=np.ascontiguousarray(taps[part]),
                    output=replace(output, channel=output.channel + part.start),
                    pad_value=data.zero_point,
                    spread=None if (len(rows), len(columns)) == (1, 1) else spread,
                )

    def _merged_groups(self, operator: QConv, channels: int, outputs: int) -> int:
        """Most groups that begin at blocks of channels, when neighbours are merged."""
        if self._tensor(operator.inputs[0]).shape[0] != 1:
            return 1
        for count in range(operator.groups, 1, -1):
            if operator.groups % count == 0 and not (
                (channels // count) % self.alignment or (outputs // count) % self.alignment
            ):
                return count
        return 1

    def _pool(self, operator: QPool) -> None:
        data = self._tensor(operator.inputs[0])
        if operator.dilation != (1, 1):  # `within_reach` leaves none of a batch of 1
            raise refused(operator, "a dilated window needs a batch of 1, and fewer pixels")
        output, target = self._part(operator.output), self._tensor(operator.output)
        channels, taps = data.shape[1], prod(operator.kernel)
        unit = data.scale if operator.maximum else operator.factor * data.scale / taps
        requant = operator_epilogue(
            operator,
            target,
            units=np.full(channels, unit),
            bias=np.full(channels, -data.zero_point * (1 if operator.maximum else taps), float),
        )
        workload = pool_workload(operator, data)
        if not operator.maximum and is_too_large(self.hw, workload):
            workload = replace(workload, kind=Kind.AVGPOOL)
        weights = np.ones(workload.weight_shape, dtype=np.int8)
        self._append(
            operator,
            workload,
            requant,
            data=self._part(data.name),
            weights=weights if workload.kind.weighs else None,
            output=output,
            pad_value=-128 if operator.maximum else data.zero_point,
        )

    def _add(self, operator: QAdd) -> None:
        first, second = operator.inputs
        if self._tensor(first).shape != self._tensor(second).shape:
            raise refused(operator, "the shapes of an addition must be equal")
        target = rounded_result(operator, self._tensor(operator.output))
        data, residual = self._tensor(first), self._tensor(second)
        weight, error = copy_weight(data, residual, target)
        other, swapped = copy_weight(residual, data, target)
        if error > _FAR_OFF and swapped < error / 2:
            sign = -1 if operator.subtracts else 1
            self._copy(operator, second, weight=sign * other, residual=first)
        else:
            self._copy(
                operator, first, weight=weight, residual=second, subtracts=operator.subtracts
            )

    def _product(self, operator: QMultiply | QExtreme) -> None:
        first, second = (self._tensor(name) for name in operator.inputs)
        target = self._part(operator.output), self._tensor(operator.output)
        self.layers.append(product_layer(operator, first, second, target, self._part))

    def _place_pixels(self, operator: QEnlarge | QGather) -> None:
        names = operator.inputs[0], operator.output
        data, target = (self._tensor(name) for name in names)
        places = self._part(names[0]), self._part(names[1])
        if isinstance(operator, QEnlarge):
            self.layers += enlarging_layers(operator, data, (places[1], target), self._part)
        else:
            self.layers.append(gather_layer(operator, data, target, places, self.hw.block_out))

    def _stack(self, operator: QStack) -> None:
        """Each input fills rows of the result."""
        target = self._tensor(operator.output)
        first = 0
        for name in operator.inputs:
            rows = Spread.of_rows(first, *target.shape[2:])
            self._copy(operator, name, spread=rows)
            first += self._tensor(name).shape[2]

    def _copy(
        self,
        operator: QOperator,
        source: str,
        *,
        weight: int = COPY_WEIGHT,
        residual: str | None = None,
        subtracts: bool = False,
        spread: Spread | None = None,
    ) -> None:
        """An identity convolution: rescales a tensor, clips it, adds another one to it."""
        data, result = self._tensor(source), self._tensor(operator.output)
        channels = data.shape[1]
        added = None if residual is None else self._tensor(residual)
        requant = operator_epilogue(
            operator,
            result,
            units=np.full(channels, data.scale / abs(weight)),
            bias=np.full(channels, -data.zero_point * weight, float),
            residual=added,
            subtracts=subtracts,
        )
        workload = workload_on(operator, data, kind=Kind.DEPTHWISE, residual=added is not None)
        self._append(
            operator,
            workload,
            requant,
            name=operator.name if spread is None else f"{operator.name}/{source}",
            data=self._part(data.name),
            weights=np.full(workload.weight_shape, weight, dtype=np.int8),
            output=self._part(operator.output),
            residual=None if added is None else self._part(added.name),
            spread=spread,
            pad_value=data.zero_point,
        )

    def _rows(self, operator: QSoftmax | QLayerNorm) -> None:
        tensors = [self._tensor(name) for name in (*operator.inputs, operator.output)]
        self.layers.append(row_layer(self.hw, operator, tensors, self._part))

    # -- shapes -----------------------------------------------------------------------------

    def _reshape(self, operator: QReshape) -> None:
        source, target = self._tensor(operator.inputs[0]), self._tensor(operator.output)
        if source.shape[:2] != target.shape[:2]:
            raise refused(operator, f"{source.shape} to {target.shape} moves data between channels")
        self.aliases[operator.output] = source.name

    # -- attention --------------------------------------------------------------------------

    def _multiply_tensors(self, operator: QMatmul | QTurn) -> None:
        """A tensor as weights for another one, or for an identity."""
        result = self._tensor(operator.output)
        factors = [self._tensor(name) for name in operator.inputs]
        if isinstance(operator, QTurn):
            found = turn_layers(self.hw, operator, factors[0], result, self._part)
        else:
            make = window_product_layers if operator.windows > 1 else product_layers
            found = make(self.hw, operator, (factors[0], factors[1]), result, self._part)
        self.tensors |= found.tensors
        self.rooms |= found.rooms
        self.layers += found.layers
