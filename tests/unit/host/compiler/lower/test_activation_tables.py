# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor between layers: tables, and PReLU with a slope per channel."""

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from support.networks.qdq_runs import assert_near, quantised_names, run_all
from support.networks.qgraph_floats import evaluate_real
from support.networks.qgraphs import GraphMaker
from support.networks.small_models import Model, accelerated, imported, operators
from support.randomness import fresh_rng, generator, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.memory import Lifetime, place
from tilewright.host.compiler.lower.qgraph import (
    Lookup,
    QConcat,
    QConv,
    QGraph,
    QMatmul,
    QPrelu,
    QRescale,
    QTensor,
)
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.compiler.pipeline import compile_model, compile_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.network_timing import time_layers

TINY = load_hwconfig("tiny-4x4")
TABLED = TINY.with_(activation_table=1)
SHAPE = (1, 4, 5, 5)
ENTRIES = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)


def tensors(*names):
    return {n: QTensor(name=n, shape=SHAPE, scale=0.02 + 0.01 * i, zero_point=i)
            for i, n in enumerate(names)}  # fmt: skip


def table(source, output, known):
    lookup = Lookup(scale=known[source].scale, zero_point=known[source].zero_point, entries=ENTRIES)
    return QRescale(name=f"{source}-{output}", inputs=(source,), output=output, lookup=lookup)


def convolution(name, source, output):
    rng = np.random.default_rng(1)
    return QConv(
        name=name,
        inputs=(source,),
        output=output,
        weights=rng.integers(-20, 20, (4, 4, 1, 1)).astype(np.int8),
        weight_scales=np.full(4, 0.01),
        bias=rng.normal(size=4),
    )


def outputs(graph, data):
    return evaluate(layer_graph(graph, TABLED), {"x": data})


def test_a_table_is_computed_in_its_place_of_a_concatenation_with_the_copys_integers():
    known = tensors("x", "c", "t")
    known["y"] = QTensor(name="y", shape=(1, 8, 5, 5), scale=0.031, zero_point=-7)
    graph = QGraph(
        name="g",
        tensors=known,
        operators=(
            convolution("conv", "x", "c"),
            table("c", "t", known),
            QConcat(name="concat", inputs=("x", "t"), output="y"),
        ),
        inputs=("x",),
        outputs=("y",),
    )
    data = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    joined = layer_graph(fuse(graph), TABLED)
    assert len(joined.layers) == 2, "the convolution, and a copy of x alone"
    copied = layer_graph(fuse(replace(graph, outputs=("y", "t"))), TABLED)
    assert len(copied.layers) == 3
    found, expected = (evaluate(each, {"x": data})["y"] for each in (joined, copied))
    assert np.array_equal(found, expected)


def test_hardware_without_a_table_refuses_the_operator():
    known = tensors("x", "y")
    graph = QGraph(name="g", tensors=known, operators=(table("x", "y", known),),
                   inputs=("x",), outputs=("y",))  # fmt: skip
    with pytest.raises(WorkloadError, match="activation_table: 1"):
        layer_graph(graph, TINY)


def network():
    """SiLU, hard-swish and GELU behind convolutions, a residual add and a pool."""
    model = Model(np.random.default_rng(5), opset=20)
    x = model.add("Conv", model.input(1, 3, 8, 8), model.weights(8, 3, 3, 3), pads=[1] * 4)
    x = model.add("Mul", x, model.add("Sigmoid", x))
    y = model.add("Conv", x, model.weights(8, 1, 3, 3), pads=[1] * 4, group=8)
    y = model.add("HardSwish", y)
    x = model.add("Gelu", model.add("Add", model.add("Conv", y, model.weights(8, 8, 1, 1)), x))
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    return model.proto(model.add("MatMul", x, model.weights(8, 5)))


def test_a_network_of_such_activations_is_one_region_with_its_bits():
    board = load_board("pynq-z2")
    options = {"calibration": Calibration(random_samples=4), "offload_all": True}
    compilation = compile_model(network(), TABLED, board, **options)
    (graph,) = compilation.layers
    assert {p.where for p in compilation.network.placements} == {"accelerator"}
    assert sum(layer.requant.table is not None for layer in graph.layers) == 3
    assert len(graph.layers) == 5, [layer.name for layer in graph.layers]
    data = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    qdq = compilation.imported.qdq
    (source,), (result,) = graph.inputs, graph.outputs
    rounded = run_all(qdq, {"x": data})[quantised_names(qdq)["x"]]
    expected = evaluate(graph, {source: rounded})[result]
    output = graph.tensors[result]
    run = run_network(compilation.network, ReferenceDevice(TABLED), {"x": data}, trusted=True)
    (found,) = run.outputs.values()
    steps = np.rint(found / output.scale) + output.zero_point
    assert np.array_equal(steps.reshape(-1), expected.reshape(-1))
    model = network()
    real = run_all(model, {"x": data})[model.graph.output[0].name]
    assert_near(found, real, 0.1)
    assert len(compile_model(network(), TINY, board, **options).network.regions) > 1


# -- placement of activations: nothing alive overlaps, and little is wasted -----------------------

