# SPDX-License-Identifier: Apache-2.0
"""Bilinear enlargement: each output once, its integers, concatenations and networks with it."""

from dataclasses import replace

import numpy as np
import pytest
from support.qgraphs import GraphMaker, evaluate_real
from support.randomness import fresh_rng, where
from support.small_models import Model, accelerated, imported, operators

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.convolutions import lines
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QEnlarge
from tilewright.host.compiler.pipeline import compile_network, partition
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


@pytest.mark.parametrize("factor", range(1, 7))
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_output_of_an_axis_is_computed_once(size, factor):
    written = np.zeros(size * factor, int)
    for line in lines(size, factor):
        count = (size - len(line.taps)) // line.stride + 1
        places = line.first + line.step * np.arange(count)
        written[places] += 1
        assert sum(line.taps) == 2 * factor
    assert (written == 1).all()


@pytest.mark.parametrize("factors", [(2, 2), (4, 2), (1, 2)])
def test_at_one_scale_the_integers_are_the_exact_means_rounded_half_to_even(factors):
    rng = fresh_rng()
    for shape in ((1, 5, 4, 3), (2, 3, 1, 6), (1, 4, 2, 1)):
        maker = GraphMaker(rng, shape, zero_points=True)
        y = maker.enlarge("x0", factors)
        own = maker.tensors["x0"]
        maker.tensors[y] = replace(maker.tensors[y], scale=own.scale, zero_point=own.zero_point)
        data = maker.arguments()
        found = evaluate(layer_graph(maker.graph(y), TINY), data)[y]
        steps = data["x0"].astype(float) - own.zero_point
        operator = maker.operators[0]
        exact = evaluate_real(
            replace(
                maker.graph(y),
                tensors={n: replace(t, scale=1.0) for n, t in maker.tensors.items()},
            ),
            data,
        )[y]
        assert operator.factors == factors
        assert steps.size * factors[0] * factors[1] == found.size
        assert np.array_equal(found, exact), where()


@pytest.mark.parametrize("bounds", [(None, None), (0.0, 1.0)])
def test_another_scale_and_an_activation_are_part_of_the_one_rounding(bounds):
    rng = fresh_rng()
    for factors in ((3, 3), (2, 5)):
        maker = GraphMaker(rng, (1, 4, 4, 5), zero_points=True)
        y = maker.enlarge("x0", factors, bounds)
        graph, data = maker.graph(y), maker.arguments()
        found = evaluate(layer_graph(graph, TINY), data)[y].astype(int)
        errors = found - evaluate_real(graph, data)[y].astype(int)
        assert np.abs(errors).max() <= 1, where()
        assert (errors == 0).mean() > 0.9, where()


def test_factors_whose_weights_are_no_int8_numbers_are_refused():
    maker = GraphMaker(fresh_rng(), (1, 4, 3, 3))
    graph = maker.graph(maker.enlarge("x0", (8, 8)))
    with pytest.raises(WorkloadError, match="need weights above 127"):
        layer_graph(graph, TINY)


def resized(model, x, *scales, **attributes):
    return model.add(
        "Resize", x, "", model.constant(np.array((1, 1, *scales), np.float32)),
        **{"mode": "linear", "coordinate_transformation_mode": "half_pixel", **attributes},
    )  # fmt: skip


def test_a_float_network_with_skip_connection_is_one_region_and_bit_exact_on_a_device():
    model = Model(np.random.default_rng(3))
    skip = model.add("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 3, 3), pads=[1] * 4)
    x = model.add("Conv", model.add("Relu", skip), model.weights(6, 4, 2, 2), strides=[2, 2])
    x = model.add("Concat", resized(model, x, 2, 2), skip, axis=1)
    proto = model.proto(model.add("Conv", x, model.weights(5, 10, 1, 1)))
    # Means of few elements have many ties.
    found = [o for o in operators(accelerated(proto, ties=0.3)) if isinstance(o, QEnlarge)]
    assert [o.factors for o in found] == [(2, 2)]
    compiled = compile_network(imported(proto), TINY, load_board("pynq-z2"), offload_all=True)
    assert {p.where for p in compiled.network.placements} == {"accelerator"}
    (graph,) = compiled.layers
    data = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    device = ReferenceDevice(TINY)
    (result,) = run_network(compiled.network, device, data, trusted=True).outputs.values()
    source, target = (graph.tensors[names[0]] for names in (graph.inputs, graph.outputs))
    steps = np.rint(data["x"] / source.scale).clip(-128, 127).astype(np.int8)
    expected = evaluate(graph, {source.name: steps})[target.name]
    assert np.array_equal(np.rint(result / target.scale), expected)


@pytest.mark.parametrize(
    ("scales", "attributes", "reason"),
    [
        ((2, 2), {"coordinate_transformation_mode": "align_corners"}, "not linearly by half_pixel"),
        ((2, 2), {"mode": "cubic"}, "not linearly by half_pixel"),
        ((1.5, 2), {}, "no enlargement by whole factors"),
        ((0.5, 0.5), {}, "no enlargement by whole factors"),
    ],
)
def test_other_resizing_stays_on_the_cpu(scales, attributes, reason):
    model = Model(np.random.default_rng(0))
    x = model.quantised(model.input(1, 4, 4, 4), 0.05)
    y = model.quantised(resized(model, x, *scales, **attributes), 0.05)
    parts = partition(imported(model.proto(y)))
    assert not parts.regions
    assert reason in parts.placements[0].reason
