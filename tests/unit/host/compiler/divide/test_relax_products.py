# SPDX-License-Identifier: Apache-2.0
"""Products of quantised tensors as units of a region, compared with ONNX Runtime."""

import numpy as np
import pytest
from support.qdq_runs import quantised_names, region_errors, run_all
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.lower.qgraph import QMultiply, QRescale
from tilewright.host.compiler.pipeline import import_network, partition

SHAPES = {
    "gate": ((2, 3, 4, 5), (2, 3, 4, 5)),
    "squeeze-excite": ((2, 3, 4, 5), (2, 3, 1, 1)),
    "squeeze-excite first": ((2, 3, 1, 1), (2, 3, 4, 5)),
    "features": ((2, 7), (2, 7)),
    "sequence": ((2, 5, 3), (2, 1, 3)),
}


def product(shapes, activation=None, zeros=(-13, 40)):
    """A quantised product of two inputs."""
    model = Model(fresh_rng())
    factors = [
        model.quantised(model.input(*shape, name=name), 0.05, zero)
        for name, shape, zero in zip("ab", shapes, zeros, strict=True)
    ]
    result = model.add("Mul", *factors)
    if activation:
        result = model.add(activation, result)
    return model.proto(model.quantised(result, 0.0917, 3))


def only_region(proto, **options):
    network = import_network(proto)
    (region,) = partition(network, **options).regions
    (operator,) = region.operators
    return network, region, operator


@pytest.mark.parametrize("activation", [None, "Relu"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_product_is_what_onnx_runtime_computes(name, activation):
    network, region, operator = only_region(product(SHAPES[name], activation))
    assert isinstance(operator, QMultiply)
    assert operator.bounds == ((0.0, None) if activation else (None, None))
    rng = fresh_rng()
    data = {n: rng.normal(size=s).astype(np.float32) * 3 for n, s in zip("ab", SHAPES[name],
                                                                        strict=True)}  # fmt: skip
    tensors = run_all(network.qdq, data)
    (errors,) = region_errors(region, tensors, quantised_names(network.qdq)).values()
    assert np.abs(errors).max() <= 1
    assert np.count_nonzero(errors) <= 2  # single precision may round a tie the other way


@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 4, 5), (2, 1, 4, 5)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((2, 3, 4, 5), (3, 1, 1)),
     ((2, 3, 4, 1), (2, 3, 1, 5))],
)  # fmt: skip
def test_other_broadcasts_stay_on_the_cpu(shapes):
    assert not partition(import_network(product(shapes))).regions


@pytest.mark.parametrize("tables", [False, True])
def test_a_tensor_times_a_function_of_itself_is_one_look_up_where_there_is_a_table(tables):
    model = Model(fresh_rng(), opset=20)
    x = model.quantised(model.input(1, 4, 8, 8), 0.05, -13)
    gate = model.quantised(model.add("Sigmoid", x), 1 / 255, -128)
    proto = model.proto(model.quantised(model.add("Mul", x, gate), 0.04))
    _, _, operator = only_region(proto, tables=tables)
    assert isinstance(operator, QRescale if tables else QMultiply)
