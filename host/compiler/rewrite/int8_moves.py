# SPDX-License-Identifier: Apache-2.0
"""Operators of quantised models that move elements, between int8 tensors.

Models often quantise in front of layers alone: a Flatten, a Transpose or a MaxPool then has floats
on one of its sides. Rounding commutes with what moves elements as they are, and with their maximum.
So the conversions of the other side stand on both, and no result changes. Conversions that bound
their integers bound the floats instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    is_kind,
    only_user,
    scalar_of,
    stand_for,
)
from tilewright.host.compiler.rewrite.qoperator import moves
from tilewright.host.network.operators import LAYERS, OF_ONE, REARRANGEMENTS, VIEWS

_CONVERSIONS: Final = ("QuantizeLinear", "DequantizeLinear")


def bound_floats(editor: Editor) -> None:
    """Bound what is quantised, not its integers (QCDQ: fewer than 8 bits), in place."""
    for node in list(editor.graph):
        data = node.inputs[0] if is_kind(node, "Clip") else None
        writer = None if data is None else data.producer()
        if data is None or not is_kind(writer, "QuantizeLinear") or data.is_graph_output():
            continue
        stated = input_of(writer, 2)
        scale, zero = scalar_of(input_of(writer, 1)), 0.0 if stated is None else scalar_of(stated)
        bounds = [scalar_of(input_of(node, index)) for index in (1, 2)]
        unknown = any(b is None and input_of(node, i) for i, b in enumerate(bounds, 1))
        source = writer.inputs[0]
        if scale is None or zero is None or unknown or source is None:
            continue
        low, high = (None if bound is None else (bound - zero) * scale for bound in bounds)
        relu = source.producer()
        if is_kind(relu, "Relu") and only_user(source) is writer and relu.inputs[0] is not None:
            source, low = relu.inputs[0], max(low or 0.0, 0.0)
        stem, result = node.name or "bounded", node.outputs[0]
        numbers = [
            None if end is None else editor.constant(f"{stem}_bound", np.array(end, np.float32))
            for end in (low, high)
        ]
        held = editor.before(node, "Clip", [source, *numbers], stem=stem, like=source)
        again = editor.before(
            node, "QuantizeLinear", [held, *writer.inputs[1:]], dict(writer.attributes), stem=stem,
            like=result,
        )  # fmt: skip
        stand_for(result, again)
        editor.graph.remove(node, safe=True)
    editor.drop_unused()


def move_int8(editor: Editor) -> None:
    """Let conversions stand on both sides of operators that move elements, in place."""
    for node in list(editor.graph):
        if is_kind(node, *OF_ONE) and not is_kind(node, *VIEWS):
            _apply_before(editor, node)
    for node in reversed(list(editor.graph)):
        if is_kind(node, "QuantizeLinear") and _of_one_scale(node):
            _quantise_before(editor, node)
    for node in list(editor.graph):
        if is_kind(node, "DequantizeLinear") and _of_one_scale(node):
            _dequantise_behind(editor, node)


def _apply_before(editor: Editor, node: ir.Node) -> None:
    """A function of a layer's moved result as one of the result, which is moved then."""
    value, moved = node.inputs[0], []
    while value is not None and only_user(value) is not None:
        move = value.producer()
        if not is_kind(move, *REARRANGEMENTS):
            break
        moved.append(move)
        value = move.inputs[0]
    if not moved or value is None or not is_kind(value.producer(), *LAYERS, "Add"):
        return
    inputs, attributes = [value, *node.inputs[1:]], dict(node.attributes)
    new = editor.before(
        moved[-1], node.op_type, inputs, attributes, stem=f"{node.name}_before", like=value
    )
    source = new.producer()
    assert source is not None
    result, source.name = node.outputs[0], node.name
    moved[-1].replace_input_with(0, new)
    last = moved[0].outputs[0]
    stand_for(result, last)
    editor.graph.remove(node, safe=True)


def _of_one_scale(node: ir.Node) -> bool:
    stated = input_of(node, 2)
    numbers = [input_of(node, 1), stated] if stated is not None else [input_of(node, 1)]
    arrays: list[Array | None] = [array_of(value) for value in numbers]
    return all(array is not None and array.size == 1 for array in arrays)


def _quantise_before(editor: Editor, node: ir.Node) -> None:
    """Quantise what the moves in front of a QuantizeLinear read, if it is no dequantised tensor."""
    moved: list[ir.Node] = []
    waiting = [node.inputs[0]]
    while waiting:
        value = waiting.pop()
        source = None if value is None or not _read_alike(value, node, moved) else value.producer()
        if is_kind(source, "Concat"):
            moved.append(source)
            waiting.extend(source.inputs)
        elif source is not None and moves(source):
            moved.append(source)
            waiting.append(source.inputs[0])
    inside = {value for each in moved for value in each.outputs}
    for each in moved:
        for index in range(len(each.inputs) if is_kind(each, "Concat") else 1):
            value = each.inputs[index]
            if value is None or value in inside or array_of(value) is not None:
                continue
            if value.dtype == ir.DataType.FLOAT and not is_kind(value.producer(), _CONVERSIONS[1]):
                each.replace_input_with(index, _converted(editor, each, value, node))


def _read_alike(value: ir.Value, node: ir.Node, moved: list[ir.Node]) -> bool:
    """Whether all that reads a value rounds it alike, or moves it to what does."""
    return not value.is_graph_output() and all(
        use.node in moved or (is_kind(use.node, "QuantizeLinear") and _alike(use.node, node))
        for use in value.uses()
    )


def _alike(node: ir.Node, other: ir.Node) -> bool:
    """Whether two QuantizeLinear have one scale and zero point."""
    if node is other:
        return True
    pairs = [[array_of(input_of(each, index)) for each in (node, other)] for index in (1, 2)]
    return all(
        one is not None and two is not None and one.dtype == two.dtype and np.array_equal(one, two)
        for one, two in pairs
    )


def _dequantise_behind(editor: Editor, node: ir.Node) -> None:
    """Quantise what moves make of a dequantised tensor for what reads it as a float."""
    data = node.inputs[0]
    if data is None or array_of(data) is not None:
        return
    for value in _moved(node.outputs[0]):
        for user, index in list(value.uses()):
            if not (moves(user) and not index) and not is_kind(user, "QuantizeLinear"):
                user.replace_input_with(index, _converted(editor, user, value, node))


def _moved(value: ir.Value) -> Iterator[ir.Value]:
    for user, index in list(value.uses()):
        if moves(user) and not index:
            yield user.outputs[0]
            yield from _moved(user.outputs[0])


def _converted(editor: Editor, place: ir.Node, value: ir.Value, like: ir.Node) -> ir.Value:
    """A value rounded as a conversion says, in front of a node."""
    steps = like.outputs[0] if like.op_type == _CONVERSIONS[0] else like.inputs[0]
    for kind in _CONVERSIONS:
        dtype = ir.DataType.FLOAT
        if kind == _CONVERSIONS[0] and steps is not None and steps.dtype is not None:
            dtype = steps.dtype
        value = editor.before(
            place, kind, [value, *like.inputs[1:3]], stem=f"{value.name}_held", like=value,
            dtype=dtype,
        )  # fmt: skip
    return value