ALIGNMENT = 64


def draw(rng):
    lifetimes = {}
    for i in range(int(rng.integers(1, 25))):
        first = int(rng.integers(-1, 12))
        lifetimes[f"t{i}"] = Lifetime(
            nbytes=int(rng.integers(1, 5000)), first=first, last=first + int(rng.integers(0, 6))
        )
    return lifetimes


@pytest.mark.parametrize("number", range(50))
def test_tensors_that_live_together_do_not_overlap(number):
    lifetimes = draw(generator(f"arena {number}"))
    arena = place(lifetimes, alignment=ALIGNMENT)
    facts = where(lifetimes=lifetimes, arena=arena)
    for a, one in lifetimes.items():
        assert arena.offsets[a] % ALIGNMENT == 0, facts
        assert arena.offsets[a] + one.nbytes <= arena.nbytes, facts
        for b, other in lifetimes.items():
            if a < b and one.first <= other.last and other.first <= one.last:
                begin, end = arena.offsets[a], arena.offsets[a] + one.nbytes
                assert end <= arena.offsets[b] or begin >= arena.offsets[b] + other.nbytes, facts
    assert arena.peak <= arena.nbytes <= sum(x.nbytes + ALIGNMENT for x in lifetimes.values())


# -- products that need not wait for each other are runs, and a run takes fewer cycles ------------

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


# -- PReLU with a slope per channel: its integers, what is around it, networks with it
PRELU_SHAPE = (1, 6, 5, 3)
SLOPES = np.array([0.25, 0.0, 1.0, -0.5, 1.75, 0.01])


@pytest.mark.parametrize("bounds", [(None, None), (-1.0, 2.0)])
@pytest.mark.parametrize("zero_points", [False, True])
def test_the_integers_are_the_real_function_rounded_once(zero_points, bounds):
    rng = fresh_rng()
    off = []
    for _ in range(20):
        maker = GraphMaker(rng, PRELU_SHAPE, zero_points=zero_points)
        y = maker.prelu("x0", rng.permutation(SLOPES), bounds)
        graph, data = maker.graph(y), maker.arguments()
        layers = layer_graph(graph, TINY)
        assert len(layers.layers) == 2, "a clip and a depthwise convolution"
        errors = evaluate(layers, data)[y].astype(int) - evaluate_real(graph, data)[y].astype(int)
        assert np.abs(errors).max() <= 1, where()
        off.append(np.count_nonzero(errors) / errors.size)
    assert np.mean(off) < 0.03, where()  # a step off only where half a step is near


def test_a_float_network_keeps_its_slopes_and_is_bit_exact_on_a_device():
    model = Model(np.random.default_rng(3))
    x = model.add("Conv", model.input(1, 3, 8, 8), model.weights(6, 3, 3, 3), pads=[1] * 4)
    slopes = np.random.default_rng(4).uniform(-0.5, 1.2, 6).astype(np.float32)
    x = model.add("PRelu", x, slopes[:, None, None])
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    x = model.add("Gemm", x, model.weights(6, 5))
    x = model.add("PRelu", x, np.linspace(0, 1, 5, dtype=np.float32))
    proto = model.proto(model.add("MatMul", x, model.weights(5, 4)))
    found = [o for o in operators(accelerated(proto)) if isinstance(o, QPrelu)]
    assert [len(o.slopes) for o in found] == [6, 5]
    assert np.array_equal(found[0].slopes.astype(np.float32), slopes)
    compiled = compile_network(imported(proto), TINY, load_board("pynq-z2"), offload_all=True)
    assert {p.where for p in compiled.network.placements} == {"accelerator"}
    data = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    (result,) = run_network(
        compiled.network, ReferenceDevice(TINY), data, trusted=True
    ).outputs.values()
    (graph,) = compiled.layers
    source, target = (graph.tensors[names[0]] for names in (graph.inputs, graph.outputs))
    steps = np.rint(data["x"] / source.scale).clip(-128, 127).astype(np.int8)
    expected = evaluate(graph, {source.name: steps})[target.name]
    assert np.array_equal(np.rint(result / target.scale).reshape(-1), expected.reshape(-1))


def quantised_prelu(slopes, *shape):
    model = Model(np.random.default_rng(0))
    x = model.quantised(model.input(*shape), 0.05)
    result = model.add("PRelu", x, np.asarray(slopes, np.float32))
    return imported(model.proto(model.quantised(result, 0.04)))


def test_one_slope_is_a_table_where_there_is_one():
    network = quantised_prelu([0.2], 1, 4, 3, 3)
    (operator,) = operators(partition(network, tables=True))
    assert isinstance(operator, QRescale)
    assert operator.lookup is not None
    (operator,) = operators(partition(network))
    assert isinstance(operator, QPrelu)
    assert np.allclose(operator.slopes, 0.2)
    assert operator.slopes.shape == (4,)


def test_slopes_of_another_axis_stay_on_the_cpu():
    parts = partition(quantised_prelu(np.ones((1, 1, 3)), 1, 4, 3, 3))
    assert not parts.regions
    assert [p.reason for p in parts.placements] == [
        "its slopes are not one for each channel of an image"
    ]
