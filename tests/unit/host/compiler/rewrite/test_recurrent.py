# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN step by step: the results of ONNX's own definition."""

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.rewrite import recurrent_layers
from tilewright.host.compiler.rewrite.recurrent_layers import unroll_recurrent

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FLOAT = onnx.TensorProto.FLOAT


def recurrent(rng, kind, *, steps=4, inputs=3, hidden=5, given=(), state=False, **attributes):
    """A model of one node; `given` are inputs of the node behind the bias."""
    both = attributes.get("direction") == "bidirectional"
    ways, batch, wide = 1 + both, 2, GATES[kind] * hidden
    shapes = {"W": (ways, wide, inputs), "R": (ways, wide, hidden), "B": (ways, 2 * wide)}
    constants = [
        numpy_helper.from_array((rng.normal(size=shape) / 2).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    names = ["x", *shapes, *(given or [""])]
    by_batch = attributes.get("layout", 0)
    data = (batch, steps, inputs) if by_batch else (steps, batch, inputs)
    last = (batch, ways, hidden) if by_batch else (ways, batch, hidden)
    ports = [helper.make_tensor_value_info("x", FLOAT, data)]
    if state:
        starts = ["h0", "c0"] if kind == "LSTM" else ["h0"]
        names += starts
        ports += [helper.make_tensor_value_info(name, FLOAT, last) for name in starts]
    every = (batch, steps, ways, hidden) if by_batch else (steps, ways, batch, hidden)
    results = {"y": every, "yh": last} | ({"yc": last} if kind == "LSTM" else {})
    node = helper.make_node(kind, names, list(results), "rec", hidden_size=hidden, **attributes)
    outputs = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in results.items()]
    model = helper.make_model(
        helper.make_graph([node], "g", ports, outputs, constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return onnx.shape_inference.infer_shapes(model)


def unrolled(model):
    current = ir.from_proto(model)
    assert unroll_recurrent(current)
    found = ir.to_proto(current)
    onnx.checker.check_model(found, full_check=True)
    assert not {node.op_type for node in found.graph.node} & set(GATES)
    return found


CASES = [
    (kind, way, late)
    for kind, way, late in itertools.product(GATES, ("forward", "reverse", "bidirectional"), (0, 1))
    if kind == "GRU" or not late
]


@pytest.mark.parametrize(("kind", "way", "late"), CASES)
@pytest.mark.parametrize("by_batch", [0, 1])
def test_results_are_those_of_the_definition(kind, way, late, by_batch) -> None:
    rng = fresh_rng()
    attributes = {"direction": way, "layout": by_batch}
    if late:
        attributes["linear_before_reset"] = 1
    for state in (False, True):
        model = recurrent(rng, kind, state=state, **attributes)
        feed = {
            port.name: rng.normal(size=[d.dim_value for d in port.type.tensor_type.shape.dim])
            for port in model.graph.input
        }
        feed = {name: array.astype(np.float32) for name, array in feed.items()}
        found = onnxruntime.InferenceSession(unrolled(model).SerializeToString()).run(None, feed)
        if by_batch:  # ONNX Runtime has no such kernel
            expected = ReferenceEvaluator(model).run(None, feed)
        else:
            expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"clip": 1.0},
        {"activations": ["Relu", "Tanh", "Tanh"]},
        {"given": ["lengths"]},
        {"given": ["", "", "", "P"]},
    ],
    ids=["clip", "activations", "lengths", "peepholes"],
)
def test_what_has_other_options_stays(options) -> None:
    model = recurrent(fresh_rng(), "LSTM", **options)
    assert not unroll_recurrent(ir.from_proto(model))


def test_layers_of_too_many_steps_stay(monkeypatch) -> None:
    model = recurrent(fresh_rng(), "LSTM")
    monkeypatch.setattr(recurrent_layers, "MOST_STEPS", 3)
    assert not unroll_recurrent(ir.from_proto(model))
    monkeypatch.setattr(recurrent_layers, "MOST_STEPS", 4)
    assert unroll_recurrent(ir.from_proto(model))


def test_a_network_with_an_lstm_is_divided_like_any_other() -> None:
    rng = fresh_rng()
    model = recurrent(rng, "LSTM", hidden=8)
    del model.graph.output[1:]
    network = import_network(model, calibration=Calibration(random_samples=4))
    kinds = {placed.kind for placed in partition(network).placements}
    assert {"MatMul", "Sigmoid", "Tanh"} <= kinds
