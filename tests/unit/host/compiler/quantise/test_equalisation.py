# SPDX-License-Identifier: Apache-2.0
"""Channels of activations get the ranges that the definition says, and less error."""

from collections.abc import Callable, Collection

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnxruntime.quantization import QDQQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel
from support.networks.onnx_results import drawn_inputs, read_in
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import import_network
from tilewright.host.compiler.quantise import channel_quantiser
from tilewright.host.compiler.quantise.channel_factors import channel_axis, grouped
from tilewright.host.compiler.quantise.equalisation import ChannelScaling, equalise
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.edit import Editor
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

CHANNELS = 6
RANGES = np.float32([0.3, 0.5, 1, 2, 4, 8])


def uneven(rng: np.random.Generator, *, depthwise: bool = False) -> Model:
    """Layers with a ReLU between; its channels have different ranges, and matter equally."""
    model = Model(rng)
    weights = rng.uniform(0.5, 1, (CHANNELS, 3, 1, 1)) * RANGES[:, None, None, None]
    y = model.add("Conv", model.input(1, 3, 8, 8), weights.astype(np.float32))
    y = model.add("Relu", y)
    if depthwise:
        model.add("Conv", y, model.weights(CHANNELS, 1, 3, 3), group=CHANNELS)
    else:
        weights = rng.uniform(0.5, 1, (5, CHANNELS, 1, 1)) / RANGES[:, None, None]
        model.add("Conv", y, weights.astype(np.float32))
    return model


def batches_for(rng: np.random.Generator, count: int = 8) -> list[dict[str, np.ndarray]]:
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


def proto_of(model: Model) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model.proto("conv2"))


def equalised(model: Model, batches: list[dict[str, np.ndarray]]) -> ir.Model:
    found = ir.from_proto(proto_of(model))
    equalise(found, {"x", "relu1", "conv2"}, {"conv0", "relu1", "conv2"}, batches)
    return found


def largest(proto: onnx.ModelProto, name: str, batches: list[dict[str, np.ndarray]]) -> np.ndarray:
    """The largest magnitude in each channel."""
    return np.max([np.abs(run_all(proto, b)[name]).max(axis=(0, 2, 3)) for b in batches], axis=0)


def test_channels_get_the_range_of_the_weights_that_read_them() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng), batches_for(rng)
    found = equalised(model, batches)
    (last,) = (node for node in found.graph if node.name == "conv2")
    weights = np.abs(grouped(last)).max(axis=(0, 1, 3))
    ratio = largest(ir.to_proto(found), "relu1", batches) / weights
    before = largest(proto_of(model), "relu1", batches)
    raw = np.abs(grouped(ir.from_proto(proto_of(model)).graph[2])).max(axis=(0, 1, 3))
    seen = (before > before.max() / 64) & (raw > raw.max() / 64)  # others are not raised in full
    assert seen.sum() >= 4
    np.testing.assert_allclose(ratio[seen], ratio[seen][0], rtol=1e-4)


def test_a_channel_that_calibration_never_sees_keeps_its_factor() -> None:
    rng = fresh_rng()
    model, batches = uneven(rng), batches_for(rng)
    (first,) = (node for node in model.nodes if node.name == "conv0")
    bias = np.zeros(CHANNELS, np.float32)
    bias[2] = -100
    first.input.append(model.constant(bias))
    found = equalised(model, batches)
    (layer,) = (node for node in found.graph if node.name == "conv0")
    before = ir.from_proto(proto_of(model)).graph[0]
    np.testing.assert_array_equal(grouped(layer)[0, 2], grouped(before)[0, 2])
    assert (grouped(layer)[0, 0] != grouped(before)[0, 0]).all()


def noise_share(rng, *, depthwise) -> float:
    """Power of the error of the last layer in int8, equalised over not equalised."""
    model, batches = uneven(rng, depthwise=depthwise), batches_for(rng)
    tests = batches_for(rng)
    expected = np.stack([run_all(proto_of(model), batch)["conv2"] for batch in tests])
    errors = {}
    for equalisation in (False, True):
        options = QuantiseOptions(method="minmax", equalisation=equalisation, bias_correction=False)
        found = quantise(ir.from_proto(proto_of(model)), batches, options)
        (layer,) = (node for node in found.graph if node.name == "conv2")
        name = layer.outputs[0].name  # before it is rounded
        results = np.stack([run_all(ir.to_proto(found), batch)[name] for batch in tests])
        power = np.square(results - expected).mean(axis=(0, 1, 3, 4))
        errors[equalisation] = np.mean(power / np.square(expected).mean(axis=(0, 1, 3, 4)))
    return errors[True] / errors[False]


@pytest.mark.parametrize("depthwise", [False, True])
def test_int8_is_closer_to_float(depthwise) -> None:
    """Not on every network: in the geometric mean over some."""
    rng = fresh_rng()
    shares = [noise_share(rng, depthwise=depthwise) for _ in range(12)]
    assert np.exp(np.mean(np.log(shares))) < (0.4 if depthwise else 0.85)


def test_data_that_are_not_finite_are_refused() -> None:
    rng = fresh_rng()
    batches = batches_for(rng)
    batches[1]["x"][0, 0, 0, 0] = np.nan
    with pytest.raises(WorkloadError, match=r"activation relu1: must be finite on calibration"):
        equalised(uneven(rng), batches)


