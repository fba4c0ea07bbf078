# SPDX-License-Identifier: Apache-2.0
"""A bias behind a change of shape is part of the convolution; what is none stays."""

import numpy as np
import pytest
from support.onnx_results import rewritten
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model, assert_regions_agree, imported, noise

from tilewright.host.compiler.pipeline import partition


def behind(model: Model, *, biased: bool) -> str:
    """(1, 6, 9, 1) as (1, 6, 9)."""
    x = model.input(1, 4, 11, 1)
    more = [model.weights(6)] if biased else []
    y = model.add("Conv", x, model.weights(6, 4, 3, 1), *more)
    return model.add("Squeeze", y, model.constant(np.array([3])))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(6, 1), (1, 6, 1)])
def test_a_bias_behind_a_squeeze_goes_into_the_convolution(biased, shape) -> None:
    model = Model(fresh_rng())
    y = model.add("Add", model.weights(*shape), behind(model, biased=biased))
    assert rewritten(model.proto(y), x=(1, 4, 11, 1)) == ["Conv", "Squeeze"]


def test_a_bias_before_an_activation() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("Add", behind(model, biased=False), model.weights(6, 1)))
    assert rewritten(model.proto(y), x=(1, 4, 11, 1)) == ["Conv", "Squeeze", "Relu"]


@pytest.mark.parametrize("case", ["positions", "all", "read before", "more images"])
def test_other_additions_stay(case) -> None:
    model = Model(fresh_rng())
    y = behind(model, biased=True)
    shape = {"positions": (1, 9), "all": (6, 9), "more images": (2, 6, 1)}.get(case, (6, 1))
    added = model.add("Add", y, model.weights(*shape))
    more = [model.add("Softmax", y)] if case == "read before" else []
    assert "Add" in rewritten(model.proto(added, *more), x=(1, 4, 11, 1))


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (4,), (1, 1), (1, 4), (4, 1), (4, 4)],  # the last two are no biases: they are added
    ids=str,
)
def test_what_a_gemm_adds_may_have_any_shape(shape) -> None:
    rng = fresh_rng()
    model = Model(rng)
    bias = model.constant(rng.uniform(-20, 20, shape).astype(np.float32))
    y = model.add("Relu", model.add("MatMul", model.input(4, 3), model.weights(3, 5)))
    y = model.add("Gemm", y, model.weights(5, 4), bias)
    proto = model.proto(model.add("MatMul", y, model.constant(np.eye(4, dtype=np.float32))))
    network = imported(proto, samples=8)
    parts = partition(network)
    inputs = noise(network, rng)
    assert_regions_agree(network, parts, inputs)
    (name,) = (output.name for output in proto.graph.output)
    found, expected = (run_all(each, inputs)[name] for each in (network.qdq, proto))
    # Noise leaves the range of eight samples; a bias in a wrong place is wrong by its size.
    np.testing.assert_allclose(found, expected, atol=0.15 * np.abs(expected).max())
    (placed,) = (p.place for p in parts.placements if p.kind == "Gemm")
    assert placed == "accelerator"


def test_a_bias_that_layers_share_may_bear_any_name() -> None:
    """ONNX Runtime's quantiser copies it under its name and a number, which a tensor may have."""
    rng = fresh_rng()
    model = Model(rng)
    x, bias = model.input(1, 4, 5, 5), model.weights(4)
    first = model.add("Conv", x, model.weights(4, 4, 1, 1), bias)
    second = model.add("Conv", first, model.weights(4, 4, 1, 1), bias)
    proto = model.proto(model.add("Concat", first, second, axis=1))
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"{bias}2" if name == second else name for name in names]
    network = imported(proto, samples=8)
    inputs = noise(network, rng)
    (name,) = (output.name for output in proto.graph.output)
    found, expected = (run_all(each, inputs)[name] for each in (network.qdq, proto))
    np.testing.assert_allclose(found, expected, atol=0.15 * np.abs(expected).max())
