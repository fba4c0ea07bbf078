# SPDX-License-Identifier: Apache-2.0
"""Convolutions over three axes are convolutions of images; nothing of a volume is left inside."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.onnx_results import rewritten
from support.networks.small_models import Model, assert_regions_agree, imported, noise
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.rewrite.rewrites import rewrite

SHAPE = (1, 3, 5, 8, 6)


def volumes_inside(proto: onnx.ModelProto) -> list[str]:
    """Operators that read a tensor of five axes, after the rewrites."""
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current)
    return [
        node.op_type
        for node in current.graph
        if any(value is not None and len(value.shape or ()) == 5 for value in node.inputs)
    ]


def small(model: Model, end: str) -> str:
    """Two convolutions, a residual, a pool over all three axes, and a dense layer."""
    x = model.input(*SHAPE)
    y = model.add("Conv", x, model.weights(8, 3, 3, 3, 3), model.weights(8), pads=[1] * 6)
    y = model.add("Relu", y)
    z = model.add("Conv", y, model.weights(8, 8, 3, 1, 3), pads=[1, 0, 1, 1, 0, 1])
    y = model.add("Add", y, model.add("Mul", z, model.weights(8, 1, 1, 1)))
    y = model.add("MaxPool", y, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    if end == "mean":
        y = model.add("Flatten", model.add("GlobalAveragePool", y))
        return model.add("Gemm", y, model.weights(10, 8), model.weights(10), transB=1)
    y = model.add("Flatten", y)
    if end == "Gemm":
        return model.add("Gemm", y, model.weights(10, 8 * 2 * 4 * 3), transB=1)
    return model.add("MatMul", y, model.weights(8 * 2 * 4 * 3, 10))


@pytest.mark.parametrize("end", ["mean", "Gemm", "MatMul"])
def test_a_network_of_volumes_becomes_one_of_images(end) -> None:
    model = Model(fresh_rng())
    proto = model.proto(small(model, end))
    rewritten(proto, x=SHAPE)
    assert volumes_inside(proto) == ["Gather"] * SHAPE[2]


@pytest.mark.parametrize("_", range(3))
def test_strides_dilations_and_padding_of_the_depth(_) -> None:
    rng = fresh_rng()
    model = Model(rng)
    depth, kernel = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    dilation, stride = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    reach = (kernel - 1) * dilation
    before, after = (int(n) for n in rng.integers(0, reach + 1, 2))
    if depth + before + after <= reach:
        before = after = reach
    y = model.add(
        "Conv",
        model.input(2, 2, depth, 5, 4),
        model.weights(4, 2, kernel, 2, 3),
        strides=[stride, 2, 1],
        dilations=[dilation, 1, 1],
        pads=[before, 1, 0, after, 0, 1],
    )
    y = model.add("AveragePool", y, kernel_shape=[1, 2, 2], strides=[2, 1, 1])
    proto = model.proto(model.add("Concat", y, model.add("Sigmoid", y), axis=1))
    rewritten(proto, x=(2, 2, depth, 5, 4))
    assert "Conv" not in volumes_inside(proto)


@pytest.mark.parametrize("case", ["groups", "no constant", "deep"])
def test_what_is_not_taken_apart_stays(case) -> None:
    model = Model(fresh_rng())
    shape = (1, 4, 65 if case == "deep" else 4, 4, 4)
    groups = 2 if case == "groups" else 1
    size = (4, 4 // groups, 1, 3, 3)
    weights = model.input(*size, name="w") if case == "no constant" else model.weights(*size)
    given = {"w": size} if case == "no constant" else {}
    y = model.add("Conv", model.input(*shape), weights, group=groups)
    assert rewritten(model.proto(y), x=shape, **given) == ["Conv"]


def test_a_small_network_of_volumes_is_one_region() -> None:
    rng = fresh_rng()
    model = Model(rng)
    network = imported(model.proto(small(model, "Gemm")))
    parts = partition(network)
    assert len(parts.regions) == 1
    kinds = {p.kind for p in parts.placements if p.place == "cpu"}
    assert kinds <= {"Gather", "Concat"}  # of the first convolution
    assert_regions_agree(network, parts, noise(network, rng))
    assert np.prod(network.outputs[0].shape) == 10


def test_a_dense_layer_that_turns_its_data_keeps_its_weights() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4, 4), model.weights(3, 2, 1, 1, 1))
    y = model.add("Gemm", model.add("Flatten", y), model.weights(1, 5), transA=1)
    assert "Gemm" in rewritten(model.proto(y), x=(1, 2, 3, 4, 4))
