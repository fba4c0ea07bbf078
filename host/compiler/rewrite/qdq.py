# SPDX-License-Identifier: Apache-2.0
"""The canonical form of a QDQ model, in which patterns of operators are easy to see.

In canonical form activations and weights are int8; every QuantizeLinear and DequantizeLinear states
its zero point; a tensor is quantised once, and each reader dequantises it for itself; a bias is a
float constant. None of the passes changes a result.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import Editor, array_of, input_of, integer, is_kind
from tilewright.host.compiler.rewrite.int8_weights import (
    fold_integer_biases,
    split_wide_weights,
)

_OFFSET: Final = 128


def canonical(model: ir.Model) -> None:
    """Bring a QDQ model into canonical form, in place."""
    editor = Editor(model.graph)
    _state_zero_points(editor)
    _to_int8(editor)
    _centre_constants(editor)
    split_wide_weights(editor)
    _share_quantised(editor)
    fold_integer_biases(editor)
    _dedicate_dequantised(editor)
    editor.drop_unused()


def _nodes(editor: Editor, kind: str) -> list[ir.Node]:
    return [node for node in editor.graph if is_kind(node, kind)]


def _state_zero_points(editor: Editor) -> None:
    """Write down the zero point 0 that a node leaves out, and the axis without a sign."""
    for node in (*_nodes(editor, "QuantizeLinear"), *_nodes(editor, "DequantizeLinear")):
        scale = input_of(node, 1)
        if input_of(node, 2) is None and scale is not None:
            dtype = _quantised_type(node)
            shape = array_of(scale)
            if dtype is not None and shape is not None:
                zeros = np.zeros(shape.shape, dtype.numpy())
                node.resize_inputs(3)
                node.replace_input_with(2, editor.constant(f"{node.name}_zero_point", zeros))
        data, axis = input_of(node, 0), integer(node, "axis", 1)
        if axis < 0 and data is not None and data.shape is not None:
            node.attributes["axis"] = ir.AttrInt64("axis", axis + len(data.shape))


def _quantised_type(node: ir.Node) -> ir.DataType | None:
    """The type of the quantised side of a node without a zero point."""
    if node.op_type == "QuantizeLinear":
        stated = integer(node, "output_dtype", 0)
        return ir.DataType(stated) if stated else ir.DataType.UINT8
    data = input_of(node, 0)
    if data is None:
        return None
    if data.const_value is not None:
        return data.const_value.dtype
    return data.dtype or (ir.DataType.UINT8 if is_kind(data.producer(), "QuantizeLinear") else None)


def _to_int8(editor: Editor) -> None:
    """Move uint8 tensors to int8 by subtracting 128 from elements and zero points."""
    for node in _nodes(editor, "QuantizeLinear"):
        zero_point = array_of(input_of(node, 2))
        if zero_point is not None and zero_point.dtype == np.uint8:
            _quantise_to_int8(editor, node, zero_point)
    for node in _nodes(editor, "DequantizeLinear"):
        zero_point = array_of(input_of(node, 2))
        if zero_point is not None and zero_point.dtype == np.uint8:
            _dequantise_from_int8(editor, node, zero_point)


def _less_128(array: np.ndarray) -> np.ndarray:
    return (array.astype(np.int16) - _OFFSET).astype(np.int8)


def _quantise_to_int8(editor: Editor, node: ir.Node, zero_point: np.ndarray) -> None:
    """The int8 result takes the place of the uint8 one; other readers get it back as uint8."""
    old = node.outputs[0]
    stem = old.name or "quantised"
    shifted = editor.constant(f"{stem}_zero_point", _less_128(zero_point))
    attributes = {k: v for k, v in node.attributes.items() if k != "output_dtype"}
    new = editor.after(
        node,
        "QuantizeLinear",
        [node.inputs[0], node.inputs[1], shifted],
        attributes,
        stem=f"{stem}_int8",
        like=old,
        dtype=ir.DataType.INT8,
    )
    producer = new.producer()
    assert producer is not None
    for user, index in list(old.uses()):
        if index == 0 and is_kind(user, "DequantizeLinear"):
            user.replace_input_with(0, new)
    if not old.uses() and not old.is_graph_output():
        return
    wide = editor.after(
        producer, "Cast", [new], {"to": ir.DataType.INT32}, stem=f"{stem}_wide", like=old,
        dtype=ir.DataType.INT32,
    )  # fmt: skip
    place = wide.producer()
    assert place is not None
    offset = editor.constant(f"{stem}_offset", np.array(_OFFSET, np.int32))
    moved = editor.after(place, "Add", [wide, offset], stem=f"{stem}_moved", like=wide)
    place = moved.producer()
    assert place is not None
    back = editor.after(
        place, "Cast", [moved], {"to": ir.DataType.UINT8}, stem=f"{stem}_uint8", like=old
    )
    _take_place(editor, old, back)


def _take_place(editor: Editor, old: ir.Value, new: ir.Value) -> None:
    """Let a value replace another everywhere, as an output of the graph with its name."""
    leaves = old.is_graph_output()
    name = old.name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    if leaves:
        old.name = editor.name(f"{name}_replaced")
        new.name = name


def _dequantise_from_int8(editor: Editor, node: ir.Node, zero_point: np.ndarray) -> None:
    data = node.inputs[0]
    assert data is not None
    stem = data.name or "quantised"
    shifted = editor.constant(f"{stem}_zero_point", _less_128(zero_point))
    node.replace_input_with(2, shifted)
    constant = array_of(data)
    if constant is not None and constant.dtype == np.uint8:
        node.replace_input_with(0, editor.constant(f"{stem}_int8", _less_128(constant)))
        return
    writer = data.producer()
    zero = array_of(input_of(writer, 2)) if is_kind(writer, "QuantizeLinear") else None
    if zero is not None and zero.dtype == np.int8:
        return
    wide = editor.before(
        node, "Cast", [data], {"to": ir.DataType.INT32}, stem=f"{stem}_wide", like=data,
        dtype=ir.DataType.INT32,
    )  # fmt: skip
    offset = editor.constant(f"{stem}_offset", np.array(_OFFSET, np.int32))
    moved = editor.before(node, "Sub", [wide, offset], stem=f"{stem}_moved", like=wide)
    narrow = editor.before(
        node, "Cast", [moved], {"to": ir.DataType.INT8}, stem=f"{stem}_int8", like=data,
        dtype=ir.DataType.INT8,
    )  # fmt: skip
    node.replace_input_with(0, narrow)


def _centre_constants(editor: Editor) -> None:
    """Take zero points off constants that stay int8 without them, as those of 4 bits do."""
    for node in _nodes(editor, "DequantizeLinear"):
        data, zero = array_of(input_of(node, 0)), array_of(input_of(node, 2))
        if data is None or zero is None or data.dtype != np.int8 or not zero.any():
            continue
        offsets = zero.astype(np.int16)
        if zero.ndim == 1 and zero.size > 1:
            axis = integer(node, "axis", 1)
            offsets = offsets.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
        elif zero.size > 1:
            continue
        centred = data.astype(np.int16) - offsets.reshape(() if zero.size == 1 else offsets.shape)
        if centred.min(initial=0) < -_OFFSET or centred.max(initial=0) >= _OFFSET:
            continue
        node.replace_input_with(0, editor.constant(f"{node.name}_centred", centred.astype(np.int8)))
        node.replace_input_with(2, editor.constant(f"{node.name}_zero", np.zeros_like(zero)))


def _parameters(node: ir.Node) -> tuple[object, ...] | None:
    """Scale, zero point and axis of a node as something that can be compared."""
    scale, zero_point = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if scale is None or zero_point is None:
        return None
    per_axis = integer(node, "axis", 1) if scale.ndim else None
    return (scale.tobytes(), scale.dtype, zero_point.tobytes(), zero_point.dtype, per_axis)


def _share_quantised(editor: Editor) -> None:
    """Quantise a tensor once for all readers that want the same scale and zero point."""
    first: dict[tuple[object, ...], ir.Value] = {}
    for node in _nodes(editor, "QuantizeLinear"):
        parameters = _parameters(node)
        output = node.outputs[0]
        if parameters is None or output.is_graph_output():
            continue
        kept = first.setdefault((node.inputs[0], *parameters), output)
        if kept is not output:
            ir.convenience.replace_all_uses_with(output, kept)


def _dedicate_dequantised(editor: Editor) -> None:
    """Give every reader of a dequantised tensor a DequantizeLinear of its own."""
    for node in _nodes(editor, "DequantizeLinear"):
        output = node.outputs[0]
        uses = list(output.uses())
        keep = 0 if output.is_graph_output() else 1
        for user, index in uses[keep:]:
            copy = editor.after(
                node, "DequantizeLinear", list(node.inputs), dict(node.attributes),
                stem=f"{output.name}_copy", like=output,
            )  # fmt: skip
            user.replace_input_with(index, copy)
