# SPDX-License-Identifier: Apache-2.0
"""Products that need not wait for each other are runs, and a run takes fewer cycles."""

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.compiler.lower import region
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGraph, QMatmul, QTensor
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.compiler.lower.runs import runs_of
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_layers

HW = load_hwconfig("pynq-16x16")


def tensor(name: str, channels: int, tokens: int) -> QTensor:
    return QTensor(name=name, shape=(1, channels, tokens, 1), scale=0.05)


def scores(heads: int, windows: int, tokens: int) -> LayerGraph:
    """Products of queries and keys."""
    names = {"q": heads * 32, "k": heads * 32, "s": heads * tokens}
    product = QMatmul(
        name="scores", inputs=("q", "k"), output="s", heads=heads, windows=windows,
        b_rows_are_outputs=True,
    )  # fmt: skip
    tensors = {name: tensor(name, channels, windows * tokens) for name, channels in names.items()}
    graph = QGraph(
        name="g", tensors=tensors, operators=(product,), inputs=("q", "k"), outputs=("s",)
    )
    return layer_graph(graph, HW)


def products(run: list) -> bool:
    return all(isinstance(layer.weights, ChannelSlice) for layer in run)


def test_products_of_windows_and_heads_are_one_run_though_each_head_has_copies() -> None:
    graph = scores(heads=3, windows=4, tokens=49)
    copied = [layer.name for layer in graph.layers if layer.name.endswith("/room")]
    assert len(copied) == 3
    runs = runs_of(graph)
    assert [len(run) for run in runs if products(run)] == [12]
    assert sum(map(len, runs)) == len(graph.layers)
    done: set[str] = set(graph.inputs)
    for run in runs:
        assert {name for layer in run for name in layer.reads()} <= done
        done |= {layer.output.tensor for layer in run}


def test_a_product_that_reads_another_one_waits_for_it() -> None:
    first, second = (
        QMatmul(name=y, inputs=(x, "b"), output=y, heads=1, b_rows_are_outputs=True)
        for x, y in (("a", "y"), ("y", "z"))
    )
    tensors = {name: tensor(name, 16, 16) for name in "abyz"}
    graph = QGraph(
        name="g", tensors=tensors, operators=(first, second), inputs=("a", "b"), outputs=("z",)
    )
    assert [len(run) for run in runs_of(layer_graph(graph, HW))] == [1, 1]


def test_products_of_other_scales_are_no_run() -> None:
    tensors = {name: tensor(name, 16, 16) for name in ("a", "b", "y", "z")}
    made = [
        QMatmul(name=y, inputs=("a", "b"), output=y, heads=1, b_rows_are_outputs=True, factor=f)
        for y, f in (("y", 1.0), ("z", 0.5))
    ]
    graph = QGraph(
        name="g", tensors=tensors, operators=tuple(made), inputs=("a", "b"), outputs=("y", "z")
    )
    assert [len(run) for run in runs_of(layer_graph(graph, HW))] == [1, 1]


def test_a_run_hides_loads_and_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, memory = scores(heads=1, windows=16, tokens=49), load_board("pynq-z2").memory

    def cycles() -> int:
        program = lower_region(graph, HW, lambda workload: default_schedule(HW, workload))
        return time_layers(program, memory)[0].cycles

    beside = cycles()
    monkeypatch.setattr(region, "runs_of", lambda graph: [[layer] for layer in graph.layers])
    assert beside < 0.55 * cycles()


def test_layers_of_a_run_have_one_schedule_whatever_they_would_have_alone() -> None:
    graph, rng = scores(heads=1, windows=4, tokens=48), fresh_rng()
    largest = cycle([2, 1])  # blocks of a reduction step

    def schedule_of(workload: Workload) -> Schedule:
        return replace(default_schedule(HW, workload), tile_ci=next(largest))

    program = lower_region(graph, HW, schedule_of)
    assert len({layer.schedule for layer in program.layers}) == 1
    data = {
        name: rng.integers(-127, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    run = ReferenceDevice(HW).run(program.program, program.image(data))
    assert np.array_equal(program.read_outputs(run.memory)["s"], evaluate(graph, data)["s"])


def test_layers_of_a_run_load_what_they_share_once() -> None:
    memory = load_board("pynq-z2").memory
    graph = scores(heads=1, windows=16, tokens=48)
    program = lower_region(graph, HW, lambda workload: default_schedule(HW, workload))
    _, layers = time_layers(program, memory)
    alone, *others = (layer.bytes_read for layer in layers)
    assert set(others) == {2 * 48 * 32}  # queries and keys: neither parameters nor micro-ops
    assert alone > others[0]
