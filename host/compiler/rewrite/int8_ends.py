# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a quantised model as the int8 that its first and last operators work on.

The caller then quantises and dequantises, or has int8 data anyway: a camera's pixels need one table
of 256 entries per channel. TensorFlow Lite calls it a full integer model.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    input_of,
    is_kind,
    only_user,
    shape_of,
)
from tilewright.host.network.operators import ON_ROWS, ON_TABLE, REARRANGEMENTS

_END: Final = "int8_end"


def read_function_outputs(model: ir.Model) -> None:
    """Let something read the outputs that activations, softmax and normalisation make, in place.

    What a table or a row unit computes is rounded where an operator reads it. `to_int8_ends` takes
    the reader, a change of shape to the same shape, away again.
    """
    editor = Editor(model.graph)
    for index, value in enumerate(list(model.graph.outputs)):
        node, shape = value.producer(), shape_of(value)
        if not is_kind(node, *ON_TABLE, *ON_ROWS) or shape is None or only_output(value) is None:
            continue
        sizes = editor.constant(f"{value.name}_sizes", np.array(shape, np.int64))
        end = editor.after(node, "Reshape", [value, sizes], stem=_END, like=value)
        model.graph.outputs[index] = end
        value.name, end.name = editor.name(f"{value.name}_rows"), value.name


def only_output(value: ir.Value) -> ir.Value | None:
    """A value that leaves the graph and that nothing else reads."""
    return value if value.is_graph_output() and not list(value.uses()) else None


def to_int8_ends(model: ir.Model) -> None:
    """Let a model in canonical QDQ form take and give int8 wherever one scale holds, in place."""
    editor = Editor(model.graph)
    for value in list(model.graph.inputs):
        _take_int8(value)
    for index in range(len(model.graph.outputs)):
        _give_int8(editor, index)
    editor.drop_unused()


def _take_int8(value: ir.Value) -> None:
    moved, reader = [value], only_user(value)
    while is_kind(reader, *REARRANGEMENTS):
        moved.append(reader.outputs[0])
        reader = only_user(moved[-1])
    if not is_kind(reader, "QuantizeLinear") or not _of_one_scale(reader):
        return
    rounded = reader.outputs[0]
    if rounded.is_graph_output():
        return
    for each in moved:
        each.type = ir.TensorType(ir.DataType.INT8)
    ir.convenience.replace_all_uses_with(rounded, moved[-1])


def _give_int8(editor: Editor, index: int) -> None:
    value = editor.graph.outputs[index]
    if only_output(value) is None:
        return  # something inside takes real numbers
    moves: list[ir.Node] = []
    writer = value.producer()
    while is_kind(writer, *REARRANGEMENTS):
        moves.insert(0, writer)
        source = writer.inputs[0]
        if source is None or only_user(source) is None:
            return
        writer = source.producer()
    if not is_kind(writer, "DequantizeLinear") or not _of_one_scale(writer):
        return
    rounded = _without_idle_reader(writer.inputs[0])
    if rounded is None or not is_kind(rounded.producer(), "QuantizeLinear"):
        return
    if rounded.is_graph_output() or len(list(writer.outputs[0].uses())) != bool(moves):
        return
    if not moves:
        name = value.name
        editor.graph.outputs[index] = rounded
        value.name = editor.name(f"{name}_real")
        rounded.name = name
        return
    moves[0].replace_input_with(0, rounded)
    for node in moves:
        node.outputs[0].type = ir.TensorType(ir.DataType.INT8)


def _without_idle_reader(rounded: ir.Value | None) -> ir.Value | None:
    """What was rounded before it got the shape that it has (`read_function_outputs`)."""
    writer = rounded.producer() if rounded is not None else None
    moved = writer.inputs[0] if is_kind(writer, "QuantizeLinear") else None
    reshape = moved.producer() if moved is not None else None
    if not is_kind(reshape, "Reshape") or not (reshape.name or "").startswith(_END):
        return rounded
    source = reshape.inputs[0]
    back = source.producer() if source is not None else None
    assert writer is not None
    same = is_kind(back, "DequantizeLinear") and all(
        _same_constant(one, other)
        for one, other in zip(writer.inputs[1:], back.inputs[1:], strict=True)
    )
    return back.inputs[0] if same and back is not None else rounded


def _same_constant(one: ir.Value | None, other: ir.Value | None) -> bool:
    first, second = array_of(one), array_of(other)
    return first is not None and second is not None and np.array_equal(first, second)


def _of_one_scale(node: ir.Node) -> bool:
    scale, zero_point = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if scale is None or zero_point is None:
        return False
    return scale.size == 1 and zero_point.dtype == "int8"
