# SPDX-License-Identifier: Apache-2.0
"""A Gemm as the product with a matrix and one number for each channel, which is a dense layer.

ONNX's Gemm is ``alpha * A' * B' + beta * C``. The factors become part of constant weights and
biases, an A that is to be transposed is so before, and a C that is no bias, as it differs from row
to row or is no constant, is added behind.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    is_single,
    number,
    shape_of,
)


def state_gemm(editor: Editor, node: ir.Node) -> None:
    """Rewrite one Gemm with known shapes, in place; what cannot be folded stays.

    A product of two activations stays, too.
    """
    if not _is_constant(node.inputs[1]):
        return
    if integer(node, "transA", 0):
        _turn(editor, node)
    alpha, beta = (number(node, name, 1.0) for name in ("alpha", "beta"))
    if alpha != 1 and (weights := _scaled(editor, node, 1, alpha)) is not None:
        node.replace_input_with(1, weights)
        node.attributes.pop("alpha", None)
    addend = input_of(node, 2)
    if beta == 0 and addend is not None:
        node.resize_inputs(2)
    if input_of(node, 2) is None:
        node.attributes.pop("beta", None)
    elif beta != 1 and (scaled := _scaled(editor, node, 2, beta)) is not None:
        node.replace_input_with(2, scaled)
        node.attributes.pop("beta", None)
        beta = 1.0
    if is_single(addend) and len(node.inputs) > 2 and not _is_bias(node.inputs[2]):
        _add_behind(editor, node, beta)


def _turn(editor: Editor, node: ir.Node) -> None:
    """Transpose the activations before; int8 ones between the conversions that they have."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if data is None or shape is None or array_of(data) is not None:
        return
    stem, reading = f"{node.name}_turned", data.producer()
    turned = editor.before(node, "Transpose", [data], {"perm": [1, 0]}, stem=stem, like=data)
    turned.shape = ir.Shape(shape[::-1])
    if is_kind(reading, "DequantizeLinear") and input_of(reading, 2) is not None:
        numbers = list(reading.inputs[1:3])
        for kind in ("QuantizeLinear", "DequantizeLinear"):
            source = reading.inputs[0] if kind == "QuantizeLinear" else data
            dtype = None if source is None else source.dtype
            turned = editor.before(
                node, kind, [turned, *numbers], stem=f"{stem}_{kind}", like=turned, dtype=dtype
            )
    node.replace_input_with(0, turned)
    node.attributes.pop("transA")


def _scaled(editor: Editor, node: ir.Node, index: int, factor: float) -> ir.Value | None:
    """An input times a factor: a constant, or one that is dequantised by another scale."""
    value = node.inputs[index]
    array = array_of(value)
    if array is not None and array.dtype == np.float32:
        product = _product(array, factor)
        return None if product is None else editor.constant(f"{node.name}_scaled", product)
    reading = None if value is None else value.producer()
    if not is_kind(reading, "DequantizeLinear") or array_of(reading.inputs[0]) is None:
        return None
    scale = array_of(reading.inputs[1])
    if scale is None or scale.dtype != np.float32 or factor <= 0:
        return None
    scaled = _product(scale, factor)
    if scaled is None or (scaled < np.finfo(np.float32).tiny).any():
        return None
    numbers = editor.constant(f"{node.name}_scale", scaled)
    inputs = [reading.inputs[0], numbers, *reading.inputs[2:]]
    return editor.before(
        node, "DequantizeLinear", inputs, dict(reading.attributes), stem=f"{node.name}_scaled",
        like=value,
    )  # fmt: skip


def _product(array: Array, factor: float) -> Array | None:
    """An array times a factor in single precision; None: it leaves its range."""
    with np.errstate(over="ignore"):
        scaled = (array * np.float64(factor)).astype(np.float32)
    return scaled if np.isfinite(scaled).all() else None


def _is_constant(value: ir.Value | None) -> bool:
    """Whether a tensor is a constant, or one that is dequantised."""
    reading = None if value is None else value.producer()
    if is_kind(reading, "DequantizeLinear"):
        value = reading.inputs[0]
    return array_of(value) is not None


def _is_bias(value: ir.Value | None) -> bool:
    """Whether a tensor is a constant with one number for each channel, or one for all."""
    shape = shape_of(value)
    return _is_constant(value) and shape is not None and all(size == 1 for size in shape[:-1])


def _add_behind(editor: Editor, node: ir.Node, beta: float) -> None:
    """Add C in an operator of its own, such as a layer takes for a residual."""
    addend, result = node.inputs[2], node.outputs[0]
    stem = result.name or node.name or "sum"
    if beta != 1:
        factor = editor.constant(f"{stem}_beta", np.array(beta, np.float32))
        addend = editor.before(node, "Mul", [addend, factor], stem=f"{stem}_addend", like=addend)
    node.resize_inputs(2)
    node.attributes.pop("beta", None)
    users = list(result.uses())
    total = editor.after(node, "Add", [result, addend], stem=f"{stem}_sum", like=result)
    for user, index in users:
        user.replace_input_with(index, total)
    if result.is_graph_output():
        outputs = editor.graph.outputs
        outputs[list(outputs).index(result)] = total
        result.name = editor.name(f"{stem}_product")
        total.name = stem
