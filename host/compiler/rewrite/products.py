# SPDX-License-Identifier: Apache-2.0
"""Products of activations in the one form that the accelerator takes: a batch of matrices.

- An Einsum is products of two operands, one after another: each operand's axes in the order batch,
  rows, columns, then MatMul.
- A matrix that all heads share, as keys of multi-query attention, is repeated for each; one that is
  constant is one matrix, or one for each that it is multiplied by.
- Products, dense layers, softmaxes and what is computed element by element between them have at
  most four axes: those before the last two are one.

No rewrite changes a result, but that sums may be added in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    integer,
    is_kind,
    is_single,
    shape_of,
    take_place,
    text_of,
)
from tilewright.host.network.operators import having

_MOST_AXES: Final = 4
_MATRIX: Final = 2  # axes
_BY_ELEMENT: Final = having(lambda each: each.by_element > 0)


def state_products(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        done = None
        if is_kind(node, "Einsum"):
            done = _einsum(editor, node)
        elif is_kind(node, "MatMul"):
            _repeat_factor(editor, node)
            done = _state_constant(editor, node) or _narrow_product(editor, node)
        elif is_kind(node, "Softmax", *_BY_ELEMENT):
            done = _narrow_elements(editor, node)
        if done is not None:
            take_place(editor, node, done)
    editor.drop_unused()


def _repeat_factor(editor: Editor, node: ir.Node) -> None:
    """A factor of a product of activations for each matrix that it is multiplied by."""
    shapes, result = [shape_of(value) for value in node.inputs], shape_of(node.outputs[0])
    if (
        result is None
        or None in shapes
        or any(array_of(value) is not None for value in node.inputs)
    ):
        return
    if {len(shape or ()) for shape in shapes} != {len(result)}:
        return
    for index, (value, shape) in enumerate(zip(node.inputs, shapes, strict=True)):
        assert shape is not None
        wanted = (*result[:-_MATRIX], *shape[-_MATRIX:])
        if shape != wanted and value is not None and is_single(value):
            stem = f"{value.name or 'factor'}_repeated"
            sizes = editor.constant(f"{stem}_sizes", np.array(wanted, np.int64))
            repeated = editor.before(node, "Expand", [value, sizes], stem=stem, like=value)
            repeated.shape = ir.Shape(wanted)
            node.replace_input_with(index, repeated)


def _state_constant(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Constant matrices as one on the right, or as one for each matrix of the other factor.

    One on the left is the transpose of one on the right of the transpose.
    """
    shape = shape_of(node.outputs[0])
    for index, value in enumerate(node.inputs):
        array, other = array_of(value), shape_of(node.inputs[1 - index])
        if array is None or other is None or shape is None or 0 in shape:
            continue
        batch, matrix = shape[:-_MATRIX], array.shape[-_MATRIX:]
        if not _MATRIX <= array.ndim <= len(other) == len(shape) or other[:-_MATRIX] != batch:
            continue
        stem = f"{node.outputs[0].name}_matrices"
        if prod(array.shape[:-_MATRIX]) == 1:
            one = array.reshape(matrix)
            if index == 0 and len(other) > _MATRIX:
                return _on_the_right(editor, node, one.T)
            wanted = one
        else:
            wanted = np.broadcast_to(array, (*batch, *matrix))
        if wanted.shape != array.shape:
            node.replace_input_with(index, editor.constant(stem, np.ascontiguousarray(wanted)))
    return None


def _on_the_right(editor: Editor, node: ir.Node, matrix: Array) -> ir.Value | None:
    data, result = node.inputs[1], node.outputs[0]
    shape = shape_of(data)
    if data is None or shape is None:
        return None
    stem, rank = result.name or "product", len(shape)
    perm = {"perm": [*range(rank - _MATRIX), rank - 1, rank - _MATRIX]}
    turned = editor.before(node, "Transpose", [data], perm, stem=f"{stem}_turned", like=data)
    turned.shape = ir.Shape((*shape[:-_MATRIX], shape[-1], shape[-_MATRIX]))
    right = editor.constant(f"{stem}_matrix", np.ascontiguousarray(matrix))
    made = editor.before(node, "MatMul", [turned, right], stem=f"{stem}_rows", like=result)
    made.shape = ir.Shape((*shape[:-_MATRIX], shape[-1], matrix.shape[1]))
    product = made.producer()
    assert product is not None
    made = _narrow_product(editor, product) or made
    return editor.before(node, "Transpose", [made], perm, stem=stem, like=result)


# -- more than four axes --------------------------------------------------------------------------


