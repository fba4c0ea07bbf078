# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN over a fixed number of steps as the operators that they are made of.

The products with the inputs of all steps are one dense layer over the sequence; each step then
multiplies the state. Semantics and the order of the gates are those of ONNX's operator schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    shape_of,
)
from tilewright.host.network.operators import OPERATORS, RECURRENT

MOST_STEPS: Final = 512
"""Steps that are unrolled; more would be more operators than a compiler takes in minutes."""

_DEFAULTS: Final = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
_SEQUENCE_LENGTHS, _PEEPHOLES = 4, 7


def unroll_recurrent(model: ir.Model) -> bool:
    """Rewrite what can be, in place; whether anything was.

    Layers of more than `MOST_STEPS` steps stay as they are, as do those with rare options.
    """
    editor = Editor(model.graph)
    found = False
    for node in list(model.graph):
        if is_kind(node, *RECURRENT):
            layer = _layer_of(editor, node)
            if layer is not None:
                layer.rewrite()
                found = True
    if found:
        editor.drop_unused()
    return found


@dataclass(kw_only=True)
class _Direction:
    """What one direction computes with; see the schema of LSTM."""

    weights: Array  # of the inputs, float32 (inputs, gates * hidden)
    recurrent: Array  # of the state, (hidden, gates * hidden)
    bias: Array  # (gates * hidden,), of the inputs
    recurrent_bias: Array  # (gates * hidden,), of the state
    backwards: bool  # from the last step to the first


def _layer_of(editor: Editor, node: ir.Node) -> _Layer | None:
    data, shape = input_of(node, 0), shape_of(input_of(node, 0))
    weights, recurrent = (array_of(input_of(node, index)) for index in (1, 2))
    if data is None or shape is None or weights is None or recurrent is None:
        return None
    count, hidden = len(weights), recurrent.shape[2]
    wide = OPERATORS[node.op_type].gates * hidden
    bias = array_of(input_of(node, 3))
    if bias is None:
        if input_of(node, 3) is not None:
            return None
        bias = np.zeros((count, 2 * wide), np.float32)
    steps = shape[1] if integer(node, "layout", 0) else shape[0]
    if not _is_plain(node, count, steps):
        return None
    if steps > MOST_STEPS:
        return None
    way = _text(node, "direction", "forward")
    directions = [
        _Direction(
            weights=np.ascontiguousarray(weights[d].T),
            recurrent=np.ascontiguousarray(recurrent[d].T),
            bias=bias[d, :wide],
            recurrent_bias=bias[d, wide:],
            backwards=way == "reverse" or d == 1,
        )
        for d in range(count)
    ]
    return _Layer(editor, node, data, steps, hidden, directions)


def _is_plain(node: ir.Node, directions: int, steps: int) -> bool:
    """Whether a node has no option that is not unrolled here."""
    activations = node.attributes.get("activations")
    stated = tuple(activations.as_strings()) if activations is not None else None
    if stated is not None and stated != _DEFAULTS[node.op_type] * directions:
        return False
    if "clip" in node.attributes or integer(node, "input_forget", 0):
        return False
    if input_of(node, _PEEPHOLES) is not None:
        return False
    lengths = input_of(node, _SEQUENCE_LENGTHS)
    known = array_of(lengths)
    return lengths is None or (known is not None and bool((known == steps).all()))