@pytest.mark.parametrize("tables", [False, True])
def test_constants_of_what_a_table_computes_stay_one_number(tables) -> None:
    rng = fresh_rng()
    model = Model(rng)
    weights = rng.uniform(0.5, 1, (CHANNELS, 3, 1, 1)) * RANGES[:, None, None, None]
    y = model.add("Conv", model.input(1, 3, 8, 8), weights.astype(np.float32))
    three, none, six = (model.constant(np.float32(number)) for number in (3, 0, 6))
    gate = model.add("Clip", model.add("Add", y, three), none, six)
    y = model.add("Div", model.add("Mul", y, gate), six)
    proto = onnx.shape_inference.infer_shapes(
        model.proto(model.add("Conv", y, model.weights(5, CHANNELS, 1, 1)))
    )
    options = QuantiseOptions(activation_tables=tables, bias_correction=False)
    found = quantise(ir.from_proto(proto), batches_for(rng), options)
    sizes = {
        np.size(value.const_value.numpy())
        for node in found.graph
        if node.op_type in ("Add", "Div")
        for value in node.inputs
        if value is not None and value.const_value is not None
    }
    assert (sizes == {1}) == tables


# -- factors on channels --------------------------------------------------------------------------


def inferred(model: Model, *outputs: str) -> ir.Model:
    return read_in(model.proto(*outputs))


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
    inputs = drawn_inputs(proto, rng)
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
    "clip without upper bound": lambda m, x: m.add("Clip", x, np.float32(0)),
    "max pooling": homogeneous("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "average pooling": homogeneous("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "number added": lambda m, x: m.add("Add", np.float32(0.7), x),
    "numbers subtracted": lambda m, x: m.add("Sub", x, vector(m, 1, 6, 1, 1)),
    "number multiplied": lambda m, x: m.add("Mul", np.float32([1.4]), x),
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
    y = model.add("Mul", a, np.float32(0.25))
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
        lambda m, x: m.add("Clip", x, np.float32(0), np.float32(6)),
        lambda m, x: m.add("Clip", x, np.float32(-1)),
        lambda m, x: m.add("HardSwish", x),
        lambda m, x: m.add("Mul", x, m.add("Sigmoid", x)),
        lambda m, x: m.add("Mul", x, x),
        lambda m, x: m.add("Add", x, m.rng.normal(size=(8, 8)).astype(np.float32)),
        lambda m, x: m.add("Add", x, m.add("Sigmoid", x)),
        lambda m, x: m.add("Sub", np.float32(1), x),
        lambda m, x: m.add("Div", np.float32(1), m.add("Exp", x)),
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
    branches = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, [y], [kind])],
            kind,
            [],
            [onnx.helper.make_tensor_value_info(kind, onnx.TensorProto.FLOAT, (1, 6, 4, 4))],
        )
        for kind in ("Neg", "Abs")
    ]
    z = model.add("If", np.array(True), then_branch=branches[0], else_branch=branches[1])
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


# -- channel quantiser ----------------------------------------------------------------------------


def weights(model, *shape, axis):
    """Channels of different ranges; one is zero, one is tiny, one has one sign."""
    array = model.rng.normal(size=shape).astype(np.float32)
    rows = np.moveaxis(array, axis, 0)
    rows *= np.exp(model.rng.normal(size=(len(rows), *[1] * (array.ndim - 1)))).astype(np.float32)
    rows[0], rows[1], rows[2] = 0, rows[1] * np.float32(1e-39), abs(rows[2])
    return model.constant(array)


def network():
    model = Model(fresh_rng())
    large = model.constant(np.full(8, 3e4, np.float32))  # makes the scales of tiny weights larger
    y = model.add("Conv", model.input(1, 3, 8, 8), weights(model, 8, 3, 3, 3, axis=0), large)
    y = model.add("Conv", y, weights(model, 8, 1, 3, 3, axis=0), group=8)
    y = model.add("ConvTranspose", y, weights(model, 8, 6, 2, 2, axis=1), strides=[2, 2])
    y = model.add("ConvTranspose", y, weights(model, 6, 3, 2, 2, axis=1), group=2)
    y = model.add("Flatten", model.add("GlobalAveragePool", y))
    y = model.add("Gemm", y, weights(model, 7, 6, axis=0), model.weights(7), transB=1)
    y = model.add("Gemm", y, weights(model, 7, 5, axis=1), model.weights(5))
    return model.proto(model.add("MatMul", y, weights(model, 5, 4, axis=1)))


def quantised(proto, **options):
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return import_network(
        copy,
        calibration=Calibration(random_samples=2),
        options=ImportOptions(quantise=QuantiseOptions(**options)),
    ).qdq


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"asymmetric": True},
        {"per_channel": False},
        {"equalisation": False, "bias_correction": False},
    ],
)
def test_the_model_is_that_of_onnx_runtime(monkeypatch, options) -> None:
    proto = network()
    found = quantised(proto, **options)
    calls = []

    class OneByOne(QDQQuantizer):
        def quantize_model(self):
            calls.append(self)
            return super().quantize_model()

    monkeypatch.setattr(channel_quantiser, "ChannelQuantiser", OneByOne)
    assert found == quantised(proto, **options)
    assert len(calls) == 1


def test_nodes_and_constants_are_found_by_name(monkeypatch) -> None:
    """Not by a walk through the model for each tensor: a thousand are as many walks."""
    model = Model(fresh_rng())
    x = model.input(1, 4, 8, 8)
    for _ in range(9):
        x = model.add("Relu", model.add("Conv", x, model.weights(4, 4, 1, 1), model.weights(4)))
    monkeypatch.setattr(ONNXModel, "replace_input_of_all_nodes", None)
    monkeypatch.setattr(ONNXModel, "replace_output_of_all_nodes", None)
    monkeypatch.setattr(ONNXModel, "get_initializer", None)
    quantised(model.proto(x))


def test_weights_that_are_not_finite_are_refused() -> None:
    array = np.ones((4, 3, 1, 1), np.float32)
    array[1, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        channel_quantiser.channel_scales(array, 0)
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), array)
    with pytest.raises(WorkloadError, match="finite"):
        quantised(model.proto(y))
