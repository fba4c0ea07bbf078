# SPDX-License-Identifier: Apache-2.0
"""Normalisations, reductions, quotients and choices as sums, products, means and functions of one.

What is written here has a unit between int8 tensors (`divide.relax_general`, activation tables):

- a quotient is a product with a reciprocal, of which a table knows every value;
- a choice between tensors is a product with 0 or 1, and a sum;
- a normalisation is a mean, a difference, the mean of its squares, and a product;
- a norm is a function of a sum of functions;
- a softmax of more than four axes is that of the rows of a matrix.

Only what layers are behind is rewritten: the end of a network stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    is_kind,
    number,
    scalar_of,
    shape_of,
    take_place,
)
from tilewright.host.network.operators import LAYERS

_AXES_ARE_INPUTS: Final = 18
"""Operator set since which ReduceMean has its axes as an input."""
_MOST_AXES: Final = 4
"""Of a softmax that rows compute as it stands."""
_LARGEST: Final = 1e4
"""What is chosen beyond it is a mask, which no scale fits."""
_COMPARISONS: Final = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def state_general(editor: Editor, opset: int) -> None:
    """Rewrite a graph with known shapes, in place."""
    writer = _Writer(editor, opset)
    before = before_layers(editor.graph)
    for node in list(editor.graph):
        rewrite = _REWRITES.get(node.op_type) if is_kind(node, node.op_type) else None
        if rewrite is None or node not in before or not _is_float(node.outputs[0]):
            continue
        found = rewrite(writer.at(node), node)
        if found is not None:
            take_place(editor, node, found)


def before_layers(graph: ir.Graph) -> set[ir.Node]:
    """The operators that a layer reads something of."""
    found: set[ir.Node] = set()
    for node in reversed(graph):
        readers = [use.node for value in node.outputs for use in value.uses()]
        if any(reader in found or is_kind(reader, *LAYERS) for reader in readers):
            found.add(node)
    return found


class _Writer:
    """Writes operators in front of a node; shapes follow from those of the data."""

    def __init__(self, editor: Editor, opset: int) -> None:
        self._editor, self._opset = editor, opset

    def at(self, node: ir.Node) -> _Writer:
        """From here on, in front of this node."""
        self._node = node
        self._stem = node.outputs[0].name or "general"
        return self

    def constant(self, value: float | Array) -> ir.Value:
        return self._editor.constant(f"{self._stem}_number", np.asarray(value, np.float32))

    def of_one(self, kind: str, data: ir.Value) -> ir.Value:
        return self._editor.before(self._node, kind, [data], stem=self._stem, like=data)

    def pair(self, kind: str, first: ir.Value, second: ir.Value) -> ir.Value:
        shapes = shape_of(first), shape_of(second)
        made = self._editor.before(
            self._node, kind, [first, second], stem=self._stem, like=first, dtype=ir.DataType.FLOAT
        )
        if None not in shapes:
            made.shape = ir.Shape(np.broadcast_shapes(shapes[0] or (), shapes[1] or ()))
        return made

    def as_number(self, data: ir.Value) -> ir.Value:
        """A condition as 0 or 1."""
        return self._editor.before(
            self._node, "Cast", [data], {"to": ir.DataType.FLOAT}, stem=self._stem, like=data,
            dtype=ir.DataType.FLOAT,
        )  # fmt: skip

    def permuted(self, data: ir.Value, axes: list[int]) -> ir.Value:
        made = self._editor.before(
            self._node, "Transpose", [data], {"perm": axes}, stem=self._stem, like=data
        )
        made.shape = ir.Shape([(shape_of(data) or ())[axis] for axis in axes])
        return made

    def reshaped(self, data: ir.Value, shape: list[int], full: list[int]) -> ir.Value:
        """In another shape, of which one size may follow from the full one."""
        known = prod(size for size in shape if size > 0)
        sizes = [prod(full) // known if size < 0 else size for size in shape]
        return self._editor.reshaped(self._node, data, sizes, stem=self._stem)

    def condition(self, kind: str, first: ir.Value, second: ir.Value) -> ir.Value:
        made = self.pair(kind, first, second)
        made.type = ir.TensorType(ir.DataType.BOOL)
        return made

    def reduced(
        self, kind: str, data: ir.Value, axes: Sequence[int], *, keep: bool = True
    ) -> ir.Value:
        shape = shape_of(data) or ()
        inputs, more = [data], {"keepdims": int(keep)}
        places = np.array(sorted(axes), np.int64)
        attributes: dict[str, object] = dict(more)
        if kind == "ReduceSum" or self._opset >= _AXES_ARE_INPUTS:
            inputs.append(self._editor.constant(f"{self._stem}_axes", places))
        else:
            attributes["axes"] = places.tolist()
        made = self._editor.before(self._node, kind, inputs, attributes, stem=self._stem, like=data)
        cut = [1 if axis in axes else size for axis, size in enumerate(shape)]
        made.shape = ir.Shape([n for axis, n in enumerate(cut) if keep or axis not in axes])
        return made

    def inverse_root(self, data: ir.Value, epsilon: float) -> ir.Value:
        """One by the root of a mean of squares."""
        total = self.pair("Add", data, self.constant(epsilon))
        return self.of_one("Reciprocal", self.of_one("Sqrt", total))


def _quotient(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """A product with the reciprocal of what is no constant."""
    data, divisor = node.inputs
    if data is None or divisor is None or scalar_of(data) is not None:
        return None
    if array_of(divisor) is not None or not _is_float(divisor):
        return None
    return writer.pair("Mul", data, writer.of_one("Reciprocal", divisor))


def _several(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """A sum, a maximum or a minimum of several as that of two, one after another."""
    data = [value for value in node.inputs if value is not None]
    kind = "Add" if node.op_type == "Sum" else node.op_type
    if len(data) < 2 or (len(data) == 2 and kind == node.op_type):
        return None
    result = data[0]
    for each in data[1:]:
        result = writer.pair(kind, result, each)
    return result


def _chosen(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """A choice between two tensors, or a tensor and a constant."""
    condition, first, second = node.inputs
    if condition is None or first is None or second is None:
        return None
    if any(not _is_moderate(value) for value in (first, second)):
        return None
    known = array_of(condition)
    if known is not None:
        chosen = [
            _times(writer, value, np.asarray(mask, np.float32))
            for value, mask in ((first, known), (second, ~known.astype(bool)))
        ]
        return writer.pair("Add", *chosen)
    share = _share(writer, condition)
    if share is None:
        return None
    zero = [scalar_of(value) == 0 for value in (first, second)]
    if zero[1]:
        return writer.pair("Mul", share, first)
    difference = writer.pair("Sub", first, second)
    return writer.pair("Add", writer.pair("Mul", share, difference), second)


def _times(writer: _Writer, value: ir.Value, mask: Array) -> ir.Value:
    array = array_of(value)
    if array is not None:
        return writer.constant(array * mask)
    return writer.pair("Mul", value, writer.constant(mask))


def _share(writer: _Writer, condition: ir.Value) -> ir.Value | None:
    """Where a comparison of floats holds, 1, and 0 elsewhere."""
    source = condition.producer()
    if not is_kind(source, *_COMPARISONS):
        return None
    first, second = source.inputs
    if first is None or second is None or not all(map(_is_float, (first, second))):
        return None
    if scalar_of(first) is not None or scalar_of(second) is not None:
        return writer.as_number(condition)
    difference = writer.pair("Sub", first, second)
    return writer.as_number(writer.condition(source.op_type, difference, writer.constant(0)))


def _is_moderate(value: ir.Value) -> bool:
    array = array_of(value)
    if not _is_float(value):
        return False
    return array is None or bool(np.isfinite(array).all() and np.abs(array).max() <= _LARGEST)


def _norm(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """A norm as a sum of squares or magnitudes, and what is made of that."""
    data, axes = node.inputs[0], _axes(node)
    if data is None or not axes:
        return None
    kind, keep = node.op_type, bool(integer(node, "keepdims", 1))
    inner = {"ReduceL1": "Abs", "ReduceMin": "Neg"}.get(kind)
    if kind in ("ReduceL2", "ReduceSumSquare"):
        each = writer.pair("Mul", data, data)
    elif inner is None:
        each = data
    else:
        each = writer.of_one(inner, data)
    outer = "ReduceMax" if kind == "ReduceMin" else "ReduceSum"
    total = writer.reduced(outer, each, axes, keep=keep)
    last = {"ReduceL2": "Sqrt", "ReduceMin": "Neg", "ReduceLogSum": "Log"}.get(kind)
    return total if last is None else writer.of_one(last, total)


def _instances(writer: _Writer, node: ir.Node) -> ir.Value | None:
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    factors, offsets = (array_of(input_of(node, index)) for index in (1, 2))
    if data is None or shape is None or factors is None or offsets is None or len(shape) < 3:
        return None
    axes = range(2, len(shape))
    centred = writer.pair("Sub", data, writer.reduced("ReduceMean", data, axes))
    scaled = _by_deviation(writer, centred, axes, number(node, "epsilon", 1e-5))
    for kind, each, idle in (("Mul", factors, 1), ("Add", offsets, 0)):
        if (each != idle).any():
            wide = each.reshape(-1, *[1] * (len(shape) - 2))
            scaled = writer.pair(kind, scaled, writer.constant(wide))
    return scaled


def _root_mean_square(writer: _Writer, node: ir.Node) -> ir.Value | None:
    data, shape, factors = node.inputs[0], shape_of(node.inputs[0]), input_of(node, 1)
    if data is None or not shape or factors is None:
        return None
    axes = range(integer(node, "axis", -1) % len(shape), len(shape))
    scaled = _by_deviation(writer, data, axes, number(node, "epsilon", 1e-5))
    return writer.pair("Mul", scaled, factors)


def _by_deviation(writer: _Writer, data: ir.Value, axes: Sequence[int], epsilon: float) -> ir.Value:
    """A tensor by the root of the mean of its squares."""
    squares = writer.reduced("ReduceMean", writer.pair("Mul", data, data), axes)
    return writer.pair("Mul", data, writer.inverse_root(squares, epsilon))


def _rows(writer: _Writer, node: ir.Node) -> ir.Value | None:
    """A softmax of many axes as that of the rows of a matrix."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if data is None or shape is None or len(shape) <= _MOST_AXES or shape[0] != 1:
        return None
    axis = integer(node, "axis", -1) % len(shape)
    last = [each for each in range(len(shape)) if each != axis] + [axis]
    wide = [shape[each] for each in last]
    rows = writer.reshaped(writer.permuted(data, last), [1, -1, shape[axis]], wide)
    rows = writer.reshaped(writer.of_one("Softmax", rows), wide, wide)
    return writer.permuted(rows, np.argsort(last).tolist())


def _axes(node: ir.Node) -> list[int]:
    """The axes that a reduction runs over, if they are known."""
    shape, stated = shape_of(node.inputs[0]), input_of(node, 1)
    if shape is None or (stated is not None and array_of(stated) is None):
        return []
    return sorted({axis % len(shape) for axis in axes_of(node)}) or list(range(len(shape)))


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.FLOAT


_REWRITES: Final[Mapping[str, Callable[[_Writer, ir.Node], ir.Value | None]]] = {
    "Div": _quotient,
    "InstanceNormalization": _instances,
    "Max": _several,
    "Min": _several,
    "RMSNormalization": _root_mean_square,
    "ReduceL1": _norm,
    "ReduceL2": _norm,
    "ReduceLogSum": _norm,
    "ReduceMin": _norm,
    "ReduceSumSquare": _norm,
    "Softmax": _rows,
    "Sum": _several,
    "Where": _chosen,
}
