# SPDX-License-Identifier: Apache-2.0
"""Loops of known length: the same results without a loop; others stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read import onnx_loops
from tilewright.host.compiler.read.onnx_loops import unroll_loops

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def port(name, kind=FLOAT, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def scaling(rounds):
    """A loop of its own that multiplies ``t`` with ``w`` of the graph around it."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on2"], ["go2"]),
            helper.make_node("Mul", ["s2", "w"], ["r2"]),
        ],
        "inner",
        [port("i2", INT64), port("on2", BOOL), port("s2", FLOAT, 2)],
        [port("go2", BOOL), port("r2", FLOAT, 2)],
    )
    return helper.make_node("Loop", [rounds, "", "t"], ["u"], "inner", body=body)


def looped(*, count=4, nested=False, ends=False, read=False):
    """s = (s + i) * w - x in each round; the state and all rounds leave the loop."""
    nodes = [
        helper.make_node("Identity", ["on"], ["go"]),
        helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
        helper.make_node("Add", ["s", "f"], ["t"]),
        scaling("three") if nested else helper.make_node("Mul", ["t", "w"], ["u"]),
        helper.make_node("Add", ["u", "outer"], ["next"]),
        helper.make_node("Identity", ["next"], ["row"]),
    ]
    if ends:
        nodes[0] = helper.make_node("Less", ["i", "three"], ["go"])
    body = helper.make_graph(
        nodes,
        "body",
        [port("i", INT64), port("on", BOOL), port("s", FLOAT, 2)],
        [port("go", BOOL), port("next", FLOAT, 2), port("row", FLOAT, 2)],
        [numpy_helper.from_array(np.array([0.5, 0.25], np.float32), "w")],
    )
    loop = helper.make_node(
        "Loop", ["n" if read else "count", "", "x"], ["y", "rows"], "loop", body=body
    )
    constants = {"count": np.array(count), "three": np.array(3)}
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Neg", ["x"], ["outer"]), loop],
            "g",
            [port("x", FLOAT, 2), *([port("n", INT64)] if read else [])],
            [port("y", FLOAT, 2), helper.make_tensor_value_info("rows", FLOAT, [None, 2])],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_results_stay(count, nested) -> None:
    model, data = looped(count=count, nested=nested), fresh_rng().normal(size=2).astype(np.float32)
    current = ir.from_proto(model)
    assert unroll_loops(current)
    changed = ir.to_proto(current)
    onnx.checker.check_model(changed, full_check=True)
    assert "Loop" not in {node.op_type for node in changed.graph.node}
    expected, found = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": data})
        for each in (model, changed)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("model", [looped(ends=True), looped(count=0), looped(read=True)])
def test_loops_whose_rounds_are_not_known_stay(model) -> None:
    assert not unroll_loops(ir.from_proto(model))


def test_a_loop_of_too_many_operators_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(onnx_loops, "MOST_NODES", 23)
    with pytest.raises(WorkloadError, match=r"at most 23 operators, not '?4 rounds of 6"):
        unroll_loops(ir.from_proto(looped()))
