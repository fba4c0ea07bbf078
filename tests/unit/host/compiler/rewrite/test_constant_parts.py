# SPDX-License-Identifier: Apache-2.0
"""Weights that a model quantises, with scales that it computes, are the integers of a layer."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model, operators

import tilewright as tw
from tilewright.host.compiler.lower.qgraph import QConv
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.model_file import with_shapes
from tilewright.host.compiler.rewrite.constants import fold_constants


def trained(model: Model, x: str, *, computed_scale: bool) -> str:
    """A convolution as quantisation-aware training exports it."""
    weights = model.weights(4, 3, 3, 3)
    scale = model.constant(np.float32(0.01))
    if computed_scale:
        largest = model.add("ReduceMax", model.add("Abs", weights), keepdims=0)
        scale = model.add("Div", largest, model.constant(np.float32(127)))
    numbers = scale, model.constant(np.int8(0))
    steps = model.add("QuantizeLinear", weights, *numbers)
    return model.add("Conv", x, model.add("DequantizeLinear", steps, *numbers))


@pytest.mark.parametrize("computed_scale", [False, True])
def test_trained_weights_are_a_layer_of_the_integers_of_onnxruntime(computed_scale) -> None:
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 3, 6, 6), 0.02)
    proto = model.proto(model.quantised(trained(model, x, computed_scale=computed_scale), 0.05))
    parts = partition(import_network(proto))
    (layer,) = operators(parts)
    assert isinstance(layer, QConv)
    tensors = run_all(proto, {"x": np.zeros((1, 3, 6, 6), np.float32)})
    steps = next(v for n, v in tensors.items() if v.dtype == np.int8 and v.shape == (4, 3, 3, 3))
    np.testing.assert_array_equal(layer.weights, steps)
    assert all(placed.place == "accelerator" for placed in parts.placements)


@pytest.mark.parametrize("times", [1, 2])
def test_weights_that_are_rounded_again_are_one_constant(times) -> None:
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 3, 6, 6), 0.02)
    numbers = model.constant(np.float32(0.01)), model.constant(np.int8(0))
    steps = model.constant(model.rng.integers(-100, 100, (4, 3, 1, 1)).astype(np.int8))
    weights = model.add("DequantizeLinear", steps, *numbers)
    for number in range(times):
        weights = model.quantised(weights, 0.013 + 0.004 * number)
    proto = model.proto(model.quantised(model.add("Conv", x, weights), 0.05))
    network = import_network(proto)
    (layer,) = operators(partition(network))
    assert isinstance(layer, QConv)
    tensors = run_all(proto, {"x": np.zeros((1, 3, 6, 6), np.float32)})
    shape = (4, 3, 1, 1)
    rounded = [v for v in tensors.values() if v.dtype == np.int8 and v.shape == shape]
    assert any(np.array_equal(layer.weights, each) for each in rounded)
    assert sum(node.op_type == "QuantizeLinear" for node in network.qdq.graph.node) == 2


def test_no_region_computes_constants_alone() -> None:
    """What leaves the model is not folded."""
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 4, 6, 6), 0.02)
    numbers = model.constant(np.float32(0.02)), model.constant(np.int8(0))
    steps = model.constant(model.rng.integers(-100, 100, (1, 4, 6, 6)).astype(np.int8))
    positive = model.add("Relu", model.add("DequantizeLinear", steps, *numbers))
    y = model.quantised(model.add("Relu", x), 0.03)
    kinds = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT8]
    proto = model.proto(y, model.add("QuantizeLinear", positive, *numbers), kinds=kinds)
    parts = partition(import_network(proto))
    assert [region.inputs for region in parts.regions] == [parts.regions[0].inputs]
    assert all(region.inputs for region in parts.regions)
    assert "is constant" in next(p.reason for p in parts.placements if p.place == "cpu")


def test_what_draws_numbers_or_reads_an_input_stays() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3)
    drawn = model.add("RandomNormalLike", model.constant(np.zeros((2, 3), np.float32)))
    total = model.add("Add", model.add("Add", x, drawn), model.add("Neg", model.weights(2, 3)))
    current = ir.from_proto(with_shapes(model.proto(total)))
    assert fold_constants(current)
    assert [node.op_type for node in current.graph] == ["RandomNormalLike", "Add", "Add"]
    assert not fold_constants(current)


def test_layers_that_stay_on_the_cpu_are_told_loudly() -> None:
    """Weights with a scale for each input channel have no place in a layer."""
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 3, 6, 6), 0.02)
    numbers = model.constant(np.float32([1, 2, 3])), model.constant(np.zeros(3, np.int8))
    steps = model.constant(np.ones((4, 3, 1, 1), np.int8))
    weights = model.add("DequantizeLinear", steps, *numbers, axis=1)
    proto = model.proto(model.quantised(model.add("Conv", x, weights), 0.05))
    with pytest.warns(UserWarning, match=r"1 of 1 operator .* 100 % .*each input channel"):
        tw.compile(proto, hw="tiny-4x4")
