# SPDX-License-Identifier: Apache-2.0
"""What a `QGraph` means, in real numbers: dequantise, compute in float64, quantise half to even.

Shares nothing with the compiler's integer arithmetic, and is no faster than it has to be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch.nn import functional

from tilewright.host.compiler.lower import qgraph


class Scaled(Protocol):
    """What int8 values stand for; per channel where both are arrays."""

    scale: float
    zero_point: int


def dequantised(tensor: Scaled, values: np.ndarray) -> np.ndarray:
    """The real values of an int8 tensor."""
    return tensor.scale * (values.astype(np.float64) - tensor.zero_point)


def quantised(tensor: Scaled, real: np.ndarray) -> np.ndarray:
    """Real values as int8."""
    steps = np.rint(real / tensor.scale) + tensor.zero_point
    return np.clip(steps, -128, 127).astype(np.int8)


def apply(operator: qgraph.QOperator, real: Sequence[np.ndarray]) -> np.ndarray:
    """What an operator makes of real values, within its bounds."""
    torch.set_num_threads(1)  # tests share the machine
    values = _apply(operator, [torch.from_numpy(each) for each in real])
    return (values.clamp(*operator.bounds) if operator.bounds != (None, None) else values).numpy()


def evaluate(graph: qgraph.QGraph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs for inputs, all in normal form."""
    data = evaluate_real(graph, dict(zip(graph.inputs, inputs, strict=True)))
    return [data[name] for name in graph.outputs]


