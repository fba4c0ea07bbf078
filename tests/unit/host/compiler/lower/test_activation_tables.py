# SPDX-License-Identifier: Apache-2.0
"""Activations by table behind every kind of layer: one region, fused, and its bits."""

from dataclasses import replace

import numpy as np
import pytest
from support.qdq_runs import quantised_names, run_all
from support.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    Lookup,
    QAdd,
    QConcat,
    QConv,
    QGraph,
    QRescale,
    QTensor,
)
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

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


def test_a_table_is_fused_into_what_writes_its_input_and_gives_the_same_integers():
    known = tensors("x", "c", "t", "s", "y")
    graph = QGraph(
        name="g",
        tensors=known,
        operators=(
            convolution("conv", "x", "c"),
            table("c", "t", known),
            QAdd(name="add", inputs=("t", "x"), output="s"),
            table("s", "y", known),
        ),
        inputs=("x",),
        outputs=("y",),
    )
    fused = fuse(graph)
    assert [type(o) for o in fused.operators] == [QConv, QAdd]
    data = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    assert np.array_equal(outputs(fused, data)["y"], outputs(graph, data)["y"])
    alone = outputs(replace(graph, operators=graph.operators[:1], outputs=("c",)), data)["c"]
    assert np.array_equal(outputs(fused, data)["t"], ENTRIES[alone.astype(int) + 128])


@pytest.mark.parametrize("why", ["read twice", "an output"])
def test_a_result_that_others_need_keeps_its_own_layer(why):
    known = tensors("x", "c", "t", "y")
    graph = QGraph(
        name="g",
        tensors=known,
        operators=(
            convolution("conv", "x", "c"),
            table("c", "t", known),
            QAdd(name="add", inputs=("t", "c" if why == "read twice" else "x"), output="y"),
        ),
        inputs=("x",),
        outputs=("y",) if why == "read twice" else ("y", "c"),
    )
    assert [type(o) for o in fuse(graph).operators] == [QConv, QRescale, QAdd]
    data = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    found = outputs(graph, data)
    assert np.array_equal(found["t"], ENTRIES[found["c"].astype(int) + 128])


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
    assert np.abs(found - real).max() < 0.1 * np.abs(real).max()
    plain = compile_model(network(), TINY, board, **options)
    assert len(plain.network.regions) > 1
