# SPDX-License-Identifier: Apache-2.0
"""What a `QGraph` means, in real numbers: dequantise, compute in float64, quantise half to even.

Shares nothing with the compiler's integer arithmetic, and is no faster than it has to be.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from support.networks.qgraphs import ACTIVATIONS, GraphMaker
from torch.nn import functional

from tilewright.host.compiler.lower import qgraph


def real(tensor: qgraph.QTensor, data: np.ndarray) -> torch.Tensor:
    """The real values of an int8 tensor."""
    return torch.from_numpy((data.astype(np.float64) - tensor.zero_point) * tensor.scale)


def quantised(tensor: qgraph.QTensor, values: torch.Tensor) -> np.ndarray:
    """Real values as int8."""
    steps = np.rint(values.numpy() / tensor.scale) + tensor.zero_point
    return np.clip(steps, -128, 127).astype(np.int8)


def evaluate(graph: qgraph.QGraph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs for inputs, all in normal form."""
    torch.set_num_threads(1)  # tests share the machine
    data = dict(graph.constants) | dict(zip(graph.inputs, inputs, strict=True))
    for name, array in data.items():
        assert array.shape == graph.tensors[name].shape, name
    for operator in graph.operators:
        output = graph.tensors[operator.output]
        if isinstance(operator, qgraph.QReshape):
            (source,) = operator.inputs
            tensor = graph.tensors[source]
            assert (tensor.scale, tensor.zero_point) == (output.scale, output.zero_point)
            data[output.name] = data[source].reshape(output.shape)
            continue
        if isinstance(operator, qgraph.QGather):
            (source,) = operator.inputs
            moved = data[source].reshape(*data[source].shape[:2], -1)[:, :, operator.pixels]
            data[output.name] = moved.reshape(output.shape)
            continue
        if isinstance(operator, qgraph.QTurn):
            (source,) = operator.inputs
            pixels = data[source].reshape(*data[source].shape[:2], -1)
            data[output.name] = pixels.transpose(0, 2, 1)[..., None]
            assert data[output.name].shape == output.shape
            continue
        values = _apply(operator, [real(graph.tensors[n], data[n]) for n in operator.inputs])
        low, high = operator.bounds
        values = values.clamp(low, high) if operator.bounds != (None, None) else values
        assert tuple(values.shape) == output.shape, (operator.name, values.shape, output.shape)
        data[output.name] = _result(operator, output, values)
    return [data[name] for name in graph.outputs]


def _result(operator: qgraph.QOperator, output: qgraph.QTensor, values: torch.Tensor) -> np.ndarray:
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
        products = functional.conv_transpose2d(
            x,
            weights,
            None,
            operator.stride,
            0,
            operator.output_padding,
            operator.groups,
            operator.dilation,
        )
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
        parts = torch.from_numpy(operator.gamma), torch.from_numpy(operator.beta)
        norm = functional.layer_norm(x.movedim(1, 3), parts[0].shape, *parts, operator.epsilon)
        return norm.movedim(3, 1)
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


# -- random quantised graphs of what needs an activation table or a row unit ----------------------

FUNCTION_KINDS = (
    "add", "conv", "depthwise", "norm", "norm", "relu", "select", "shuffle", "softmax", "softmax",
    "table", "table", "table",
)  # fmt: skip


def draw_functions(rng, block, *, zero_points=False):
    """Tables, softmax and layer normalisation between joins and shuffles of channels."""
    images, channels, size = (int(n) for n in (rng.choice([1, 1, 2]), rng.integers(1, 3 * block),
                                               rng.integers(1, 6)))  # fmt: skip
    maker = GraphMaker(rng, (images, channels, size, size), zero_points=zero_points)
    act = lambda: ACTIVATIONS[rng.integers(len(ACTIVATIONS))]  # noqa: E731  (drawn each time)
    found = ["x0", maker.conv("x0", int(rng.integers(1, 3 * block)))]
    for _ in range(int(rng.integers(3, 8))):
        x = found[int(rng.integers(max(len(found) - 3, 0), len(found)))]
        channels = maker.shape(x)[1]
        kind = rng.choice([*FUNCTION_KINDS, *["concat"] * (2 if images == 1 else 0)])
        if kind == "conv":
            x = maker.conv(x, int(rng.integers(1, 3 * block)), bounds=act())
        elif kind == "depthwise" and channels > 1:
            x = maker.conv(x, channels, groups=channels, bounds=act())
        elif kind == "add":
            equal = [y for y in found if maker.shape(y) == maker.shape(x)]
            x = maker.add(x, str(rng.choice(equal)), bounds=act())
        elif kind == "concat":
            x = maker.concat(*map(str, rng.choice(found, int(rng.integers(2, 4)))))
        elif kind == "shuffle" and channels % 2 == 0:
            x = maker.select(x, np.arange(channels).reshape(2, -1).T.reshape(-1))
        elif kind == "select":
            some = rng.permutation(channels)[: int(rng.integers(1, channels + 1))]
            x = maker.select(x, some, exact=bool(rng.integers(2)))
        elif kind == "softmax":
            x = maker.softmax(x, heads=2 if images == 1 and channels % 2 == 0 else 1)
        elif kind == "norm":
            x = maker.norm(x, act())
        else:
            x = maker.rescale(x, act()) if kind == "relu" else maker.table(x)
        found.append(x)
    results = [y for y in found[2:-1] if rng.random() < 0.2]
    return maker.graph(*dict.fromkeys(results), maker.conv(found[-1], 3)), maker.arguments()
