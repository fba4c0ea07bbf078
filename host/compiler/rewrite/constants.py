# SPDX-License-Identifier: Apache-2.0
"""What a quantised model computes of constants alone, computed once by ONNX Runtime.

Models of quantisation-aware training hold float weights and quantise them in every inference, with
scales that they may compute, too. A layer wants the integers.

Dequantised constants, and tables of which some elements are read, as floats.

A model whose weights alone are quantised is a float model: its weights are rounded anew, with its
activations. Scales of blocks along a reduction have no place in a layer's requantisation.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.common.onnx_sessions import explained, open_session
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    shape_of,
)
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS
from tilewright.host.network.operators import RANDOM


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
        array = dequantised(node, node.inputs[0] if lookup is None else lookup.inputs[0])
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


def dequantised(node: ir.Node, constant: ir.Value | None) -> Array | None:
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


_LARGEST: Final = 2**26
"""Elements of a result: the weights of a large layer; more is left to each inference."""


def fold_constants(model: ir.Model) -> bool:
    """Replace the results of operators on constants, in place; whether there were any.

    A DequantizeLinear of a constant stays, and what is computed of it up to a QuantizeLinear: a
    layer reads its integers. What is rounded again is folded: chains become one pair.

    Args:
        model: its shapes are known.
    """
    computed, folded = [], []
    known, floats = set[ir.Value](), set[ir.Value]()
    for node in model.graph:
        if not _is_computed(node) or any(v and not _is_known(v, known) for v in node.inputs):
            continue
        computed.append(node)
        known.update(node.outputs)
        reads_floats = not floats.isdisjoint(node.inputs) and not is_kind(node, "QuantizeLinear")
        if reads_floats or is_kind(node, "DequantizeLinear"):
            floats.update(node.outputs)
        else:
            folded.append(node)
    inside = set(folded)
    results = [
        value
        for node in folded
        for value in node.outputs
        if any(use.node not in inside for use in value.uses())
    ]
    if not results:
        return False
    editor = Editor(model.graph)
    for value, array in zip(
        results, _evaluated(model, _behind(results, computed), results), strict=True
    ):
        constant = editor.constant(f"{value.name}_folded", array)
        ir.convenience.replace_all_uses_with(value, constant)
    editor.drop_unused()
    return True


def _behind(results: list[ir.Value], computed: list[ir.Node]) -> list[ir.Node]:
    """Those of the computed nodes, in order, that the results come from."""
    wanted = set[ir.Value | None](results)
    found = []
    for node in reversed(computed):
        if not wanted.isdisjoint(node.outputs):
            found.append(node)
            wanted.update(node.inputs)
    return found[::-1]


def _is_known(value: ir.Value, known: set[ir.Value]) -> bool:
    return value in known or array_of(value) is not None


def _is_computed(node: ir.Node) -> bool:
    """Whether a node computes something of standard ONNX that each inference repeats."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type in RANDOM:
        return False
    if is_kind(node, "Constant"):
        return False
    if any(attribute.type in _BODIES for attribute in node.attributes.values()):
        return False
    shapes = [shape_of(value) for value in node.outputs]
    return all(shape is not None and prod(shape) <= _LARGEST for shape in shapes) and not any(
        value.is_graph_output() for value in node.outputs
    )


_BODIES: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _evaluated(model: ir.Model, nodes: list[ir.Node], results: list[ir.Value]) -> list[Array]:
    """The elements of some results, from a model that holds what computes them alone."""
    import onnx  # noqa: PLC0415  (heavy, and only needed here)

    read = {value for node in nodes for value in node.inputs if value is not None}
    written = {value for node in nodes for value in node.outputs}
    constants = [
        onnx.numpy_helper.from_array(array, value.name)
        for value in read - written
        if (array := array_of(value)) is not None
    ]
    whole = onnx.helper.make_model(
        onnx.helper.make_graph(
            [ir.to_proto(node) for node in nodes],
            "constants",
            [],
            [onnx.ValueInfoProto(name=value.name) for value in results],
            constants,
        ),
        opset_imports=[
            onnx.helper.make_opsetid(domain, version)
            for domain, version in model.opset_imports.items()
            if domain in DEFAULT_DOMAINS
        ],
        ir_version=min(model.ir_version or onnx.IR_VERSION, onnx.IR_VERSION),
    )
    with explained():
        session = open_session(whole, optimised=False)
        return list(session.run([value.name for value in results], {}))
