# SPDX-License-Identifier: Apache-2.0
"""Folds the mean error of each quantised layer into its bias.

Rounded weights and clipped data shift the mean of a layer's results (Nagel et al., Data-Free
Quantization Through Weight Equalization and Bias Correction, 2019, section 4.2). Each layer is
compared with itself in float on the same calibration data, so that all are corrected in one pass:
what a layer in front shifts is corrected there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.quantise.channel_factors import grouped
from tilewright.host.compiler.quantise.observation import Batches, observe
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    is_kind,
    only_user,
    shape_of,
)
from tilewright.host.network.operators import CONVOLUTIONS, LAYERS

_FEWEST: Final = 32
"""Results of a channel that make a mean; that of fewer is mostly chance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layer:
    """A quantised layer whose bias can be corrected."""

    node: ir.Node  # of the quantised model
    original: ir.Node  # the same in float
    rounding: ir.Node  # the node that quantises its data
    weights: ir.Node  # the node that dequantises its weights
    holder: ir.Node  # what adds the bias: the node itself, or an Add behind it
    index: int  # of the bias among the inputs of that
    bias: Array  # in float, (channels,)


def correct_biases(quantised: ir.Model, model: ir.Model, batches: Batches) -> None:
    """Correct the biases of a quantised model, in place."""
    layers = [
        layer for layer in _layers(quantised, model) if _results(layer) * len(batches) >= _FEWEST
    ]
    if not layers:
        return
    editor = Editor(quantised.graph)
    for layer, error in zip(layers, _mean_errors(layers, model, batches), strict=True):
        corrected = (layer.bias + error).astype(np.float32)
        constant = editor.constant(f"{layer.node.name}_bias", corrected)
        if layer.index == len(layer.holder.inputs):
            layer.holder.resize_inputs(layer.index + 1)
        layer.holder.replace_input_with(layer.index, constant)
    editor.drop_unused()


def _layers(quantised: ir.Model, model: ir.Model) -> list[_Layer]:
    """The layers of quantised data and constant weights that have, or can have, a bias."""
    originals = {node.name: node for node in model.graph}
    found = []
    for node in quantised.graph:
        original = originals.get(node.name)
        if original is None or not is_kind(node, *LAYERS):
            continue
        data, weights = (_writer(value, "DequantizeLinear") for value in node.inputs[:2])
        rounding = None if data is None else _writer(data.inputs[0], "QuantizeLinear")
        if rounding is None or weights is None or array_of(weights.inputs[0]) is None:
            continue
        source, own, place = rounding.inputs[0], original.inputs[0], _bias(node, original)
        if source is None or own is None or source.name != own.name or place is None:
            continue
        holder, index, bias = place
        found.append(
            _Layer(
                node=node,
                original=original,
                rounding=rounding,
                weights=weights,
                holder=holder,
                index=index,
                bias=bias,
            )
        )
    return found


def _writer(value: ir.Value | None, kind: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if is_kind(node, kind) else None


def _bias(node: ir.Node, original: ir.Node) -> tuple[ir.Node, int, Array] | None:
    """What adds the bias of a layer, which input it is, and its value in float."""
    channels = _channels(original)
    if node.op_type != "MatMul":
        value = input_of(original, 2)
        bias = np.zeros(channels, np.float32) if value is None else array_of(value)
        return None if bias is None or bias.size != channels else (node, 2, bias.reshape(-1))
    add = only_user(node.outputs[0])
    if is_kind(add, "Add"):
        for index in (0, 1):
            bias = array_of(add.inputs[index])
            if bias is not None and bias.shape == (channels,):
                return add, index, bias
    return None


def _channels(original: ir.Node) -> int:
    weights = grouped(original)
    return 0 if weights is None else weights.shape[0] * weights.shape[1]


def _results(layer: _Layer) -> int:
    """How many results a channel of a layer has in a run."""
    shape = shape_of(layer.original.outputs[0])
    return 0 if shape is None else prod(shape) // layer.bias.size


def _mean_errors(layers: Sequence[_Layer], model: ir.Model, batches: Batches) -> list[Array]:
    """How much less each layer returns when it is quantised, for each channel."""
    comparison = model.clone()
    editor = Editor(comparison.graph)
    nodes = {node.name: node for node in comparison.graph}
    names = [_compare(editor, nodes[layer.original.name], layer) for layer in layers]
    means = [np.zeros(layer.bias.size) for layer in layers]
    for tensors in observe(ir.to_proto(comparison), names, batches):
        for index, (layer, name) in enumerate(zip(layers, names, strict=True)):
            channels_last = tensors[name].reshape(-1, layer.bias.size)
            means[index] += channels_last.mean(axis=0, dtype=np.float64) / len(batches)
    return means


def _compare(editor: Editor, original: ir.Node, layer: _Layer) -> str:
    """Put the quantised layer beside its original."""
    stem, place = f"{original.name}_compared", original

    def add(
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, ir.Attr] | None = None,
    ) -> ir.Value:
        nonlocal place
        value = editor.after(place, kind, inputs, attributes, stem=stem)
        place = value.producer() or place
        return value

    def copies(values: Sequence[ir.Value | None]) -> list[ir.Value]:
        arrays = (array_of(value) for value in values)
        return [editor.constant(stem, array) for array in arrays if array is not None]

    step = copies(layer.rounding.inputs[1:])
    data = add("QuantizeLinear", [original.inputs[0], *step])
    data = add("DequantizeLinear", [data, *step])
    weights = add("DequantizeLinear", copies(layer.weights.inputs), layer.weights.attributes)
    result = add(original.op_type, [data, weights, *original.inputs[2:]], original.attributes)
    error = add("Sub", [original.outputs[0], result])
    if original.op_type in CONVOLUTIONS:
        error = add("GlobalAveragePool", [error])
    return error.name or ""
