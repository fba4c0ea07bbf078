# SPDX-License-Identifier: Apache-2.0
"""Operators that the accelerator takes in any form (`divide.relax_general`), where data are int8.

Two tensors or a tensor and a constant, element by element; reductions over constant axes; moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    array_of,
    axes_of,
    input_of,
    integers,
    is_kind,
    shape_of,
    text_of,
)
from tilewright.host.network.operators import LAYERS, MOVES, having

_PAIRS: Final = having(
    lambda each: each.by_element == 2 and each.unit == "array" and each.rounded_once
)
_REDUCTIONS: Final = ("ReduceMax", "ReduceMean", "ReduceSum")
_COPIES: Final = having(lambda each: each.moves in ("part", "repeat", "join"))
"""They leave elements out, or have some more than once."""
_OWN_RANGES: Final = ("Concat",)
"""Moves that join tensors of several ranges."""


def is_general(
    node: ir.Node, int8: Collection[ir.Value], constants: list[tuple[str, int, Array]]
) -> bool:
    """Whether an operator is taken; constants of it that stay real numbers are noted."""
    if len(node.outputs) != 1 or not _is_float(node.outputs[0]):
        return False
    if is_kind(node, *_PAIRS):
        return _is_pair(node, int8, constants)
    if is_kind(node, *_COPIES):
        return _is_move(node, int8, constants)
    if node.inputs[0] not in int8:
        return False
    if is_kind(node, *_REDUCTIONS):
        stated = input_of(node, 1)
        known = stated is None or array_of(stated) is not None
        return known and bool(axes_of(node)) and _is_single_image(node.inputs[0])
    plain = not set(integers(node, "dilations", ())) - {1}
    return is_kind(node, "AveragePool") and plain and len(shape_of(node.inputs[0]) or ()) == 4


def _is_pair(
    node: ir.Node, int8: Collection[ir.Value], constants: list[tuple[str, int, Array]]
) -> bool:
    """A tensor with another one or with a constant, of which a quotient has to be the tensor."""
    arrays = [array_of(value) for value in node.inputs]
    known = [(index, array) for index, array in enumerate(arrays) if array is not None]
    data = [v for v, array in zip(node.inputs, arrays, strict=True) if array is None]
    quotient = is_kind(node, "Div")
    if len(arrays) != 2 or not data or any(value not in int8 for value in data):
        return False
    if not _is_single_image(node.outputs[0]) or (quotient and [i for i, _ in known] != [1]):
        return False
    # One number alone is for a table, or for nothing.
    if not all(array.size > 1 and _is_real(array, divides=quotient) for _, array in known):
        return False
    constants += [(node.name or "", index, array) for index, array in known]
    return True


def _is_real(array: Array, *, divides: bool) -> bool:
    """Whether a constant has finite numbers, and those that divide are not 0."""
    real = array.dtype == np.float32 and bool(np.isfinite(array).all())
    return real and (not divides or bool(array.all()))


def _is_move(
    node: ir.Node, int8: Collection[ir.Value], constants: list[tuple[str, int, Array]]
) -> bool:
    """A move of int8 by what is known of it, of one image."""
    if not _is_single_image(node.outputs[0]):
        return False
    floats = [v for v in node.inputs if v is not None and v.dtype in (None, ir.DataType.FLOAT)]
    data = [value for value in floats if array_of(value) is None]
    others = [array_of(v) for v in node.inputs if v is not None and v not in data]
    moves = not is_kind(node, "Split", "GatherND") and (is_kind(node, "Concat") or len(data) == 1)
    plain = not is_kind(node, "Pad") or text_of(node, "mode", "constant") == "constant"
    if not (moves and plain and data) or any(value not in int8 for value in data):
        return False
    if any(array is None or not np.isfinite(array).all() for array in others):
        return False
    for index, value in enumerate(node.inputs):
        array = array_of(value)
        if array is not None and array.dtype == np.float32:
            constants.append((node.name or "", index, array))
    return True


def first_moves(graph: ir.Graph) -> set[ir.Value]:
    """Inputs of a network that only moves read which leave out or join elements for its layers."""
    found = set()
    for value in graph.inputs:
        readers = list(_readers_behind_moves(value))
        if (
            _is_float(value)
            and readers
            and all(is_kind(reader, *LAYERS) for reader in readers)
            and any(is_kind(use.node, *_COPIES) for use in value.uses())
        ):
            found.add(value)
    return found


def _readers_behind_moves(value: ir.Value) -> Iterable[ir.Node]:
    for use in value.uses():
        if is_kind(use.node, *MOVES, "Pad", "Concat"):
            for result in use.node.outputs:
                yield from _readers_behind_moves(result)
        else:
            yield use.node


def keep_ranges(
    graph: ir.Graph, nodes: Collection[str], ranges: dict[str, tuple[float, float]]
) -> None:
    """Let what moves make have the ranges of what they move, in place."""
    for node in graph:
        if node.name in nodes and is_kind(node, *MOVES, "Pad") and node.inputs[0] is not None:
            source, result = node.inputs[0].name, node.outputs[0].name
            if source in ranges and result in ranges:
                ranges[result or ""] = ranges[source or ""]


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in (None, ir.DataType.FLOAT)


def _is_single_image(value: ir.Value | None) -> bool:
    """Whether a tensor is of one image, or what its batch is does not matter."""
    shape = shape_of(value)
    return bool(shape) and 0 not in (shape or ())
