# SPDX-License-Identifier: Apache-2.0
"""Factors of a product of activations have the zero point 0, wherever they come from."""

import onnx
import onnx_ir as ir
from onnx.numpy_helper import to_array
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng

from tilewright.host.compiler.quantise.activation_ranges import product_factors


def test_where_factors_come_from_counts_too() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 6, 8)
    query, key, other = (model.add("MatMul", x, model.weights(8, 8)) for _ in range(3))
    turned = model.add("Transpose", key, perm=[0, 2, 1])
    scores = model.add("MatMul", query, turned)
    proto = model.proto(scores, model.add("Relu", other))
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    names = {node.name for node in graph}
    assert product_factors(graph, names) == {query, key, turned}
    assert product_factors(graph, names - {scores}) == set()
    quantised = imported(proto, asymmetric=True).qdq.graph
    constants = {tensor.name: to_array(tensor) for tensor in quantised.initializer}
    zero_points = {
        node.input[0]: int(constants[node.input[2]])
        for node in quantised.node
        if node.op_type == "QuantizeLinear"
    }
    assert {zero_points[name] for name in (query, key, turned)} == {0}
    assert zero_points[x] != 0
