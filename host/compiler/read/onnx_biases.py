# SPDX-License-Identifier: Apache-2.0
"""Biases that are added behind a convolution, and changes of shape, as part of the convolution.

ONNX Runtime folds those that are added to the result itself. A bias of a Gemm may be stated in many
shapes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    is_kind,
    only_user,
    shape_of,
)


def fold_biases(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Add") and any(_fold(editor, node, *sides) for sides in ((0, 1), (1, 0))):
            editor.graph.remove(node, safe=True)


def dedicate_biases(editor: Editor) -> None:
    """Give each reader of a list of numbers its own, in place.

    A bias is rounded to the scales of its layer. ONNX Runtime's quantiser copies one that several
    layers share, under a name that another tensor may bear.
    """
    for constant in list(editor.graph.initializers.values()):
        array = array_of(constant)
        if array is None or array.ndim != 1 or array.dtype != np.float32:
            continue
        for user, index in list(constant.uses())[1:]:
            own = editor.constant(f"{constant.name}_of_{user.name}", array)
            user.replace_input_with(index, own)


def state_bias(editor: Editor, node: ir.Node) -> None:
    """What a Gemm adds as one number for each channel, if it adds the same to all rows."""
    shape, array = shape_of(node.outputs[0]), array_of(input_of(node, 2))
    if shape is None or array is None or array.shape == shape[1:]:
        return
    if array.ndim == 2 and array.shape[0] != 1:
        return
    wide = np.ascontiguousarray(np.broadcast_to(array.reshape(-1), shape[1:]))
    node.replace_input_with(2, editor.constant(f"{node.name}_bias", wide))


def _fold(editor: Editor, node: ir.Node, data: int, other: int) -> bool:
    """Whether constants went into the convolution in front of an addition."""
    value, offsets = node.inputs[data], _of_channels(node, node.inputs[data], node.inputs[other])
    if value is None or offsets is None:
        return False
    last: ir.Value | None = value
    while last is not None and only_user(last) is not None:
        layer = last.producer()
        if not is_kind(layer, "Reshape", "Squeeze", "Unsqueeze"):
            break
        before, after = shape_of(layer.inputs[0]), shape_of(last)
        if before is None or after is None or before[:2] != after[:2]:
            return False
        last = layer.inputs[0]
    layer = None if last is None else last.producer()
    if last is None or only_user(last) is None or not is_kind(layer, "Conv"):
        return False
    weights, bias = array_of(input_of(layer, 1)), array_of(input_of(layer, 2))
    missing = input_of(layer, 2) is None
    if weights is None or weights.dtype != np.float32 or (bias is None and not missing):
        return False
    total = offsets if bias is None else (bias + offsets).astype(np.float32)
    layer.resize_inputs(3)
    layer.replace_input_with(2, editor.constant(f"{layer.name}_bias", total))
    result = node.outputs[0]
    ir.convenience.replace_all_uses_with(result, value, replace_graph_outputs=True)
    if value.is_graph_output():
        value.name, result.name = result.name, None
    return True


def _of_channels(node: ir.Node, data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """A number for each channel, on axis 1, that is added."""
    shape, array = shape_of(data), array_of(constant)
    if shape is None or len(shape) < 3 or array is None or array.dtype != np.float32:
        return None
    aligned = (1,) * (len(shape) - array.ndim) + array.shape
    if aligned != (1, shape[1], *(1,) * (len(shape) - 2)) or shape_of(node.outputs[0]) != shape:
        return None
    return np.ascontiguousarray(array.reshape(-1))
