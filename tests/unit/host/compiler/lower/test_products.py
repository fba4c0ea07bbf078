# SPDX-License-Identifier: Apache-2.0
"""Products of activations: their integers, what is fused behind them, and networks with gates."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from support.networks.compiled_runs import assert_bits_of_its_layers
from support.networks.qdq_runs import assert_near, output_of
from support.networks.qgraph_floats import evaluate_real
from support.networks.qgraphs import GraphMaker
from support.networks.small_models import Model, accelerated, imported, noise, operators
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.convolutions import lines, phases
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import Lookup, QEnlarge, QMultiply, QRescale
from tilewright.host.compiler.pipeline import (
    compile_model,
    compile_network,
    partition,
)
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind

TINY = load_hwconfig("tiny-4x4")
TABLED = TINY.with_(activation_table=1)
SHAPE = (2, 5, 4, 3)


@pytest.mark.parametrize("factor", [SHAPE, (2, 5, 1, 1)])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_integers_are_the_rounded_real_product(factor, swapped):
    """One rounding: off by a step only where the real product is close to half a step."""
    rng = fresh_rng()
    for _ in range(20):
        maker = GraphMaker(rng, SHAPE, zero_points=True)
        names = ("x0", maker.input(factor))
        y = maker.multiply(*(reversed(names) if swapped else names))
        graph, data = maker.graph(y), maker.arguments()
        found = evaluate(layer_graph(graph, TINY), data)[y].astype(int)
        expected = evaluate_real(graph, data)[y].astype(int)
        assert np.abs(found - expected).max() <= 1, where()
        assert (found == expected).mean() > 0.9, where()


def test_a_factor_without_a_zero_point_is_the_one_that_is_moved():
    for zeros in ((0, 5), (5, 0), (5, 7)):
        maker = GraphMaker(fresh_rng(), SHAPE)
        names = ("x0", maker.input(SHAPE))
        y = maker.multiply(*names)
        tensors = {
            name: maker.tensors[name].__class__(name=name, shape=SHAPE, scale=0.1, zero_point=zero)
            for name, zero in zip(names, zeros, strict=True)
        }
        maker.tensors.update(tensors)
        (layer,) = layer_graph(maker.graph(y), TINY).layers
        assert layer.workload.kind is Kind.MULTIPLY
        assert layer.factor_zero == (0 if 0 in zeros else 7)


@pytest.mark.parametrize("shape", [(2, 5, 1, 3), (2, 1, 1, 1), (1, 5, 1, 1)])
def test_other_shapes_stay_on_the_cpu(shape):
    maker = GraphMaker(fresh_rng(), SHAPE)
    graph = maker.graph(maker.multiply("x0", maker.input(shape)))
    with pytest.raises(WorkloadError, match="one number a channel"):
        layer_graph(graph, TINY)


def test_activations_and_tables_behind_a_product_go_into_it():
    maker = GraphMaker(fresh_rng(), SHAPE)
    y = maker.rescale(maker.multiply("x0", maker.input((2, 5, 1, 1))), (0.0, None))
    z = maker.rescale(y, (None, None))
    between = maker.tensors[y]
    entries = np.arange(-128, 128).astype(np.int8)[::-1].copy()
    lookup = Lookup(scale=between.scale, zero_point=between.zero_point, entries=entries)
    maker.operators[-1] = QRescale(name="table", inputs=(y,), output=z, lookup=lookup)
    (fused,) = fuse(replace(maker.graph(z), saturates=False)).operators
    assert isinstance(fused, QMultiply)
    assert fused.bounds == (0.0, None)
    assert fused.lookup is lookup


def network():
    """Squeeze and excite with a table, then a gate of the same shape."""
    model = Model(np.random.default_rng(5), opset=20)
    x = model.add("Conv", model.input(1, 3, 8, 8), model.weights(8, 3, 3, 3), pads=[1] * 4)
    x = model.add("HardSwish", x)
    s = model.add("GlobalAveragePool", x)
    s = model.add("Relu", model.add("Conv", s, model.weights(4, 8, 1, 1)))
    s = model.add("HardSigmoid", model.add("Conv", s, model.weights(8, 4, 1, 1)))
    x = model.add("Mul", s, x)
    x = model.add("Mul", x, model.add("Conv", x, model.weights(8, 8, 1, 1)))
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    return model.proto(model.add("MatMul", x, model.weights(8, 5)))


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_network_of_gates_is_one_region_with_its_bits(asymmetric):
    compilation = compile_model(
        network(),
        TABLED,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(asymmetric=asymmetric)),
        offload_all=True,
    )
    (graph,) = compilation.layers
    assert {p.where for p in compilation.network.placements} == {"accelerator"}
    kinds = [layer.workload.kind for layer in graph.layers]
    assert [kind for kind in kinds if kind.pairs] == [Kind.SCALE, Kind.MULTIPLY]
    assert sum(layer.requant.table is not None for layer in graph.layers) == 2
    data = noise(compilation.imported, np.random.default_rng(0))
    found = assert_bits_of_its_layers(compilation, data)
    assert_near(found, *output_of([network()], data), 0.1)


# -- transposed convolutions as plain ones, against their definition ------------------------------


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [*itertools.product((1, 2, 5), (1, 2, 3, 5), (1, 2, 3, 4))]
)
def test_phases_give_every_output_once(size, kernel, stride):
    rng = np.random.default_rng([size, kernel, stride])
    x, w = rng.integers(-9, 9, size), rng.integers(-9, 9, kernel)
    for pad, extra in itertools.product(range(kernel), range(stride)):
        outputs = (size - 1) * stride + kernel - 2 * pad + extra
        if outputs < 1:
            continue
        expected = np.zeros((size - 1) * stride + kernel + extra + pad, dtype=int)
        for i, k in itertools.product(range(size), range(kernel)):
            expected[i * stride + k] += x[i] * w[k]
        expected = expected[pad : pad + outputs]
        got = np.full(outputs, 99999)
        for phase in phases(size, kernel, stride, pad, outputs):
            taps = phase.take(w, 0)
            padded = np.pad(x, (phase.pad_low, phase.pad_high))
            got[phase.first :: stride] = np.correlate(padded, taps, "valid")
        assert np.array_equal(got, expected), (pad, extra)


# -- bilinear enlargement -------------------------------------------------------------------------


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
                maker.graph(y), tensors={n: replace(t, scale=1.0) for n, t in maker.tensors.items()}
            ),
            data,
        )[y]
        assert operator.factors == factors
        assert steps.size * factors[0] * factors[1] == found.size
        assert np.array_equal(found, exact), where()


def test_factors_whose_weights_are_no_int8_numbers_are_refused():
    maker = GraphMaker(fresh_rng(), (1, 4, 3, 3))
    graph = maker.graph(maker.enlarge("x0", (8, 8)))
    with pytest.raises(WorkloadError, match="need weights above 127"):
        layer_graph(graph, TINY)


def resized(model, x, *scales, **attributes):
    return model.add(
        "Resize", x, "", np.array((1, 1, *scales), np.float32),
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
    assert_bits_of_its_layers(compiled, noise(compiled.imported, np.random.default_rng(0)))


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
