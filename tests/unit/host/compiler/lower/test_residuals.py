# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a residual: channels of any weights have their bias."""

import numpy as np
import pytest
from support.qgraph_floats import evaluate as evaluate_floats
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QConv, QGraph, QTensor
from tilewright.host.machine.hwconfig import load_hwconfig

TINY = load_hwconfig("tiny-4x4")
SCALES = (2e-3, 1e-4, 3e-6, 1e-8, 1e-12)
"""Of the weights of a channel each."""


def sum_of(groups: int, residual_scale: float, zero_point: int) -> QGraph:
    rng, channels = fresh_rng(), len(SCALES)
    tensors = {
        name: QTensor(name=name, shape=(1, channels, 3, 3), scale=scale, zero_point=zero)
        for name, scale, zero in (
            ("x", 0.02, -3), ("r", residual_scale, zero_point), ("y", 0.03, 5),
        )
    }  # fmt: skip
    shape = (channels, channels // groups, 1, 1)
    conv = QConv(
        name="conv", inputs=("x", "r"), output="y", groups=groups,
        weights=rng.integers(-127, 128, shape).astype(np.int8), weight_scales=np.array(SCALES),
        bias=np.array([0.5, -1.0, 1.0, 0.7, -0.6]),
    )  # fmt: skip
    return QGraph(
        name="g", tensors=tensors, operators=(conv,), inputs=("x", "r"), outputs=("y",)
    )  # fmt: skip


@pytest.mark.parametrize("groups", [1, len(SCALES)])
@pytest.mark.parametrize(("residual_scale", "zero_point"), [(0.02, 0), (0.01, 9), (0.3, -20)])
def test_channels_of_tiny_weights_have_their_bias(
    groups: int, residual_scale: float, zero_point: int
) -> None:
    graph, rng = sum_of(groups, residual_scale, zero_point), fresh_rng()
    data = {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    (real,) = evaluate_floats(graph, [data[name] for name in graph.inputs])
    found = evaluate(layer_graph(graph, TINY), data)["y"]
    assert np.abs(found.astype(int) - real).max() <= 1
