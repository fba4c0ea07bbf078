# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis as convolutions of images of one row: (N, C, T) as (N, C, 1, T).

Convolutions, pools and batch normalisation of tensors with three axes are rewritten, and what works
element by element between them, so that a chain of them has one change of shape at either end.

Volumes as the images that they are made of: (N, C, D, H, W) as D times (N, C, H, W).

A convolution over three axes is one convolution of images for each depth of its result: the images
that it reads are joined along their channels, and its weights likewise. What works element by
element works on each image. Pooling over the depth takes the images as rows of one. A network
whose volumes all are rewritten has changes of shape at its ends alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

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
    only_user,
    scalar_of,
    shape_of,
    stand_for,
)
from tilewright.host.network.operators import CONVOLUTIONS, OF_ONE, OF_TWO, having

Rules = Mapping[tuple[str, ...], Callable[[ir.Node], bool]]
"""By kinds of operators: a rewrite in front of the node, and whether there was one."""


class AsImages(ABC):
    """Rewrites the operators of a graph with known shapes, in place.

    Args:
        editor: of the graph.
        rules: of the operators that are rewritten.
    """

    def __init__(self, editor: Editor, rules: Rules) -> None:
        self._editor = editor
        self._rules = rules

    def rewrite(self) -> None:
        """Rewrite a chain of operators whole: only what else reads it has changes of shape."""
        rewritten = [node for node in list(self._editor.graph) if self._visit(node)]
        for node in reversed(rewritten):
            result = node.outputs[0]
            if result.uses() or result.is_graph_output():
                self._restore(node, result)
            self._editor.graph.remove(node, safe=True)

    def _visit(self, node: ir.Node) -> bool:
        if len(node.outputs) != 1 or shape_of(node.outputs[0]) is None:
            return False
        return any(is_kind(node, *kinds) and rule(node) for kinds, rule in self._rules.items())

    @abstractmethod
    def _restore(self, node: ir.Node, result: ir.Value) -> None:
        """Let a value of the result's own shape take its place, in front of the node."""


MOST_IMAGES: Final = 64
"""Of one volume: each is operators of its own."""

_VOLUME_RANK: Final = 5

_Images = list[ir.Value]


def take_apart(editor: Editor) -> None:
    """Rewrite a graph with known shapes and stated padding, in place."""
    _Volumes(editor).rewrite()


