# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation that a model writes out, as one operator each.

JAX, TensorFlow and PyTorch before ONNX's opset 17 write them out: sums and means, differences,
roots and quotients, in many orders. No rewrite changes a result beyond rounding. A form of which
something else reads a part stays. A normalisation over the positions of a sequence is one over the
features of its transpose.

A box that detectors predict as distributions is the *expectation* of each: a softmax over groups of
channels and a 1x1 convolution, written so that groups stay channels of one image.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    integers,
    is_kind,
    is_single,
    only_user,
    scalar_of,
    shape_of,
    stand_for,
    take_place,
    text_of,
)
from tilewright.host.network.operators import VIEWS

_IMAGE_RANK: Final = 4
_RANKS: Final = (3, _IMAGE_RANK)
_GROUPS_TO_ROWS: Final = [0, 2, 1, 3]


def state_expectations(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Conv"):
            _state_expectation(editor, node)


def _state_expectation(editor: Editor, node: ir.Node) -> None:
    """A 1x1 convolution of (N, C, A, P), turned from (N, A, C, P), as one with A groups.

    Numbers of a softmax sum up to 1: weights that lie around 0 and a bias are the same weighted
    sum, with smaller errors of rounding.
    """
    data, result = node.inputs[0], node.outputs[0]
    weights, source = array_of(input_of(node, 1)), _turned_source(data)
    given = input_of(node, 2)
    bias = array_of(given)
    if source is None or weights is None or (given is not None and bias is None):
        return
    if not _is_pointwise(node, weights.shape):
        return
    softmax = None if data is None else data.producer()
    n, groups, channels, pixels = shape_of(source) or ()
    matrix = weights.reshape(-1, channels).astype(np.float64)
    centre = (matrix.max(axis=1) + matrix.min(axis=1)) / 2
    offsets = centre if bias is None else centre + bias
    stem, outputs = result.name or "expectation", len(matrix)
    wide = np.tile(matrix - centre[:, None], (groups, 1)).astype(np.float32)[:, :, None, None]
    probabilities = editor.before(
        node, "Softmax", [source], {"axis": 2}, stem=f"{stem}_bins", like=source
    )
    shaped = f"{stem}_shaped"
    flat = editor.reshaped(node, probabilities, (n, groups * channels, 1, pixels), stem=shaped)
    expected = editor.before(
        node,
        "Conv",
        [
            flat,
            editor.constant(f"{stem}_weights", wide),
            editor.constant(f"{stem}_bias", np.tile(offsets, groups).astype(np.float32)),
        ],
        {"group": groups, "kernel_shape": [1, 1], "pads": [0] * 4, "strides": [1, 1],
         "dilations": [1, 1]},
        stem=stem,
        like=flat,
    )  # fmt: skip
    expected.shape = ir.Shape((n, groups * outputs, 1, pixels))
    if outputs == 1:  # nothing changes places
        turned = editor.reshaped(node, expected, (n, 1, groups, pixels), stem=shaped)
    else:
        apart = editor.reshaped(node, expected, (n, groups, outputs, pixels), stem=shaped)
        perm = {"perm": _GROUPS_TO_ROWS}
        turned = editor.before(node, "Transpose", [apart], perm, stem=stem, like=result)
    layer, rows = expected.producer(), probabilities.producer()
    stand_for(result, turned)
    editor.graph.remove(node, safe=True)
    assert softmax is not None
    assert layer is not None
    assert rows is not None
    editor.graph.remove(softmax, safe=True)
    layer.name, rows.name = node.name, softmax.name


def _turned_source(data: ir.Value | None) -> ir.Value | None:
    """The image (N, A, C, P) of whose permutation (N, C, A, P) a value is the softmax over C."""
    softmax = None if data is None or only_user(data) is None else data.producer()
    if not is_kind(softmax, "Softmax") or integer(softmax, "axis", -1) % _IMAGE_RANK != 1:
        return None
    turned = softmax.inputs[0]
    transpose = None if turned is None else turned.producer()
    if not is_kind(transpose, "Transpose") or integers(transpose, "perm", ()) != _GROUPS_TO_ROWS:
        return None
    source = transpose.inputs[0]
    return None if shape_of(source) is None else source


def _is_pointwise(node: ir.Node, shape: tuple[int, ...]) -> bool:
    """Whether a convolution of images mixes the channels of each pixel alone, in one group."""
    plain = text_of(node, "auto_pad", "NOTSET") == "NOTSET" and not any(integers(node, "pads", ()))
    steps = set(integers(node, "strides", ())) <= {1}
    return plain and steps and shape[2:] == (1, 1) and integer(node, "group", 1) == 1


LAYER_NORM_OPSET: Final = 17
"""The first that has LayerNormalization; of what older ones have, only `_CHANGED` differs."""

_CHANGED: Final = ("RoiAlign",)
_VIEWS: Final = (*VIEWS, "Expand")
_SEQUENCE_RANK: Final = 3
_ROUNDING: Final = 1e-5
"""By how much of it a constant 1 / N may be off."""
_DEEPEST: Final = 6
"""Products in each other that are followed."""


def state_rows(model: ir.Model) -> None:
    """Rewrite a model with known shapes, in place."""
    editor = Editor(model.graph)
    editor.drop_unused()  # a reader that nothing reads shall keep no form
    opset = model.graph.opset_imports.get("", LAYER_NORM_OPSET)
    norms = opset >= LAYER_NORM_OPSET or not any(is_kind(n, *_CHANGED) for n in model.graph)
    # The last operator of a form comes before those inside of it, which nothing reads then.
    for node in reversed(list(model.graph)):
        if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
            continue
        found = _softmax(editor, node) if is_kind(node, "Div", "Mul") else None
        if found is None and norms and is_kind(node, "Add", "Div", "Mul"):
            found = _normalisation(editor, node)
            if found is not None:
                model.graph.opset_imports[""] = max(opset, LAYER_NORM_OPSET)
        if found is not None:
            take_place(editor, node, found)
    editor.drop_unused()


class _Form:
    """What was recognised on the way to the data of a form."""

    def __init__(self) -> None:
        self._inner: list[ir.Node] = []

    def step(self, value: ir.Value | None, *kinds: str) -> ir.Node | None:
        """The operator that makes a value, if it is of one of these kinds."""
        node = None if value is None else value.producer()
        if not is_kind(node, *kinds):
            return None
        self._inner.append(node)
        return node

    def bare(self, value: ir.Value | None) -> ir.Value | None:
        """A value before changes of shape that only add or drop axes of size 1."""
        while value is not None and is_kind(node := value.producer(), *_VIEWS):
            if _wide(shape_of(node.inputs[0])) != _wide(shape_of(value)):
                break
            self._inner.append(node)
            value = node.inputs[0]
        return value

    def bounded(self, value: ir.Value | None, bound: float) -> ir.Value | None:
        """What a value was before the greater one of it and a number was taken, if it was."""
        value = self.bare(value)
        node = None if value is None else value.producer()
        if bound == 0 and is_kind(node, "Relu"):
            self._inner.append(node)
            return self.bare(node.inputs[0])
        if is_kind(node, "Max") and len(node.inputs) == 2:
            for data, other in _orders(node):
                if scalar_of(other) == bound:
                    self._inner.append(node)
                    return self.bare(data)
        return value

    def reduced(self, value: ir.Value | None, *kinds: str) -> tuple[ir.Value, int] | None:
        """What is reduced, and along which one axis."""
        node = self.step(self.bare(value), *kinds)
        data = None if node is None else node.inputs[0]
        if node is None or data is None or shape_of(data) is None:
            return None
        axes = axes_of(node)
        return (data, axes[0] % len(shape_of(data) or ())) if len(axes) == 1 else None

    def mean(self, value: ir.Value | None) -> tuple[ir.Value, int] | None:
        """What a value is the mean of, and along which one axis."""
        value = self.bare(value)
        node = self.step(value, "Mul", "Div")
        if node is None:
            return self.reduced(value, "ReduceMean")
        for total, number in _orders(node) if node.op_type == "Mul" else [tuple(node.inputs)]:
            factor = scalar_of(number)
            found = None if factor is None else self.reduced(total, "ReduceSum")
            if factor is None or found is None:
                continue
            size = (shape_of(found[0]) or ())[found[1]]
            share = factor if node.op_type == "Mul" else 1 / factor if factor else 0.0
            return found if abs(share * size - 1) < _ROUNDING else None
        return None

    def square(self, value: ir.Value | None) -> ir.Value | None:
        """What a value is the square of."""
        node = self.step(self.bare(value), "Mul", "Pow")
        if node is None:
            return None
        a, b = node.inputs[0], node.inputs[1]
        return a if (scalar_of(b) == 2 if node.op_type == "Pow" else a is b) else None

    def is_private(self, last: ir.Node) -> bool:
        """Whether nothing but the form reads what is inside of it."""
        members = {*self._inner, last}
        return not any(
            node is not last
            and (
                node.outputs[0].is_graph_output()
                or any(use.node not in members for use in node.outputs[0].uses())
            )
            for node in members
        )


def _orders(node: ir.Node) -> list[tuple[ir.Value | None, ir.Value | None]]:
    a, b = node.inputs[0], node.inputs[1]
    return [(a, b), (b, a)]


def _wide(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(size for size in shape if size != 1)


def _aligned(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _spreads(value: ir.Value | None, data: ir.Value, axis: int) -> bool:
    """Whether a value has one number for all of an axis of the data, and spreads along it."""
    shape, small = shape_of(data), shape_of(value)
    if shape is None or small is None:
        return False
    kept = tuple(1 if place == axis else size for place, size in enumerate(shape))
    return _aligned(small, len(shape)) == kept


# -- softmax ---------------------------------------------------------------------------------------


def _softmax(editor: Editor, last: ir.Node) -> ir.Value | None:
    """Powers over their sum, of differences to the maximum."""
    for power, total in [tuple(last.inputs)] if last.op_type == "Div" else _orders(last):
        form = _Form()
        exp = form.step(power, "Exp")
        if last.op_type == "Mul":
            inverse = form.step(form.bare(total), "Reciprocal")
            below = None if inverse is None else inverse.inputs[0]
        else:
            below = total
        summed = form.reduced(below, "ReduceSum")
        difference = None if exp is None else form.step(exp.inputs[0], "Sub")
        if summed is None or difference is None or summed[0] is not power:
            continue
        data, top = difference.inputs[0], difference.inputs[1]
        most = form.reduced(form.bounded(top, -np.inf), "ReduceMax")
        if data is None or most is None or most[0] is not data or most[1] != summed[1]:
            continue
        both = _spreads(top, data, summed[1]) and _spreads(total, data, summed[1])
        if both and form.is_private(last):
            stem, result = last.outputs[0].name or "softmax", last.outputs[0]
            axis = {"axis": summed[1]}
            return editor.before(last, "Softmax", [data], axis, stem=stem, like=result)
    return None


# -- layer normalisation ---------------------------------------------------------------------------


def _normalisation(editor: Editor, last: ir.Node) -> ir.Value | None:
    """Differences to the mean over the root of the variance, times factors, plus offsets."""
    for read in (_Norm.read_difference, _Norm.read_shared_factor):
        norm = _Norm()
        data = norm.data if read(norm, last) else None
        shape = shape_of(data)
        if not is_single(data) or shape is None or shape_of(last.outputs[0]) != shape:
            continue
        gamma = _of_axis(norm.factors, shape, norm.axis)
        beta = _of_axis([(norm.offsets, 1)], shape, norm.axis)
        turned = norm.axis == 1 and len(shape) == _SEQUENCE_RANK and shape[0] == 1
        if norm.axis != len(shape) - 1 and not turned:
            continue
        if gamma is None or beta is None or not norm.is_private(last):
            continue
        stem = last.outputs[0].name or "norm"
        numbers = [
            editor.constant(f"{stem}_{label}", array)
            for label, array in (("gamma", gamma), ("beta", beta))
        ]
        if norm.axis == len(shape) - 1:
            return _layer_norm(editor, last, [data, *numbers], norm.epsilon, stem)
        features = _transposed(editor, last, data, f"{stem}_turned")
        normal = _layer_norm(editor, last, [features, *numbers], norm.epsilon, f"{stem}_normal")
        normal.shape = features.shape
        return _transposed(editor, last, normal, stem)
    return None


def _layer_norm(
    editor: Editor, last: ir.Node, inputs: Sequence[ir.Value], epsilon: float, stem: str
) -> ir.Value:
    attributes = {"axis": -1, "epsilon": epsilon}
    return editor.before(
        last, "LayerNormalization", inputs, attributes, stem=stem, like=last.outputs[0]
    )


def _transposed(editor: Editor, last: ir.Node, data: ir.Value, stem: str) -> ir.Value:
    """A sequence of one image with its last two axes exchanged."""
    turned = editor.before(last, "Transpose", [data], {"perm": [0, 2, 1]}, stem=stem, like=data)
    n, tokens, features = shape_of(data) or ()
    turned.shape = ir.Shape((n, features, tokens))
    return turned


class _Norm(_Form):
    """A layer normalisation along one axis.

    Attributes:
        data, axis: what is normalised, along which axis.
        epsilon: added to the variance; positive.
        factors: constants and their powers, 1 or -1.
        offsets: constant, added at last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.data: ir.Value | None = None
        self.axis = -1
        self.epsilon = 0.0
        self.factors: list[tuple[Array, int]] = []
        self.offsets: Array = np.zeros(())

    def read_difference(self, last: ir.Node) -> bool:
        """``(x - mean) * factors / root + offsets``, in any order of factors."""
        product: ir.Value | None = last.outputs[0]
        if last.op_type == "Add":
            left, right = (array_of(value) for value in last.inputs)
            offsets = right if left is None else left
            if offsets is None:
                return False
            product, self.offsets = last.inputs[0 if left is None else 1], offsets
        variable = self._variable_factors(product, 1)
        if len(variable) != 2:
            return False
        for (difference, power), root in (variable, variable[::-1]):
            node = difference.producer()
            if power == 1 and is_kind(node, "Sub") and self._is_difference(node):
                return self._is_root(*root)
        return False

    def read_shared_factor(self, last: ir.Node) -> bool:
        """``x * factor + (offsets - mean * factor)``."""
        if last.op_type != "Add":
            return False
        for scaled, rest in _orders(last):
            product, difference = self.step(scaled, "Mul"), self.step(rest, "Sub")
            moved = None if difference is None else self.step(difference.inputs[1], "Mul")
            offsets = None if difference is None else array_of(difference.inputs[0])
            if product is None or moved is None or offsets is None:
                continue
            self.offsets = offsets
            for data, factor in _orders(product):
                for mean, same in _orders(moved):
                    if factor is same and self._is_mean(mean, data):
                        variable = self._variable_factors(factor, 1)
                        return len(variable) == 1 and self._is_root(*variable[0])
        return False

    def _variable_factors(
        self, value: ir.Value | None, power: int, depth: int = 0
    ) -> list[tuple[ir.Value, int]]:
        """The factors of a product that are no constants, with their powers; those are kept."""
        if value is None:
            return []
        array, node = array_of(value), value.producer()
        if array is not None:
            self.factors.append((array, power))
            return []
        if depth == _DEEPEST or not is_kind(node, "Mul", "Div"):
            return [(value, power)]
        self._inner.append(node)
        other = power if node.op_type == "Mul" else -power
        return [
            *self._variable_factors(node.inputs[0], power, depth + 1),
            *self._variable_factors(node.inputs[1], other, depth + 1),
        ]

    def _is_mean(self, value: ir.Value | None, data: ir.Value | None) -> bool:
        """Whether a value is the mean of the data, and spreads over them."""
        found = self.mean(value)
        if data is None or found is None or found[0] is not data:
            return False
        if self.data is not None and (self.data, self.axis) != (data, found[1]):
            return False
        self.data, self.axis = found
        return _spreads(value, data, self.axis)

    def _is_difference(self, node: ir.Node) -> bool:
        self._inner.append(node)
        return self._is_mean(node.inputs[1], node.inputs[0])

    def _is_root(self, value: ir.Value, power: float) -> bool:
        """Whether a factor is one over the root of the variance plus epsilon."""
        if self.data is None or not _spreads(value, self.data, self.axis):
            return False
        inner = self.bare(value)
        while (node := self.step(inner, "Reciprocal", "Sqrt", "Pow")) is not None:
            exponents = {"Reciprocal": -1.0, "Sqrt": 0.5}
            exponent = exponents.get(node.op_type) or scalar_of(input_of(node, 1))
            if exponent is None:
                return False
            power, inner = power * exponent, self.bare(node.inputs[0])
        total = self.step(inner, "Add")
        if total is None or power != -0.5:
            return False
        for variance, number in _orders(total):
            epsilon = scalar_of(number)
            if epsilon is not None and epsilon > 0:
                self.epsilon = epsilon
                return self._is_variance(variance)
        return False

    def _is_variance(self, value: ir.Value | None) -> bool:
        """The mean of the squares of differences, or that of squares less the mean's square."""
        value = self.bounded(value, 0.0)
        difference = self.step(value, "Sub")
        if difference is None:
            of_squares = self.mean(value)
            squared = self._squared(of_squares)
            node = self.step(squared, "Sub")
            return node is not None and self._is_difference(node)
        if self._squared(self.mean(difference.inputs[0])) is not self.data:
            return False
        mean = self.mean(self.square(difference.inputs[1]))
        return mean is not None and mean[0] is self.data and mean[1] == self.axis

    def _squared(self, reduced: tuple[ir.Value, int] | None) -> ir.Value | None:
        """What was squared before it was reduced along the axis, in the shape of the data."""
        if reduced is None or shape_of(reduced[0]) != shape_of(self.data):
            return None
        return self.square(reduced[0]) if reduced[1] == self.axis else None


def _of_axis(
    factors: Sequence[tuple[Array, int]], shape: tuple[int, ...], axis: int
) -> Array | None:
    """The product of constants, a number for each place of an axis; None: they are none."""
    product = np.ones(shape[axis])
    for array, power in factors:
        kept = tuple(size if place == axis else 1 for place, size in enumerate(shape))
        if array.ndim > len(shape) or _aligned(array.shape, len(shape)) not in (
            kept,
            (1,) * len(shape),
        ):
            return None
        wide = np.broadcast_to(array.reshape(-1).astype(np.float64), product.shape)
        if power < 0 and not wide.all():
            return None
        product = product * wide**power
    narrow = product.astype(np.float32)
    return narrow if np.isfinite(narrow).all() else None
