# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis as convolutions of images of one row: (N, C, T) as (N, C, 1, T).

Convolutions, pools and batch normalisation of tensors with three axes are rewritten, and what works
element by element between them, so that a chain of them has one change of shape at either end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    shape_of,
)

_RANK: Final = 3
_LAYERS: Final = ("Conv", "ConvTranspose")
_POOLS: Final = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
BY_ELEMENT: Final = (
    "Abs", "Cast", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity",
    "LeakyRelu", "Log", "Mish", "Neg", "Relu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish",
    "Tanh",
)  # fmt: skip
OF_TWO: Final = ("Add", "Div", "Mul", "PRelu", "Sub")
_PAIRED: Final = ("dilations", "kernel_shape", "output_padding", "output_shape", "strides")
"""Attributes with one number for each axis of the window."""


def widen(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    graph = _Graph(editor)
    for node in list(editor.graph):
        graph.visit(node)
    graph.finish()


class _Graph:
    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._images: dict[ir.Value, ir.Value] = {}
        """By value with three axes: the same with four."""
        self._replaced: list[ir.Node] = []

    def visit(self, node: ir.Node) -> None:
        """Rewrite a node, if it is one of those that this module knows."""
        rules: Mapping[tuple[str, ...], Callable[[ir.Node], bool]] = {
            _LAYERS: self._layer,
            _POOLS: self._pool,
            (*BY_ELEMENT, "BatchNormalization"): self._by_element,
            OF_TWO: self._of_two,
            ("Concat",): self._concat,
            ("ReduceMean", "ReduceMax"): self._reduction,
        }
        data = input_of(node, 0)
        if len(node.outputs) != 1 or data is None or shape_of(node.outputs[0]) is None:
            return
        for kinds, rule in rules.items():
            if is_kind(node, *kinds) and rule(node):
                self._replaced.append(node)
                return

    def finish(self) -> None:
        """Give what is left its three axes back."""
        for node in reversed(self._replaced):
            result = node.outputs[0]
            image = self._images.get(result)
            if image is None or not (result.uses() or result.is_graph_output()):
                self._editor.graph.remove(node, safe=True)
                continue
            stem = result.name or "row"
            shape = shape_of(result)
            assert shape is not None
            sizes = self._editor.constant(f"{stem}_sizes", np.array(shape, np.int64))
            place = image.producer()
            assert place is not None
            flat = self._editor.after(place, "Reshape", [image, sizes], stem=stem, like=result)
            ir.convenience.replace_all_uses_with(result, flat, replace_graph_outputs=True)
            self._editor.graph.remove(node, safe=True)
            flat.name, result.name = stem, None

    # -- rules: whether a node was rewritten ---------------------------------------------------

    def _layer(self, node: ir.Node) -> bool:
        data, weights = input_of(node, 0), array_of(input_of(node, 1))
        if data is None or not _has_axes(data) or weights is None or weights.ndim != _RANK:
            return False
        tall = self._editor.constant(f"{node.name}_weights", weights[:, :, None, :])
        self._write(node, [self._image(node, data), tall, *node.inputs[2:]], _windowed(node))
        return True

    def _pool(self, node: ir.Node) -> bool:
        data = input_of(node, 0)
        if data is None or not _has_axes(data):
            return False
        self._write(node, [self._image(node, data)], _windowed(node))
        return True

    def _by_element(self, node: ir.Node) -> bool:
        data = input_of(node, 0)
        if data is None or data not in self._images:
            return False
        self._write(node, [self._images[data], *node.inputs[1:]], dict(node.attributes))
        return True

    def _of_two(self, node: ir.Node) -> bool:
        if not any(value in self._images for value in node.inputs) or not _has_axes(
            node.outputs[0]
        ):
            return False
        operands: list[ir.Value | None] = []
        for value in node.inputs:
            constant = array_of(value)
            if value is None:
                return False
            if value in self._images:
                operands.append(self._images[value])
            elif constant is not None:
                operands.append(self._constant(node, constant))
            elif _has_axes(value):
                operands.append(self._image(node, value))
            else:
                return False
        self._write(node, operands, dict(node.attributes))
        return True

    def _constant(self, node: ir.Node, array: Array) -> ir.Value:
        """A constant of three axes or fewer, that still spreads over the same elements."""
        wide = array if array.ndim < 2 else np.expand_dims(array, -2)
        return self._editor.constant(f"{node.name}_operand", wide)

    def _concat(self, node: ir.Node) -> bool:
        known = [value for value in node.inputs if value is not None and value in self._images]
        if len(known) != len(node.inputs) or integer(node, "axis", 0) % _RANK != 1:
            return False
        self._write(
            node, [self._images[value] for value in known], {"axis": ir.AttrInt64("axis", 1)}
        )
        return True

    def _reduction(self, node: ir.Node) -> bool:
        """A reduction over time, behind which nothing of this form is left."""
        data, result = node.inputs[0], node.outputs[0]
        stated = array_of(input_of(node, 1))
        axes = (
            integers(node, "axes", ()) if stated is None else [int(a) for a in stated.reshape(-1)]
        )
        shape = shape_of(data)
        if (
            data is None
            or data not in self._images
            or not shape
            or [axis % _RANK for axis in axes] != [2]
        ):
            return False
        kind = "GlobalAveragePool" if node.op_type == "ReduceMean" else "GlobalMaxPool"
        if integer(node, "keepdims", 1):
            self._write(node, [self._images[data]], {}, kind)
            return True
        stem = result.name or "mean"
        pooled = self._editor.before(
            node, kind, [self._images[data]], stem=f"{stem}_pooled", like=result
        )
        pooled.shape = ir.Shape((*shape[:2], 1, 1))
        flat = self._editor.before(node, "Flatten", [pooled], stem=stem, like=result)
        ir.convenience.replace_all_uses_with(result, flat, replace_graph_outputs=True)
        flat.name, result.name = stem, None
        return True

    # -- writing -------------------------------------------------------------------------------

    def _image(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """A value with four axes, made in front of a node unless it is there."""
        if value not in self._images:
            n, channels, length = shape_of(value) or ()
            stem = f"{value.name}_row"
            sizes = np.array((n, channels, 1, length), np.int64)
            shape = self._editor.constant(f"{stem}_sizes", sizes)
            image = self._editor.before(node, "Reshape", [value, shape], stem=stem, like=value)
            image.shape = ir.Shape(sizes.tolist())
            self._images[value] = image
        return self._images[value]

    def _write(
        self,
        node: ir.Node,
        inputs: list[ir.Value | None],
        attributes: Mapping[str, ir.Attr],
        kind: str = "",
    ) -> None:
        """The same operator on four axes."""
        result = node.outputs[0]
        n, channels, length = shape_of(result) or ()
        image = self._editor.before(
            node, kind or node.op_type, inputs, attributes, stem=f"{result.name}_row", like=result
        )
        image.shape = ir.Shape((n, channels, 1, length))
        self._images[result] = image


def _has_axes(value: ir.Value | None) -> bool:
    """Whether it is a float tensor of three known sizes."""
    shape = shape_of(value)
    return shape is not None and len(shape) == _RANK and array_of(value) is None


def _windowed(node: ir.Node) -> dict[str, ir.Attr]:
    """The attributes of a window one row high."""
    found = dict(node.attributes)
    for name in _PAIRED:
        if name in found:
            first = 0 if name == "output_padding" else 1
            found[name] = ir.AttrInt64s(name, [first, *integers(node, name, ())])
    if "pads" in found:
        before, after = integers(node, "pads", ())
        found["pads"] = ir.AttrInt64s("pads", [0, before, 0, after])
    return found
