# SPDX-License-Identifier: Apache-2.0
"""Transposes of quantised models that undo each other, with what works element by element between.

Exports from frameworks with channels last wrap each layer in two of them, and quantise between
these. A set of neighbouring operators that work element by element does so in any order of axes:
where more transposes vanish at its border than are made there, it works in the other order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    shape_of,
    stand_for,
)
from tilewright.host.network.operators import BY_ELEMENT

_CONVERSIONS: Final = ("QuantizeLinear", "DequantizeLinear")
_PARAMETERS_BEHIND: Final = ("Clip", "Cast", *_CONVERSIONS)
"""What reads one tensor, and numbers that go with no axis, or with one that it states."""
_WITH_AXIS: Final = ("Concat", "Softmax", "LogSoftmax")
_OTHERS: Final = (*_CONVERSIONS, *_WITH_AXIS)

Order = tuple[int, ...]


def cancel_transposes(editor: Editor) -> None:
    """Drop transposes in pairs, in place, as long as there are any."""
    _compose(editor)
    done = False
    while not done:
        done = True
        for node in list(editor.graph):
            if is_kind(node, "Transpose") and node.graph is editor.graph:
                around = _Set(node)
                if around.saves():
                    around.turn(editor)
                    _compose(editor)
                    done = False


def _order(node: ir.Node) -> Order | None:
    shape = shape_of(node.inputs[0])
    if shape is None:
        return None
    return tuple(integers(node, "perm", range(len(shape))[::-1]))


def _compose(editor: Editor) -> None:
    """Two transposes as one, or as none."""
    for node in list(editor.graph):
        if not is_kind(node, "Transpose") or (order := _order(node)) is None:
            continue
        data = node.inputs[0]
        before = None if data is None else data.producer()
        inner = _order(before) if is_kind(before, "Transpose") else None
        if before is not None and inner is not None:
            order = tuple(inner[axis] for axis in order)
            data = before.inputs[0]
            node.replace_input_with(0, data)
            node.attributes["perm"] = ir.AttrInt64s("perm", order)
        result = node.outputs[0]
        if order != tuple(range(len(order))) or data is None:
            continue
        if not result.is_graph_output():
            ir.convenience.replace_all_uses_with(result, data)
        elif data.producer() is not None and not data.is_graph_output():
            stand_for(result, data)
        else:
            continue
        editor.graph.remove(node, safe=True)
    editor.drop_unused()


class _Set:
    """Operators behind a transpose that work in any order of axes, and their neighbours."""

    def __init__(self, first: ir.Node) -> None:
        self.order: Order = _order(first) or ()
        self.rank = len(self.order)
        self.members: dict[ir.Node, None] = {}
        self._grow(first.outputs[0])
        inside = {value for node in self.members for value in node.outputs}
        self.inputs = {
            value: None
            for node in self.members
            for value in _data(node)
            if value not in inside and array_of(value) is None
        }
        self.outputs = [
            value
            for value in inside
            if value.is_graph_output() or any(u.node not in self.members for u in value.uses())
        ]
        self.back = tuple(int(axis) for axis in np.argsort(self.order))

    def _grow(self, first: ir.Value) -> None:
        waiting = [use.node for use in first.uses() if use.idx in _places(use.node)]
        while waiting:
            node = waiting.pop()
            if node in self.members or not self._takes(node):
                continue
            self.members[node] = None
            waiting.extend(u.node for u in node.outputs[0].uses() if u.idx in _places(u.node))
            waiting.extend(p for v in _data(node) if (p := v.producer()) is not None)

    def _takes(self, node: ir.Node) -> bool:
        if not is_kind(node, *BY_ELEMENT, *_OTHERS) or len(node.outputs) != 1:
            return False
        shapes = [shape_of(value) for value in (*_data(node), node.outputs[0])]
        full = [
            shape
            for value, shape in zip((*_data(node), node.outputs[0]), shapes, strict=True)
            if array_of(value) is None
        ]
        return all(shape is not None and len(shape) == self.rank for shape in full) and bool(full)

    def _vanishes(self, value: ir.Value) -> bool:
        writer = value.producer()
        return is_kind(writer, "Transpose") and _order(writer) == self.order

    def _is_undone(self, user: ir.Node) -> bool:
        return is_kind(user, "Transpose") and _order(user) == self.back

    def saves(self) -> bool:
        """Whether fewer transposes are left if the set works in the order of what it reads."""
        if not self.members:
            return False
        gone = made = 0
        for value in self.inputs:
            if not self._vanishes(value):
                made += 1
            elif not value.is_graph_output() and all(u.node in self.members for u in value.uses()):
                gone += 1
        for value in self.outputs:
            users = [use.node for use in value.uses() if use.node not in self.members]
            gone += sum(map(self._is_undone, users))
            made += value.is_graph_output() or not all(map(self._is_undone, users))
        return gone > made

    def turn(self, editor: Editor) -> None:
        """Let the set work in the other order."""
        turned: dict[ir.Value, ir.Value] = {}
        for node in self.members:
            for index in _places(node):
                value = input_of(node, index)
                if value is None:
                    continue
                array = array_of(value)
                if array is not None:
                    if array.ndim:
                        wide = array.reshape((1,) * (self.rank - array.ndim) + array.shape)
                        wide = np.ascontiguousarray(wide.transpose(self.back))
                        constant = editor.constant(f"{value.name}_turned", wide)
                        node.replace_input_with(index, constant)
                elif value in self.inputs:
                    if value not in turned:
                        turned[value] = self._read(editor, node, value)
                    node.replace_input_with(index, turned[value])
            self._restate_axis(node)
        for value in self.outputs:
            self._write(editor, value)
        for node in self.members:
            result = node.outputs[0]
            shape = shape_of(result)
            if shape is not None:
                result.shape = ir.Shape([shape[axis] for axis in self.back])
        editor.graph.sort()

    def _read(self, editor: Editor, node: ir.Node, value: ir.Value) -> ir.Value:
        writer = value.producer()
        if self._vanishes(value) and writer is not None and writer.inputs[0] is not None:
            return writer.inputs[0]
        return self._transposed(editor, node, value, self.back)

    def _transposed(self, editor: Editor, node: ir.Node, value: ir.Value, order: Order) -> ir.Value:
        shape = shape_of(value)
        new = editor.before(
            node, "Transpose", [value], {"perm": list(order)}, stem=f"{value.name}_turned",
            like=value,
        )  # fmt: skip
        if shape is not None:
            new.shape = ir.Shape([shape[axis] for axis in order])
        return new

    def _restate_axis(self, node: ir.Node) -> None:
        scale = array_of(node.inputs[1]) if is_kind(node, *_CONVERSIONS) else None
        several = scale is not None and scale.ndim > 0
        if several or is_kind(node, *_WITH_AXIS):
            default = 1 if several else -1
            axis = self.order[integer(node, "axis", default) % self.rank]
            node.attributes["axis"] = ir.AttrInt64("axis", axis)

    def _write(self, editor: Editor, value: ir.Value) -> None:
        """Give readers outside what they read, in the order that they know."""
        leaves, name, shape = value.is_graph_output(), value.name, shape_of(value)
        users = [use for use in list(value.uses()) if use.node not in self.members]
        others = [use for use in users if not self._is_undone(use.node)]
        for use in users:
            if use in others:
                continue
            result = use.node.outputs[0]
            if not result.is_graph_output():
                ir.convenience.replace_all_uses_with(result, value)
            elif value.is_graph_output():
                others.append(use)
            else:
                stand_for(result, value)
                name = f"{name}_read"
        if not others and not leaves:
            return
        writer = value.producer()
        assert writer is not None
        new = editor.after(
            writer, "Transpose", [value], {"perm": list(self.order)}, stem=f"{name}_turned",
            like=value,
        )  # fmt: skip
        new.shape = None if shape is None else ir.Shape(shape)
        for use in others:
            use.node.replace_input_with(use.idx, new)
        if leaves:
            outputs = editor.graph.outputs
            outputs[list(outputs).index(value)] = new
            value.name = editor.name(f"{name}_before")
            new.name = name


def _places(node: ir.Node) -> range:
    """Which inputs go with the axes of the result."""
    return range(1 if is_kind(node, *_PARAMETERS_BEHIND, *_WITH_AXIS[1:]) else len(node.inputs))


def _data(node: ir.Node) -> list[ir.Value]:
    return [value for index in _places(node) if (value := input_of(node, index)) is not None]
