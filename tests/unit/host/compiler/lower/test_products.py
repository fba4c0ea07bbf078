# SPDX-License-Identifier: Apache-2.0
"""Products of activations: their integers, what is fused behind them, and networks with gates."""

from dataclasses import replace

import numpy as np
import pytest
from support.qdq_runs import quantised_names, run_all
from support.qgraphs import GraphMaker, evaluate_real
from support.randomness import fresh_rng, where
from support.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import Lookup, QMultiply, QRescale
from tilewright.host.compiler.pipeline import compile_model, import_network
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

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


def test_a_tensor_times_a_function_of_itself_is_not_rounded_in_between():
    model = Model(np.random.default_rng(5), opset=20)
    x = model.add("Conv", model.input(1, 3, 8, 8), model.weights(8, 3, 3, 3))
    x = model.add("Mul", x, model.add("Sigmoid", x))
    proto = model.proto(model.add("Conv", x, model.weights(8, 8, 1, 1)))
    options = ImportOptions(quantise=QuantiseOptions(activation_tables=True))
    network = import_network(proto, calibration=Calibration(random_samples=2), options=options)
    (sigmoid,) = (node for node in network.qdq.graph.node if node.op_type == "Sigmoid")
    readers = [n.op_type for n in network.qdq.graph.node if sigmoid.output[0] in n.input]
    assert readers == ["Mul"]


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_network_of_gates_is_one_region_with_its_bits(asymmetric):
    options = {"calibration": Calibration(random_samples=4), "offload_all": True}
    quantise = QuantiseOptions(asymmetric=asymmetric)
    compilation = compile_model(
        network(), TABLED, load_board("pynq-z2"), options=ImportOptions(quantise=quantise),
        **options,
    )  # fmt: skip
    (graph,) = compilation.layers
    assert {p.where for p in compilation.network.placements} == {"accelerator"}
    kinds = [layer.workload.kind for layer in graph.layers]
    assert [kind for kind in kinds if kind.multiplies] == [Kind.SCALE, Kind.MULTIPLY]
    assert sum(layer.requant.table is not None for layer in graph.layers) == 2
    data = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    qdq = compilation.imported.qdq
    (source,), (result,) = graph.inputs, graph.outputs
    expected = evaluate(graph, {source: run_all(qdq, {"x": data})[quantised_names(qdq)["x"]]})
    output = graph.tensors[result]
    run = run_network(compilation.network, ReferenceDevice(TABLED), {"x": data}, trusted=True)
    (found,) = run.outputs.values()
    steps = np.rint(found / output.scale) + output.zero_point
    assert np.array_equal(steps.reshape(-1), expected[result].reshape(-1))
    real = run_all(network(), {"x": data})[network().graph.output[0].name]
    assert np.abs(found - real).max() < 0.1 * np.abs(real).max()
