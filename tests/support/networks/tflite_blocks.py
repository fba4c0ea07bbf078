# SPDX-License-Identifier: Apache-2.0
"""Small int8 TensorFlow Lite networks of the blocks that mobile networks are made of."""

from collections.abc import Callable

import numpy as np
from support.networks.tflite_members import ROUND, SAME, SOFT, VALID, Blocks, Member, layer


def squeeze_and_excite(draw: Blocks) -> Member:
    """A gate of each channel, between hard-swish and a separable convolution."""
    data = draw.convolved(draw.data((1, 16, 16, 3)), 16, stride=2, fused=1)
    shape = draw.file.tensors[data]["shape"]
    data = draw.made("HARD_SWISH", [data], shape, draw.like())
    axes = draw.whole([1, 2])
    mean = draw.kept("MEAN", [data, axes], (1, 1, 1, 16), "ReducerOptions", KeepDims=True)
    gate = draw.convolved(draw.convolved(mean, 8, 1, fused=1), 16, 1)
    gate = draw.made("LOGISTIC", [gate], (1, 1, 1, 16), SOFT)
    like = draw.like(0.7 * draw.parameters(data)["scale"])
    data = draw.made("MUL", [data, gate], shape, like, "MulOptions")
    return draw.done(draw.convolved(draw.depthwise(data), 8, 1))


def segmentation(draw: Blocks) -> Member:
    """Two images enlarged, and joined with a finer one; a transposed convolution."""
    fine = draw.convolved(draw.data((1, 16, 16, 3)), 16, fused=1)
    small = draw.convolved(draw.convolved(fine, 24, stride=2, fused=1), 16, fused=1)
    large, sizes = (1, 16, 16, 16), draw.whole([16, 16])
    parts = [
        draw.kept(f"RESIZE_{kind}", [small, sizes], large, f"{table}Options", HalfPixelCenters=True)
        for kind, table in (
            ("BILINEAR", "ResizeBilinear"),
            ("NEAREST_NEIGHBOR", "ResizeNearestNeighbor"),
        )
    ]
    parts.append(draw.made("QUANTIZE", [fine], large, draw.parameters(small), "QuantizeOptions"))
    joined = draw.kept("CONCATENATION", parts, (1, 16, 16, 48), "ConcatenationOptions", Axis=3)
    data = draw.convolved(joined, 8, fused=1)
    weights, like = layer(draw, data, (4, 2, 2, 8), 4, 0, 32)
    inputs = [draw.whole([1, 32, 32, 4]), weights[0], data, weights[1]]
    return draw.done(
        draw.made(
            "TRANSPOSE_CONV", inputs, (1, 32, 32, 4), like, "TransposeConvOptions", Padding=SAME,
            StrideW=2, StrideH=2,
        )
    )  # fmt: skip


def padded(draw: Blocks) -> Member:
    """Padding in front of a layer with strides, as Keras writes it; PReLU, leaky ReLU, a pool."""
    data = draw.convolved(draw.data((1, 16, 16, 3)), fused=1)
    pads = draw.whole([[0, 0], [0, 1], [0, 1], [0, 0]])
    data = draw.kept("PAD", [data, pads], (1, 17, 17, 8))
    data = draw.convolved(draw.depthwise(data, 2, padding=VALID), 8, 1)
    shape = draw.file.tensors[data]["shape"]
    data = draw.kept("PRELU", [data, draw.constant((1, 1, 8), scale=1 / 128, zero=0)], shape)
    data = draw.kept("LEAKY_RELU", [data], shape, "LeakyReluOptions", Alpha=0.125)
    return draw.done(
        draw.kept(
            "AVERAGE_POOL_2D", [draw.convolved(data, 8, 1)], (1, 4, 4, 8), "Pool2DOptions",
            Padding=SAME, StrideW=2, StrideH=2, FilterWidth=3, FilterHeight=3,
        )
    )  # fmt: skip


def divided(draw: Blocks) -> Member:
    """Half the channels go through a layer; pixels become channels; a maximum, a dense layer."""
    data = draw.convolved(draw.data((1, 8, 8, 3)), 16, fused=1)
    like = draw.parameters(data)
    halves = [draw.file.tensor((1, 8, 8, 8), "int8", **like) for _ in range(2)]
    draw.file.add("SPLIT", [draw.whole(3), data], halves, "SplitOptions", NumSplits=2)
    changed = draw.convolved(halves[0])
    draw.file.tensors[changed].update(like)
    axis = {"table": "ConcatenationOptions", "Axis": 3}
    data = draw.kept("CONCATENATION", [changed, halves[1]], (1, 8, 8, 16), **axis)
    data = draw.kept("SPACE_TO_DEPTH", [data], (1, 4, 4, 64), "SpaceToDepthOptions", BlockSize=2)
    data = draw.convolved(data, 16, 1, fused=1)
    data = draw.kept("REDUCE_MAX", [data, draw.whole([1, 2])], (1, 16), "ReducerOptions")
    weights, like = layer(draw, data, (6, 16), 6, 0, 16)
    sums = draw.made("FULLY_CONNECTED", [data, *weights], (1, 6), like, "FullyConnectedOptions")
    return draw.done(draw.made("TANH", [sums], (1, 6), ROUND))


BLOCKS: dict[str, Callable[[Blocks], Member]] = {
    each.__name__: each for each in (squeeze_and_excite, segmentation, padded, divided)
}


def block(name: str, rng: np.random.Generator) -> Member:
    """A random network of a name of `BLOCKS`."""
    return BLOCKS[name](Blocks(rng, "int8"))
