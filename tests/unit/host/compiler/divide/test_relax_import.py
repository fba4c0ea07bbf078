# SPDX-License-Identifier: Apache-2.0
"""Operators that stay whole in Relax, and what cannot be imported."""

import numpy as np
import onnx
import pytest
from support.networks.qdq_runs import run_all
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, everything, imported
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_import import to_relax
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram


def run_saved(model: Model, output: str, *shape: int) -> None:
    """Compare the CPU part, saved and loaded, with ONNX Runtime."""
    network = imported(model.proto(output))
    host = HostModule.from_json(partition(network, everything).host.to_json())
    inputs = {"x": fresh_rng().normal(size=shape).astype(np.float32)}
    found = HostProgram(module=host).run(inputs, FloatRegions(()))[output]
    np.testing.assert_allclose(found, run_all(network.qdq, inputs)[output], atol=1e-5)


def test_padding_clipping_and_tiling_can_be_saved() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4), model.weights(2, 2, 1, 1))
    y = model.add("Clip", model.add("Sigmoid", y), "", np.float32(0.6))
    y = model.add("Clip", y, np.float32(0.3), np.float32(0.5))
    y = model.add("Pad", y, [0, 1, 2, 0, 1, 0, 0, 3], np.float32(2.5))
    run_saved(model, model.add("Tile", y, [2, 1, 1, 3]), 1, 2, 3, 4)


@pytest.mark.parametrize("sizes", [[3, 3], [1, 3, 2]])
def test_splits_can_be_saved(sizes) -> None:
    model = Model(fresh_rng(), opset=13)
    y = model.add("Sigmoid", model.add("Conv", model.input(1, 2, 3, 4), model.weights(6, 2, 1, 1)))
    parts = [f"part{index}" for index in range(len(sizes))]
    inputs = [y, model.constant(np.array(sizes))]
    model.nodes.append(onnx.helper.make_node("Split", inputs, parts, "split", axis=1))
    run_saved(model, model.add("Concat", *reversed(parts), axis=1), 1, 2, 3, 4)


def test_what_tvm_would_expand_to_loops_is_computed_by_onnx_runtime_and_saved() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4), model.weights(2, 2, 1, 1))
    y = model.add("Einsum", model.add("Sigmoid", y), model.weights(2, 2), equation="bchw,cc->bwhc")
    run_saved(model, model.add("Sigmoid", y), 1, 2, 3, 4)


def test_the_operator_that_nothing_computes_is_named() -> None:
    model = Model(fresh_rng())
    a, b = model.input(2, 3, name="a"), model.input(2, 3, name="b")
    y = model.add("MatMul", model.add("Relu", a), b)
    with pytest.raises(WorkloadError, match=r"MatMul matmul1: must be an operator that the CPU"):
        to_relax(model.proto(y))


def resized(model: Model, *sizes: float, **attributes: object) -> str:
    y = model.add("Sigmoid", model.add("Conv", model.input(1, 2, 6, 5), model.weights(2, 2, 1, 1)))
    return model.add("Resize", y, "", np.array([1, 1, *sizes], np.float32), **attributes)


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ((1.5, 1.5), {"mode": "linear"}),  # these four TVM would take for other ones
        ((0.5, 0.5), {}),
        ((0.5, 1), {"mode": "linear", "antialias": 1}),
        ((2, 2), {"mode": "cubic", "antialias": 1}),
        ((0.5, 1), {"mode": "linear"}),
        ((1.5, 1.2), {"mode": "linear"}),
        ((2, 3), {"mode": "linear", "antialias": 1}),
        ((1.5, 1.5), {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ],
)
def test_resizing_is_what_onnx_runtime_computes(sizes, attributes) -> None:
    model = Model(fresh_rng(), opset=18)
    run_saved(model, resized(model, *sizes, **attributes), 1, 2, 6, 5)


def test_the_mean_of_layer_normalisation_is_computed() -> None:
    model = Model(fresh_rng())
    y = model.add("Sigmoid", model.add("MatMul", model.input(1, 4, 3), model.weights(3, 4)))
    y = model.add("LayerNormalization", y, model.weights(4))
    model.nodes[-1].output.append("mean")
    run_saved(model, model.add("Add", y, model.add("Neg", "mean")), 1, 4, 3)


def test_layer_normalisation_with_a_scale_that_is_computed() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 3)
    y = model.add("Sigmoid", model.add("MatMul", x, model.weights(3, 4)))
    scale = model.add("Sigmoid", model.add("ReduceMean", x, axes=[0, 1, 2], keepdims=1))
    scale = model.add("Reshape", model.add("Tile", scale, [1, 1, 4]),
                      [4])  # fmt: skip
    run_saved(model, model.add("LayerNormalization", y, scale, axis=1), 1, 4, 3)


def test_the_last_state_of_a_long_sequence_alone() -> None:
    """ONNX leaves out the states between; a part has one result then, and its node two."""
    model = Model(fresh_rng())
    x = model.input(600, 1, 4)
    weights = model.weights(1, 9, 4), model.weights(1, 9, 3)
    last = onnx.helper.make_node("GRU", [x, *weights], ["", "last"], "gru", hidden_size=3)
    model.nodes.append(last)
    run_saved(model, model.add("MatMul", "last", model.weights(3, 4)), 600, 1, 4)


def test_normalisation_by_root_mean_squares_over_two_axes() -> None:
    model = Model(fresh_rng(), opset=23)
    y = model.add("Sigmoid", model.add("MatMul", model.input(1, 4, 3), model.weights(3, 4)))
    run_saved(model, model.add("RMSNormalization", y, model.weights(4, 4), axis=1), 1, 4, 3)


def test_what_is_drawn_at_random_is_refused() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4), model.weights(2, 2, 1, 1))
    y = model.add("Add", y, model.add("RandomNormalLike", y))
    with pytest.raises(WorkloadError, match=r"RandomNormalLike .*drawn at random"):
        imported(model.proto(y))


def test_places_of_a_pool_and_the_mask_of_a_dropout_are_computed() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, 4, 4)
    y = model.add("Sigmoid", model.add("Conv", x, model.weights(2, 2, 1, 1)))
    names = ["most", "places"]
    pool = onnx.helper.make_node("MaxPool", [y], names, "pool", kernel_shape=[2, 2], strides=[2, 2])
    model.nodes.append(pool)
    y = model.add("MaxUnpool", *names, kernel_shape=[2, 2], strides=[2, 2])
    model.nodes.append(onnx.helper.make_node("Dropout", [y], ["same", "mask"], "dropout"))
    run_saved(model, model.add("Where", "mask", "same", x), 1, 2, 4, 4)