class _Volumes(AsImages):
    def __init__(self, editor: Editor) -> None:
        rules: Rules = {
            ("Conv",): self._convolution,
            ("MaxPool", "AveragePool"): self._pool,
            (*OF_ONE, "BatchNormalization"): self._by_element,
            OF_TWO: self._of_two,
            ("Concat",): self._concat,
            ("GlobalAveragePool", "ReduceMean"): self._mean,
            ("Flatten", "Reshape"): self._flatten,
        }
        super().__init__(editor, rules)
        self._images: dict[ir.Value, _Images] = {}
        """By volume, in the order of the depth."""

    def _restore(self, node: ir.Node, result: ir.Value) -> None:
        n, channels, _, rows, columns = shape_of(result) or ()
        deep = [
            self._reshaped(node, image, (n, channels, 1, rows, columns))
            for image in self._images[result]
        ]
        self._give(node, self._joined(node, deep, axis=2), shape_of(result) or ())

    # -- rules: whether a node was rewritten ---------------------------------------------------

    def _convolution(self, node: ir.Node) -> bool:
        weights, result = array_of(input_of(node, 1)), shape_of(node.outputs[0])
        images = self._taken(node, node.inputs[0])
        if images is None or weights is None or weights.ndim != _VOLUME_RANK or not result:
            return False
        if integer(node, "group", 1) != 1 or not 0 < result[2] <= MOST_IMAGES:
            return False
        ones = [1, 1, 1]
        strides, dilations = integers(node, "strides", ones), integers(node, "dilations", ones)
        pads = integers(node, "pads", [0] * 6)
        attributes = {
            "kernel_shape": weights.shape[3:],
            "strides": strides[1:],
            "dilations": dilations[1:],
            "pads": [*pads[1:3], *pads[4:6]],
        }
        made: dict[tuple[int, ...], ir.Value] = {}  # weights by the taps that lie in the volume
        found = []
        for depth in range(result[2]):
            first = depth * strides[0] - pads[0]
            places = [first + k * dilations[0] for k in range(weights.shape[2])]
            taps = tuple(k for k, place in enumerate(places) if 0 <= place < len(images))
            if not taps:
                return False
            if taps not in made:
                joined = np.concatenate([weights[:, :, k] for k in taps], axis=1)
                made[taps] = self._editor.constant(f"{node.name}_weights", joined)
            data = self._joined(node, [images[places[k]] for k in taps], axis=1)
            inputs = [data, made[taps], *node.inputs[2:]]
            found.append(self._image(node, "Conv", inputs, attributes, shape=_flat(result)))
        self._images[node.outputs[0]] = found
        return True

    def _pool(self, node: ir.Node) -> bool:
        data, result = node.inputs[0], shape_of(node.outputs[0])
        if data not in self._images or not result:
            return False
        kernel, ones = integers(node, "kernel_shape", ()), [1, 1, 1]
        strides, pads = integers(node, "strides", ones), integers(node, "pads", [0] * 6)
        plain = not pads[0] and not pads[3] and set(integers(node, "dilations", ones)) == {1}
        if not plain or (kernel[0] > 1 and node.op_type != "MaxPool"):
            return False
        images = self._images[data]
        if kernel[0] > 1:
            starts = range(0, len(images) - kernel[0] + 1, strides[0])
            images = [self._largest(node, images[i : i + kernel[0]]) for i in starts]
        else:
            images = images[:: strides[0]]
        attributes: dict[str, Any] = {
            "kernel_shape": kernel[1:],
            "strides": strides[1:],
            "pads": [*pads[1:3], *pads[4:6]],
        }
        if node.op_type == "AveragePool":
            attributes["count_include_pad"] = integer(node, "count_include_pad", 0)
        self._images[node.outputs[0]] = [
            self._image(node, node.op_type, [image], attributes, shape=_flat(result))
            for image in images
        ]
        return True

    def _by_element(self, node: ir.Node) -> bool:
        images = self._images.get(node.inputs[0]) if node.inputs[0] is not None else None
        if images is None:
            return False
        self._images[node.outputs[0]] = [
            self._image(
                node,
                node.op_type,
                [image, *node.inputs[1:]],
                dict(node.attributes),
                shape=shape_of(image) or (),
            )
            for image in images
        ]
        return True

    def _of_two(self, node: ir.Node) -> bool:
        result = node.outputs[0]
        sides: list[Sequence[ir.Value]] = []
        depth = (shape_of(result) or (0, 0, 0))[2:3]
        for value in node.inputs:
            if value is not None and value in self._images and shape_of(value) == shape_of(result):
                sides.append(self._images[value])
                continue
            constant = self._flat_constant(node, value)
            if constant is None or not depth:
                return False
            sides.append([constant] * depth[0])
        if not any(value in self._images for value in node.inputs):
            return False
        flat = _flat(shape_of(result) or ())
        self._images[result] = [
            self._image(node, node.op_type, list(pair), shape=flat)
            for pair in zip(*sides, strict=True)
        ]
        return True

    def _concat(self, node: ir.Node) -> bool:
        parts = [self._images.get(value) for value in node.inputs if value is not None]
        if None in parts or integer(node, "axis", 0) % _VOLUME_RANK != 1:
            return False
        together = zip(*[part for part in parts if part is not None], strict=True)
        self._images[node.outputs[0]] = [self._joined(node, list(p), axis=1) for p in together]
        return True

    def _mean(self, node: ir.Node) -> bool:
        """The mean over a whole volume: of each image, then of their means by a convolution."""
        data, result = node.inputs[0], node.outputs[0]
        if data is None or data not in self._images:
            return False
        axes = sorted(axis % _VOLUME_RANK for axis in axes_of(node))
        if node.op_type == "ReduceMean" and axes != [2, 3, 4]:
            return False
        images = self._images[data]
        n, channels = (shape_of(data) or ())[:2]
        shape = (n, channels, 1, 1)
        means = [self._image(node, "GlobalAveragePool", [i], shape=shape) for i in images]
        one = np.eye(channels, dtype=np.float32)[:, :, None, None] / np.float32(len(images))
        weights = self._editor.constant(f"{node.name}_means", np.tile(one, (1, len(images), 1, 1)))
        joined = self._joined(node, means, axis=1)
        mean = self._image(node, "Conv", [joined, weights], shape=shape)
        if len(shape_of(result) or ()) == _VOLUME_RANK:
            self._images[result] = [mean]
        else:
            self._give(node, mean, shape_of(result) or ())
        return True

    def _flatten(self, node: ir.Node) -> bool:
        """What a dense layer reads of a volume: its weights take the order of the images."""
        data, result = node.inputs[0], node.outputs[0]
        shape, flat = shape_of(data), shape_of(result)
        if data is None or data not in self._images or not shape or not flat:
            return False
        dense, images = only_user(result), self._images[data]
        if flat != (shape[0], int(np.prod(shape[1:]))):
            return False
        if len(images) == 1:
            self._give(node, images[0], flat)
            return True
        if not is_kind(dense, "Gemm", "MatMul"):
            return False
        weights = array_of(input_of(dense, 1))
        turned = dense.op_type == "Gemm" and integer(dense, "transB", 0)
        plain = dense.inputs[0] is result and not integer(dense, "transA", 0)
        if weights is None or weights.ndim != 2 or not plain:
            return False
        order = np.arange(flat[1]).reshape(shape[1:]).transpose(1, 0, 2, 3).reshape(-1)
        ordered = weights[:, order] if turned else weights[order]
        dense.replace_input_with(1, self._editor.constant(f"{dense.name}_weights", ordered))
        self._give(node, self._joined(node, images, axis=1), flat)
        return True

    # -- writing -------------------------------------------------------------------------------

    def _taken(self, node: ir.Node, volume: ir.Value | None) -> _Images | None:
        """The images of a volume, which are taken from it in front of a node unless they are."""
        shape = shape_of(volume)
        if (
            volume is None
            or not shape
            or len(shape) != _VOLUME_RANK
            or array_of(volume) is not None
        ):
            return None
        if volume.dtype not in (None, ir.DataType.FLOAT) or shape[2] > MOST_IMAGES:
            return None
        if volume not in self._images:
            found = []
            for depth in range(shape[2]):
                place = self._editor.constant(f"{volume.name}_depth", np.array(depth, np.int64))
                found.append(
                    self._image(node, "Gather", [volume, place], {"axis": 2}, shape=_flat(shape))
                )
            self._images[volume] = found
        return self._images[volume]

    def _image(
        self,
        node: ir.Node,
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        shape: Sequence[int],
    ) -> ir.Value:
        """The result of a new operator in front of a node."""
        result = node.outputs[0]
        image = self._editor.before(
            node, kind, inputs, attributes, stem=f"{result.name}_image", like=result
        )
        image.shape = ir.Shape(shape)
        return image

    def _joined(self, node: ir.Node, images: _Images, axis: int) -> ir.Value:
        if len(images) == 1:
            return images[0]
        sizes = list(shape_of(images[0]) or ())
        sizes[axis] = sum((shape_of(image) or ())[axis] for image in images)
        return self._image(node, "Concat", images, {"axis": axis}, shape=sizes)

    def _reshaped(self, node: ir.Node, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        return self._editor.reshaped(node, value, shape, stem=f"{node.outputs[0].name}_image")

    def _largest(self, node: ir.Node, images: _Images) -> ir.Value:
        """The largest of each element of some images: they become the rows of one."""
        n, channels, _, rows, columns = shape_of(node.inputs[0]) or ()
        flat = [self._reshaped(node, image, (n, channels, rows * columns)) for image in images]
        stacked = self._joined(node, flat, axis=2)
        tall = self._reshaped(node, stacked, (n, channels, len(images), rows * columns))
        window, shape = {"kernel_shape": [len(images), 1]}, (n, channels, 1, rows * columns)
        pooled = self._image(node, "MaxPool", [tall], window, shape=shape)
        return self._reshaped(node, pooled, (n, channels, rows, columns))

    def _flat_constant(self, node: ir.Node, value: ir.Value | None) -> ir.Value | None:
        """A number, or one for each channel, as an operand of an image."""
        array = array_of(value)
        if value is None or array is None:
            return None
        if scalar_of(value) is not None:
            return self._editor.constant(f"{node.name}_operand", array.reshape(()))
        shape = (1,) * (_VOLUME_RANK - array.ndim) + array.shape
        if shape != (1, array.size, 1, 1, 1):
            return None
        return self._editor.constant(f"{node.name}_operand", array.reshape(1, -1, 1, 1))

    def _give(self, node: ir.Node, value: ir.Value, shape: Sequence[int]) -> None:
        """Let a value in another shape take the place of a node's result."""
        stand_for(node.outputs[0], self._reshaped(node, value, shape))


def _flat(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an image of a volume."""
    return (*shape[:2], *shape[3:])


_SEQUENCE_RANK: Final = 3
_POOLS: Final = having(lambda each: each.pool and each.unit)
_PAIRED: Final = ("dilations", "kernel_shape", "output_padding", "output_shape", "strides")
"""Attributes with one number for each axis of the window."""


def widen(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    _Rows(editor).rewrite()


class _Rows(AsImages):
    def __init__(self, editor: Editor) -> None:
        rules: Rules = {
            CONVOLUTIONS: self._layer,
            _POOLS: self._pool,
            (*OF_ONE, "BatchNormalization"): self._by_element,
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
        if data is None or not _has_axes(data) or weights is None or weights.ndim != _SEQUENCE_RANK:
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
        if len(known) != len(node.inputs) or integer(node, "axis", 0) % _SEQUENCE_RANK != 1:
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
        if [axis % _SEQUENCE_RANK for axis in axes_of(node)] != [2]:
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
    return shape is not None and len(shape) == _SEQUENCE_RANK and array_of(value) is None


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
