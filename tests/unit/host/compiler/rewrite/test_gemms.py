# SPDX-License-Identifier: Apache-2.0
"""A Gemm with factors, turned activations or another addend is a dense layer; results stay."""

import numpy as np
import onnx
import pytest
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import assert_near, output_of
from support.networks.small_models import (
    Model,
    assert_regions_agree,
    imported,
    imported_near_its_results,
    imported_with_its_results,
    noise,
)
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import partition

ROWS, DEPTH, OUTPUTS = 4, 8, 6
STEP = 0.1
FORMS = (
    {"alpha": 0.5},
    {"alpha": -2.0},
    {"beta": 3.0},
    {"beta": 0.0},
    {"transA": 1},
    {"transA": 1, "transB": 1, "alpha": 0.3, "beta": -2.0},
)


def data_shape(attributes: dict[str, float]) -> tuple[int, int]:
    return (DEPTH, ROWS) if attributes.get("transA") else (ROWS, DEPTH)


def alone(model: Model, biased: bool, attributes: dict[str, float]) -> str:
    weights = (OUTPUTS, DEPTH) if attributes.get("transB") else (DEPTH, OUTPUTS)
    more = [model.weights(OUTPUTS)] if biased else []
    x = model.input(*data_shape(attributes))
    return model.add("Gemm", x, model.weights(*weights), *more, **attributes)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("attributes", FORMS, ids=str)
def test_a_gemm_alone_is_a_layer_of_the_accelerator(biased, attributes) -> None:
    model = Model(fresh_rng())
    proto = model.proto(alone(model, biased, attributes))
    turned = ["Transpose"] * bool(attributes.get("transA"))
    assert rewritten(proto) == [*turned, "Gemm"]
    network, inputs = imported_near_its_results(proto, fresh_rng())
    parts = partition(network)
    assert_regions_agree(network, parts, inputs)
    assert [p.place for p in parts.placements if p.kind == "Gemm"] == ["accelerator"]


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_activations_that_a_gemm_adds_are_a_residual(beta) -> None:
    model = Model(fresh_rng())
    x = model.input(ROWS, DEPTH)
    first = model.add("Relu", model.add("MatMul", x, model.weights(DEPTH, OUTPUTS)))
    y = model.add("Gemm", x, model.weights(DEPTH, OUTPUTS), first, beta=beta)
    assert rewritten(model.proto(y)) == ["MatMul", "Relu", *["Mul"] * (beta != 1), "Gemm", "Add"]
    parts = partition(imported(model.proto(y), samples=8))
    assert [p.place for p in parts.placements if p.kind == "Gemm"] == ["accelerator"]


def quantised(attributes: dict[str, float]) -> onnx.ModelProto:
    """A Gemm whose weights are int8, its bias int32 and its activations quantised."""
    rng = fresh_rng()
    model = Model(rng)
    x = model.quantised(model.input(*data_shape(attributes)), 0.03, 3)
    shape = (OUTPUTS, DEPTH) if attributes.get("transB") else (DEPTH, OUTPUTS)
    axis = 0 if attributes.get("transB") else 1
    scales = rng.uniform(0.01, 0.02, OUTPUTS).astype(np.float32)
    weights = model.add(
        "DequantizeLinear", rng.integers(-128, 128, shape).astype(np.int8), scales, axis=axis
    )
    bias = model.add(
        "DequantizeLinear",
        rng.integers(-1000, 1000, OUTPUTS).astype(np.int32),
        np.float32(0.03) * scales,
        axis=0,
    )
    y = model.add("Gemm", x, weights, bias, **attributes)
    return model.proto(model.quantised(y, STEP, -5))


@pytest.mark.parametrize(
    "attributes",
    [{"alpha": 0.5}, {"beta": 3.0}, {"transA": 1}, {"transA": 1, "transB": 1, "beta": 0.5}],
    ids=str,
)
def test_factors_go_into_scales_of_a_quantised_model(attributes) -> None:
    network, inputs = imported_with_its_results(quantised(attributes), fresh_rng(), STEP)
    parts = partition(network)
    assert_regions_agree(network, parts, inputs)
    assert [p.place for p in parts.placements if p.kind == "Gemm"] == ["accelerator"]


@pytest.mark.parametrize("alpha", [-1.0, 1e-38])
def test_a_factor_that_no_scale_takes_stays(alpha) -> None:
    network, _ = imported_with_its_results(quantised({"alpha": alpha}), fresh_rng(), STEP)
    (gemm,) = (node for node in network.qdq.graph.node if node.op_type == "Gemm")
    (found,) = (each.f for each in gemm.attribute if each.name == "alpha")
    assert found == pytest.approx(alpha)
    assert [p.place for p in partition(network).placements if p.kind == "Gemm"] == ["cpu"]


def test_a_product_of_activations_is_told_to_need_constant_weights() -> None:
    model = Model(fresh_rng())
    x, y = model.input(4, 4), model.input(4, 4, name="y")
    proto = model.proto(model.add("Gemm", x, y, alpha=0.5, transA=1))
    assert rewritten(proto) == ["Gemm"]
    with pytest.raises(
        WorkloadError, match=r"second input is constant weights.*not .'Gemm'.*as constants"
    ):
        imported(proto)


# -- A bias behind a change of shape is part of the convolution; what is none stays ---------------


def behind(model: Model, *, biased: bool) -> str:
    """(1, 6, 9, 1) as (1, 6, 9)."""
    x = model.input(1, 4, 11, 1)
    more = [model.weights(6)] if biased else []
    return model.add("Squeeze", model.add("Conv", x, model.weights(6, 4, 3, 1), *more), [3])


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(6, 1), (1, 6, 1)])
def test_a_bias_behind_a_squeeze_goes_into_the_convolution(biased, shape) -> None:
    model = Model(fresh_rng())
    y = model.add("Add", model.weights(*shape), behind(model, biased=biased))
    assert rewritten(model.proto(y)) == ["Conv", "Squeeze"]


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (4,), (1, 1), (1, 4), (4, 1), (4, 4)],  # the last two are no biases: they are added
    ids=str,
)
def test_what_a_gemm_adds_may_have_any_shape(shape) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("Relu", model.add("MatMul", model.input(4, 3), model.weights(3, 5)))
    y = model.add("Gemm", y, model.weights(5, 4), rng.uniform(-20, 20, shape).astype(np.float32))
    proto = model.proto(model.add("MatMul", y, np.eye(4, dtype=np.float32)))
    network, inputs = imported_near_its_results(proto, rng)
    parts = partition(network)
    assert_regions_agree(network, parts, inputs)
    (placed,) = (p.place for p in parts.placements if p.kind == "Gemm")
    assert placed == "accelerator"


# -- normalisation of groups of channels compiles -------------------------------------------------


@pytest.mark.parametrize("spatial", [(4, 5), (7,)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_groups_of_channels_are_normalised(spatial, groups) -> None:
    model = Model(fresh_rng(), opset=21)
    y = model.add("Conv", model.input(1, 4, *spatial), model.weights(6, 4, *[1] * len(spatial)))
    numbers = [model.constant(fresh_rng().normal(size=6).astype(np.float32)) for _ in range(2)]
    y = model.add("GroupNormalization", y, *numbers, num_groups=groups, epsilon=0.1)
    proto = model.proto(model.add("Relu", y))
    network = imported(proto)
    partition(network)
    inputs = noise(network, np.random.default_rng(0))  # the calibration data
    assert_near(*output_of((network.qdq, proto), inputs), 0.05)