def _narrow_product(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A product of matrices of many batch axes, with one; or of one image with weights."""
    shapes, result = [shape_of(value) for value in node.inputs], node.outputs[0]
    left, right, shape = shapes[0], shapes[1], shape_of(result)
    if left is None or right is None or shape is None or len(shape) <= _MOST_AXES:
        return None
    weights = array_of(node.inputs[1])
    dense = weights is not None and weights.ndim == _MATRIX
    if 0 in shape or (not dense and left[:-_MATRIX] != right[:-_MATRIX]):
        return None
    stem = result.name or "product"
    form = _one_image if dense else _narrowed
    operands = [
        value if dense and index else _in_shape(editor, node, value, form(each), f"{stem}_operand")
        for index, (value, each) in enumerate(zip(node.inputs, (left, right), strict=True))
        if value is not None
    ]
    narrow = editor.before(node, "MatMul", operands, stem=f"{stem}_narrow", like=result)
    narrow.shape = ir.Shape(form(shape))
    return editor.reshaped(node, narrow, shape, stem=stem)


def _narrow_elements(editor: Editor, node: ir.Node) -> ir.Value | None:
    """What is computed element by element behind a product whose axes were joined."""
    result = node.outputs[0]
    shape = shape_of(result)
    if shape is None or len(shape) <= _MOST_AXES or 0 in shape:
        return None
    if is_kind(node, "Softmax") and integer(node, "axis", -1) % len(shape) != len(shape) - 1:
        return None
    narrow_shape = next(filter(None, (_narrow_form(value, shape) for value in node.inputs)), None)
    if narrow_shape is None:
        return None
    stem = result.name or "narrow"
    operands: list[ir.Value | None] = []
    for value in node.inputs:
        array = array_of(value)
        if value is None:
            operands.append(None)
        elif array is not None and array.size > 1 and array.shape != shape[-1:]:
            full = np.broadcast_to(array, shape).reshape(narrow_shape)
            operands.append(editor.constant(f"{stem}_constant", full))
        elif array is not None:
            form = array.shape[-1:] if array.size > 1 else ()
            operands.append(editor.constant(f"{stem}_number", array.reshape(form)))
        elif shape_of(value) == shape:
            operands.append(_in_shape(editor, node, value, narrow_shape, f"{stem}_operand"))
        else:
            return None
    attributes = {"axis": -1} if is_kind(node, "Softmax") else dict(node.attributes)
    narrow = editor.before(
        node, node.op_type, operands, attributes, stem=f"{stem}_narrow", like=result
    )
    narrow.shape = ir.Shape(narrow_shape)
    return editor.reshaped(node, narrow, shape, stem=stem)


def _narrowed(shape: Sequence[int]) -> tuple[int, ...]:
    return (prod(shape[:-_MATRIX]), *shape[-_MATRIX:])


def _one_image(shape: Sequence[int]) -> tuple[int, ...]:
    return (1, prod(shape[:-1]), shape[-1])


def _narrow_form(value: ir.Value | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of what a value is only the wide form of, if its rows are the same."""
    node = value.producer() if value is not None else None
    for kind in ("DequantizeLinear", "QuantizeLinear"):
        if is_kind(node, kind) and node.inputs[0] is not None:
            node = node.inputs[0].producer()
    before = shape_of(node.inputs[0]) if is_kind(node, "Reshape") else None
    narrow = before is not None and before in (_narrowed(shape), _one_image(shape))
    return before if narrow else None


def _in_shape(
    editor: Editor, node: ir.Node, value: ir.Value, shape: tuple[int, ...], stem: str
) -> ir.Value:
    """A value in another shape; where it only left that shape, what it was before."""
    producer = value.producer()
    if is_kind(producer, "Reshape"):
        before = producer.inputs[0]
        if before is not None and shape_of(before) == shape:
            return before
    return value if shape_of(value) == shape else editor.reshaped(node, value, shape, stem=stem)


# -- Einsum ---------------------------------------------------------------------------------------


def _einsum(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Products of two operands for an Einsum whose letters name different axes."""
    shapes = [shape_of(value) for value in node.inputs]
    known = [each for each in shapes if each is not None]
    if len(known) != len(shapes) or not all(is_single(value) for value in node.inputs):
        return None
    terms = _terms(text_of(node, "equation", ""), [len(each) for each in known])
    if terms is None:
        return None
    *letters, wanted = terms
    sizes: dict[str, int] = {}
    for term, shape in zip(letters, known, strict=True):
        if len(set(term)) != len(term) or len(term) != len(shape):
            return None  # a diagonal
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return None  # a broadcast
    if len(set(wanted)) != len(wanted) or 0 in sizes.values():
        return None
    operands = [value for value in node.inputs if value is not None]
    steps = _Steps(editor, node, sizes)
    value, have = operands[0], letters[0]
    for number, (other, term) in enumerate(zip(operands[1:], letters[1:], strict=True), 2):
        needed = set(wanted).union(*letters[number:])
        value, have = steps.product(value, have, other, term, needed)
    value, have = steps.summed(value, have, set(wanted))
    value = steps.arranged(value, have, wanted)
    if value in operands:  # nothing was left to do
        value = editor.before(node, "Identity", [value], stem="same", like=node.outputs[0])
    return value


_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _terms(equation: str, ranks: Sequence[int]) -> list[str] | None:
    """A letter for each axis of each operand and of the result; ``...`` gets letters of its own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        return None
    free = [letter for letter in _LETTERS if letter not in equation]
    more = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    widest = max((n for term, n in zip(terms, more, strict=True) if "..." in term), default=0)
    if widest > len(free) or min(more) < 0:
        return None
    stand_ins = "".join(free[:widest])
    if not arrow:  # letters that stand once, in their order
        joined = "".join(terms).replace(".", "")
        once = sorted(letter for letter in set(joined) if joined.count(letter) == 1)
        right = "..." * bool("..." in left) + "".join(once)
    filled = [
        term.replace("...", stand_ins[len(stand_ins) - n :])
        for term, n in zip(terms, more, strict=True)
    ]
    result = right.replace("...", stand_ins)
    return [*filled, result] if set(result) <= set("".join(filled)) else None


class _Steps:
    """The operators that stand for one Einsum, in front of it."""

    def __init__(self, editor: Editor, node: ir.Node, sizes: dict[str, int]) -> None:
        self._editor, self._node, self._sizes = editor, node, sizes
        self._stem = node.outputs[0].name or "einsum"

    def product(
        self, left: ir.Value, first: str, right: ir.Value, second: str, needed: set[str]
    ) -> tuple[ir.Value, str]:
        """The product of two operands, summed over what nothing needs afterwards."""
        left, first = self.summed(left, first, needed | set(second))
        right, second = self.summed(right, second, needed | set(first))
        batch = [a for a in first if a in second and a in needed]
        inner = [a for a in first if a in second and a not in needed]
        rows = [a for a in first if a not in second]
        columns = [a for a in second if a not in first]
        if not inner and not rows and not columns:
            right = self.arranged(right, second, first)
            return self._add("Mul", [left, right], first), first
        apart = len(batch) <= _MOST_AXES - _MATRIX
        shared = [[axis] for axis in batch] if apart else [batch]
        matrices = [
            self._grouped(left, first, [*shared, rows, inner]),
            self._grouped(right, second, [*shared, inner, columns]),
        ]
        result = [*batch, *rows, *columns]
        value = self._add("MatMul", matrices, [*shared, rows, columns])
        shape = [self._sizes[a] for a in result]
        if shape_of(value) != tuple(shape):
            value = self._editor.reshaped(self._node, value, shape, stem=self._stem)
        return value, "".join(result)

    def summed(self, value: ir.Value, have: str, needed: set[str]) -> tuple[ir.Value, str]:
        """The sum over the axes that nothing needs."""
        axes = [place for place, letter in enumerate(have) if letter not in needed]
        if not axes:
            return value, have
        left = "".join(letter for letter in have if letter in needed)
        places = self._editor.constant(f"{self._stem}_axes", np.array(axes, np.int64))
        return self._add("ReduceSum", [value, places], left, {"keepdims": 0}), left

    def arranged(self, value: ir.Value, have: str, wanted: Sequence[str]) -> ir.Value:
        """The axes in this order."""
        order = [have.index(letter) for letter in wanted]
        if order == sorted(order):
            return value
        array = array_of(value)
        if array is not None:
            moved = np.ascontiguousarray(array.transpose(order))
            return self._editor.constant(f"{self._stem}_arranged", moved)
        return self._add("Transpose", [value], wanted, {"perm": order})

    def _grouped(self, value: ir.Value, have: str, groups: list[list[str]]) -> ir.Value:
        """One axis for each group of axes."""
        value = self.arranged(value, have, [letter for group in groups for letter in group])
        shape = self._shape(groups)
        if shape_of(value) == shape:
            return value
        array = array_of(value)
        if array is not None:
            return self._editor.constant(f"{self._stem}_matrix", array.reshape(shape))
        return self._editor.reshaped(self._node, value, shape, stem=f"{self._stem}_matrix")

    def _shape(self, groups: Sequence[Sequence[str]]) -> tuple[int, ...]:
        return tuple(prod(self._sizes[letter] for letter in group) for group in groups)

    def _add(
        self,
        kind: str,
        operands: Sequence[ir.Value],
        axes: Sequence[Sequence[str]],
        attributes: dict[str, object] | None = None,
    ) -> ir.Value:
        like = self._node.outputs[0]
        value = self._editor.before(
            self._node, kind, list(operands), attributes or {}, stem=self._stem, like=like
        )
        value.shape = ir.Shape(self._shape(axes))
        return value
