# SPDX-License-Identifier: Apache-2.0
"""Dequantised constants, and tables of which some elements are read, as floats.

A model whose weights alone are quantised is a float model: its weights are rounded anew, with its
activations. Scales of blocks along a reduction have no place in a layer's requantisation.
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
)


def fold_dequantised(model: ir.Model, *, blocks_alone: bool) -> bool:
    """Fold DequantizeLinear of constants, in place."""
    editor = Editor(model.graph)
    found = False
    for node in list(model.graph):
        if not is_kind(node, "DequantizeLinear") or node.outputs[0].is_graph_output():
            continue
        if blocks_alone and not integer(node, "block_size", 0):
            continue
        lookup = None if blocks_alone else _lookup(node)
        array = _floats(node, node.inputs[0] if lookup is None else lookup.inputs[0])
        if array is None:
            continue
        stem = node.outputs[0].name or "dequantised"
        floats = editor.constant(f"{stem}_float", array)
        if lookup is not None:
            inputs, axis = [floats, lookup.inputs[1]], dict(lookup.attributes)
            floats = editor.before(
                node, "Gather", inputs, axis, stem=f"{stem}_looked_up", like=node.outputs[0]
            )
        ir.convenience.replace_all_uses_with(node.outputs[0], floats)
        editor.graph.remove(node, safe=True)
        found = True
    if found:
        editor.drop_unused()
    return found


def _lookup(node: ir.Node) -> ir.Node | None:
    """What takes dequantised elements of one scale from a constant table."""
    source = None if node.inputs[0] is None else node.inputs[0].producer()
    scale = array_of(input_of(node, 1))
    if not is_kind(source, "Gather") or scale is None or scale.size != 1:
        return None
    return source


def _floats(node: ir.Node, constant: ir.Value | None) -> Array | None:
    """The elements of a dequantised constant; None: it is no constant."""
    values = (constant, input_of(node, 1), input_of(node, 2))
    data, scale, zero = map(array_of, values)
    if data is None or scale is None or (zero is None and input_of(node, 2) is not None):
        return None
    steps = data.astype(np.float64)
    if zero is not None:
        steps = steps - _for_each(node, data, zero.astype(np.float64))
    return np.asarray(steps * _for_each(node, data, scale.astype(np.float64)), scale.dtype)


def _for_each(node: ir.Node, data: Array, numbers: Array) -> Array:
    """Scales or zero points in a shape that goes with the elements."""
    if numbers.size == 1:
        return numbers.reshape(())
    axis, block = integer(node, "axis", 1) % data.ndim, integer(node, "block_size", 0)
    if block:
        size = data.shape[axis]
        return np.repeat(numbers, min(block, size), axis).take(range(size), axis)
    return numbers.reshape([-1 if index == axis else 1 for index in range(data.ndim)])
