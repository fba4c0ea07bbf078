# SPDX-License-Identifier: Apache-2.0
"""Constants of quantised layers, with what is behind a layer, and without zero points.

A layer takes int8 weights w with a scale for each output channel, and a bias in floats. Training
with fake quantisation leaves batch normalisations behind such layers, biases of 8 or 16 bits, and
uint8 weights whose zero point z is where the range of floats has its zero. Where w - z leaves int8,
the input channels that hold such a weight are read twice: 130 x is 127 x + 3 x, in one sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    only_user,
    shape_of,
    stand_for,
)
from tilewright.host.compiler.rewrite.constants import dequantised
from tilewright.host.compiler.rewrite.linear_layers import channel_factors, normalisation
from tilewright.host.network.operators import BY_ELEMENT, CONVOLUTIONS, LAYERS, PRODUCTS, VIEWS

_LOW: Final = -128
_HIGH: Final = 127
_MATRIX: Final = 2
_WITH_PARAMETERS: Final = (
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
    "PRelu", "RMSNormalization",
)  # fmt: skip
"""Operators whose second and further inputs are numbers of channels."""


def fold_into_int8_layers(editor: Editor) -> None:
    """Fold factors and normalisations of channels into quantised layers, in place.

    The layer's float result is not rounded in between, so that only the order of products changes.
    """
    for node in list(editor.graph):
        if is_kind(node, "MatMul"):
            _state_matrix(editor, node)
    for node in list(editor.graph):
        if is_kind(node, "DequantizeLinear"):
            _state_one_scale(editor, node)
        elif is_kind(node, "Transpose", *VIEWS):
            _move_constant(editor, node)
    for node in list(editor.graph):
        if is_kind(node, "BatchNormalization") and (found := normalisation(node)) is not None:
            _fold(editor, node, 0, 1, *found)
        elif is_kind(node, "Mul"):
            for data in (0, 1):
                channels = channel_factors(node.inputs[data], array_of(node.inputs[1 - data]))
                if channels is not None:
                    axis, factors = channels
                    _fold(editor, node, data, axis, factors.astype(np.float64), None)
                    break


def _state_matrix(editor: Editor, node: ir.Node) -> None:
    """One matrix of dequantised weights as a matrix, whatever axes are in front."""
    data, weights = (shape_of(value) for value in node.inputs)
    found = _weights(node)
    if found is None or data is None or weights is None or len(data) < len(weights):
        return
    if len(weights) > _MATRIX and all(size == 1 for size in weights[:-_MATRIX]):
        assert node.inputs[1] is not None
        stem = f"{node.name}_matrix"
        matrix = editor.reshaped(node, node.inputs[1], weights[-_MATRIX:], stem=stem)
        node.replace_input_with(1, matrix)


def _move_constant(editor: Editor, node: ir.Node) -> None:
    """A moved dequantised constant as the moved constant, dequantised."""
    reading = None if node.inputs[0] is None else node.inputs[0].producer()
    found, shape = _dequantisation(reading), shape_of(node.outputs[0])
    if found is None or shape is None or node.outputs[0].is_graph_output():
        return
    order = None
    if is_kind(node, "Transpose"):
        order = integers(node, "perm", range(found.steps.ndim)[::-1])

    def moved(array: Array) -> Array:
        turned = array.reshape(shape) if order is None else array.transpose(order)
        return np.ascontiguousarray(turned)

    place = [-1 if index == found.axis else 1 for index in range(found.steps.ndim)]
    numbers = [
        moved(np.broadcast_to(each.reshape(place) if each.ndim else each, found.steps.shape))
        for each in (found.scale, found.zero)
    ]
    axes = {axis for each in numbers for axis in range(each.ndim) if _differs(each, axis)}
    if len(axes) > 1:
        return
    axis = next(iter(axes), None)
    first = tuple(slice(None) if index == axis else 0 for index in range(len(shape)))
    inputs = [
        editor.constant(f"{node.name}_moved", each)
        for each in (moved(found.steps), *(each[first] for each in numbers))
    ]
    attributes = {} if axis is None else {"axis": axis}
    new = editor.before(
        node, "DequantizeLinear", inputs, attributes, stem=f"{node.name}_of", like=node.outputs[0]
    )
    stand_for(node.outputs[0], new)
    editor.graph.remove(node, safe=True)


def _differs(array: Array, axis: int) -> bool:
    """Whether an array has several numbers along an axis."""
    return bool(array.size) and bool((array != array.take([0], axis)).any())


def _state_one_scale(editor: Editor, node: ir.Node) -> None:
    """One scale and zero point where all are equal, on whatever axis."""
    found = _dequantisation(node)
    if found is None or found.scale.size < 2:
        return
    if _differs(found.scale, 0) or _differs(found.zero, 0):
        return
    for index, array in ((1, found.scale), (2, found.zero)):
        node.resize_inputs(max(len(node.inputs), index + 1))
        node.replace_input_with(index, editor.constant(f"{node.name}_of_all", array[0]))


def _fold(
    editor: Editor, node: ir.Node, data: int, axis: int, factors: Array, offsets: Array | None
) -> None:
    """Let the layer in front of a node compute its factors and offsets of channels."""
    value, shape = node.inputs[data], shape_of(node.inputs[data])
    if value is None or shape is None or only_user(value) is None:
        return
    addition, layer, side = value.producer(), value.producer(), 0
    if is_kind(addition, "Add"):
        side = 1 if array_of(addition.inputs[0]) is None else 0
        product = addition.inputs[1 - side]
        layer = None if product is None or only_user(product) is None else product.producer()
        added = channel_factors(product, array_of(addition.inputs[side]))
        if added is None or added[0] != axis:
            return
    if not is_kind(layer, *LAYERS) or not _is_channel_axis(layer, axis, len(shape)):
        return
    scaled, bias = _scaled_weights(editor, layer, factors), input_of(layer, 2)
    constant = np.zeros(factors.size) if bias is None else _bias_of(bias)
    if scaled is None or constant is None:
        return
    layer.replace_input_with(1, scaled)
    total = np.zeros(factors.size) if offsets is None else offsets
    if addition is not layer and addition is not None:
        more = array_of(addition.inputs[side])
        assert more is not None
        total = total + more.reshape(-1) * factors
    total = total + constant * factors
    if is_kind(layer, "MatMul"):
        numbers = editor.constant(f"{layer.name}_offsets", total.astype(np.float32))
        new = editor.before(
            node, "Add", [layer.outputs[0], numbers], stem=f"{layer.name}_moved", like=value
        )
    else:
        layer.resize_inputs(3)
        layer.replace_input_with(2, editor.constant(f"{layer.name}_bias", total.astype(np.float32)))
        new = layer.outputs[0]
    leaves, name = node.outputs[0].is_graph_output(), node.outputs[0].name
    ir.convenience.replace_all_uses_with(node.outputs[0], new, replace_graph_outputs=True)
    if leaves:
        new.name, node.outputs[0].name = name, None
    editor.graph.remove(node, safe=True)


def _is_channel_axis(layer: ir.Node, axis: int, rank: int) -> bool:
    if is_kind(layer, *CONVOLUTIONS):
        return axis == 1
    plain = number_is_one(layer, "alpha") and number_is_one(layer, "beta")
    return plain and axis == rank - 1


def number_is_one(node: ir.Node, name: str) -> bool:
    """Whether a factor of a Gemm is 1."""
    stated = node.attributes.get(name)
    return stated is None or stated.as_float() == 1


def _bias_of(value: ir.Value) -> Array | None:
    array, reading = array_of(value), value.producer()
    if array is None and is_kind(reading, "DequantizeLinear"):
        array = dequantised(reading, reading.inputs[0])
    return None if array is None or array.ndim > 1 else array.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """Dequantised constant weights of a layer."""

    reading: ir.Node
    steps: Array
    scale: Array
    zero: Array
    axis: int  # of scales and zero points, if there are several


def _weights(layer: ir.Node) -> _Weights | None:
    return _dequantisation(None if layer.inputs[1] is None else layer.inputs[1].producer())


def _dequantisation(reading: ir.Node | None) -> _Weights | None:
    """What a DequantizeLinear of an 8-bit constant states."""
    if not is_kind(reading, "DequantizeLinear") or integer(reading, "block_size", 0):
        return None
    steps, scale = array_of(reading.inputs[0]), array_of(input_of(reading, 1))
    if steps is None or scale is None or steps.dtype not in (np.int8, np.uint8):
        return None
    stated = input_of(reading, 2)
    zero = np.zeros(scale.shape, steps.dtype) if stated is None else array_of(stated)
    if zero is None or scale.dtype != np.float32 or scale.ndim > 1 or zero.shape != scale.shape:
        return None
    axis = integer(reading, "axis", 1) % max(steps.ndim, 1)
    return _Weights(reading=reading, steps=steps, scale=scale, zero=zero, axis=axis)


def _output_axis(layer: ir.Node, rank: int) -> int | None:
    if is_kind(layer, *PRODUCTS):
        rows = is_kind(layer, "Gemm") and integer(layer, "transB", 0)
        return None if rank != _MATRIX else int(not rows)
    if is_kind(layer, "ConvTranspose"):
        return 1 if integer(layer, "group", 1) == 1 else None
    return 0


def _scaled_weights(editor: Editor, layer: ir.Node, factors: Array) -> ir.Value | None:
    """The weights with other scales; those of a negative factor are the others' complement."""
    found = _weights(layer)
    axis = None if found is None else _output_axis(layer, found.steps.ndim)
    if found is None or axis is None or (found.scale.size > 1 and found.axis != axis):
        return None
    if found.steps.shape[axis] != factors.size or not np.isfinite(factors).all():
        return None
    scale = np.abs(factors) * found.scale.astype(np.float64)
    none = factors == 0
    scale = np.where(none, 1, scale).astype(np.float32)
    if not np.isfinite(scale).all() or (scale < np.finfo(np.float32).tiny).any():
        return None
    place = [-1 if index == axis else 1 for index in range(found.steps.ndim)]
    zero = np.broadcast_to(found.zero, factors.shape)
    steps = np.where((factors < 0).reshape(place), ~found.steps, found.steps)
    zero = np.where(factors < 0, ~zero, zero)
    steps = np.where(none.reshape(place), zero.reshape(place), steps)
    stem = f"{layer.name}_scaled"
    inputs = [
        editor.constant(f"{stem}_{name}", array)
        for name, array in (("weights", steps), ("scale", scale), ("zero", zero))
    ]
    return editor.before(
        layer, "DequantizeLinear", inputs, {"axis": axis}, stem=stem, like=layer.inputs[1]
    )


