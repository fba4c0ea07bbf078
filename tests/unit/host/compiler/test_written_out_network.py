# SPDX-License-Identifier: Apache-2.0
"""A classifier of bytes as JAX exports it: one region behind a look-up of int8 rows, and its bits.

One-hot bytes, a normalisation over the positions, a convolution over them, the maximum, another
normalisation, and softmax; all written out.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.qdq_runs import quantised_names, region_errors, run_all
from support.small_models import Model

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import QLayerNorm, QTurn, to_normal_form
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

HW = load_hwconfig("tiny-4x4").with_(row_unit=1, activation_table=1)
KINDS, BYTES, PLACES, FEATURES = 9, 64, 16, 16


def classifier(rng: np.random.Generator) -> onnx.ModelProto:
    model = Model(rng, opset=15)
    add = model.add

    def numbers(*values: int) -> str:
        return model.constant(np.array(values))

    def normal(x: str, axis: int, shape: tuple[int, ...]) -> str:
        kept = numbers(*(1 if i == axis else n for i, n in enumerate(shape)))
        share = model.constant(np.float32(1 / shape[axis]))
        means = [
            add("Mul", add("ReduceSum", each, numbers(axis), keepdims=0), share)
            for each in (x, add("Mul", x, x))
        ]
        variance = add("Sub", means[1], add("Mul", means[0], means[0]))
        variance = add("Reshape", add("Max", model.constant(np.float32(0)), variance), kept)
        root = add("Sqrt", add("Add", variance, model.constant(np.float32(1e-6))))
        wide = [n if i == axis else 1 for i, n in enumerate(shape)]
        gamma, beta = (rng.uniform(0.5, 1.5, wide).astype(np.float32) for _ in range(2))
        factor = add("Mul", add("Reciprocal", root), model.constant(gamma))
        difference = add("Sub", x, add("Reshape", means[0], kept))
        return add("Add", add("Mul", difference, factor), model.constant(beta))

    x = model.input(1, BYTES, kind=TensorProto.INT32)
    places = add("Reshape", x, numbers(1, BYTES, 1))
    counted = model.constant(np.arange(KINDS, dtype=np.int32).reshape(1, 1, KINDS))
    vectors = add("Cast", add("Equal", places, counted), to=TensorProto.FLOAT)
    width = FEATURES * PLACES // BYTES
    rows = model.constant(rng.normal(size=(KINDS, width)).astype(np.float32))
    y = add("Add", add("MatMul", vectors, rows), model.weights(1, 1, width))
    y = add("Reshape", add("Tanh", y), numbers(1, PLACES, FEATURES))
    y = add("Unsqueeze", normal(y, 1, (1, PLACES, FEATURES)), numbers(3))
    y = add("Conv", add("Transpose", y, perm=[0, 2, 1, 3]), model.weights(8, FEATURES, 3, 1))
    y = add("Add", add("Squeeze", y, numbers(3)), model.weights(8, 1))
    y = add("Squeeze", add("GlobalMaxPool", add("Relu", y)), numbers(2))
    y = add("MatMul", normal(y, 1, (1, 8)), model.weights(8, 5))
    y = add("Add", y, model.weights(1, 5))
    kept = numbers(1, 1)
    most = add("ReduceMax", y, axes=[1], keepdims=0)
    most = add("Max", model.constant(np.float32(-np.inf)), most)
    power = add("Exp", add("Sub", y, add("Reshape", most, kept)))
    total = add("ReduceSum", power, numbers(1), keepdims=0)
    return model.proto(add("Div", power, add("Reshape", total, kept)))


@pytest.mark.parametrize("block_in", [4, 8])
def test_a_classifier_of_bytes_is_one_region_with_its_bits(block_in: int) -> None:
    hw, rng = HW.with_(block_in=block_in), np.random.default_rng(5)
    model = classifier(rng)
    # 9 and -1 stand for nothing
    known = rng.integers(-1, KINDS + 1, (8, BYTES), dtype=np.int32)
    data = {"x": known[:1]}
    compilation = compile_model(
        model, hw, load_board("pynq-z2"), calibration=Calibration(arrays={"x": known}),
        offload_all=True,
    )  # fmt: skip
    kinds = [p.kind for p in compilation.network.placements if p.where != "accelerator"]
    assert sorted(set(kinds)) == ["Add", "Clip", "Gather", "Reshape", "Softmax", "Transpose"]
    (graph,) = compilation.layers
    parts = partition(compilation.imported, tables=True, rows=True, turns=True)
    (region,) = parts.regions
    assert sum(isinstance(operator, QTurn) for operator in region.operators) == 1
    assert sum(isinstance(operator, QLayerNorm) for operator in region.operators) == 2
    qdq = compilation.imported.qdq
    tensors, names = run_all(qdq, data), quantised_names(qdq)
    (errors,) = region_errors(region, tensors, names).values()
    assert np.abs(errors).max() <= 2  # by real numbers, operator by operator
    (source,), (result,) = graph.inputs, graph.outputs
    rounded = tensors[names.get(source, source)]
    expected = evaluate(graph, {source: to_normal_form(rounded, graph.tensors[source].shape)})
    logits = graph.tensors[result]
    real = (expected[result].reshape(-1).astype(float) - logits.zero_point) * logits.scale
    power = np.exp(real - real.max())
    run = run_network(compilation.network, ReferenceDevice(hw), data, trusted=True)
    (found,) = run.outputs.values()
    np.testing.assert_allclose(found.reshape(-1), power / power.sum(), rtol=1e-4)
    (exact,) = (run_all(model, data)[value.name] for value in model.graph.output)
    assert np.abs(found - exact).max() < 0.1


def test_without_exchanges_channels_and_positions_meet_on_the_cpu() -> None:
    hw, rng = HW, np.random.default_rng(5)
    known = rng.integers(0, KINDS, (4, BYTES), dtype=np.int32)
    network = compile_model(
        classifier(rng), hw, load_board("pynq-z2"), calibration=Calibration(arrays={"x": known})
    ).imported
    reasons = {p.reason for p in partition(network, tables=True, rows=True).placements}
    assert "its data lie in an order that it does not take" in reasons
