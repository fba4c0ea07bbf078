# SPDX-License-Identifier: Apache-2.0
"""A region that is cut computes what it computes whole, and hands on what later parts read."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.cut import crossing, cut
from tilewright.host.compiler.lower.qgraph import QAdd, QConv, QGraph, QTensor


def residual_graph(rng):
    """Three convolutions with a shortcut around the last two; the second one is an output."""
    shape = (1, 4, 5, 5)
    tensors = {name: QTensor(name=name, shape=shape, scale=0.1) for name in "xabcy"}

    def conv(name, source, output):
        return QConv(
            name=name,
            inputs=(source,),
            output=output,
            weights=rng.integers(-20, 20, (4, 4, 3, 3), dtype=np.int8),
            weight_scales=np.full(4, 0.01),
            bias=rng.normal(size=4),
            pads=(1, 1, 1, 1),
        )

    return QGraph(
        name="r",
        tensors=tensors,
        operators=(
            conv("one", "x", "a"),
            conv("two", "a", "b"),
            conv("three", "b", "c"),
            QAdd(name="add", inputs=("c", "a"), output="y"),
        ),
        inputs=("x",),
        outputs=("y", "b"),
    )


def test_what_crosses_is_what_later_operators_read_and_outputs():
    graph = residual_graph(fresh_rng())
    assert [set(crossing(graph, place)) for place in range(1, 4)] == [
        {"a"},
        {"a", "b"},
        {"a", "b", "c"},
    ]


@pytest.mark.parametrize("places", [(1,), (2,), (3,), (1, 3), (1, 2, 3)])
def test_parts_read_what_parts_before_them_wrote(places):
    graph = residual_graph(fresh_rng())
    parts = cut(graph, places)
    assert [o.name for part in parts for o in part.operators] == ["one", "two", "three", "add"]
    known = {"x"}
    for part in parts:
        assert set(part.inputs) <= known
        assert not set(part.outputs) & known
        known.update(part.outputs)
    assert {"y", "b"} <= known


@pytest.mark.parametrize("places", [(0,), (4,), (2, 2), (3, 1)])
def test_places_that_leave_a_part_empty_are_refused(places):
    with pytest.raises(WorkloadError, match="must be ascending"):
        cut(residual_graph(fresh_rng()), places)
