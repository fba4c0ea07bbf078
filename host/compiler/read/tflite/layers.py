# SPDX-License-Identifier: Apache-2.0
"""Layers with weights, and pools, of TensorFlow Lite as ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.read.tflite.file import Quantisation, Tensor
from tilewright.host.compiler.read.tflite.graph import IMAGE_RANK, Step, real_numbers

Array = npt.NDArray[Any]
Order = tuple[int, ...]

_SAME: Final = 0
_OHWI_TO_OIHW: Final = (0, 3, 1, 2)
_OF_CHANNELS_FIRST: Final = (3, 0, 1, 2)

_WEIGHTS: Final = "export the model with constant weights"


def convolution(step: Step) -> None:
    """CONV_2D: weights are (out, rows, columns, in of a group)."""
    channels, weights = step.shape(0, IMAGE_RANK)[3], _weights(step, 1, IMAGE_RANK)
    inside = weights.shape[3]
    if not inside or channels % inside:
        step.refuse(f"must have weights for {channels} channels", list(weights.shape))
    _convolve(step, _OHWI_TO_OIHW, 0, groups=channels // inside)


def depthwise(step: Step) -> None:
    """DEPTHWISE_CONV_2D: weights are (1, rows, columns, channels x multiplier)."""
    channels, weights = step.shape(0, IMAGE_RANK)[3], _weights(step, 1, IMAGE_RANK)
    if weights.shape[0] != 1 or weights.shape[3] % channels:
        step.refuse(f"must have weights for {channels} channels", list(weights.shape))
    _convolve(step, _OF_CHANNELS_FIRST, 3, groups=channels)


def _convolve(step: Step, order: Order, outputs: int, *, groups: int) -> None:
    shape = _weights(step, 1, IMAGE_RANK).shape
    kernel = [shape[axis] for axis in order[2:]]
    strides, dilations = _window(step)
    spread = step.held.spread.get(step.index(0))
    if spread is None:
        pads = _pads(step, step.shape(0)[1:3], kernel, strides, dilations)
    else:
        dilations, pads = spread
    result = step.add(
        "Conv", step.real(0, first=True), *_parameters(step, order, outputs, bias=2),
        kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups,
    )  # fmt: skip
    step.give(step.activated(result), first=True)


def transposed_convolution(step: Step) -> None:
    """TRANSPOSE_CONV: the size of the result is an input; padding follows from it."""
    sizes, weights = step.whole(0), _weights(step, 1, IMAGE_RANK)
    if len(sizes) != IMAGE_RANK or min(sizes[1:]) < 1:
        step.refuse("must have a result of 4 axes", sizes)
    kernel, strides = weights.shape[1:3], _window(step)[0]
    begins, ends, extras = [], [], []
    same = step.option("Padding") == _SAME
    for i, (size, wanted) in enumerate(
        zip(step.shape(2, IMAGE_RANK)[1:3], sizes[1:3], strict=True)
    ):
        total = (size - 1) * strides[i] + kernel[i] - wanted
        if total <= -strides[i] or (total > 0 and not same):
            step.refuse("must have a result that its data, stride and padding give", wanted)
        begins.append(max(total, 0) // 2)
        ends.append(max(total, 0) - begins[-1])
        extras.append(max(-total, 0))
    result = step.add(
        "ConvTranspose", step.real(2, first=True),
        *_parameters(step, _OF_CHANNELS_FIRST, 0, bias=3, data=2),
        kernel_shape=kernel, strides=strides, pads=[*begins, *ends], output_padding=extras,
    )  # fmt: skip
    step.give(step.activated(result), first=True)


def dense(step: Step) -> None:
    """FULLY_CONNECTED: weights are (out, in); a rank above 2 is kept if the operator says so."""
    if step.option("WeightsFormat"):
        step.refuse("must have weights in their plain order", step.option("WeightsFormat"))
    weights = _weights(step, 1, 2)
    shape, inside = step.shape(0), weights.shape[1]
    rows = int(np.prod(shape)) // max(inside, 1)
    if not inside or rows * inside != int(np.prod(shape)):
        step.refuse(f"must have data in rows of {inside}", list(shape))
    keeps = bool(step.option("KeepNumDims")) and shape[-1] == inside
    data = step.real(0)
    if len(shape) == 2 or not keeps:
        data = step.graph.reshaped(data, (rows, inside))
        result = step.add("Gemm", data, *_parameters(step, (0, 1), 0, bias=2), transB=1)
    else:
        given = _parameters(step, (1, 0), 0, bias=2)
        result = step.add("MatMul", data, given[0])
        result = step.add("Add", result, given[1]) if len(given) > 1 else result
    step.give(step.activated(result))


def batch_product(step: Step) -> None:
    """BATCH_MATMUL."""
    factors = []
    for place, name in enumerate(("AdjX", "AdjY")):
        value, rank = step.real(place), len(step.shape(place))
        if rank < 2:
            step.refuse("must have factors of at least 2 axes", rank)
        if step.option(name):
            order = [*range(rank - 2), rank - 1, rank - 2]
            value = step.graph.transposed(value, order)
        factors.append(value)
    step.give(step.add("MatMul", *factors))


def average_pool(step: Step) -> None:
    """AVERAGE_POOL_2D: the mean of the pixels of a window that lie in the image."""
    _pool(step, "AveragePool", count_include_pad=0)


def max_pool(step: Step) -> None:
    """MAX_POOL_2D."""
    _pool(step, "MaxPool")


def _pool(step: Step, kind: str, **attributes: Any) -> None:
    kernel = (step.option("FilterHeight"), step.option("FilterWidth"))
    size, (strides, _) = step.shape(0, IMAGE_RANK)[1:3], _window(step)
    if min(kernel) < 1:
        step.refuse("must have a window of at least one pixel", kernel)
    pads = _pads(step, size, kernel, strides, (1, 1))
    data = step.real(0, first=True)
    if kernel == size and not any(pads):
        result = step.add(f"Global{kind}", data)
    else:
        result = step.add(kind, data, kernel_shape=kernel, strides=strides, pads=pads, **attributes)
    step.give(step.activated(result), first=True)


def _window(step: Step) -> tuple[tuple[int, int], tuple[int, int]]:
    """Strides and dilations of rows and columns."""
    strides = (step.option("StrideH"), step.option("StrideW"))
    dilations = (step.option("DilationHFactor", 1), step.option("DilationWFactor", 1))
    if min(*strides, *dilations) < 1:
        step.refuse("must have strides and dilations of at least 1", [*strides, *dilations])
    return strides, dilations


def _pads(
    step: Step,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Rows above, columns to the left, rows below, columns to the right.

    SAME gives every stride-th pixel a result; what is odd lies below and to the right.
    """
    begins, ends = [], []
    for i, pixels in enumerate(size):
        reach = (kernel[i] - 1) * dilations[i] + 1
        total = 0
        if step.option("Padding") == _SAME:
            total = max((-(-pixels // strides[i]) - 1) * strides[i] + reach - pixels, 0)
        elif reach > pixels:
            step.refuse("must have a window inside the image", [pixels, reach])
        begins.append(total // 2)
        ends.append(total - total // 2)
    return [*begins, *ends]


def _weights(step: Step, place: int, rank: int) -> Array:
    """Constant weights as the file stores them, or as it computes them of constants."""
    data = step.tensor(place).data
    if data is None:
        data = step.graph.constants.get(step.raw(place))
    if data is None or data.ndim != rank:
        found = None if data is None else list(data.shape)
        step.refuse(f"must have constant weights of {rank} axes", found, _WEIGHTS)
    return data


def _parameters(step: Step, order: Order, channels: int, *, bias: int, data: int = 0) -> list[str]:
    """Weights (input 1) in an order of axes, and the bias, if there is one, as real numbers.

    Args:
        step: the layer.
        order: of the weights' axes.
        channels: the axis of output channels, in the file's order.
        bias: place of the bias.
        data: place of the data.
    """
    weights, tensor = _weights(step, 1, len(order)), step.tensor(1)
    outputs, stated = weights.shape[channels], tensor.quantisation
    if not step.quantised:
        numbers = real_numbers(tensor) if tensor.data is not None else weights
        arranged = numbers.transpose(order).astype(np.float32)
        found = [step.graph.constant(arranged, tensor.name)]
        return [*found, _sized(step, step.real(bias), outputs)] if step.has(bias) else found
    if stated is None or not tensor.quantised:
        step.refuse("must have int8 weights between int8 tensors", tensor.dtype)
    if stated.scale.size not in (1, outputs) or (stated.scale.size > 1 and stated.axis != channels):
        step.refuse("must have a scale for each output channel", stated.scale.size)
    name = step.graph.constant(weights.transpose(order), tensor.name)
    found = [step.held.converted(tensor, name, axis=order.index(channels))]
    return (
        [*found, _bias(step, bias, step.tensor(data), stated, outputs)] if step.has(bias) else found
    )


def _bias(step: Step, place: int, data: Tensor, weights: Quantisation, outputs: int) -> str:
    """An int32 bias in steps of the sums: scale of the data times those of the weights."""
    bias = step.tensor(place)
    if bias.dtype != "int32" or bias.data is None or data.quantisation is None:
        step.refuse("must have a constant bias of int32", bias.dtype, _WEIGHTS)
    scale = (data.quantisation.scale.reshape(-1)[0] * weights.scale).astype(np.float32)
    scale = scale if scale.size > 1 else scale.reshape(())
    name = _sized(step, step.graph.constant(bias.data, bias.name), outputs)
    numbers = (step.numbers(scale, np.float32), step.numbers(np.zeros(scale.shape), np.int32))
    return step.add("DequantizeLinear", name, *numbers, **({"axis": 0} if scale.ndim else {}))


def _sized(step: Step, name: str, outputs: int) -> str:
    if int(np.prod(step.graph.shapes[name])) != outputs:
        step.refuse(f"must have a bias of {outputs} numbers", list(step.graph.shapes[name]))
    return step.graph.reshaped(name, (outputs,))
