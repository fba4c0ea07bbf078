# SPDX-License-Identifier: Apache-2.0
"""Dynamically quantised layers as the layers of floats that they stand for.

ONNX Runtime's `quantize_dynamic` stores int8 weights and finds the range of each activation anew
in every run: DynamicQuantizeLinear, then MatMulInteger or ConvInteger, then the product with both
scales. A table of embeddings has a constant scale. The accelerator has its ranges from calibration,
so that such a layer is one of floats whose weights happen to be multiples of a scale.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    is_kind,
    is_single,
    only_user,
    scalar_of,
    shape_of,
)

_FLOAT_KINDS: Final = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a layer reads."""

    data: ir.Value  # its activations, in floats or in integers
    scale: ir.Value | None  # of the integers; None: they are floats
    factor: Array  # the scale of the weights


def fold_dynamic(model: ir.Model) -> bool:
    """State dynamically quantised layers with constant weights in floats, in place.

    Others stay, and so does what reads their integers or scales by itself.
    """
    editor = Editor(model.graph)
    found = [node for node in list(model.graph) if _fold(editor, node)]
    if found:
        editor.drop_unused()
    return bool(found)


def _fold(editor: Editor, node: ir.Node) -> bool:
    scaling = _scaling(node) if is_kind(node, *_FLOAT_KINDS) else None
    if scaling is None:
        return False
    read = _dynamic(node, scaling) or _looked_up(node, scaling)
    weights = None if read is None else _weights(node, read.factor)
    if read is None or weights is None:
        return False
    result, data = scaling.outputs[0], read.data
    stem = result.name or "layer"
    if read.scale is not None:
        numbers = [read.scale, *node.inputs[2:3]]
        data = editor.before(
            scaling, "DequantizeLinear", [data, *numbers], stem=f"{stem}_activations",
            like=data, dtype=ir.DataType.FLOAT,
        )  # fmt: skip
    made = editor.before(
        scaling, _FLOAT_KINDS[node.op_type], [data, editor.constant(f"{stem}_weights", weights)],
        dict(node.attributes), stem=f"{stem}_float", like=result,
    )  # fmt: skip
    layer = made.producer()
    assert layer is not None
    layer.name = editor.name((node.name or stem).removesuffix("_quant"))  # as it was before
    leaves = result.is_graph_output()
    ir.convenience.replace_all_uses_with(result, made, replace_graph_outputs=True)
    if leaves:
        result.name, made.name = editor.name(f"{stem}_scaled"), result.name
    return True


def _scaling(node: ir.Node) -> ir.Node | None:
    """The product with both scales, behind the conversion of a layer's sums to floats."""
    cast = only_user(node.outputs[0])
    if not is_kind(cast, "Cast") or integer(cast, "to", 0) != ir.DataType.FLOAT:
        return None
    scaling = only_user(cast.outputs[0])
    if not is_kind(scaling, "Mul") or scaling.graph is not node.graph:  # in a body of it
        return None
    shape = shape_of(node.outputs[0])  # a scale may add an axis
    return scaling if shape is not None and shape == shape_of(scaling.outputs[0]) else None


def _dynamic(node: ir.Node, scaling: ir.Node) -> _Read | None:
    """Activations whose range is found anew."""
    steps = node.inputs[0]
    source = None if steps is None else steps.producer()
    if not is_kind(source, "DynamicQuantizeLinear") or source.inputs[0] is None:
        return None
    if steps is not source.outputs[0] or input_of(node, 2) is not source.outputs[2]:
        return None
    if not is_single(source.inputs[0]):
        return None
    for first, second in _scales(scaling):
        factor = array_of(second)
        if first is source.outputs[1] and factor is not None:
            return _Read(data=source.inputs[0], scale=None, factor=factor)
    return None


def _looked_up(node: ir.Node, scaling: ir.Node) -> _Read | None:
    """Activations from a constant table of integers."""
    steps, zero = node.inputs[0], input_of(node, 2)
    source = None if steps is None else steps.producer()
    if steps is None or not is_kind(source, "Gather") or array_of(source.inputs[0]) is None:
        return None
    if zero is not None and scalar_of(zero) is None:
        return None
    for first, second in _scales(scaling):
        scale, factor = array_of(first), array_of(second)
        if scale is not None and factor is not None and scale.shape in ((), (1,)):
            return _Read(data=steps, scale=first, factor=factor)
    return None


def _scales(scaling: ir.Node) -> Iterator[tuple[ir.Value | None, ir.Value | None]]:
    """What a layer's sums are multiplied with, as two factors in either order."""
    for value in scaling.inputs:
        product = None if value is None else value.producer()
        if is_kind(product, "Mul"):
            yield product.inputs[0], product.inputs[1]
            yield product.inputs[1], product.inputs[0]


def _weights(node: ir.Node, factor: Array) -> Array | None:
    """The weights in floats; None: they are no constants or not finite, or a scale is of others."""
    steps, stated = array_of(node.inputs[1]), input_of(node, 3)
    zero = np.zeros((), np.int8) if stated is None else array_of(stated)
    if steps is None or zero is None or steps.ndim < 2 or factor.dtype != np.float32:
        return None
    if steps.dtype not in (np.int8, np.uint8) or (stated and zero.dtype != steps.dtype):
        return None
    convolves = node.op_type == "ConvInteger"
    behind = steps.ndim - 2 if convolves else 0
    channels = steps.shape[0 if convolves else -1]
    numbers = (_of_channels(zero, channels, 0), _of_channels(factor, channels, behind))
    if numbers[0] is None or numbers[1] is None:
        return None
    place = (-1, *[1] * (steps.ndim - 1)) if convolves else (-1,)
    zeros, scales = (each.reshape(place).astype(np.float64) for each in numbers if each is not None)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.asarray((steps - zeros) * scales, np.float32)
    return weights if np.isfinite(weights).all() else None


def _of_channels(array: Array, channels: int, behind: int) -> Array | None:
    """One number, or one for each channel of a result."""
    axis = array.ndim - 1 - behind
    each = axis >= 0 and array.size == array.shape[axis] == channels
    one = array.size == 1 and array.ndim <= 1
    return array.reshape(-1) if each or one else None
