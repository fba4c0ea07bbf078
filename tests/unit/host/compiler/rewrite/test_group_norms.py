# SPDX-License-Identifier: Apache-2.0
"""Normalisation of groups of channels compiles."""

import numpy as np
import pytest
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model, imported, noise

from tilewright.host.compiler.pipeline import partition


@pytest.mark.parametrize("spatial", [(4, 5), (7,)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_groups_of_channels_are_normalised(spatial, groups) -> None:
    model = Model(fresh_rng(), opset=21)
    x = model.input(1, 4, *spatial)
    y = model.add("Conv", x, model.weights(6, 4, *[1] * len(spatial)))
    numbers = [model.constant(fresh_rng().normal(size=6).astype(np.float32)) for _ in range(2)]
    y = model.add("GroupNormalization", y, *numbers, num_groups=groups, epsilon=0.1)
    proto = model.proto(model.add("Relu", y))
    network = imported(proto)
    partition(network)
    inputs = noise(network, np.random.default_rng(0))  # the calibration data
    (name,) = (value.name for value in proto.graph.output)
    exact, found = (run_all(each, inputs)[name] for each in (proto, network.qdq))
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
