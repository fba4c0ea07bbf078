# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis as convolutions of images of one row: (N, C, T) as (N, C, 1, T).

Convolutions, pools and batch normalisation of tensors with three axes are rewritten, and what works
element by element between them, so that a chain of them has one change of shape at either end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    integers,
    shape_of,
    stand_for,
)
from tilewright.host.compiler.read.onnx_images import AsImages, Rules

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
    _Rows(editor).rewrite()


class _Rows(AsImages):
    def __init__(self, editor: Editor) -> None:
        rules: Rules = {
            _LAYERS: self._layer,
            _POOLS: self._pool,
            (*BY_ELEMENT, "BatchNormalization"): self._by_element,
            OF_TWO: self._of_two,
            ("Concat",): self._concat,
            ("ReduceMean", "ReduceMax"): self._reduction,
        }
        super().__init__(editor, rules)
        self._images: dict[ir.Value, ir.Value] = {}
        """By value with three axes: the same with four."""

    def _restore(self, node: ir.Node, result: ir.Value) -> None:
        shape, stem = shape_of(result) or (), result.name or "row"
        stand_for(result, self._editor.reshaped(node, self._images[result], shape, stem=stem))

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
        shape = shape_of(data)
        if data is None or data not in self._images or not shape:
            return False
        if [axis % _RANK for axis in axes_of(node)] != [2]:
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
        stand_for(result, flat)
        return True

    # -- writing -------------------------------------------------------------------------------

    def _image(self, node: ir.Node, value: ir.Value) -> ir.Value:
        """A value with four axes, made in front of a node unless it is there."""
        if value not in self._images:
            n, channels, length = shape_of(value) or ()
            self._images[value] = self._editor.reshaped(
                node, value, (n, channels, 1, length), stem=f"{value.name}_row"
            )
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
