# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, and reductions, of TensorFlow Lite as ONNX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from tilewright.host.compiler.read.tflite.graph import MOST_COMPUTED, PLACES, Step

Convert = Callable[[Step], None]


def of_one(*kinds: str) -> Convert:
    """Operators of ONNX, or bounds, one after the other, of each element."""

    def convert(step: Step) -> None:
        first = step.is_first(0)
        value = step.real(0, first=first)
        for kind in kinds:
            value = step.applied(value, kind)
        step.give(value, first=first)

    return convert


def of_two(*kinds: str) -> Convert:
    """The same whose first operator reads two tensors, which are broadcast."""

    def convert(step: Step) -> None:
        first = step.is_first(0, 1)
        value = step.add(kinds[0], *(step.real(place, first=first) for place in (0, 1)))
        for kind in kinds[1:]:
            value = step.add(kind, value)
        step.give(step.activated(value), first=first)

    return convert


def squared_difference(step: Step) -> None:
    """SQUARED_DIFFERENCE."""
    first = step.is_first(0, 1)
    value = step.add("Sub", *(step.real(place, first=first) for place in (0, 1)))
    step.give(step.add("Mul", value, value), first=first)


def square(step: Step) -> None:
    """SQUARE."""
    first = step.is_first(0)
    value = step.real(0, first=first)
    step.give(step.add("Mul", value, value), first=first)


def leaky_relu(step: Step) -> None:
    """LEAKY_RELU."""
    first = step.is_first(0)
    alpha = float(step.option("Alpha", 0.0))
    step.give(step.add("LeakyRelu", step.real(0, first=first), alpha=alpha), first=first)


def prelu(step: Step) -> None:
    """PRELU: slopes are broadcast."""
    first = step.is_first(0)
    slopes = step.real(1, first=first, folded=True)
    step.give(step.add("PRelu", step.real(0, first=first), slopes), first=first)


def gelu(step: Step) -> None:
    """GELU, or its approximation by a hyperbolic tangent."""
    first = step.is_first(0)
    value = step.real(0, first=first)

    def number(of: float) -> str:
        return step.numbers(of, np.float32)

    if step.option("Approximate"):
        cube = step.add("Mul", step.add("Mul", value, value), value)
        inner = step.add("Add", value, step.add("Mul", cube, number(0.044715)))
        part = step.add("Tanh", step.add("Mul", inner, number(float(np.sqrt(2 / np.pi)))))
    else:
        part = step.add("Erf", step.add("Div", value, number(float(np.sqrt(2)))))
    part = step.add("Add", part, number(1.0))
    half = step.add("Mul", step.add("Mul", value, part), number(0.5))
    step.give(half, first=first)


def softmax(step: Step) -> None:
    """SOFTMAX over the last axis."""
    first, beta = step.is_first(0), float(step.option("Beta", 0.0))
    value = step.real(0, first=first)
    if beta != 1.0:
        value = step.add("Mul", value, step.numbers(beta, np.float32))
    step.give(step.add("Softmax", value, axis=1 if first else -1), first=first)


def log_softmax(step: Step) -> None:
    """LOG_SOFTMAX over the last axis."""
    first = step.is_first(0)
    value = step.real(0, first=first)
    step.give(step.add("LogSoftmax", value, axis=1 if first else -1), first=first)


def reduced(kind: str) -> Convert:
    """A reduction over constant axes."""

    def convert(step: Step) -> None:
        rank, keeps = len(step.shape(0)), bool(step.option("KeepDims"))
        axes = sorted({step.axis(each, rank) for each in step.whole(1)})
        rest = [axis for axis in range(rank) if axis not in axes]
        first = step.is_first(0)
        if first and not keeps:  # what is left must be in the file's order
            first = 3 not in rest or not {1, 2} & set(rest)
        places = [PLACES[axis] for axis in axes] if first else axes
        value = step.real(0, first=first)
        if places:
            value = step.add(kind, value, step.numbers(places), keepdims=int(keeps))
        step.give(value, first=first and keeps)

    return convert


def place_of_largest(kind: str) -> Convert:
    """ARG_MAX and ARG_MIN over a constant axis: the first of several."""

    def convert(step: Step) -> None:
        axis = step.axis(step.whole(1)[0], len(step.shape(0)))
        found = step.add(kind, step.real(0), axis=axis, keepdims=0)
        step.give_raw(cast(step, found))

    return convert


def quantise(step: Step) -> None:
    """QUANTIZE: of real numbers, or of other steps."""
    first = step.is_first(0)
    step.give(step.real(0, first=first), first=first)


def dequantise(step: Step) -> None:
    """DEQUANTIZE, also of half precision."""
    first = step.is_first(0)
    step.give(cast(step, step.real(0, first=first)), first=first)


def converted(step: Step) -> None:
    """CAST: of what the file stores, as a number."""
    first = step.is_first(0)
    step.give_raw(cast(step, step.raw(0, first=first)), first=first)


def cast(step: Step, name: str) -> str:
    """A value with the type of the result."""
    wanted = np.dtype(step.result().dtype)
    if step.graph.dtypes[name] == wanted:
        return name
    return step.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(wanted))


def stated_shape(step: Step) -> None:
    """SHAPE: it is known."""
    shape = step.shape(0)
    step.give_raw(step.graph.constant(np.array(shape, step.result().dtype)))


def filled(step: Step) -> None:
    """FILL: a constant number, in a constant shape."""
    shape, value = step.whole(0), step.known(1)
    if value.size != 1 or min(shape, default=1) < 1 or np.prod(shape) > MOST_COMPUTED:
        step.refuse("must have a number and sizes above 0", shape)
    step.give_raw(step.graph.constant(np.full(shape, value.reshape(()))))
