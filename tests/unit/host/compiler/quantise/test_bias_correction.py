# SPDX-License-Identifier: Apache-2.0
"""The mean error of a quantised layer goes into its bias."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.import_options import QuantiseOptions

Batch = dict[str, np.ndarray]


def coarse(rng: np.random.Generator, *shape: int, axes: Sequence[int]) -> np.ndarray:
    """Weights of which one along each of the axes is so large that the others round to nothing.

    Args:
        rng: of the values.
        shape: of the weights.
        axes: of what has a scale in common.
    """
    weights = rng.uniform(0.001, 0.003, shape).astype(np.float32)
    first = tuple(0 if axis in axes else slice(None) for axis in range(len(shape)))
    weights[first] = 1
    return weights


def convolution(model: Model) -> str:
    weights = coarse(model.rng, 4, 16, 3, 3, axes=(1, 2, 3))
    bias = model.constant(model.rng.normal(size=4).astype(np.float32))
    return model.add(
        "Conv", model.input(2, 16, 7, 7), model.constant(weights), bias, pads=[1, 1, 0, 1]
    )


def convolution_without_bias(model: Model) -> str:
    weights = coarse(model.rng, 4, 16, 3, 3, axes=(1, 2, 3))
    return model.add("Conv", model.input(2, 16, 7, 7), model.constant(weights), strides=[2, 1])


def transposed(model: Model) -> str:
    weights = coarse(model.rng, 16, 4, 2, 2, axes=(0, 2, 3))
    return model.add("ConvTranspose", model.input(2, 16, 5, 5), model.constant(weights))


def dense(model: Model) -> str:
    weights = coarse(model.rng, 4, 60, axes=(1,))
    bias = model.constant(model.rng.normal(size=4).astype(np.float32))
    return model.add("Gemm", model.input(8, 60), model.constant(weights), bias, transB=1)


def dense_without_bias(model: Model) -> str:
    return model.add(
        "Gemm", model.input(8, 60), model.constant(coarse(model.rng, 60, 4, axes=(0,)))
    )


def product(model: Model) -> str:
    y = model.add(
        "MatMul", model.input(2, 9, 60), model.constant(coarse(model.rng, 60, 4, axes=(0,)))
    )
    return model.add("Add", y, model.constant(model.rng.normal(size=4).astype(np.float32)))


def proto_of(model: Model, result: str) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model.proto(result))


def batches_for(proto: onnx.ModelProto, rng: np.random.Generator, count: int) -> list[Batch]:
    """Positive data."""
    (value,) = proto.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return [{"x": rng.uniform(0, 1, shape).astype(np.float32)} for _ in range(count)]


def mean_error(
    proto: onnx.ModelProto, batches: list[Batch], *, axis: int, **options: bool
) -> np.ndarray:
    """Of each channel of the result before it is rounded."""
    settings = QuantiseOptions(method="minmax", equalisation=False, **options)
    found = quantise(ir.from_proto(proto), batches, settings)
    name = proto.graph.output[0].name
    (last,) = (node for node in found.graph if node.name == name)
    real = last.outputs[0].name
    gaps = [run_all(ir.to_proto(found), b)[real] - run_all(proto, b)[name] for b in batches]
    return np.moveaxis(np.stack(gaps), axis + 1, -1).reshape(-1, 4).mean(axis=0, dtype=np.float64)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(
    ("layer", "axis"),
    [
        (convolution, 1),
        (convolution_without_bias, 1),
        (transposed, 1),
        (dense, 1),
        (dense_without_bias, 1),
        (product, 2),
    ],
)
def test_a_layer_has_no_mean_error_on_calibration_data(
    layer: Callable[[Model], str], axis: int, asymmetric: bool
) -> None:
    rng = fresh_rng()
    model = Model(rng)
    proto = proto_of(model, layer(model))
    batches = batches_for(proto, rng, 8)
    options = {"axis": axis, "asymmetric": asymmetric}
    before = mean_error(proto, batches, bias_correction=False, **options)
    after = mean_error(proto, batches, bias_correction=True, **options)
    assert (before < -0.03).all()  # all but one weight of a channel are lost
    assert np.abs(after).max() < 1e-3


def test_a_mean_of_few_results_is_chance() -> None:
    rng = fresh_rng()
    model = Model(rng)
    proto = proto_of(model, dense(model))
    few, enough = batches_for(proto, rng, 3), batches_for(proto, rng, 4)
    np.testing.assert_array_equal(
        mean_error(proto, few, axis=1, bias_correction=True),
        mean_error(proto, few, axis=1, bias_correction=False),
    )
    assert np.abs(mean_error(proto, enough, axis=1, bias_correction=True)).max() < 1e-3


def test_layers_behind_each_other_are_corrected_at_once() -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("Relu", convolution(model))
    last = model.constant(coarse(rng, 4, 4, 3, 3, axes=(1, 2, 3)))
    proto = proto_of(model, model.add("Conv", y, last))
    batches = batches_for(proto, rng, 8)
    before = mean_error(proto, batches, axis=1, bias_correction=False)
    after = mean_error(proto, batches, axis=1, bias_correction=True)
    assert np.abs(after).max() < 0.25 * np.abs(before).max()