# -- biases --------------------------------------------------------------------------------------


def fold_integer_biases(editor: Editor) -> None:
    """Dequantise constants of 16 and 32 bits, which only biases are, and other ones of 8 bits.

    Factors and offsets of normalisations and slopes are numbers, too, as are operands of functions.
    """
    for node in list(editor.graph):
        if not is_kind(node, "DequantizeLinear") or node.outputs[0].is_graph_output():
            continue
        data, scale = array_of(input_of(node, 0)), array_of(input_of(node, 1))
        if data is None or scale is None or not np.isfinite(scale).all() or data.dtype.kind == "V":
            continue
        if scale.ndim > 1 or (scale.size > 1 and data.ndim != 1):
            continue
        list_of_16 = data.dtype in (np.int16, np.uint16) and data.ndim <= 1
        if data.dtype != np.int32 and not list_of_16 and not _is_bias(node, data):
            continue
        value = dequantised(node, node.inputs[0])
        if value is not None:
            output = node.outputs[0]
            constant = editor.constant(f"{output.name}_float", value)
            ir.convenience.replace_all_uses_with(output, constant)


def _is_bias(node: ir.Node, data: Array) -> bool:
    """Whether all readers of a constant take numbers of channels, as layers take biases."""
    uses = list(node.outputs[0].uses())
    return bool(uses) and data.size == max(data.shape, default=1) and all(
        _takes_numbers(use.node, use.idx) or (data.size == 1 and is_kind(use.node, *BY_ELEMENT))
        for use in uses
    )  # fmt: skip


