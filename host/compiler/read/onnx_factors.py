# SPDX-License-Identifier: Apache-2.0
"""Factors of the channels behind a dense layer as part of its weights: layer scale.

They also move over a permutation of axes that lies between. A factor of batch normalisation behind
a convolution is folded by ONNX Runtime.
"""

from __future__ import annotations

from typing import Final, TypeGuard

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    only_user,
    shape_of,
)

_LAYERS: Final = ("Gemm", "MatMul")


def fold_factors(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Mul") and any(_fold(editor, node, *sides) for sides in ((0, 1), (1, 0))):
            editor.graph.remove(node, safe=True)


def _fold(editor: Editor, node: ir.Node, data: int, other: int) -> bool:
    """Whether a product with constants went into the layer in front of it."""
    value, factors = node.inputs[data], array_of(node.inputs[other])
    found = _channel_factors(value, factors)
    if value is None or found is None:
        return False
    axis, scales = found
    last = value
    while is_kind(source := last.producer(), "Transpose") and only_user(last) is not None:
        moved = integers(source, "perm", range(len(shape_of(last) or ()))[::-1])
        axis, before = moved[axis], source.inputs[0]
        assert before is not None
        last = before
    if axis != len(shape_of(last) or ()) - 1 or only_user(last) is None:
        return False
    addition = last.producer()
    layer, offsets = addition, None
    if is_kind(addition, "Add"):
        side = 1 if array_of(addition.inputs[0]) is None else 0
        offsets, product = array_of(addition.inputs[side]), addition.inputs[1 - side]
        if offsets is None or product is None or only_user(product) is None:
            return False
        layer = product.producer()
    if not _is_dense(layer) or (offsets is not None and offsets.shape[-1:] != scales.shape):
        return False
    rows = is_kind(layer, "Gemm") and integer(layer, "transB", 0)
    _scale(editor, layer, 1, scales[:, None] if rows else scales)
    if is_kind(layer, "Gemm"):
        _scale(editor, layer, 2, scales)
    if offsets is not None:
        assert addition is not None
        _scale(editor, addition, side, scales)
    ir.convenience.replace_all_uses_with(node.outputs[0], value, replace_graph_outputs=True)
    if value.is_graph_output():
        value.name, node.outputs[0].name = node.outputs[0].name, None
    return True


def _channel_factors(data: ir.Value | None, factors: Array | None) -> tuple[int, Array] | None:
    """The axis of the channels and a factor for each, if there is one number for each of them."""
    shape = None if array_of(data) is not None else shape_of(data)
    if shape is None or factors is None or factors.dtype != np.float32:
        return None
    aligned = (1,) * (len(shape) - factors.ndim) + factors.shape
    axes = [axis for axis, size in enumerate(aligned) if size != 1]
    if len(aligned) != len(shape) or len(axes) != 1 or factors.size != shape[axes[0]]:
        return None
    if not np.isfinite(factors).all():
        return None
    return axes[0], factors.reshape(-1)


def _is_dense(node: ir.Node | None) -> TypeGuard[ir.Node]:
    """Whether a node multiplies by a constant matrix, with a bias of one number a channel."""
    if not is_kind(node, *_LAYERS):
        return False
    weights, bias = array_of(input_of(node, 1)), input_of(node, 2)
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32:
        return False
    return bias is None or array_of(bias) is not None


def _scale(editor: Editor, node: ir.Node, index: int, factors: Array) -> None:
    array = array_of(input_of(node, index))
    if array is not None:
        scaled = (array * factors).astype(np.float32)
        node.replace_input_with(index, editor.constant(f"{node.name}_scaled", scaled))
