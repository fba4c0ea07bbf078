# SPDX-License-Identifier: Apache-2.0
"""Sums and differences, in whole numbers beside real ones."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QAdd, QGraph, QTensor
from tilewright.host.machine.hwconfig import load_hwconfig


@pytest.mark.parametrize("_", range(30))
def test_terms_of_far_apart_scales_add_to_a_step(_: int) -> None:
    """Also where the result is up to 200 times finer than its terms, which then nearly cancel."""
    rng = fresh_rng()
    scales = 10 ** rng.uniform(-3, 0, 2)
    finest = scales.max() / 10 ** rng.uniform(-1, 2.3)
    zeros = rng.integers(-128, 128, 3)
    shape, subtracts = (1, 2, 9, 11), bool(rng.integers(2))
    a, b, y = (
        QTensor(name=name, shape=shape, scale=float(scale), zero_point=int(zero))
        for name, scale, zero in zip("aby", (*scales, finest), zeros, strict=True)
    )
    values = {t.name: rng.integers(-128, 128, shape).astype(np.int8) for t in (a, b)}
    near = np.rint((values["a"] - float(a.zero_point)) * a.scale / b.scale)
    near = b.zero_point - near if not subtracts else b.zero_point + near
    values["b"] = np.clip(near + rng.integers(-1, 2, shape), -128, 127).astype(np.int8)
    graph = QGraph(
        name="g",
        tensors={t.name: t for t in (a, b, y)},
        operators=(QAdd(name="add", inputs=("a", "b"), output="y", subtracts=subtracts),),
        inputs=("a", "b"),
        outputs=("y",),
    )
    first, second = ((values[t.name] - float(t.zero_point)) * t.scale for t in (a, b))
    real = first - second if subtracts else first + second
    expected = np.clip(real / y.scale + y.zero_point, -128, 127)
    found = evaluate(layer_graph(graph, load_hwconfig("tiny-4x4")), values)["y"]
    assert np.abs(found - expected).max() < 1.5  # a step from the nearest
