# SPDX-License-Identifier: Apache-2.0
"""Which operators of a quantised model become regions, and what that costs."""

import numpy as np
import pytest
from support.compiled_runs import assert_same_outputs
from support.qdq_runs import run_all
from support.qgraph_floats import FloatRegions
from support.randomness import fresh_rng
from support.small_models import Model, assert_regions_agree, imported, noise

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.cost import CostModel, _fused, _noted
from tilewright.host.compiler.divide.placement import Work
from tilewright.host.compiler.lower.qgraph import QAdd, QSelect
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.run.relax_host import HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig


def test_a_region_is_convex() -> None:
    """A path over the CPU between two layers divides them."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 4, 4), model.weights(4, 4, 1, 1))
    cpu = model.add("Sigmoid", x)
    y = model.add("Add", model.add("Conv", cpu, model.weights(4, 4, 1, 1)), x)
    network = imported(model.proto(model.add("Conv", y, model.weights(2, 4, 1, 1))))
    parts = partition(network)
    assert len(parts.regions) == 2
    assert_same_outputs(network, parts)


def test_choose_decides_and_sees_the_whole_graph() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 6), model.weights(8, 4, 3, 3), model.weights(8))
    y = model.add("Conv", model.add("Sigmoid", y), model.weights(2, 8, 1, 1))
    network = imported(model.proto(model.add("Flatten", y)))
    seen = []

    def first_layer(graph):
        seen.append(graph)
        return {graph.candidates[0].id}

    parts = partition(network, first_layer)
    assert_same_outputs(network, parts)
    (graph,) = seen
    first, second = (c for c in graph.candidates if c.operator is not None)
    passes = (144 + 4 * 144) + (4 * 144 + 128)  # dequantise; convolution, bias and quantise
    assert first.work == Work(macs=8 * 4 * 9 * 16, bytes=passes)
    assert second.work.macs == 2 * 8 * 16
    ids = {c.id for c in graph.candidates} | {n.id for n in graph.cpu_nodes}
    assert {e.source for e in graph.edges} - {None} == ids
    assert {r for e in graph.edges for r in e.readers} <= ids
    assert any(e.source is None for e in graph.edges)
    assert sum(e.leaves for e in graph.edges) == 1
    assert "sigmoid" in {n.kind for n in graph.cpu_nodes}
    places = {p.name: (p.place, p.reason) for p in parts.placements if p.kind == "Conv"}
    assert sorted(places.values()) == [
        ("accelerator", ""),
        ("cpu", "it is left to the CPU by choice"),
    ]
    candidates = {p.candidate for p in parts.placements if p.kind == "Conv"}
    assert candidates == {first.id, second.id}


def test_an_add_behind_a_layer_costs_nothing_more_and_one_of_its_own_does() -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 8, 8), model.weights(4, 4, 3, 3), pads=[1, 1, 1, 1])
    pooled = model.add("MaxPool", x, kernel_shape=[1, 1])
    y = model.add("Add", model.add("Conv", pooled, model.weights(4, 4, 1, 1)), x)
    alone = model.add("Add", model.add("MaxPool", y, kernel_shape=[1, 1]), x)
    seen = []
    partition(imported(model.proto(alone)), lambda graph: seen.append(graph) or set())
    (graph,) = seen
    adds = [c for c in graph.candidates if isinstance(c.operator, QAdd)]
    costs = CostModel(load_hwconfig("tiny-4x4"), load_board("pynq-z2"))
    fused = _fused(graph)
    assert [c.id in fused for c in adds] == [True, False]
    seconds = [costs._accelerator_seconds(c, fused=c.id in fused, from_host=False) for c in adds]
    assert [each > 0 for each in seconds] == [False, True]


def test_a_selection_costs_a_copy_unless_only_concatenations_read_it() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(6, 3, 1, 1))
    bounds = [[model.constant(np.array([n])) for n in part] for part in ((0, 3, 1), (3, 6, 1))]
    left, right = (model.add("Slice", y, *part) for part in bounds)
    joined = model.add("Concat", left, right, right, axis=1)
    proto = model.proto(model.add("Conv", joined, model.weights(4, 9, 1, 1)),
                        model.add("Conv", left, model.weights(4, 3, 1, 1)))  # fmt: skip
    seen = []
    partition(imported(proto), lambda graph: seen.append(graph) or ())
    (graph,) = seen
    selects = [c for c in graph.candidates if isinstance(c.operator, QSelect)]
    costs = CostModel(load_hwconfig("tiny-4x4"), load_board("pynq-z2"))
    noted = _noted(graph)
    assert sorted(c.id in noted for c in selects) == [False, True]
    for candidate in selects:
        seconds = costs._accelerator_seconds(
            candidate, fused=candidate.id in noted, from_host=False
        )
        assert (seconds == 0) == (candidate.id in noted)


def test_choosing_nothing_runs_everything_on_the_cpu() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    network = imported(model.proto(model.add("Relu", y)))
    parts = partition(network, lambda _: ())
    assert not parts.regions
    inputs = noise(network, np.random.default_rng(0))
    found = HostProgram(module=parts.host).run(inputs, FloatRegions(()))
    ((name, result),) = found.items()
    np.testing.assert_allclose(result, run_all(network.qdq, inputs)[name], atol=0.05)


def test_unknown_candidates_are_refused() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    with pytest.raises(WorkloadError, match=r"choose: must be ids of candidates, not \[99\]"):
        partition(imported(model.proto(y)), lambda _: {99})


def test_random_networks_agree_with_onnx_runtime() -> None:
    rng = fresh_rng()
    for _ in range(4):
        model = Model(rng)
        images = [model.input(1, 4, 10, 10)]
        for _ in range(8):
            images.append(_random_step(model, rng, images))
        unread = [y for y in images[1:] if not any(y in n.input for n in model.nodes)]
        y = model.add("GlobalAveragePool", unread[-1])
        outputs = [*unread[:-1], model.add("Gemm", model.add("Flatten", y), model.weights(4, 3))]
        network = imported(model.proto(*outputs), asymmetric=bool(rng.integers(2)))
        parts = partition(network)
        assert all(p.place == "accelerator" for p in parts.placements if p.kind == "Conv")
        # the sum of a tensor and its maxima has twice its scale, and is often a tie
        assert_regions_agree(network, parts, noise(network, rng), ties=0.3)


def _random_step(model: Model, rng: np.random.Generator, images: list[str]) -> str:
    """An operator on images of 4x10x10."""
    x = images[rng.integers(len(images))]
    kind = rng.choice(["conv", "depthwise", "add", "pool", "concat", "relu", "cpu"])
    if kind == "conv":
        y = model.add("Conv", x, model.weights(4, 4, 3, 3), model.weights(4), pads=[1, 1, 1, 1])
        return model.add("Relu", y) if rng.random() < 0.5 else y
    if kind == "depthwise":
        return model.add("Conv", x, model.weights(4, 1, 3, 3), pads=[0, 1, 2, 1], group=4)
    if kind == "add":
        return model.add("Add", x, images[rng.integers(len(images))])
    if kind == "pool":
        return model.add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    if kind == "concat":
        joined = model.add("Concat", x, images[rng.integers(len(images))], axis=1)
        return model.add("Conv", joined, model.weights(4, 8, 1, 1))
    return model.add("Relu" if kind == "relu" else "HardSwish", x)
