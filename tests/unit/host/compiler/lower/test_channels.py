# SPDX-License-Identifier: Apache-2.0
"""Where channels lie: what has another name somewhere stays where it is."""

from pathlib import Path

import numpy as np
import pytest
from support.networks.qgraph_floats import evaluate as evaluate_floats
from support.networks.qgraph_floats import evaluate_real
from support.networks.qgraphs import GraphMaker, draw_channels
from support.networks.region_runs import (
    int8_inputs,
    layer_of,
    region_of,
)
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.cut import crossing, cut
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConv,
    QGraph,
    QSelect,
    QTensor,
    QTurn,
    Shape,
)
from tilewright.host.compiler.pack.artefact import CompiledNetwork, load, save
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


def assert_near_real_numbers(
    graph: QGraph, layers: LayerGraph, data: dict[str, np.ndarray]
) -> None:
    """The layers of a region compute what it means, but for a step."""
    found = evaluate(layers, data)
    floats = evaluate_floats(graph, [data[name] for name in graph.inputs])
    for name, real in zip(graph.outputs, floats, strict=True):
        assert np.abs(found[name].astype(int) - real).max() <= 1


def test_parts_that_a_convolution_interleaves_are_not_copied() -> None:
    rng = fresh_rng()
    parts, width = int(rng.integers(2, 4)), 4 * int(rng.integers(1, 4))
    order = rng.permutation(parts * width).reshape(parts, width)
    shapes: dict[str, Shape] = {"x": (1, 6, 3, 2), "all": (1, order.size, 3, 2)}
    for index in range(parts):
        shapes |= {f"part{index}": (1, width, 3, 2), f"y{index}": (1, 5, 3, 2)}

    def dense(source: str, output: str) -> QConv:
        out, fan = shapes[output][1], shapes[source][1]
        numbers = {"bias": rng.integers(-99, 99, out) * 1.0}
        numbers["weight_scales"] = rng.uniform(0.005, 0.01, out)
        return layer_of(rng, (source,), output, out, fan, **numbers)

    operators = [dense("x", "all")]
    for index, taken in enumerate(order.tolist()):
        part = f"part{index}"
        operators.append(QSelect(name=part, inputs=("all",), output=part, channels=tuple(taken)))
        operators.append(dense(part, f"y{index}"))
    graph = region_of(operators, shapes, tuple(f"y{index}" for index in range(parts)))
    layers = layer_graph(fuse(graph), TINY)
    assert [layer.name for layer in layers.layers] == ["all", *graph.outputs]
    assert_near_real_numbers(graph, layers, int8_inputs(graph, rng))


def test_copies_name_the_operator_that_they_are_made_for() -> None:
    copies = 0
    for _ in range(20):
        graph = fuse(draw_channels(fresh_rng(), 4)[0])
        layers = layer_graph(graph, TINY).layers
        names = {operator.name for operator in graph.operators}
        assert all(names.issuperset(layer.operators) for layer in layers)
        copies += sum(layer.name.startswith("concat") and "/" in layer.name for layer in layers)
    assert copies


# -- A region that is cut computes what it computes whole, and hands on what later parts read -----


def residual_graph(rng):
    """Three convolutions with a shortcut around the last two; the second one is an output."""
    convs = [layer_of(rng, (x,), y, 4, 4, 3, 3, pads=(1, 1, 1, 1)) for x, y in ("xa", "ab", "bc")]
    add = QAdd(name="add", inputs=("c", "a"), output="y")
    return region_of((*convs, add), dict.fromkeys("xabcy", (1, 4, 5, 5)), ("y", "b"))


def test_what_crosses_is_what_later_operators_read_and_outputs():
    graph = residual_graph(fresh_rng())
    assert [set(crossing(graph, place)) for place in range(1, 4)] == [
        {"a"},
        {"a", "b"},
        {"a", "b", "c"},
    ]


@pytest.mark.parametrize("places", [(1,), (2,), (3,), (1, 3), (1, 2, 3)])
def test_parts_read_what_parts_before_them_wrote(places):
    parts = cut(residual_graph(fresh_rng()), places)
    assert [o.name for part in parts for o in part.operators] == ["a", "b", "c", "add"]
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


# -- changes of shape inside a region: other names for bytes that are already there ---------------

CHAINED = load_hwconfig("tiny-4x4")
ALONE = CHAINED.with_(name="each layer alone", batch=2, block_in=8)


def saved_and_loaded(graph: QGraph, hw: HwConfig, folder: Path) -> CompiledNetwork:
    layers = layer_graph(fuse(graph), hw)
    region = make_executable(graph, layers, hw, lambda workload: default_schedule(hw, workload))
    network = CompiledNetwork(
        name="n", hw=hw, host="{}", regions=(region,), inputs=(), outputs=(), placements=()
    )
    save(network, folder / "n.tw")
    return load(folder / "n.tw")


@pytest.mark.parametrize("hw", [CHAINED, ALONE], ids=lambda hw: hw.name)
def test_shapes_of_an_input_that_follow_each_other_are_read(hw: HwConfig, tmp_path: Path) -> None:
    maker = GraphMaker(fresh_rng(), (1, 5, 4, 4))
    line = maker.reshape(maker.reshape("x0", 1, 5, 8, 2), 1, 5, 16, 1)
    graph = maker.graph(maker.conv(line, 6, 1))
    (name,) = graph.outputs
    expected = evaluate(layer_graph(fuse(graph), hw), maker.arguments())[name]
    real = evaluate_real(graph, maker.arguments())[name]
    assert np.abs(expected.astype(int) - real).max() <= 1
    region = saved_and_loaded(graph, hw, tmp_path).regions[0]
    (found,), _ = region.run(ReferenceDevice(hw), [maker.values["x0"]])
    assert np.array_equal(found, expected)


# -- channels and pixels exchange places, exactly, on any blocks, whatever memory held ------------

PLAIN = load_hwconfig("tiny-4x4")


def turn(channels: int, rows: int, columns: int = 1, zero_point: int = 0) -> QGraph:
    shapes = {"x": (1, channels, rows, columns), "y": (1, rows * columns, channels, 1)}
    tensors = {
        name: QTensor(name=name, shape=shape, scale=0.03, zero_point=zero_point)
        for name, shape in shapes.items()
    }
    return QGraph(name="g", tensors=tensors, operators=(QTurn(name="turn", inputs=("x",),
                  output="y"),), inputs=("x",), outputs=("y",))  # fmt: skip


def test_an_array_with_a_batch_refuses() -> None:
    with pytest.raises(WorkloadError, match="batch is 1"):
        layer_graph(turn(8, 8), PLAIN.with_(name="b2", batch=2))


@pytest.mark.parametrize(
    ("taken", "kinds"),
    [
        ([*range(32, 64), *range(32)], [Kind.DEPTHWISE] * 2),  # whole blocks, in another order
        ([channel for channel in (3, 40) for _ in range(64)], [Kind.CONV2D] * 2),  # first once
        ([1, 0, *range(2, 64)], [Kind.CONV2D]),
    ],
)
def test_a_copy_of_channels_takes_the_form_that_costs_least(taken, kinds) -> None:
    maker = GraphMaker(fresh_rng(), (1, 64, 20, 20))
    graph = maker.graph(maker.select("x0", taken))
    layers = layer_graph(graph, TINY).layers
    assert [layer.workload.kind for layer in layers] == kinds
    (name,) = graph.outputs
    found = evaluate(layer_graph(graph, TINY), maker.arguments())[name]
    assert np.array_equal(found, maker.arguments()["x0"][:, taken])
