# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow Lite's quantisation specification says of a file's operators, in plain NumPy.

Sums of products are whole numbers, and one rounding makes the steps of the result
(ai.google.dev/edge/litert/models/quantization_spec). Nothing here knows ONNX or the reader.
"""

from collections.abc import Callable, Sequence

import numpy as np
from support.networks.tflite_files import TfliteFile

BOUNDS = {0: (-np.inf, np.inf), 1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


class Evaluation:
    """Computes the tensors of a file."""

    def __init__(self, file: TfliteFile, inputs: dict[int, np.ndarray]) -> None:
        self.file = file
        self.values = {n: t["data"] for n, t in enumerate(file.tensors) if "data" in t} | inputs

    def run(self) -> dict[int, np.ndarray]:
        """All tensors by number."""
        for kind, inputs, outputs, _, options in self.file.operators:
            fused = BOUNDS[options.get("FusedActivationFunction", 0)]
            real = KINDS[kind](self, inputs, options)
            self.values[outputs[0]] = self.stored(outputs[0], np.clip(real, *fused))
        return self.values

    def real(self, index: int) -> np.ndarray:
        """What a tensor stands for, in float64."""
        tensor, value = self.file.tensors[index], np.asarray(self.values[index], np.float64)
        if "scale" not in tensor:
            return value
        scale = np.asarray(tensor["scale"], np.float32).astype(np.float64)
        if scale.size > 1:
            shape = [1] * value.ndim
            shape[tensor.get("axis", 0)] = -1
            scale = scale.reshape(shape)
        return (value - tensor.get("zero", 0)) * (scale if scale.ndim else float(scale))

    def stored(self, index: int, real: np.ndarray) -> np.ndarray:
        """Steps of what is computed."""
        tensor = self.file.tensors[index]
        if "scale" not in tensor:
            return real.astype(tensor["dtype"])
        limits = np.iinfo(tensor["dtype"])
        steps = np.rint(real / np.float64(np.float32(tensor["scale"]))) + tensor.get("zero", 0)
        return np.clip(steps, limits.min, limits.max).astype(tensor["dtype"])

    def bias(self, inputs: Sequence[int]) -> np.ndarray | float:
        return self.real(inputs[2]) if inputs[2] >= 0 else 0.0


def windows(image: np.ndarray, kernel, options, fill: float) -> np.ndarray:
    """(batch, rows, columns, kernel rows, kernel columns, channels) of an image."""
    stride = options["StrideH"], options["StrideW"]
    spread = options.get("DilationHFactor", 1), options.get("DilationWFactor", 1)
    pads, sizes = [(0, 0)], []
    for axis in range(2):
        reach, size = (kernel[axis] - 1) * spread[axis] + 1, image.shape[axis + 1]
        total, places = 0, (size - reach) // stride[axis] + 1
        if options["Padding"] == 0:
            places = -(-size // stride[axis])
            total = max((places - 1) * stride[axis] + reach - size, 0)
        pads.append((total // 2, total - total // 2))
        sizes.append(places)
    wide = np.pad(image, [*pads, (0, 0)], constant_values=fill)
    rows, columns = (
        np.arange(sizes[axis])[:, None] * stride[axis] + np.arange(kernel[axis]) * spread[axis]
        for axis in range(2)
    )
    return wide[:, rows][:, :, :, columns].transpose(0, 1, 3, 2, 4, 5)


def convolution(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    data, weights = of.real(inputs[0]), of.real(inputs[1])
    found = windows(data, weights.shape[1:3], options, 0.0)
    groups = data.shape[3] // weights.shape[3]
    parts = [
        np.einsum("brcyxi,oyxi->brco", d, w)
        for d, w in zip(np.split(found, groups, -1), np.split(weights, groups), strict=True)
    ]
    return np.concatenate(parts, -1) + of.bias(inputs)


def depthwise(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    data, weights = of.real(inputs[0]), of.real(inputs[1])
    found = windows(data, weights.shape[1:3], options, 0.0)
    split = weights[0].reshape(*weights.shape[1:3], data.shape[3], -1)
    result = np.einsum("brcyxi,yxim->brcim", found, split)
    return result.reshape(*result.shape[:3], -1) + of.bias(inputs)


def dense(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    return of.real(inputs[0]) @ of.real(inputs[1]).T + of.bias(inputs)


def average(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    kernel = options["FilterHeight"], options["FilterWidth"]
    return np.nanmean(windows(of.real(inputs[0]), kernel, options, np.nan), axis=(3, 4))


def largest(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    kernel = options["FilterHeight"], options["FilterWidth"]
    return windows(of.real(inputs[0]), kernel, options, -np.inf).max(axis=(3, 4))


def reduced(function: Callable) -> Callable:
    def evaluate(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
        axes = tuple(int(axis) for axis in of.values[inputs[1]])
        return function(of.real(inputs[0]), axis=axes, keepdims=options["KeepDims"])

    return evaluate


def of_two(function: Callable) -> Callable:
    return lambda of, inputs, _: function(of.real(inputs[0]), of.real(inputs[1]))


def reshaped(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    return of.real(inputs[0]).reshape(of.values[inputs[1]])


def joined(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    return np.concatenate([of.real(each) for each in inputs], options["Axis"])


def softmax(of: Evaluation, inputs: Sequence[int], options) -> np.ndarray:
    data = of.real(inputs[0])
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


KINDS: dict[str, Callable] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": dense,
    "AVERAGE_POOL_2D": average,
    "MAX_POOL_2D": largest,
    "MEAN": reduced(np.mean),
    "SUM": reduced(np.sum),
    "QUANTIZE": lambda of, inputs, _: of.real(inputs[0]),
    "DEQUANTIZE": lambda of, inputs, _: of.real(inputs[0]),
    "ADD": of_two(np.add),
    "SUB": of_two(np.subtract),
    "MUL": of_two(np.multiply),
    "RESHAPE": reshaped,
    "CONCATENATION": joined,
    "SOFTMAX": softmax,
}