def _text(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()


class _Layer:
    """A recurrent node that is rewritten."""

    def __init__(
        self,
        editor: Editor,
        node: ir.Node,
        data: ir.Value,
        steps: int,
        hidden: int,
        directions: Sequence[_Direction],
    ) -> None:
        self._editor, self._node, self._data = editor, node, data
        self._steps, self._hidden, self._directions = steps, hidden, directions
        self._stem = node.name or node.op_type
        self._by_batch = integer(node, "layout", 0) == 1

    def rewrite(self) -> None:
        """Put operators in the place of the node."""
        data = self._data
        if self._by_batch:
            data = self._put("Transpose", [data], perm=[1, 0, 2])
        ways = [self._direction(number, way, data) for number, way in enumerate(self._directions)]
        outputs = [self._joined([self._sequence(states) for states, _, _ in ways], axis=1)]
        outputs.append(self._joined([last for _, last, _ in ways], axis=0))
        cells = [cell for _, _, cell in ways if cell is not None]
        if cells:
            outputs.append(self._joined(cells, axis=0))
        if self._by_batch:
            outputs[0] = self._put("Transpose", [outputs[0]], perm=[2, 0, 1, 3])
            outputs[1:] = [self._put("Transpose", [each], perm=[1, 0, 2]) for each in outputs[1:]]
        for old, new in zip(self._node.outputs, outputs, strict=False):
            new.shape, new.type = old.shape, old.type
            name, leaves = old.name, old.is_graph_output()
            ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
            if leaves:
                old.name, new.name = self._editor.name(f"{name}_replaced"), name
        self._editor.graph.remove(self._node, safe=True)

    def _direction(
        self, number: int, way: _Direction, data: ir.Value
    ) -> tuple[list[ir.Value], ir.Value, ir.Value | None]:
        """States (1, batch, hidden) by step, the last one, and the last cell of an LSTM."""
        kind = self._node.op_type
        late = way.recurrent_bias.copy()
        early = way.bias.copy()
        if kind != "GRU" or not integer(self._node, "linear_before_reset", 0):
            early, late = early + late, np.zeros_like(late)
        else:  # the biases of the first two gates are added early
            gates = 2 * self._hidden
            early[:gates] += late[:gates]
            late[:gates] = 0
        product = self._put("MatMul", [data, self._constant(way.weights)])
        product = self._put("Add", [product, self._constant(early)])
        step: Callable[..., tuple[ir.Value, ir.Value | None]] = {
            "LSTM": self._lstm,
            "GRU": self._gru,
            "RNN": self._rnn,
        }[kind]
        state, cell = self._initial(5, number), self._initial(6, number)
        weights = self._recurrent(way.recurrent)
        states: list[ir.Value] = []
        inputs = self._split(product, self._steps, axis=0)
        for place in reversed(inputs) if way.backwards else inputs:
            state, cell = step(place, state, cell, weights, self._constant(late))
            states.append(state)
        if way.backwards:
            states.reverse()
        assert state is not None
        return states, state, cell if kind == "LSTM" else None

    def _recurrent(self, recurrent: Array) -> list[ir.Value]:
        """The weights of the state: of all gates, or of GRU's first two and of its third."""
        if self._node.op_type != "GRU" or integer(self._node, "linear_before_reset", 0):
            return [self._constant(recurrent)]
        gates = 2 * self._hidden
        return [self._constant(recurrent[:, :gates]), self._constant(recurrent[:, gates:])]

    def _initial(self, index: int, number: int) -> ir.Value | None:
        """A state before the first step; None: zeros."""
        if self._node.op_type != "LSTM" and index == 6:
            return None
        value = input_of(self._node, index)
        known = array_of(value)
        if value is None or (known is not None and not known.any()):
            return None
        if self._by_batch:
            value = self._put("Transpose", [value], perm=[1, 0, 2])
        if len(self._directions) == 1:
            return value
        return self._split(value, len(self._directions), axis=0)[number]

    # -- steps: state and cell behind one -------------------------------------------------------

    def _lstm(
        self,
        given: ir.Value,
        state: ir.Value | None,
        cell: ir.Value | None,
        weights: Sequence[ir.Value],
        _: ir.Value,
    ) -> tuple[ir.Value, ir.Value | None]:
        given = self._with_state(given, state, weights)
        i, o, f, c = self._split(given, 4, axis=2)
        i, o, f = (self._put("Sigmoid", [gate]) for gate in (i, o, f))
        new = self._put("Mul", [i, self._put("Tanh", [c])])
        if cell is not None:
            new = self._put("Add", [self._put("Mul", [f, cell]), new])
        return self._put("Mul", [o, self._put("Tanh", [new])]), new

    def _gru(
        self,
        given: ir.Value,
        state: ir.Value | None,
        cell: ir.Value | None,
        weights: Sequence[ir.Value],
        late: ir.Value,
    ) -> tuple[ir.Value, ir.Value | None]:
        del cell
        first, third = self._cut(given)
        together = len(weights) == 1
        if state is None:  # zeros: what is multiplied with it is its bias, if that is added late
            z, r = (self._put("Sigmoid", [gate]) for gate in self._split(first, 2, axis=2))
            if together:
                third = self._put("Add", [third, self._put("Mul", [r, self._tail(late)])])
            h = self._put("Tanh", [third])
            return self._put("Sub", [h, self._put("Mul", [z, h])]), None
        if together:
            product = self._put("Add", [self._put("MatMul", [state, weights[0]]), late])
            gates, own = self._cut(product)
        else:
            gates, own = self._put("MatMul", [state, weights[0]]), None
        z, r = self._split(self._put("Add", [first, gates]), 2, axis=2)
        z, r = self._put("Sigmoid", [z]), self._put("Sigmoid", [r])
        if own is None:
            own = self._put("MatMul", [self._put("Mul", [r, state]), weights[1]])
        else:
            own = self._put("Mul", [r, own])
        h = self._put("Tanh", [self._put("Add", [third, own])])
        kept = self._put("Mul", [z, self._put("Sub", [state, h])])
        return self._put("Add", [h, kept]), None

    def _rnn(
        self,
        given: ir.Value,
        state: ir.Value | None,
        cell: ir.Value | None,
        weights: Sequence[ir.Value],
        _: ir.Value,
    ) -> tuple[ir.Value, ir.Value | None]:
        del cell
        given = self._with_state(given, state, weights)
        return self._put("Tanh", [given]), None

    # -- operators ------------------------------------------------------------------------------

    def _with_state(
        self, given: ir.Value, state: ir.Value | None, weights: Sequence[ir.Value]
    ) -> ir.Value:
        """What a step is given and the product with the state; a state of zeros adds nothing."""
        if state is None:
            return given
        return self._put("Add", [given, self._put("MatMul", [state, weights[0]])])

    def _put(self, kind: str, inputs: Sequence[ir.Value | None], **attributes: object) -> ir.Value:
        return self._editor.before(self._node, kind, inputs, attributes, stem=self._stem)

    def _constant(self, array: Array) -> ir.Value:
        return self._editor.constant(f"{self._stem}_constant", array)

    def _split(self, value: ir.Value, parts: int, axis: int) -> list[ir.Value]:
        """Equal parts of a tensor along an axis."""
        if parts == 1:
            return [value]
        each = 1 if axis == 0 else self._hidden
        return [self._slice(value, axis, k * each, (k + 1) * each) for k in range(parts)]

    def _cut(self, value: ir.Value) -> tuple[ir.Value, ir.Value]:
        """GRU's first two gates, and its third."""
        gates = 2 * self._hidden
        return (
            self._slice(value, 2, 0, gates),
            self._slice(value, 2, gates, gates + self._hidden),
        )

    def _tail(self, late: ir.Value) -> ir.Value:
        """The late bias of GRU's third gate."""
        return self._slice(late, 0, 2 * self._hidden, 3 * self._hidden)

    def _slice(self, value: ir.Value, axis: int, first: int, end: int) -> ir.Value:
        bounds = [self._constant(np.array([each], np.int64)) for each in (first, end, axis)]
        return self._put("Slice", [value, *bounds])

    def _sequence(self, states: Sequence[ir.Value]) -> ir.Value:
        """(steps, 1, batch, hidden)."""
        whole = self._joined(states, axis=0)
        return self._put("Unsqueeze", [whole, self._constant(np.array([1], np.int64))])

    def _joined(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        return values[0] if len(values) == 1 else self._put("Concat", values, axis=axis)
