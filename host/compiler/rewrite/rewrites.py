# SPDX-License-Identifier: Apache-2.0
"""Rewrites of a model into operators that the accelerator takes; none changes a result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    is_kind,
    is_single,
    only_user,
    scalar_of,
    shape_of,
    stand_for,
)
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.attention import state_attention
from tilewright.host.compiler.rewrite.detections import apply_before_joining, split_before_joining
from tilewright.host.compiler.rewrite.general_forms import state_general
from tilewright.host.compiler.rewrite.images import take_apart, widen
from tilewright.host.compiler.rewrite.layouts import move_by_layers
from tilewright.host.compiler.rewrite.linear_layers import (
    convolve_affine,
    dedicate_biases,
    fold_behind_transposed,
    fold_biases,
    fold_factors,
    state_bias,
    state_gemm,
)
from tilewright.host.compiler.rewrite.lookups import look_up_one_hot
from tilewright.host.compiler.rewrite.padding import rewrite_pads, state_padding
from tilewright.host.compiler.rewrite.plain import state_plain, write_out_one_hot
from tilewright.host.compiler.rewrite.products import state_products
from tilewright.host.compiler.rewrite.resizes import resize_images, sum_resizes
from tilewright.host.compiler.rewrite.rows import state_expectations, state_rows
from tilewright.host.compiler.rewrite.windows import rewrite_windows

IMAGE_RANK: Final = 4


def rewrite(
    model: ir.Model, options: QuantiseOptions | None = None, mask_inputs: Collection[str] = ()
) -> None:
    """Apply all rewrites to a model with known shapes, in place."""
    is_float, options = options is not None, options or QuantiseOptions()
    editor = Editor(model.graph)
    dedicate_biases(editor)
    state_plain(editor)
    rewrite_pads(editor)
    resize_images(editor)
    if options.row_functions:
        state_rows(model)
        editor = Editor(model.graph)
    state_products(editor)
    look_up_one_hot(editor)
    write_out_one_hot(editor)
    widen(editor)
    state_padding(editor)
    for node in list(model.graph):
        if is_kind(node, "ReduceMean"):
            _pool_globally(editor, node)
        elif is_kind(node, "MatMul"):
            _scale_product(editor, node)
        elif is_kind(node, "Gather"):
            _drop_whole_gather(editor, node)
        elif is_kind(node, "Gemm"):
            state_gemm(editor, node)
            state_bias(editor, node)
        elif is_kind(node, "Pad", "Slice"):
            _drop_idle(editor, node)
    take_apart(editor)
    fold_biases(editor)
    fold_factors(editor)
    rewrite_windows(editor)
    state_attention(editor, masks=options.row_functions, mask_inputs=mask_inputs)
    if is_float:
        sum_resizes(editor)
    if options.activation_tables:
        state_general(editor, model.opset_imports.get("", 0))
    fold_factors(editor)
    fold_behind_transposed(editor)
    convolve_affine(editor)
    split_before_joining(editor)
    if options.activation_tables:
        apply_before_joining(editor)
    if options.row_functions:
        state_expectations(editor)
    move_by_layers(editor)
    editor.drop_unused()


def _pool_globally(editor: Editor, node: ir.Node) -> None:
    """The mean over the rows and columns of an image as GlobalAveragePool."""
    data, result = input_of(node, 0), node.outputs[0]
    shape = shape_of(data)
    if not is_single(data) or shape is None or len(shape) != IMAGE_RANK:
        return
    if sorted(axis % IMAGE_RANK for axis in axes_of(node)) != [2, 3]:
        return
    stem = result.name or "mean"
    keeps = integer(node, "keepdims", 1)
    pooled = editor.before(node, "GlobalAveragePool", [data], stem=f"{stem}_pooled", like=result)
    pooled.shape = ir.Shape((*shape[:2], 1, 1))
    producer = pooled.producer()
    assert producer is not None
    producer.name = node.name
    new = pooled if keeps else editor.before(node, "Flatten", [pooled], stem=stem, like=result)
    stand_for(result, new)
    editor.graph.remove(node, safe=True)


def _drop_idle(editor: Editor, node: ir.Node) -> None:
    """No padding of nothing, and no slice of everything."""
    data, result = node.inputs[0], node.outputs[0]
    place, idle = (1, 0) if node.op_type == "Pad" else (4, 1)
    numbers = array_of(input_of(node, place))
    if node.op_type == "Slice" and input_of(node, place) is None:
        numbers = np.array(idle)
    if data is None or numbers is None or result.is_graph_output():
        return
    same = shape_of(data) is not None and shape_of(data) == shape_of(result)
    if same and (numbers == idle).all():
        ir.convenience.replace_all_uses_with(result, data)
        editor.graph.remove(node, safe=True)


def _drop_whole_gather(editor: Editor, node: ir.Node) -> None:
    """A gather of all positions in their order as a change of shape, or as nothing.

    PyTorch exports ``as_strided`` and some indexing in this form.
    """
    data, result, indices = node.inputs[0], node.outputs[0], array_of(input_of(node, 1))
    shape, whole = shape_of(data), shape_of(result)
    if data is None or indices is None or not shape or whole is None or not indices.ndim:
        return
    size = shape[integer(node, "axis", 0) % len(shape)]
    places = np.where(indices < 0, indices + size, indices)
    if places.size != size or not np.array_equal(places.reshape(-1), np.arange(size)):
        return
    if whole == shape and not result.is_graph_output():
        ir.convenience.replace_all_uses_with(result, data)
    else:
        stem = result.name or "gathered"
        stand_for(result, editor.reshaped(node, data, whole, stem=stem))
    editor.graph.remove(node, safe=True)


def _scale_product(editor: Editor, node: ir.Node) -> None:
    """Multiply the product of two activations by a number once, not its factors before."""
    factor = 1.0
    scaled: list[tuple[int, ir.Value]] = []
    for index, operand in enumerate(node.inputs):
        if operand is None or array_of(operand) is not None:
            return
        found = _scaled_by(operand)
        if found is not None:
            scaled.append((index, found[0]))
            factor *= found[1]
    result = node.outputs[0]
    if not scaled or not (np.isfinite(factor) and factor > 0):
        return
    for index, source in scaled:
        node.replace_input_with(index, source)
    number = editor.constant(f"{result.name}_factor", np.array(factor, np.float32))
    stem = result.name or "product"
    users = list(result.uses())
    product = editor.after(node, "Mul", [result, number], stem=f"{stem}_scaled", like=result)
    for user, index in users:
        user.replace_input_with(index, product)
    if result.is_graph_output():
        outputs = editor.graph.outputs
        outputs[list(outputs).index(result)] = product
        result.name = editor.name(f"{stem}_unscaled")
        product.name = stem


def _scaled_by(value: ir.Value) -> tuple[ir.Value, float] | None:
    """What a value is before the multiplication with a number that nothing else reads."""
    node = value.producer()
    if node is None or only_user(value) is None or not is_kind(node, "Mul", "Div"):
        return None
    left, right = node.inputs[0], node.inputs[1]
    number = scalar_of(right)
    if number is not None and left is not None and _is_float(right):
        return (left, number) if node.op_type == "Mul" else (left, 1 / number if number else 0.0)
    number = scalar_of(left)
    if number is not None and right is not None and node.op_type == "Mul" and _is_float(left):
        return right, number
    return None


def _is_float(value: ir.Value | None) -> bool:
    array = array_of(value)
    return array is not None and array.dtype == np.float32 and array.ndim <= 1
