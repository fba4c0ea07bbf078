# SPDX-License-Identifier: Apache-2.0
"""Gives the channels of activations similar ranges, without changing what a float model computes.

An activation has one scale, so that a channel with small values is left with few steps, while
weights have a scale for each output channel. Factors on channels move differences in range from
activations to weights: cross-layer equalisation (Nagel et al., Data-Free Quantization Through
Weight Equalization and Bias Correction, 2019, section 4.1) with ranges of activations from
calibration data, as in SmoothQuant (Xiao et al., 2023, equation 4, migration strength 1/2): half of
the differences, on a logarithmic scale. More would leave small channels no room for values that
calibration has not seen.

Which channels of a float model may be scaled without changing its results.

A factor on a channel is put in by the weights or constants in front, travels through homogeneous
operators (ReLU, pooling, ...), and is taken out by the weights or constants behind. Channels that
must share a factor are a *class*; class 0 holds those that cannot be scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.quantise.channel_factors import (
    IMAGE_RANK,
    SEQUENCE_RANK,
    channel_axis,
    channel_operand,
    channel_vector,
    grouped,
    scale_layer,
    scale_operand,
    scale_vector,
)
from tilewright.host.compiler.quantise.observation import Batches, observe, require_finite
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    is_kind,
    scalar_of,
    shape_of,
)
from tilewright.host.network.operators import LAYERS, PRODUCTS, VIEWS, having

_HOMOGENEOUS: Final = having(lambda each: each.passes_factors)
_BODIES: Final = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


class ChannelScaling:
    """The classes of all channels of a graph.

    Args:
        graph: a float model in topological order, with known shapes.
        accelerated: names of operators that the accelerator takes.
        tables: names of operators that a table computes; their constants stay one number.

    Attributes:
        layers: whose weights take factors of their data.
    """

    def __init__(
        self, graph: ir.Graph, accelerated: Collection[str], tables: Collection[str] = ()
    ) -> None:
        self._accelerated = accelerated
        self._parents = [0]
        self._classes: dict[ir.Value, Array] = {}
        self._added: list[tuple[ir.Node, int]] = []
        self._multiplied: list[tuple[ir.Node, int]] = []
        self._normalisations: list[ir.Node] = []
        self.layers: list[ir.Node] = []
        for node in graph:
            if node.name in tables or not self._is_passed(node):
                self._fix_operands(node)
        for value in graph.outputs:
            self._fix(value)

    @property
    def count(self) -> int:
        """One more than the largest number of a class."""
        return len(self._parents)

    def classes(self, value: ir.Value) -> Array:
        """The class of each channel of an activation, (C,); empty if it has no channels."""
        found = self._classes.get(value)
        if found is None:
            shape = _channelled(value)
            return np.zeros(0 if shape is None else shape[channel_axis(shape)], np.int64)
        numbers, inverse = np.unique(found, return_inverse=True)
        return np.array([self._root(int(number)) for number in numbers])[inverse]

    def apply(self, editor: Editor, factors: Array) -> None:
        """Scale the channels of all activations.

        Args:
            editor: of the graph.
            factors: by class, (count,), positive; that of class 0 is 1.
        """

        def of(value: ir.Value | None) -> Array:
            assert value is not None
            return factors[self.classes(value)]

        for node in self.layers:
            scale_layer(editor, node, of(node.inputs[0]), of(node.outputs[0]))
        for node, index in self._added:
            scale_operand(editor, node, index, of(node.outputs[0]))
        for node, index in self._multiplied:
            after, before = of(node.outputs[0]), of(node.inputs[1 - index])
            ratio = before / after if node.op_type == "Div" else after / before
            scale_operand(editor, node, index, ratio)
        for node in self._normalisations:
            for index in (1, 2):
                scale_vector(editor, node, index, of(node.outputs[0]))

    # -- classes ---------------------------------------------------------------------------------

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def _unite(self, first: Array, second: Array) -> None:
        for pair in np.unique(np.stack([first, second]), axis=1).T:
            low, high = sorted(self._root(int(number)) for number in pair)
            self._parents[high] = low

    def _fix(self, value: ir.Value | None) -> None:
        if value is not None and value in self._classes:
            classes = self._classes[value]
            self._unite(classes, np.zeros_like(classes))

    def _fix_operands(self, node: ir.Node) -> None:
        for value in node.inputs:
            self._fix(value)
        if any(attribute.type in _BODIES for attribute in node.attributes.values()):
            for value in self._classes:  # a body may read any of them
                self._fix(value)

    def _free(self, value: ir.Value, channels: int) -> None:
        """Give the channels of an activation classes of their own."""
        shape = _channelled(value)
        if shape is not None and shape[channel_axis(shape)] == channels:
            start = len(self._parents)
            self._parents.extend(range(start, start + channels))
            self._classes[value] = np.arange(start, start + channels)

    # -- operators -------------------------------------------------------------------------------

    def _is_passed(self, node: ir.Node) -> bool:
        """Give the result of an operator its classes."""
        rules: Mapping[str, Callable[[ir.Node], bool]] = {
            **dict.fromkeys(LAYERS, self._is_layer),
            **dict.fromkeys(VIEWS, self._moves),
            **dict.fromkeys(_HOMOGENEOUS, self._is_homogeneous),
            **dict.fromkeys(("Add", "Div", "Mul", "Sub"), self._is_elementwise),
            **dict.fromkeys(("BatchNormalization", "LayerNormalization"), self._normalises),
            "Concat": self._joins,
            "ReduceMean": self._averages_tokens,
        }
        rule = rules.get(node.op_type)
        return rule is not None and len(node.outputs) == 1 and is_kind(node, *rules) and rule(node)

    def _is_layer(self, node: ir.Node) -> bool:
        weights, data = grouped(node), _channelled(node.inputs[0])
        if weights is None or data is None or integer(node, "transA", 0):
            return False
        if len(data) == IMAGE_RANK and node.op_type in PRODUCTS:
            return False
        groups, outputs, inputs, _ = weights.shape
        if data[channel_axis(data)] != groups * inputs:
            return False
        bias = input_of(node, 2)
        if bias is None or channel_vector(bias, groups * outputs) is not None:
            self._free(node.outputs[0], groups * outputs)
        self.layers.append(node)
        return True

    def _continues(self, source: ir.Value | None, node: ir.Node) -> bool:
        """Let a result have the classes of an operand of as many channels."""
        shape, result = _channelled(source), _channelled(node.outputs[0])
        if source not in self._classes or shape is None or result is None:
            return False
        if shape[channel_axis(shape)] != result[channel_axis(result)]:
            return False
        self._classes[node.outputs[0]] = self._classes[source]
        return True

    def _moves(self, node: ir.Node) -> bool:
        """Between images and vectors, in which the pixels of a channel follow each other."""
        source = node.inputs[0]
        before, after = _channelled(source), _channelled(node.outputs[0])
        if source not in self._classes or before is None or after is None:
            return False
        if not {len(before), len(after)} <= {2, IMAGE_RANK} or before[0] != after[0]:
            return False
        if before[1] != after[1]:
            if len(after) != 2:
                return False
            pixels = after[1] // before[1]
            self._classes[node.outputs[0]] = np.repeat(self._classes[source], pixels)
            return True
        return self._continues(source, node)

    def _joins(self, node: ir.Node) -> bool:
        shape = _channelled(node.outputs[0])
        if shape is None or any(array_of(value) is not None for value in node.inputs):
            return False
        if integer(node, "axis", 0) % len(shape) != channel_axis(shape):
            return False
        parts = [self.classes(value) for value in node.inputs if value is not None]
        self._classes[node.outputs[0]] = np.concatenate(parts)
        return True

    def _is_homogeneous(self, node: ir.Node) -> bool:
        if node.op_type == "Clip":
            low, high = (input_of(node, index) for index in (1, 2))
            if high is not None and scalar_of(high) != np.inf:
                return False
            if low is not None and scalar_of(low) not in (0.0, -np.inf):
                return False
        if node.op_type == "PRelu" and array_of(input_of(node, 1)) is None:
            return False
        return self._continues(node.inputs[0], node)

    def _averages_tokens(self, node: ir.Node) -> bool:
        shape = shape_of(node.inputs[0])
        if shape is None or len(shape) != SEQUENCE_RANK:
            return False
        if [axis % SEQUENCE_RANK for axis in axes_of(node)] != [1]:
            return False
        return self._continues(node.inputs[0], node)

    def _is_elementwise(self, node: ir.Node) -> bool:
        constants = [index for index in (0, 1) if array_of(node.inputs[index]) is not None]
        if constants:
            return len(constants) == 1 and self._has_constant(node, constants[0])
        return self._adds(node) if node.op_type in ("Add", "Sub") else self._gates(node)

    def _adds(self, node: ir.Node) -> bool:
        first, second = node.inputs
        if first not in self._classes or second not in self._classes:
            return False
        if shape_of(first) != shape_of(second):
            return False
        self._unite(self._classes[first], self._classes[second])
        return self._continues(first, node)

    def _gates(self, node: ir.Node) -> bool:
        """Multiply an image by one number for each channel."""
        shapes = [shape_of(value) for value in node.inputs]
        for gate, data in ((0, 1), (1, 0)):
            small, large = shapes[gate], shapes[data]
            if node.op_type != "Mul" or small is None or large is None or len(large) != IMAGE_RANK:
                continue
            if small == (*large[:2], 1, 1) != large:
                self._fix(node.inputs[gate])
                return self._continues(node.inputs[data], node)
        return False

    def _has_constant(self, node: ir.Node, index: int) -> bool:
        """A number, or one for each channel, that is added or multiplied."""
        source, result = node.inputs[1 - index], node.outputs[0]
        shape = _channelled(result)
        if shape is None or shape != shape_of(source):
            return False
        if channel_operand(node.inputs[index], shape) is None:
            return False
        if node.op_type in ("Div", "Sub") and index == 0:
            return False
        if node.op_type in ("Div", "Mul") and node.name not in self._accelerated:
            self._free(result, shape[channel_axis(shape)])
            self._multiplied.append((node, index))
            return True
        if not self._continues(source, node):
            return False
        if node.op_type in ("Add", "Sub"):
            self._added.append((node, index))
        return True  # the factor of a product on the accelerator stays a number

    def _normalises(self, node: ir.Node) -> bool:
        """Scale and shift of a normalisation take factors of its result, none of its data."""
        shape = _channelled(node.outputs[0])
        if shape is None:
            return False
        last, channels = len(shape) - 1, shape[channel_axis(shape)]
        if node.op_type == "LayerNormalization" and (
            integer(node, "axis", -1) % len(shape) != last or channel_axis(shape) != last
        ):
            return False
        if node.op_type == "BatchNormalization" and channel_axis(shape) != 1:
            return False  # its channels are on axis 1, whatever a sequence has there
        constants = [value for value in node.inputs[1:3] if value is not None]
        if all(channel_vector(value, channels) is not None for value in constants):
            self._free(node.outputs[0], channels)
            self._normalisations.append(node)
        return False


def _channelled(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a tensor that has channels."""
    shape = shape_of(value)
    return shape if shape is not None and 2 <= len(shape) <= IMAGE_RANK else None


