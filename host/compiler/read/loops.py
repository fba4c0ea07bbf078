# SPDX-License-Identifier: Apache-2.0
"""Loops whose number of rounds is known as the operators of all rounds, one after another."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import Editor, array_of, input_of, is_kind, scalar_of

MOST_NODES: Final = 5_000
"""Operators that a loop may become: half of what a model may have."""

_STATED: Final = 2
"""Inputs of a body that are no state: the number of the round, and whether it takes place."""


def unroll_loops(model: ir.Model) -> bool:
    """Unroll what can be, in place; whether anything was.

    A loop is left as it is if its rounds depend on data, if there is none, or if it would become
    more than `MOST_NODES` operators.
    """
    return _unroll(model.graph)


def _unroll(graph: ir.Graph) -> bool:
    found = [_unrolled(graph, node) for node in list(graph) if is_kind(node, "Loop")]
    return any(found)


def _unrolled(graph: ir.Graph, node: ir.Node) -> bool:
    rounds, body = _rounds(node), node.attributes["body"].as_graph()
    _unroll(body)
    if not rounds or not _goes_on(body) or any(map(_has_graph, body)):
        return False
    if rounds * len(body) > MOST_NODES:
        return False
    editor = Editor(graph)
    states: list[ir.Value | None] = list(node.inputs[_STATED:])
    kept: list[list[ir.Value]] = [[] for _ in node.outputs[len(states) :]]
    true = editor.constant(f"{node.name}_on", np.array(True))
    for number in range(rounds):
        count = editor.constant(f"{node.name}_round", np.array(number, np.int64))
        results = _copied(editor, node, body, [count, true, *states])[1:]
        states = list(results[: len(states)])
        for rows, result in zip(kept, results[len(states) :], strict=True):
            rows.append(_row(editor, node, result))
    stacked = [
        rows[0] if len(rows) == 1 else _put(editor, node, "Concat", list(rows), axis=0)
        for rows in kept
    ]
    for old, new in zip(node.outputs, [*states, *stacked], strict=True):
        assert new is not None
        _take_place(editor, node, old, new)
    graph.remove(node, safe=True)
    return True


def _has_graph(node: ir.Node) -> bool:
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _rounds(node: ir.Node) -> int:
    """How often the body runs; 0: that is not known, or never."""
    count, condition = scalar_of(input_of(node, 0)), array_of(input_of(node, 1))
    on = input_of(node, 1) is None or (condition is not None and bool(condition.all()))
    return int(count) if count is not None and on and count > 0 else 0


def _goes_on(body: ir.Graph) -> bool:
    """Whether a body never ends the loop itself."""
    value: ir.Value | None = body.outputs[0]
    while value is not None and is_kind(value.producer(), "Identity"):
        producer = value.producer()
        assert producer is not None
        value = producer.inputs[0]
    known = array_of(value)
    return value is body.inputs[1] or (known is not None and bool(known.all()))


def _copied(
    editor: Editor, place: ir.Node, body: ir.Graph, given: list[ir.Value | None]
) -> list[ir.Value]:
    """Copies of a body's nodes in front of a node; its outputs, for these inputs."""
    same: dict[ir.Value, ir.Value | None] = dict(zip(body.inputs, given, strict=True))
    for value in body.initializers.values():
        array = array_of(value)
        assert array is not None
        same[value] = editor.constant(f"{place.name}_{value.name}", array)
    for node in body:
        copy = ir.node(
            node.op_type,
            [None if value is None else same.get(value, value) for value in node.inputs],
            dict(node.attributes),
            domain=node.domain,
            name=editor.name(f"{place.name}_{node.name or node.op_type}"),
            num_outputs=len(node.outputs),
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name = editor.name(f"{place.name}_{old.name or 'value'}")
            new.shape, new.type = old.shape, old.type
            same[old] = new
        editor.graph.insert_before(place, [copy])
    found = []
    for value in body.outputs:
        result = same.get(value, value)
        assert result is not None
        found.append(result)
    return found


def _row(editor: Editor, place: ir.Node, value: ir.Value) -> ir.Value:
    """A value with a first axis of one."""
    axes = editor.constant(f"{place.name}_axis", np.array([0], np.int64))
    return _put(editor, place, "Unsqueeze", [value, axes])


def _put(
    editor: Editor, place: ir.Node, kind: str, inputs: list[ir.Value], **attributes: int
) -> ir.Value:
    return editor.before(place, kind, inputs, attributes, stem=place.name or kind)


def _take_place(editor: Editor, place: ir.Node, old: ir.Value, new: ir.Value) -> None:
    """Let a value stand where another did; a constant or an input leaves the graph as a copy."""
    leaves, name = old.is_graph_output(), old.name
    if leaves and (new.producer() is None or new.is_graph_output()):
        new = _put(editor, place, "Identity", [new])
    new.shape, new.type = (old.shape or new.shape), (old.type or new.type)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    if leaves:
        old.name, new.name = editor.name(f"{name}_replaced"), name
