# SPDX-License-Identifier: Apache-2.0
"""Where channels lie: what has another name somewhere stays where it is."""

from pathlib import Path

import numpy as np
import pytest
from support.networks.qgraph_floats import evaluate as evaluate_floats
from support.networks.qgraph_floats import evaluate_real
from support.networks.qgraphs import GraphMaker, draw_channels
from support.networks.region_runs import (
    assert_program_has_bits,
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
    QConcat,
    QConv,
    QGraph,
    QReshape,
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


def test_what_a_selection_of_all_channels_reshapes_is_not_moved_into_a_concatenation() -> None:
    rng = fresh_rng()
    shapes = {
        "x": (1, 4, 2, 2), "a": (1, 4, 2, 2), "b": (1, 4, 2, 2), "all": (1, 4, 2, 2),
        "line": (1, 4, 4, 1), "y": (1, 4, 4, 1), "joined": (1, 8, 2, 2), "z": (1, 4, 2, 2),
    }  # fmt: skip

    def dense(source: str, output: str) -> QConv:
        return layer_of(rng, (source,), output, 4, shapes[source][1])

    graph = region_of(
        (
            dense("x", "a"),
            QSelect(name="all", inputs=("a",), output="all", channels=(0, 1, 2, 3)),
            QReshape(name="line", inputs=("all",), output="line"),
            dense("line", "y"),
            dense("x", "b"),
            QConcat(name="joined", inputs=("a", "b"), output="joined"),
            dense("joined", "z"),
        ),
        shapes,
        ("y", "z"),
    )
    data = int8_inputs(graph, rng)
    layers = layer_graph(graph, TINY)
    assert_near_real_numbers(graph, layers, data)
    assert_program_has_bits(layers, TINY, data, rng)


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


@pytest.mark.parametrize("scale", [1e-2, 1e-5, 1e-9])
def test_sums_that_no_multiplier_is_too_great_for_saturate(scale) -> None:
    """From 1 / 32767 down, whatever sum is not 0 is beyond int8."""
    rng = fresh_rng()
    shape = (1, 4, 3, 2)
    tensors = {
        "x": QTensor(name="x", shape=shape, scale=1.0),
        "y": QTensor(name="y", shape=shape, scale=scale, zero_point=5),
    }
    conv = QConv(
        name="y", inputs=("x",), output="y", bias=np.zeros(4), weight_scales=np.ones(4),
        weights=rng.integers(-1, 2, (4, 4, 1, 1)).astype(np.int8),
    )  # fmt: skip
    graph = QGraph(name="g", tensors=tensors, operators=(conv,), inputs=("x",), outputs=("y",))
    x = rng.integers(-1, 2, shape).astype(np.int8)
    sums = np.einsum("oc,nchw->nohw", conv.weights[:, :, 0, 0].astype(int), x)
    found = evaluate(layer_graph(graph, TINY), {"x": x})["y"]
    assert np.array_equal(found, np.clip(np.rint(sums / scale) + 5, -128, 127))


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


# -- convolutions with a residual: channels of any weights have their bias ------------------------

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
    graph = sum_of(groups, residual_scale, zero_point)
    assert_near_real_numbers(graph, layer_graph(graph, TINY), int8_inputs(graph, fresh_rng()))


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
@pytest.mark.parametrize("inner_leaves", [False, True])
def test_a_result_that_is_another_tensors_bytes_is_saved_and_loaded(
    hw: HwConfig, inner_leaves: bool, tmp_path: Path
) -> None:
    maker = GraphMaker(fresh_rng(), (1, 5, 4, 4))
    inner = maker.conv("x0", 6, 1)
    last = maker.reshape(maker.reshape(inner, 1, 6, 2, 8), 1, 6, 16, 1)
    graph = maker.graph(*([inner] if inner_leaves else []), last)
    expected = evaluate(layer_graph(fuse(graph), hw), maker.arguments())
    region = saved_and_loaded(graph, hw, tmp_path).regions[0]
    found, _ = region.run(ReferenceDevice(hw), [maker.values["x0"]])
    assert len(found) == len(graph.outputs)
    for name, result in zip(graph.outputs, found, strict=True):
        assert np.array_equal(result, expected[name])


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
ARRAYS = {
    "4x4": PLAIN,
    "8x4": PLAIN.with_(name="8x4", block_in=8),
    "4x8": PLAIN.with_(name="4x8", block_out=8),
    "4x16": PLAIN.with_(name="4x16", block_out=16),
}


def turn(channels: int, rows: int, columns: int = 1, zero_point: int = 0) -> QGraph:
    shapes = {"x": (1, channels, rows, columns), "y": (1, rows * columns, channels, 1)}
    tensors = {
        name: QTensor(name=name, shape=shape, scale=0.03, zero_point=zero_point)
        for name, shape in shapes.items()
    }
    return QGraph(name="g", tensors=tensors, operators=(QTurn(name="turn", inputs=("x",),
                  output="y"),), inputs=("x",), outputs=("y",))  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize(
    ("channels", "rows", "columns", "zero_point"),
    [(8, 8, 1, 0), (40, 16, 1, 0), (37, 9, 1, 5), (3, 4, 5, -128), (16, 2, 3, 127), (70, 2, 1, 0)],
)
def test_a_turn_is_exact(
    array: str, channels: int, rows: int, columns: int, zero_point: int
) -> None:
    hw, graph, rng = ARRAYS[array], turn(channels, rows, columns, zero_point), fresh_rng()
    layers, data = layer_graph(graph, hw), int8_inputs(graph, rng)
    expected = evaluate(layers, data)["y"]
    assert np.array_equal(expected[0, :, :, 0], data["x"].reshape(channels, -1).T)
    assert np.array_equal(evaluate_floats(graph, [data["x"]])[0], expected)
    assert_program_has_bits(layers, hw, data, rng)


def test_many_channels_are_multiplied_by_small_identities() -> None:
    workloads = [layer.workload for layer in layer_graph(turn(64, 32), PLAIN).layers]
    assert len(workloads) == 4
    assert {(each.height, each.channels_in, each.channels_out) for each in workloads} == {
        (16, 16, 32)
    }


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