_SMALLEST_RANGE: Final = 1 / 64
"""Of a channel, relative to the largest one: calibration may have missed the rest of it."""


def equalise(
    model: ir.Model,
    rounded: Collection[str],
    accelerated: Collection[str],
    batches: Batches,
    tables: Collection[str] = (),
) -> None:
    """Equalise the channels of activations, in place.

    Args:
        model: in float, with known shapes.
        rounded: names of the activations that will be int8.
        accelerated: names of the operators that the accelerator takes.
        batches: calibration data.
        tables: names of the operators that a table computes.
    """
    scaling = ChannelScaling(model.graph, accelerated, tables)
    values = [v for n in model.graph for v in n.outputs if v.name in rounded]
    scalable = [value for value in values if scaling.classes(value).any()]
    if not scalable:
        return
    ranges, weights = np.zeros(scaling.count), np.zeros(scaling.count)
    for value, largest in zip(scalable, _largest(model, scalable, batches), strict=True):
        _raise(ranges, scaling.classes(value), largest)
    for node in scaling.layers:
        kernel, data = grouped(node), node.inputs[0]
        if kernel is None or data is None or node.name not in accelerated:
            continue
        if kernel.shape[2] > 1:  # the scale of a depthwise output takes any factor
            _raise(weights, scaling.classes(data), np.abs(kernel).max(axis=(1, 3)).reshape(-1))
    weights[weights == 0] = 1
    ratio = np.maximum(weights, _SMALLEST_RANGE) / np.maximum(ranges, _SMALLEST_RANGE)
    factors = np.where(ranges > 0, np.sqrt(ratio), 1.0)
    factors[0] = 1
    editor = Editor(model.graph)
    scaling.apply(editor, factors)
    editor.drop_unused()


def _raise(ranges: Array, classes: Array, found: Array) -> None:
    """Let the range of each class be at least what is found, relative to the largest."""
    np.maximum.at(ranges, classes, found / (found.max() or 1.0))


def _largest(model: ir.Model, values: Sequence[ir.Value], batches: Batches) -> list[Array]:
    """The largest magnitude in each channel of activations, (C,) each."""
    names = [value.name or "" for value in values]
    found: dict[str, Array] = {}
    for tensors in observe(ir.to_proto(model), names, batches):
        for name in names:
            axis = channel_axis(tensors[name].shape)
            rows = np.moveaxis(tensors[name], axis, 0).reshape(tensors[name].shape[axis], -1)
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
            require_finite(name, *largest)
            found[name] = np.maximum(found[name], largest) if name in found else largest
    return [found[name] for name in names]
