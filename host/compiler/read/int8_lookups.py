# SPDX-License-Identifier: Apache-2.0
"""Look-ups of rows that are rounded behind them, in rows that are rounded already.

Rounding works element by element, so it may as well be done to the constant rows, once. Changes of
shape and order behind the look-up then move int8, too. No rewrite changes a result.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    only_user,
)

MOVES: Final = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def look_up_int8(model: ir.Model) -> None:
    """Rewrite a model in canonical QDQ form, in place."""
    editor = Editor(model.graph)
    for node in list(model.graph):
        if is_kind(node, "Gather"):
            _look_up(editor, node)
    editor.drop_unused()


def _look_up(editor: Editor, node: ir.Node) -> None:
    table, rounding = array_of(input_of(node, 0)), only_user(node.outputs[0])
    if table is None or table.dtype != np.float32 or array_of(input_of(node, 1)) is not None:
        return
    numbers = None if rounding is None else _one_scale(rounding, "QuantizeLinear")
    if rounding is None or numbers is None or rounding.outputs[0].is_graph_output():
        return
    scale, zero_point = numbers
    steps = np.clip(np.rint(table / scale) + zero_point, -128, 127).astype(np.int8)
    rows = editor.constant(f"{node.name}_int8_rows", steps)
    stem = f"{node.outputs[0].name}_int8"
    looked_up = editor.before(
        rounding,
        "Gather",
        [rows, node.inputs[1]],
        {"axis": integer(node, "axis", 0)},
        stem=stem,
        like=node.outputs[0],
        dtype=ir.DataType.INT8,
    )
    ir.convenience.replace_all_uses_with(rounding.outputs[0], looked_up)
    editor.graph.remove(rounding, safe=True)
    _move_int8(editor, looked_up, numbers)


def _move_int8(editor: Editor, value: ir.Value, numbers: tuple[np.float32, int]) -> None:
    """Take the conversions away around moves of an int8 value at one scale."""
    while (real := only_user(value)) is not None:
        move = only_user(real.outputs[0])
        if _one_scale(real, "DequantizeLinear") != numbers or not is_kind(move, *MOVES):
            return
        rounding = only_user(move.outputs[0])
        if rounding is None or _one_scale(rounding, "QuantizeLinear") != numbers:
            return
        if rounding.outputs[0].is_graph_output():
            return
        move.replace_input_with(0, value)
        value = move.outputs[0]
        value.type = ir.TensorType(ir.DataType.INT8)
        ir.convenience.replace_all_uses_with(rounding.outputs[0], value)
        editor.graph.remove(rounding, safe=True)


def _one_scale(node: ir.Node, kind: str) -> tuple[np.float32, int] | None:
    """Scale and zero point of a conversion from or to int8 with one scale for all."""
    scale, zero_point = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if not is_kind(node, kind) or scale is None or zero_point is None or scale.size != 1:
        return None
    if zero_point.dtype != np.int8 or scale.dtype != np.float32:
        return None
    return np.float32(scale.reshape(())), int(zero_point.reshape(()))
