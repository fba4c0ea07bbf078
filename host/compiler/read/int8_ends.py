# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a quantised model as the int8 that its first and last operators work on.

The caller then quantises and dequantises, or has int8 data anyway: a camera's pixels need one table
of 256 entries per channel. TensorFlow Lite calls it a full integer model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx
import onnx_ir as ir
from onnx.numpy_helper import to_array

from tilewright.host.compiler.read.onnx_edit import Editor, array_of, input_of, is_kind, only_user

_MOVES: Final = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that give elements other places and leave them as they are."""


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
    while is_kind(reader, *_MOVES):
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
    moves: list[ir.Node] = []
    writer = value.producer()
    while is_kind(writer, *_MOVES):
        moves.insert(0, writer)
        source = writer.inputs[0]
        if source is None or only_user(source) is None:
            return
        writer = source.producer()
    if not is_kind(writer, "DequantizeLinear") or not _of_one_scale(writer):
        return
    rounded = writer.inputs[0]
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


def _of_one_scale(node: ir.Node) -> bool:
    scale, zero_point = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if scale is None or zero_point is None:
        return False
    return scale.size == 1 and zero_point.dtype == "int8"


def scales_of(model: onnx.ModelProto) -> dict[str, tuple[float, int]]:
    """Scale and zero point of the int8 inputs and outputs of a model in canonical QDQ form."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    found: dict[str, tuple[float, int]] = {}
    same = _moved(model.graph.node)
    for node in model.graph.node:
        side = {"DequantizeLinear": node.input, "QuantizeLinear": node.output}.get(node.op_type)
        if side is None or any(name not in constants for name in node.input[1:]):
            continue
        scale, zero_point = (to_array(constants[name]) for name in node.input[1:])
        for name in same.get(side[0], {side[0]}) & ends:
            if scale.size == 1:
                found[name] = float(scale.reshape(())), int(zero_point.reshape(()))
    return found


def _moved(nodes: Sequence[onnx.NodeProto]) -> dict[str, set[str]]:
    """Names that hold the same elements, by each of them."""
    same: dict[str, set[str]] = {}
    for node in nodes:
        if node.op_type in _MOVES:
            first, last = node.input[0], node.output[0]
            joined = same.get(first, {first}) | same.get(last, {last})
            for name in joined:
                same[name] = joined
    return same
