# SPDX-License-Identifier: Apache-2.0
"""Heads of detectors: what they join, and take apart again, stays apart.

They join boxes and scores of each level along channels, then all levels along pixels, and split
boxes from scores again. Parts that stay apart need no scale that fits both. A sigmoid behind the
levels moves in front of them: there it is in the epilogue of a layer. No rewrite changes a result.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Editor,
    input_of,
    integer,
    is_kind,
    only_user,
    shape_of,
)
from tilewright.host.network.operators import LAYERS, REARRANGEMENTS, having

_FUNCTIONS: Final = having(lambda each: each.bounded)


def split_before_joining(editor: Editor) -> None:
    """Rewrite splits of what concatenations join, in a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Split"):
            _take_apart(editor, node)
    editor.drop_unused()


def _take_apart(editor: Editor, node: ir.Node) -> None:
    """Let concatenations of parts take the place of a split, if no part has to be cut."""
    data, shapes = input_of(node, 0), [shape_of(output) for output in node.outputs]
    rank = len(shape_of(data) or ())
    if data is None or not rank or None in shapes:
        return
    axis = integer(node, "axis", 0) % rank
    ends = np.cumsum([shape[axis] for shape in shapes if shape is not None]).tolist()
    parts = [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    if any(output.is_graph_output() for output in node.outputs):
        return
    if len(parts) < 2 or not all(_is_apart(data, axis, part) for part in parts):
        return
    for output, part in zip(node.outputs, parts, strict=True):
        ir.convenience.replace_all_uses_with(output, _part(editor, node, data, axis, part))
    editor.graph.remove(node, safe=True)


def _is_apart(value: ir.Value, axis: int, part: range) -> bool:
    """Whether some neighbours along an axis of a value are whole values in front of it."""
    shape = shape_of(value)
    if shape is None:
        return False
    if part == range(shape[axis]):
        return True
    if only_user(value) is None:
        return False
    node = value.producer()
    if is_kind(node, "Concat"):
        pieces = _pieces(node, axis, part)
        return bool(pieces) and all(_is_apart(each, axis, some) for each, some in pieces or ())
    before = _before_reshape(node, axis)
    return before is not None and _is_apart(before, axis, part)


def _pieces(concat: ir.Node, axis: int, part: range) -> list[tuple[ir.Value, range]] | None:
    """The inputs of a concatenation that hold a part of its result, and which part of each."""
    inputs = [value for value in concat.inputs if value is not None]
    shapes = [shape_of(value) for value in inputs]
    if None in shapes:
        return None
    sizes = [shape[axis] for shape in shapes if shape is not None]
    if integer(concat, "axis", 0) % len(shape_of(inputs[0]) or ()) != axis:
        return [(value, part) for value in inputs]
    starts = np.cumsum([0, *sizes]).tolist()
    held = [
        (value, range(max(part.start - start, 0), min(part.stop - start, size)))
        for value, start, size in zip(inputs, starts, sizes, strict=False)
    ]
    return [(value, some) for value, some in held if some]


def _before_reshape(node: ir.Node | None, axis: int) -> ir.Value | None:
    """What a change of shape behind an axis works on."""
    if not is_kind(node, "Reshape", "Flatten"):
        return None
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if before is None or after is None or before[: axis + 1] != after[: axis + 1]:
        return None
    return node.inputs[0]


def _part(editor: Editor, place: ir.Node, value: ir.Value, axis: int, part: range) -> ir.Value:
    """The value that `_is_apart` has found, joined and shaped anew where that is needed."""
    shape = list(shape_of(value) or ())
    if part == range(shape[axis]):
        return value
    node = value.producer()
    assert node is not None
    shape[axis] = len(part)
    stem = f"{value.name}_part"
    if not is_kind(node, "Concat"):
        before = _before_reshape(node, axis)
        assert before is not None
        data = _part(editor, place, before, axis, part)
        return editor.reshaped(place, data, shape, stem=stem)
    pieces = _pieces(node, axis, part)
    assert pieces is not None
    parts = [_part(editor, place, each, axis, some) for each, some in pieces]
    if len(parts) == 1:
        return parts[0]
    along = integer(node, "axis", 0)
    joined = editor.before(place, "Concat", parts, {"axis": along}, stem=stem, like=value)
    joined.shape = ir.Shape(shape)
    return joined


def apply_before_joining(editor: Editor) -> None:
    """Rewrite sigmoids of what concatenations of layers' results join, in place."""
    for node in list(editor.graph):
        if is_kind(node, *_FUNCTIONS):
            _apply_to_parts(editor, node)


def _apply_to_parts(editor: Editor, node: ir.Node) -> None:
    joined, result = input_of(node, 0), node.outputs[0]
    if joined is None or only_user(joined) is None or result.is_graph_output():
        return
    concat = joined.producer()
    if not is_kind(concat, "Concat"):
        return
    layers = [_layer_of(value) for value in concat.inputs]
    if None in layers:
        return
    for layer in layers:
        assert layer is not None
        data = layer.outputs[0]
        ((user, index),) = data.uses()
        stem = f"{result.name}_part"
        applied = editor.after(layer, node.op_type, [data], node.attributes, stem=stem, like=data)
        user.replace_input_with(index, applied)
    ir.convenience.replace_all_uses_with(result, joined)
    editor.graph.remove(node, safe=True)


def _layer_of(value: ir.Value | None) -> ir.Node | None:
    """The layer whose result a value is, moved perhaps, if nothing else reads it."""
    while value is not None and only_user(value) is not None:
        node = value.producer()
        if is_kind(node, *LAYERS):
            return node
        if not is_kind(node, *REARRANGEMENTS):
            return None
        value = node.inputs[0]
    return None
