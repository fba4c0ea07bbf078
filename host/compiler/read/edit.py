# SPDX-License-Identifier: Apache-2.0
"""Small edits of an ONNX graph that the passes of the network front end share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from tilewright.host.network.onnx_file import DEFAULT_DOMAINS

Array = npt.NDArray[Any]


class Editor:
    """Builds nodes and constants in a graph, with names that nothing else bears."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self._taken = {value.name for value in graph.inputs} | set(graph.initializers)
        for node in graph.all_nodes():
            self._taken |= {value.name for value in node.outputs} | {node.name}

    def name(self, stem: str) -> str:
        """A new name that starts with a stem."""
        index, name = 0, stem
        while name in self._taken:
            index += 1
            name = f"{stem}_{index}"
        self._taken.add(name)
        return name

    def constant(self, stem: str, value: Array) -> ir.Value:
        """A new initializer."""
        name = self.name(stem)
        tensor = ir.tensor(np.asarray(value, order="C"), name=name)
        created = ir.Value(
            name=name,
            shape=ir.Shape(value.shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self.graph.register_initializer(created)
        return created

    def before(
        self,
        place: ir.Node,
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        stem: str,
        like: ir.Value | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """The output of a new node in front of another; shape and type as `like`."""
        return self._add("before", place, kind, inputs, attributes, stem, like, dtype)

    def after(
        self,
        place: ir.Node,
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        stem: str,
        like: ir.Value | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        """The output of a new node behind another; shape and type as `like`."""
        return self._add("after", place, kind, inputs, attributes, stem, like, dtype)

    def _add(
        self,
        side: str,
        place: ir.Node,
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None,
        stem: str,
        like: ir.Value | None,
        dtype: ir.DataType | None,
    ) -> ir.Value:
        node = ir.node(kind, inputs, attributes, name=self.name(f"{stem}_{kind}"))
        output = node.outputs[0]
        output.name = self.name(stem)
        if like is not None:
            output.shape, output.type = like.shape, like.type
        if dtype is not None:
            output.type = ir.TensorType(dtype)
        if side == "before":
            self.graph.insert_before(place, [node])
        else:
            self.graph.insert_after(place, [node])
        return output

    def reshaped(
        self, place: ir.Node, data: ir.Value, shape: Sequence[int], *, stem: str
    ) -> ir.Value:
        """A value in another shape, made in front of a node."""
        sizes = self.constant(f"{stem}_sizes", np.array(shape, np.int64))
        made = self.before(place, "Reshape", [data, sizes], stem=stem, like=data)
        made.shape = None if min(shape, default=1) < 0 else ir.Shape(shape)
        return made

    def gathered(
        self, place: ir.Node, data: ir.Value, axis: int, places: Array, *, stem: str
    ) -> ir.Value:
        """The elements at these places of an axis, taken in front of a node; or all as they are."""
        shape = list(shape_of(data) or ())
        if np.array_equal(places, np.arange(shape[axis])):
            return data
        numbers = self.constant(f"{stem}_places", places.astype(np.int64))
        taken = self.before(place, "Gather", [data, numbers], {"axis": axis}, stem=stem, like=data)
        shape[axis] = places.size
        taken.shape = ir.Shape(shape)
        return taken

    def drop_unused(self) -> None:
        """Remove nodes and initializers that nothing reads."""
        for node in reversed(list(self.graph)):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                self.graph.remove(node, safe=True)
        for name, value in list(self.graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del self.graph.initializers[name]


def is_kind(node: ir.Node | None, *kinds: str) -> TypeGuard[ir.Node]:
    """Whether a node is one of these operators of the standard domain."""
    return node is not None and node.domain in DEFAULT_DOMAINS and node.op_type in kinds


def array_of(value: ir.Value | None) -> Array | None:
    """The elements of a constant, or ``None``."""
    if value is None or value.is_graph_input():
        return None
    tensor = value.const_value
    if tensor is not None:
        return tensor.numpy()
    node = value.producer()
    if is_kind(node, "Constant") and "value" in node.attributes:
        return node.attributes["value"].as_tensor().numpy()
    return None


def scalar_of(value: ir.Value | None) -> float | None:
    """The one element of a constant, or ``None``."""
    array = array_of(value)
    if array is None or array.size != 1 or array.dtype.kind not in "fiu":
        return None
    return float(array.reshape(()))


def is_single(value: ir.Value | None) -> TypeGuard[ir.Value]:
    """Whether a tensor is of single precision, or its type is not known."""
    return value is not None and value.dtype in (None, ir.DataType.FLOAT)


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """An input, or ``None`` where the node leaves it out."""
    return node.inputs[index] if index < len(node.inputs) else None


def shape_of(value: ir.Value | None) -> tuple[int, ...] | None:
    """The static shape, or ``None``."""
    if value is None or value.shape is None:
        return None
    sizes = tuple(value.shape)
    if not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(int(size) for size in sizes)  # type: ignore[arg-type]  # all are int


def integers(node: ir.Node, name: str, default: Sequence[int]) -> list[int]:
    """An attribute that is a list of integers."""
    attribute = node.attributes.get(name)
    return list(default) if attribute is None else [int(i) for i in attribute.as_ints()]


def integer(node: ir.Node, name: str, default: int) -> int:
    """An attribute that is an integer."""
    attribute = node.attributes.get(name)
    return default if attribute is None else int(attribute.as_int())


def number(node: ir.Node, name: str, default: float) -> float:
    """An attribute that is a real number."""
    attribute = node.attributes.get(name)
    return default if attribute is None else float(attribute.as_float())


def axes_of(node: ir.Node) -> list[int]:
    """The axes that a reduction states, as an attribute or as a constant."""
    stated = array_of(input_of(node, 1))
    return integers(node, "axes", ()) if stated is None else [int(i) for i in stated.reshape(-1)]


def text_of(node: ir.Node, name: str, default: str) -> str:
    """An attribute that is text."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()


def only_user(value: ir.Value) -> ir.Node | None:
    """The one node that reads a value, unless the value leaves the graph."""
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    return uses[0].node


def stand_for(old: ir.Value, new: ir.Value) -> None:
    """Let a value replace another one everywhere, under its name."""
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    new.name, old.name = old.name, None


def take_place(editor: Editor, node: ir.Node, new: ir.Value) -> None:
    """Let a value replace a node's result everywhere, and its operator bear the node's name."""
    stand_for(node.outputs[0], new)
    editor.graph.remove(node, safe=True)
    producer = new.producer()
    assert producer is not None
    producer.name = node.name
