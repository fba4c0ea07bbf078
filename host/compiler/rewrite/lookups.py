# SPDX-License-Identifier: Apache-2.0
"""Products of one-hot vectors with a matrix as look-ups of its rows.

- A one-hot vector is an index compared with 0, 1, 2, ... (JAX, PyTorch), or the operator OneHot.
  An index that is none of those has a vector of zeros, and so looks up a row of zeros.
- What works on each feature by itself behind a look-up works on the rows of the matrix instead,
  which is done here, once.

No rewrite changes a result.

Look-ups of rows that are rounded behind them, in rows that are rounded already.

Rounding works element by element, so it may as well be done to the constant rows, once. Changes of
shape and order behind the look-up then move int8, too. No rewrite changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper

from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    only_user,
    scalar_of,
    shape_of,
    take_place,
)
from tilewright.host.network.operators import BY_ELEMENT, REARRANGEMENTS


def look_up_int8(model: ir.Model) -> None:
    """Rewrite a model in canonical QDQ form, in place."""
    editor = Editor(model.graph)
    for node in list(model.graph):
        if is_kind(node, "Gather"):
            _look_up_rounded(editor, node)
    editor.drop_unused()


def _look_up_rounded(editor: Editor, node: ir.Node) -> None:
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
        if _one_scale(real, "DequantizeLinear") != numbers or not is_kind(move, *REARRANGEMENTS):
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


_INTEGERS: Final = (ir.DataType.INT32, ir.DataType.INT64)
_OPSET: Final = 17
"""Of a graph that states none."""
_BYTES: Final = 256
"""Values of an unsigned byte, which needs no check of its range."""


class _OneHot(NamedTuple):
    """Indices, and what they can be.

    Attributes:
        indices: of the shape of the vectors without their axis, but for a last axis of size 1.
    """

    indices: ir.Value
    lowest: int  # that has a vector other than zeros: 0, or -depth where indices count from the end
    depth: int  # of the vectors
    proven: bool  # whether no index can be outside


def look_up_one_hot(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "MatMul"):
            _look_up(editor, node)
    editor.drop_unused()  # comparisons may be what a look-up had for readers
    for node in list(editor.graph):
        if is_kind(node, "Gather"):
            _work_on_rows(editor, node)


# -- one-hot vectors -------------------------------------------------------------------------------


def _look_up(editor: Editor, node: ir.Node) -> None:
    """A Gather in place of a product, if its first factor is one-hot vectors."""
    weights, shape = array_of(input_of(node, 1)), shape_of(node.outputs[0])
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32 or shape is None:
        return
    found = _vectors(node.inputs[0])
    if found is None or found.depth != len(weights) or not np.isfinite(weights).all():
        return
    stem = node.outputs[0].name or "row"
    indices = editor.reshaped(node, found.indices, shape[:-1], stem=f"{stem}_index")
    rows = np.concatenate([weights] * (2 if found.lowest else 1))
    if not found.proven:
        rows = np.pad(rows, ((1, 1), (0, 0)))
        indices = _bounded(editor, node, indices, found.lowest - 1, found.depth)
    table = editor.constant(f"{stem}_rows", rows)
    row = editor.before(
        node, "Gather", [table, indices], {"axis": 0}, stem=stem, like=node.outputs[0]
    )
    take_place(editor, node, row)


def _bounded(editor: Editor, node: ir.Node, indices: ir.Value, low: int, high: int) -> ir.Value:
    """Indices clipped to a range and counted from its start."""
    assert indices.dtype is not None
    kind, stem = indices.dtype.numpy(), indices.name or "index"
    bounds = [editor.constant(f"{stem}_bound", np.array(bound, kind)) for bound in (low, high)]
    clipped = editor.before(node, "Clip", [indices, *bounds], stem=f"{stem}_in_range", like=indices)
    first = editor.constant(f"{stem}_first", np.array(-low, kind))
    return editor.before(node, "Add", [clipped, first], stem=f"{stem}_counted", like=indices)


def _vectors(value: ir.Value | None) -> _OneHot | None:
    """What one-hot vectors along the last axis are made of; nothing else may read them."""
    if value is None or value.dtype != ir.DataType.FLOAT:
        return None
    node = None
    while value is not None and only_user(value) is not None:
        node = value.producer()
        if not is_kind(node, "Cast"):
            break
        value = node.inputs[0]
    if value is None or node is None or only_user(value) is None:
        return None
    if is_kind(node, "Equal"):
        return _compared(node)
    return _stated(node) if is_kind(node, "OneHot") else None


def _compared(node: ir.Node) -> _OneHot | None:
    """Indices that are compared with 0, 1, 2, ... along the last axis."""
    shape = shape_of(node.outputs[0])
    for value, other in (node.inputs, node.inputs[::-1]):
        numbers, sizes = array_of(other), shape_of(value)
        if numbers is None or value is None or not shape or not sizes:
            continue
        depth = shape[-1]
        counts = numbers.size == depth and np.array_equal(numbers.reshape(-1), np.arange(depth))
        if not counts or numbers.shape[-1:] != (depth,) or value.dtype not in _INTEGERS:
            return None
        aligned = (1,) * (len(shape) - len(sizes)) + sizes
        if aligned != (*shape[:-1], 1):
            return None
        return _OneHot(value, 0, depth, _is_byte(value) and depth >= _BYTES)
    return None


def _stated(node: ir.Node) -> _OneHot | None:
    """Indices of the operator OneHot, of which negative ones count from the end."""
    indices, depth = node.inputs[0], scalar_of(input_of(node, 1))
    values, shape = array_of(input_of(node, 2)), shape_of(node.outputs[0])
    if indices is None or depth is None or values is None or not shape:
        return None
    last = integer(node, "axis", -1) % len(shape) == len(shape) - 1
    if not last or values.tolist() != [0, 1] or indices.dtype not in _INTEGERS:
        return None
    if _is_byte(indices) and depth >= _BYTES:
        return _OneHot(indices, 0, int(depth), True)
    return _OneHot(indices, -int(depth), int(depth), False)


def _is_byte(value: ir.Value) -> bool:
    """Whether a value is an unsigned byte of a wider type, in any shape."""
    current: ir.Value | None = value
    while current is not None and current.dtype != ir.DataType.UINT8:
        node = current.producer()
        if not is_kind(node, "Cast", "Reshape", "Squeeze", "Unsqueeze"):
            return False
        current = node.inputs[0]
        if current is not None and current.dtype not in (*_INTEGERS, ir.DataType.UINT8):
            return False
    return current is not None


# -- work on rows ----------------------------------------------------------------------------------


def _work_on_rows(editor: Editor, gather: ir.Node) -> None:
    """Do what works on each feature of looked up rows on the rows of the matrix.

    Only if it ends in one result: otherwise there would be several look-ups for one.
    """
    table, shape = array_of(gather.inputs[0]), shape_of(gather.outputs[0])
    if table is None or table.ndim != 2 or table.dtype != np.float32 or shape is None:
        return
    if integer(gather, "axis", 0) or array_of(input_of(gather, 1)) is not None:
        return
    members = _by_feature(editor, gather, table.shape[1])
    results = [node.outputs[0] for node in members if _is_read_beside(node.outputs[0], members)]
    if not members or len(results) != 1 or _is_read_beside(gather.outputs[0], members):
        return
    (result,) = results
    rows = _evaluated(editor, gather.outputs[0], table, members, result)
    if not np.isfinite(rows).all():
        return
    stem = result.name or "row"
    last = result.producer()
    assert last is not None
    worked = editor.constant(f"{stem}_rows", rows)
    row = editor.before(
        last, "Gather", [worked, gather.inputs[1]], {"axis": 0}, stem=stem, like=result
    )
    take_place(editor, last, row)
    editor.drop_unused()


def _by_feature(editor: Editor, gather: ir.Node, width: int) -> list[ir.Node]:
    """The operators that make each feature from that of the look-up and constants alone."""
    known, members = {gather.outputs[0]}, []
    shape = shape_of(gather.outputs[0])
    for node in editor.graph:
        if not is_kind(node, *BY_ELEMENT) or len(node.outputs) != 1:
            continue
        others = [value for value in node.inputs if value is not None and value not in known]
        if len(others) == len(node.inputs) or node.outputs[0].dtype != ir.DataType.FLOAT:
            continue
        if shape_of(node.outputs[0]) != shape:
            continue
        if all(_is_of_features(array_of(value), width) for value in others):
            known.add(node.outputs[0])
            members.append(node)
    return members


def _is_of_features(array: Array | None, width: int) -> bool:
    """Whether a constant has a number for each feature, or one for all."""
    return array is not None and (
        array.size == 1 or (array.size == width and array.shape[-1] == width)
    )


def _is_read_beside(value: ir.Value, members: Sequence[ir.Node]) -> bool:
    """Whether something else reads a value."""
    return value.is_graph_output() or any(use.node not in members for use in value.uses())


def _evaluated(
    editor: Editor,
    source: ir.Value,
    table: Array,
    members: Sequence[ir.Node],
    result: ir.Value,
) -> Array:
    """What operators make of the rows of a table (rows, features), in float32."""
    names = {source: "rows"}
    feeds, nodes = {"rows": table}, []
    for node in members:
        for value in node.inputs:
            array = array_of(value)
            if value is not None and array is not None and value not in names:
                names[value] = f"constant{len(names)}"
                feeds[names[value]] = array.reshape(-1 if array.size > 1 else ())
        names[node.outputs[0]] = f"value{len(names)}"
        proto = ir.to_proto(node)
        del proto.input[:], proto.output[:]
        proto.input.extend("" if value is None else names[value] for value in node.inputs)
        proto.output.append(names[node.outputs[0]])
        nodes.append(proto)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    made = [helper.make_tensor_value_info(names[result], TensorProto.FLOAT, None)]
    opsets = [helper.make_opsetid("", editor.graph.opset_imports.get("", _OPSET))]
    model = helper.make_model(
        helper.make_graph(nodes, "rows", given, made), opset_imports=opsets, ir_version=10
    )
    (rows,) = open_session(model).run(None, feeds)
    return np.array(rows, np.float32)
