# SPDX-License-Identifier: Apache-2.0
"""Rows that are rounded behind their look-up are looked up as int8, with the same results."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from support.networks.onnx_results import assert_same_results, read_in
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.compiler.rewrite.lookups import look_up_int8

PLACES = np.array([[0, 6, 3, 1], [2, 5, 5, 4]])


def rewritten(proto: onnx.ModelProto) -> onnx.GraphProto:
    current = read_in(proto)
    look_up_int8(current)
    changed = ir.to_proto(current)
    onnx.checker.check_model(changed, full_check=True)
    assert_same_results(proto, changed, {"x": PLACES})
    return changed.graph


def table(model: Model) -> str:
    return model.constant(model.rng.normal(size=(7, 6)).astype(np.float32))


def kinds(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


@pytest.mark.parametrize("case", ["scale", "read before", "relu"])
def test_conversions_that_do_something_stay(case) -> None:
    model = Model(fresh_rng())
    row = model.add("Gather", table(model), model.input(2, 4, kind=TensorProto.INT64))
    y = model.quantised(row, 0.01)
    kind = "Relu" if case == "relu" else "Flatten"
    y = model.quantised(model.add(kind, y), 0.02 if case == "scale" else 0.01)
    more = [model.add("Tanh", row)] if case == "read before" else []
    found = kinds(rewritten(model.proto(y, *more)))
    assert found.count("QuantizeLinear") == (2 if case == "read before" else 1)
