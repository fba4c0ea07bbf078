# SPDX-License-Identifier: Apache-2.0
"""Factors on channels: where they may be, which are shared, and that no result changes."""

from collections.abc import Callable, Collection

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.qdq_runs import run_all
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.quantise.channel_factors import channel_axis
from tilewright.host.compiler.quantise.equalisation import ChannelScaling
from tilewright.host.compiler.read.edit import Editor


def inferred(model: Model, *outputs: str) -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(model.proto(*outputs)))


def conv(model: Model, x: str, *shape: int, **attributes: object) -> str:
    bias = model.constant(model.rng.normal(size=shape[0]).astype(np.float32))
    return model.add("Conv", x, model.weights(*shape), bias, **attributes)


def vector(model: Model, *shape: int) -> str:
    return model.constant(model.rng.uniform(0.5, 2, shape).astype(np.float32))


def classes_of(
    found: ir.Model, accelerated: Collection[str] = ()
) -> tuple[ChannelScaling, dict[str, np.ndarray]]:
    scaling = ChannelScaling(found.graph, accelerated)
    values = [*found.graph.inputs, *(v for node in found.graph for v in node.outputs)]
    return scaling, {value.name: scaling.classes(value) for value in values}


def assert_scaled(
    model: Model, result: str, *scaled: str, accelerated: Collection[str] = ()
) -> None:
    """Random factors change the channels of some tensors as they should, and no result."""
    rng = fresh_rng()
    found = inferred(model, result)
    proto = ir.to_proto(found)
    inputs = {
        value.name: rng.normal(
            size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in proto.graph.input
    }
    before = run_all(proto, inputs)
    scaling, classes = classes_of(found, accelerated)
    factors = rng.uniform(0.2, 5, scaling.count)
    factors[0] = 1
    scaling.apply(Editor(found.graph), factors)
    after = run_all(ir.to_proto(found), inputs)
    for name in (result, *scaled):
        assert classes[name].all() == (name != result), name
        shape = before[name].shape
        pixels = (1,) * (len(shape) - 1 - channel_axis(shape))
        expected = before[name] * factors[classes[name]].reshape(-1, *pixels)
        np.testing.assert_allclose(
            after[name], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max(), err_msg=name
        )


def homogeneous(kind: str, **attributes: object) -> Callable[[Model, str], str]:
    return lambda model, x: model.add(kind, x, **attributes)


OPERATORS: dict[str, Callable[[Model, str], str]] = {
    "ReLU": homogeneous("Relu"),
    "leaky ReLU": homogeneous("LeakyRelu", alpha=0.2),
    "PReLU": lambda m, x: m.add("PRelu", x, vector(m, 6, 1, 1)),
    "clip without upper bound": lambda m, x: m.add("Clip", x, m.constant(np.float32(0))),
    "max pooling": homogeneous("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "average pooling": homogeneous("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "number added": lambda m, x: m.add("Add", m.constant(np.float32(0.7)), x),
    "numbers subtracted": lambda m, x: m.add("Sub", x, vector(m, 1, 6, 1, 1)),
    "number multiplied": lambda m, x: m.add("Mul", m.constant(np.float32([1.4])), x),
    "numbers divided by": lambda m, x: m.add("Div", x, vector(m, 6, 1, 1)),
    "normalisation": lambda m, x: m.add("BatchNormalization", x, *(vector(m, 6) for _ in range(4))),
    "gate": lambda m, x: m.add(
        "Mul", x, m.add("Sigmoid", conv(m, m.add("GlobalAveragePool", x), 6, 6, 1, 1))
    ),
    "residual": lambda m, x: m.add("Add", x, m.add("Relu", conv(m, x, 6, 6, 3, 3, pads=[1] * 4))),
    "depthwise": lambda m, x: conv(m, x, 6, 1, 3, 3, group=6),
    "groups": lambda m, x: conv(m, x, 6, 3, 3, 3, group=2),
    "transposed": lambda m, x: m.add("ConvTranspose", x, m.weights(6, 3, 2, 2), group=2),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_factors_go_through_or_are_taken_out(operator) -> None:
    model = Model(fresh_rng())
    x = conv(model, model.input(2, 3, 8, 8), 6, 3, 1, 1)
    y = OPERATORS[operator](model, x)
    scaled = [y] if operator == "normalisation" else [x, y]
    assert_scaled(model, conv(model, y, 4, 6, 1, 1), *scaled)


def test_joined_channels_keep_their_factors() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 3, 5, 5)
    parts = [model.add("Relu", conv(model, x, channels, 3, 1, 1)) for channels in (2, 4)]
    joined = model.add("Concat", *parts, axis=1)
    assert_scaled(model, conv(model, joined, 4, 6, 3, 3), *parts, joined)
    _, classes = classes_of(inferred(model, "conv6"))
    np.testing.assert_array_equal(classes[joined], np.concatenate([classes[p] for p in parts]))


def test_every_pixel_of_a_flattened_channel_has_its_factor() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", conv(model, model.input(2, 3, 2, 3), 4, 3, 1, 1))
    flat = model.add("Flatten", y)
    hidden = model.add("Gemm", flat, model.weights(5, 24), vector(model, 5), transB=1, alpha=0.5)
    last = model.add("Gemm", model.add("Relu", hidden), model.weights(5, 3), beta=2.0)
    assert_scaled(model, last, y, flat, hidden)


def test_channels_of_a_sequence_come_last() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 5, 6)
    y = model.add("LayerNormalization", x, vector(model, 6), vector(model, 6), axis=-1)
    z = model.add("Add", model.add("MatMul", y, model.weights(6, 7)), vector(model, 7))
    pooled = model.add("ReduceMean", model.add("Relu", z), axes=[1], keepdims=0)
    assert_scaled(model, model.add("MatMul", pooled, model.weights(7, 3)), y, z)


def test_the_factor_of_a_product_on_the_accelerator_stays_a_number() -> None:
    model = Model(fresh_rng())
    a = model.add("MatMul", model.input(1, 4, 6), model.weights(6, 5))
    y = model.add("Mul", a, model.constant(np.float32(0.25)))
    result = model.add("MatMul", y, model.weights(5, 3))
    assert_scaled(model, result, a, y, accelerated=[y])
    found = inferred(model, result)
    scaling, classes = classes_of(found, [y])
    np.testing.assert_array_equal(classes[a], classes[y])
    scaling.apply(Editor(found.graph), np.linspace(1, 2, scaling.count))
    (multiply,) = (node for node in found.graph if node.name == y)
    assert multiply.inputs[1].shape.rank() == 0


@pytest.mark.parametrize(
    "operator",
    [
        lambda m, x: m.add("Sigmoid", x),
        lambda m, x: m.add("Clip", x, m.constant(np.float32(0)), m.constant(np.float32(6))),
        lambda m, x: m.add("Clip", x, m.constant(np.float32(-1))),
        lambda m, x: m.add("HardSwish", x),
        lambda m, x: m.add("Mul", x, m.add("Sigmoid", x)),
        lambda m, x: m.add("Mul", x, x),
        lambda m, x: m.add("Add", x, m.constant(m.rng.normal(size=(8, 8)).astype(np.float32))),
        lambda m, x: m.add("Add", x, m.add("Sigmoid", x)),
        lambda m, x: m.add("Sub", m.constant(np.float32(1)), x),
        lambda m, x: m.add("Div", m.constant(np.float32(1)), m.add("Exp", x)),
        lambda m, x: m.add("Concat", x, x, axis=2),
        lambda m, x: m.add("Transpose", x, perm=[0, 1, 3, 2]),
        lambda m, x: m.add("Softmax", x, axis=1),
        lambda m, x: m.add("InstanceNormalization", x, vector(m, 6), vector(m, 6)),
    ],
)
def test_channels_that_an_operator_mixes_or_bounds_are_not_scaled(operator) -> None:
    model = Model(fresh_rng())
    x = conv(model, model.input(1, 3, 8, 8), 6, 3, 1, 1)
    y = model.add("Relu", x)
    other = operator(model, y)
    _, classes = classes_of(inferred(model, conv(model, y, 2, 6, 1, 1), other))
    assert not classes[x].any()
    assert not classes[y].any()
    assert not classes["x"].any()


def test_what_a_body_reads_is_not_scaled() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", conv(model, model.input(1, 3, 4, 4), 6, 3, 1, 1))
    condition = model.constant(np.array(True))
    branches = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, [y], [kind])],
            kind,
            [],
            [onnx.helper.make_tensor_value_info(kind, onnx.TensorProto.FLOAT, (1, 6, 4, 4))],
        )
        for kind in ("Neg", "Abs")
    ]
    z = model.add("If", condition, then_branch=branches[0], else_branch=branches[1])
    _, classes = classes_of(inferred(model, conv(model, y, 2, 6, 1, 1), z))
    assert not classes[y].any()


def test_normalisation_of_a_sequence_has_its_channels_on_axis_1() -> None:
    """As many of them as features, which are last, are still others."""
    model = Model(fresh_rng())
    y = model.add("MatMul", model.input(2, 6, 4), model.weights(4, 6))
    y = model.add("BatchNormalization", y, *(vector(model, 6) for _ in range(4)))
    assert_scaled(model, model.add("MatMul", y, model.weights(6, 3)))


def test_a_bias_for_each_row_is_none_for_each_channel() -> None:
    model = Model(fresh_rng())
    y = model.add("Gemm", model.input(4, 3), model.weights(3, 4), vector(model, 4, 1))
    assert_scaled(model, model.add("Gemm", y, model.weights(4, 2)))
