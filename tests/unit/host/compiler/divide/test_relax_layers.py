# SPDX-License-Identifier: Apache-2.0
"""Layers of quantised models as operators of a region, compared with ONNX Runtime."""

import numpy as np
import pytest
from support.networks.qdq_runs import quantised_names, region_errors, run_all
from support.networks.small_models import Model, accelerated, imported, operators
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QMatmul,
    QMultiply,
    QPool,
)
from tilewright.host.compiler.pipeline import import_network, partition


@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize(
    ("groups", "attributes"),
    [
        (1, {"strides": [2, 1], "pads": [1, 2, 0, 1]}),
        (2, {"dilations": [2, 1], "pads": [2, 1, 2, 1]}),
        (4, {"pads": [1, 1, 1, 1]}),
        (1, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        (1, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        (1, {"auto_pad": "VALID"}),
    ],
)
def test_convolutions_with_bias_and_activation(groups, attributes, asymmetric) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 9, 10)
    y = model.add(
        "Conv", x, model.weights(8, 4 // groups, 3, 3), model.weights(8), group=groups, **attributes
    )
    (operator,) = operators(accelerated(model.proto(model.add("Relu", y)), asymmetric=asymmetric))
    assert isinstance(operator, QConv)
    assert operator.groups == groups
    assert operator.bias.any()
    assert operator.weight_scales.std() > 0
    assert operator.bounds == (0.0, None)


def test_dense_layers_of_images_with_channels_last() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 3, 5, 4)  # rows, columns, channels
    y = model.add("Add", model.add("MatMul", x, model.weights(4, 6)), model.weights(6))
    y = model.add("MatMul", model.add("Relu", y), model.weights(6, 3))
    (region,) = accelerated(model.proto(y)).regions
    assert [type(operator) for operator in region.operators] == [QConv, QConv]
    assert region.tensors[region.outputs[0]].shape == (1, 3, 15, 1)
    assert region.model_shapes[region.outputs[0]] == (1, 3, 5, 3)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_pools(kind, attributes) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 8, 9), model.weights(4, 3, 1, 1))
    parts = accelerated(model.proto(model.add(kind, y, **attributes)), ties=0.3)
    assert [type(operator) for operator in operators(parts)] == [QConv, QPool]


def test_means_over_tokens_are_pools() -> None:
    model = Model(fresh_rng(), opset=18)
    y = model.add("MatMul", model.input(2, 6, 4), model.weights(4, 8))
    y = model.add("ReduceMean", y, [1], keepdims=0)
    parts = accelerated(model.proto(model.add("Gemm", y, model.weights(8, 3))))
    assert [type(o) for o in operators(parts)] == [QConv, QPool, QConv]


def _attention(model: Model, x: str, tokens: int, heads: int, width: int) -> str:
    def project() -> str:
        y = model.add("MatMul", x, model.weights(heads * width, heads * width))
        y = model.add("Add", y, model.weights(heads * width))
        return model.add("Reshape", y, [1, tokens, heads, width])

    query = model.add("Transpose", project(), perm=[0, 2, 1, 3])
    key = model.add("Transpose", project(), perm=[0, 2, 3, 1])
    value = model.add("Transpose", project(), perm=[0, 2, 1, 3])
    root = model.constant(np.float32(width**-0.25))
    scores = model.add("MatMul", model.add("Mul", query, root), model.add("Mul", root, key))
    y = model.add("MatMul", model.add("Softmax", scores, axis=-1), value)
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])
    y = model.add("Reshape", y, [1, tokens, heads * width])
    return model.add("MatMul", y, model.weights(heads * width, 7))


def test_attention_runs_on_the_accelerator_but_for_the_softmax() -> None:
    model = Model(fresh_rng())
    tokens, heads, width = 5, 3, 4
    y = _attention(model, model.input(1, tokens, heads * width), tokens, heads, width)
    parts = accelerated(model.proto(y))
    scores, context = (o for o in operators(parts) if isinstance(o, QMatmul))
    assert (scores.heads, scores.b_rows_are_outputs) == (heads, True)
    assert scores.factor == pytest.approx(width**-0.5)
    assert (context.heads, context.b_rows_are_outputs, context.factor) == (heads, False, 1.0)
    assert [p.kind for p in parts.placements if p.place == "cpu"] == ["Softmax"]
    assert len(parts.regions) == 2


def test_products_of_matrices_but_not_of_several_images() -> None:
    model = Model(fresh_rng())
    a, b = model.input(1, 4, 5, name="a"), model.input(1, 5, 6, name="b")
    parts = accelerated(model.proto(model.add("MatMul", a, b)))
    (operator,) = operators(parts)
    assert isinstance(operator, QMatmul)
    assert operator.heads == 1
    model = Model(fresh_rng())
    a, b = model.input(3, 4, 5, name="a"), model.input(3, 5, 6, name="b")
    parts = partition(imported(model.proto(model.add("MatMul", a, b))))
    assert not parts.regions
    (placement,) = [p for p in parts.placements if p.kind == "MatMul"]
    assert placement.reason == "its factors are matrices of several images"


def test_the_reason_of_a_biased_layer_tells_its_computed_weights() -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    y = model.add("Conv", x, model.input(4, 4, 3, 3, name="weights"), model.weights(4))
    parts = partition(imported(model.proto(model.add("Conv", y, model.weights(4, 4, 1, 1)))))
    reason = next(p.reason for p in parts.placements if p.name == model.nodes[1].name)
    assert reason.endswith("it reads int8 (1, 4, 6, 6), float32 (4, 4, 3, 3)")


# -- products of quantised tensors as units of a region, compared with ONNX Runtime ---------------

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