def _takes_numbers(user: ir.Node, index: int) -> bool:
    if is_kind(user, *_WITH_PARAMETERS):
        return index > 0
    if is_kind(user, *LAYERS):
        return index == len(("data", "weights"))
    if not is_kind(user, "Add"):
        return False
    other = user.inputs[1 - index]
    return other is not None and is_kind(other.producer(), *LAYERS)


# -- zero points ---------------------------------------------------------------------------------


def split_wide_weights(editor: Editor) -> None:
    """Read the input channels of weights that leave int8 without their zero point twice."""
    for node in list(editor.graph):
        if is_kind(node, *LAYERS) and (found := _weights(node)) is not None and found.zero.any():
            _split(editor, node, found)


def _split(editor: Editor, layer: ir.Node, found: _Weights) -> None:
    data, shape = layer.inputs[0], shape_of(layer.inputs[0])
    reading = None if data is None else data.producer()
    scale = array_of(reading.inputs[1]) if is_kind(reading, "DequantizeLinear") else None
    output, groups = _output_axis(layer, found.steps.ndim), integer(layer, "group", 1)
    if data is None or shape is None or reading is None or scale is None or scale.size != 1:
        return
    if array_of(reading.inputs[0]) is not None or integer(layer, "transA", 0):
        return
    deconvolves = is_kind(layer, "ConvTranspose")
    if output is None and not deconvolves:
        return
    output = 1 if output is None else output
    place = [-1 if index == found.axis else 1 for index in range(found.steps.ndim)]
    zero = found.zero.astype(np.int16)
    wide = found.steps.astype(np.int16) - (zero.reshape(place) if zero.size > 1 else zero.item(0))
    # (groups, inputs of a group, outputs of a group, ...)
    grouped = np.stack(np.split(wide, groups, axis=0 if groups > 1 or deconvolves else output))
    grouped = grouped if output == 1 else grouped.swapaxes(1, 2)
    inputs = grouped.shape[1]
    chosen, parts = [list(range(inputs)) for _ in range(groups)], [list(g) for g in grouped]
    for group, rows in enumerate(parts):
        for channel in range(inputs):
            first, rest = _within(rows[channel])
            rows[channel] = first
            while rest.any():
                more, rest = _within(rest)
                rows.append(more)
                chosen[group].append(channel)
    longest = max(map(len, chosen))
    for group, rows in enumerate(parts):
        lacking = longest - len(rows)
        rows.extend([np.zeros_like(rows[0])] * lacking)
        chosen[group].extend([0] * lacking)
    narrow = np.stack([np.stack(rows) for rows in parts]).astype(np.int8)
    narrow = narrow if output == 1 else narrow.swapaxes(1, 2)
    narrow = np.concatenate(list(narrow), axis=0 if groups > 1 or deconvolves else output)
    places = np.array([g * inputs + c for g, row in enumerate(chosen) for c in row], np.int64)
    stem = f"{layer.name}_split"
    axis = 1 if is_kind(layer, *CONVOLUTIONS) else len(shape) - 1
    wider = (*shape[:axis], places.size, *shape[axis + 1 :])
    indices = editor.constant(f"{stem}_places", places)
    value = editor.before(layer, "Gather", [data, indices], {"axis": axis}, stem=stem, like=data)
    value.shape = ir.Shape(wider)
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        dtype = reading.inputs[0].dtype if kind == "QuantizeLinear" and reading.inputs[0] else None
        value = editor.before(
            layer, kind, [value, *reading.inputs[1:3]], stem=stem, like=value,
            dtype=dtype or ir.DataType.FLOAT,
        )  # fmt: skip
    constants = [
        editor.constant(f"{stem}_weights", narrow),
        found.reading.inputs[1],
        editor.constant(f"{stem}_zero", np.zeros_like(found.zero, np.int8)),
    ]
    weights = editor.before(
        layer, "DequantizeLinear", constants, dict(found.reading.attributes), stem=f"{stem}_of",
        dtype=ir.DataType.FLOAT,
    )  # fmt: skip
    layer.replace_input_with(0, value)
    layer.replace_input_with(1, weights)


def _within(wide: Array) -> tuple[Array, Array]:
    """What int8 holds of whole numbers, and the rest."""
    held = np.clip(wide, _LOW, _HIGH)
    return held, wide - held
