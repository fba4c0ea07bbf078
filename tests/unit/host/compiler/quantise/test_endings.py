# SPDX-License-Identifier: Apache-2.0
"""Scores that calibration data do not hold have steps, too."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.numpy_helper import to_array
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
