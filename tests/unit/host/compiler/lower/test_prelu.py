# SPDX-License-Identifier: Apache-2.0
"""PReLU with a slope per channel: its integers, what is around it, networks with it."""

import numpy as np
import pytest
from support.networks.qgraphs import GraphMaker, evaluate_real
from support.networks.small_models import Model, accelerated, imported, operators
from support.randomness import fresh_rng, where

from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QPrelu, QRescale
from tilewright.host.compiler.pipeline import compile_network, partition
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
SHAPE = (1, 6, 5, 3)
SLOPES = np.array([0.25, 0.0, 1.0, -0.5, 1.75, 0.01])


@pytest.mark.parametrize("bounds", [(None, None), (-1.0, 2.0)])
@pytest.mark.parametrize("zero_points", [False, True])
def test_the_integers_are_the_real_function_rounded_once(zero_points, bounds):
    rng = fresh_rng()
    off = []
    for _ in range(20):
        maker = GraphMaker(rng, SHAPE, zero_points=zero_points)
        y = maker.prelu("x0", rng.permutation(SLOPES), bounds)
        graph, data = maker.graph(y), maker.arguments()
        layers = layer_graph(graph, TINY)
        assert len(layers.layers) == 2, "a clip and a depthwise convolution"
        found = evaluate(layers, data)[y].astype(int)
        errors = found - evaluate_real(graph, data)[y].astype(int)
        assert np.abs(errors).max() <= 1, where()
        off.append(np.count_nonzero(errors) / errors.size)
    assert np.mean(off) < 0.03, where()  # a step off only where half a step is near


def test_what_follows_a_prelu_and_what_stands_before_it_keep_their_layers():
    maker = GraphMaker(fresh_rng(), SHAPE, zero_points=True)
    first = maker.conv("x0", 6, 3, pad=1)
    second = maker.prelu(first, SLOPES)
    graph = fuse(maker.graph(maker.conv(second, 4)))
    layers = layer_graph(graph, TINY)
    assert [layer.name for layer in layers.layers] == [
        "conv0", "prelu1/negative", "prelu1", "conv2",
    ]  # fmt: skip


def test_a_float_network_keeps_its_slopes_and_is_bit_exact_on_a_device():
    model = Model(np.random.default_rng(3))
    x = model.add("Conv", model.input(1, 3, 8, 8), model.weights(6, 3, 3, 3), pads=[1] * 4)
    slopes = np.random.default_rng(4).uniform(-0.5, 1.2, 6).astype(np.float32)
    x = model.add("PRelu", x, model.constant(slopes[:, None, None]))
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    x = model.add("Gemm", x, model.weights(6, 5))
    x = model.add("PRelu", x, model.constant(np.linspace(0, 1, 5, dtype=np.float32)))
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
    result = model.add("PRelu", x, model.constant(np.asarray(slopes, np.float32)))
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