def evaluate_real(graph: qgraph.QGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All tensors by name, in normal form."""
    data = {**graph.constants, **inputs}
    for name, array in data.items():
        assert array.shape == graph.tensors[name].shape, name
    for operator in graph.operators:
        output = graph.tensors[operator.output]
        source = data[operator.inputs[0]]
        if isinstance(operator, qgraph.QReshape):
            tensor = graph.tensors[operator.inputs[0]]
            assert (tensor.scale, tensor.zero_point) == (output.scale, output.zero_point)
            found = source.reshape(output.shape)
        elif isinstance(operator, qgraph.QGather):
            pixels = source.reshape(*source.shape[:2], -1)
            found = pixels[:, :, operator.pixels].reshape(output.shape)
        elif isinstance(operator, qgraph.QTurn):
            pixels = source.reshape(*source.shape[:2], -1)
            found = pixels.transpose(0, 2, 1)[..., None]
        else:
            real = [dequantised(graph.tensors[n], data[n]) for n in operator.inputs]
            found = _result(operator, output, apply(operator, real))
        assert found.shape == output.shape, (operator.name, found.shape, output.shape)
        data[output.name] = found
    return data


def _result(operator: qgraph.QOperator, output: qgraph.QTensor, values: np.ndarray) -> np.ndarray:
    lookup = operator.lookup
    if lookup is None:
        return quantised(output, values)
    rounded = replace(output, scale=lookup.scale, zero_point=lookup.zero_point)
    return lookup.entries[quantised(rounded, values).astype(int) + 128]


def _apply(operator: qgraph.QOperator, inputs: list[torch.Tensor]) -> torch.Tensor:
    if isinstance(operator, qgraph.QConv):
        sign = -1 if operator.subtracts else 1
        return _convolve(operator, inputs[0]) + sum(sign * each for each in inputs[1:])
    if isinstance(operator, qgraph.QPool):
        return _pool(operator, inputs[0])
    if isinstance(operator, qgraph.QAdd | qgraph.QMultiply | qgraph.QExtreme):
        return _pair(operator, *inputs)
    if isinstance(operator, qgraph.QConcat | qgraph.QSelect | qgraph.QStack):
        joined = torch.cat(inputs, 2 if isinstance(operator, qgraph.QStack) else 1)
        return (
            joined[:, list(operator.channels)] if isinstance(operator, qgraph.QSelect) else joined
        )
    if isinstance(operator, qgraph.QMatmul | qgraph.QSoftmax | qgraph.QLayerNorm):
        return _attend(operator, inputs)
    assert isinstance(operator, qgraph.QEnlarge | qgraph.QPrelu | qgraph.QRescale), operator
    return _by_pixel(operator, inputs[0])


def _pair(operator: qgraph.QOperator, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if isinstance(operator, qgraph.QExtreme):
        return (torch.maximum if operator.maximum else torch.minimum)(x, y)
    if isinstance(operator, qgraph.QMultiply):
        return x * y
    assert isinstance(operator, qgraph.QAdd)
    return x - y if operator.subtracts else x + y


def _by_pixel(operator: qgraph.QOperator, x: torch.Tensor) -> torch.Tensor:
    if isinstance(operator, qgraph.QEnlarge):
        factors = [float(factor) for factor in operator.factors]
        return functional.interpolate(x, scale_factor=factors, mode="bilinear")
    slopes = operator.slopes if isinstance(operator, qgraph.QPrelu) else np.ones(1)
    return functional.prelu(x, torch.from_numpy(slopes))


def _convolve(operator: qgraph.QConv, x: torch.Tensor) -> torch.Tensor:
    weights = torch.from_numpy(operator.weights.astype(np.float64))
    scales = torch.from_numpy(operator.weight_scales)[None, :, None, None]
    bias = torch.from_numpy(operator.bias)[None, :, None, None]
    top, left, bottom, right = operator.pads
    if not operator.transposed:
        x = functional.pad(x, (left, right, top, bottom))
        products = functional.conv2d(
            x, weights, None, operator.stride, 0, operator.dilation, operator.groups
        )
    else:
        options = operator.output_padding, operator.groups, operator.dilation
        products = functional.conv_transpose2d(x, weights, None, operator.stride, 0, *options)
        rows, columns = products.shape[2:]
        products = products[:, :, top : rows - bottom, left : columns - right]
    return products * scales + bias


def _pool(operator: qgraph.QPool, x: torch.Tensor) -> torch.Tensor:
    top, left, bottom, right = operator.pads
    fill = -torch.inf if operator.maximum else 0.0
    x = functional.pad(x, (left, right, top, bottom), value=fill)
    pool = functional.max_pool2d if operator.maximum else functional.avg_pool2d
    return operator.factor * pool(x, operator.kernel, operator.stride)


def _multiply(operator: qgraph.QMatmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    batch, channels, tokens, _ = a.shape
    heads, windows = operator.heads, operator.windows
    a = a.reshape(batch, heads, channels // heads, windows, -1).movedim(3, 1)
    b = b.reshape(batch, heads, b.shape[1] // heads, windows, -1).movedim(3, 1)
    m = b.transpose(3, 4) if operator.b_rows_are_outputs else b
    products = (operator.factor * (m @ a)).movedim(1, 3)
    return products.reshape(batch, -1, tokens, 1)


def _attend(operator: qgraph.QOperator, inputs: list[torch.Tensor]) -> torch.Tensor:
    if isinstance(operator, qgraph.QMatmul):
        return _multiply(operator, *inputs)
    x, *masks = inputs
    if isinstance(operator, qgraph.QLayerNorm):
        gamma, beta = (torch.from_numpy(each) for each in (operator.gamma, operator.beta))
        distance = x - x.mean(1, keepdim=True)
        deviation = (distance.square().mean(1, keepdim=True) + operator.epsilon).sqrt()
        norm = torch.where(deviation > 1e-12, distance / deviation, 0.0)  # equal values: 0
        return norm * gamma[:, None, None] + beta[:, None, None]
    assert isinstance(operator, qgraph.QSoftmax)
    if operator.addend is not None:
        x = x + torch.from_numpy(operator.addend)
    heads = x.unflatten(1, (operator.heads, -1)) + sum(mask[:, None] for mask in masks)
    return heads.softmax(2).flatten(1, 2)


class FloatRegions:
    """A `RegionRunner` by `evaluate`; keeps what every region returned.

    Attributes:
        results: of each region, by number, in the model's shapes.
    """

    def __init__(self, graphs: Sequence[qgraph.QGraph]) -> None:
        self._graphs = graphs
        self.results: dict[int, list[np.ndarray]] = {}

    def __call__(self, number: int, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        graph = self._graphs[number]
        shaped = [
            qgraph.to_normal_form(array, graph.tensors[name].shape)
            for name, array in zip(graph.inputs, inputs, strict=True)
        ]
        outputs = [
            qgraph.from_normal_form(array, graph.model_shapes.get(name, array.shape))
            for name, array in zip(graph.outputs, evaluate(graph, shaped), strict=True)
        ]
        self.results[number] = outputs
        return outputs
