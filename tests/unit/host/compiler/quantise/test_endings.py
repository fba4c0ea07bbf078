# SPDX-License-Identifier: Apache-2.0
"""Scores that calibration data do not hold have steps, too."""

import numpy as np
import pytest
from onnx.numpy_helper import to_array
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.pipeline import import_network
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

SHAPE = (1, 3, 6, 6)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_ranges_of_scores_are_those_of_the_function(asymmetric) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(*SHAPE), model.weights(4, 3, 1, 1))
    score = model.add("Sigmoid", y)
    small = {"x": np.full(SHAPE, 0.01, np.float32)}
    options = QuantiseOptions(asymmetric=asymmetric, activation_tables=True, int8_ends=True)
    network = import_network(
        model.proto(score),
        calibration=Calibration(arrays=small),
        options=ImportOptions(quantise=options),
    )
    constants = {tensor.name: to_array(tensor) for tensor in network.qdq.graph.initializer}
    steps = {
        node.input[0].removesuffix("_rows"): float(constants[node.input[1]])
        for node in network.qdq.graph.node
        if node.op_type == "QuantizeLinear"
    }
    whole = 255 if asymmetric else 127
    assert steps[y] == pytest.approx((16 if asymmetric else 8) / whole)
    assert 1 / whole in [pytest.approx(step) for step in steps.values()]


def last_layer(model: Model, weight: float) -> str:
    """A layer whose results are all three times the weight for data of 1."""
    return model.add("Conv", model.input(*SHAPE), model.constant(np.full((4, 3, 1, 1), weight)))


def run_on_ones(model: Model, *outputs: str) -> tuple[np.ndarray, np.ndarray]:
    """The first output of a quantised model, and of the model, for data of 1."""
    proto, data = model.proto(*outputs), {"x": np.ones(SHAPE, np.float32)}
    options = QuantiseOptions(activation_tables=True)
    network = import_network(
        proto, calibration=Calibration(arrays=data), options=ImportOptions(quantise=options)
    )
    found, expected = (run_all(each, data)[outputs[0]] for each in (network.qdq, proto))
    return found, expected


@pytest.mark.parametrize("end", ["gate", "logits"])
def test_what_something_else_reads_is_not_clipped_to_scores(end) -> None:
    model = Model(fresh_rng())
    y = last_layer(model, np.float32(20))
    score = model.add("Sigmoid", y)
    outputs = [y, score] if end == "logits" else [model.add("Mul", y, score)]
    found, expected = run_on_ones(model, *outputs)
    np.testing.assert_allclose(expected, 60)
    np.testing.assert_allclose(found, expected, atol=1)


def test_a_flat_hard_sigmoid_has_a_wide_range() -> None:
    model = Model(fresh_rng())
    y = model.add("HardSigmoid", last_layer(model, np.float32(20 / 3)), alpha=0.02, beta=0.5)
    found, expected = run_on_ones(model, y)
    np.testing.assert_allclose(expected, 0.9, atol=1e-6)
    np.testing.assert_allclose(found, expected, atol=0.02)
