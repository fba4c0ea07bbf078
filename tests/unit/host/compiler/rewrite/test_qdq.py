# SPDX-License-Identifier: Apache-2.0
"""Canonical QDQ form: the same results, and what it promises about the graph."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto
from onnxruntime import quantization
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model, assert_regions_agree
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.rewrite import qdq


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    model = onnx.shape_inference.infer_shapes(model)
    current = ir.from_proto(model)
    qdq.canonical(current)
    result = ir.to_proto(current)
    onnx.checker.check_model(result)
    return result


def assert_canonical(model: onnx.ModelProto, *, uint8: int = 0) -> None:
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    readers: dict[str, int] = {}
    for node in model.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    quantised = []
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            assert constants[node.input[2]].dtype == np.int8
        if node.op_type == "DequantizeLinear":
            assert readers.get(node.output[0], 1) == 1
            assert node.input[0] not in constants or constants[node.input[0]].dtype == np.int8
        if node.op_type == "QuantizeLinear":
            quantised.append((node.input[0], constants[node.input[1]].tobytes()))
    assert len(quantised) == len(set(quantised))
    assert sum(n.op_type == "Cast" and n.attribute[0].i == 2 for n in model.graph.node) == uint8


def test_uint8_becomes_int8_with_the_same_results() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.quantised(model.input(1, 6), 0.03, 131, np.uint8)
    weights = model.add(
        "DequantizeLinear",
        model.constant(rng.integers(0, 256, (6, 4)).astype(np.uint8)),
        model.constant(rng.uniform(0.01, 0.1, 4).astype(np.float32)),
        model.constant(rng.integers(0, 256, 4).astype(np.uint8)),
        axis=-1,
    )
    y = model.quantised(model.add("MatMul", x, weights), 0.2, 100, np.uint8)
    proto = model.proto(y)
    changed = canonical(proto)
    assert_canonical(changed)
    inputs = {"x": rng.normal(size=(1, 6)).astype(np.float32)}
    np.testing.assert_array_equal(run(changed, inputs)[0], run(proto, inputs)[0])


@pytest.mark.parametrize(("bound", "centred"), [(60, True), (128, False)])
@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_zero_points_of_constants_go_where_int8_holds_the_numbers_without(
    shape, bound, centred
) -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.quantised(model.input(1, 6), 0.03, 3)
    numbers = rng.integers(-bound, bound, (6, 4)).astype(np.int8)
    numbers[0] = -bound
    weights = model.add(
        "DequantizeLinear",
        model.constant(numbers),
        model.constant(rng.uniform(0.01, 0.1, shape).astype(np.float32)),
        model.constant(rng.integers(1, 60, shape).astype(np.int8)),
        axis=1,
    )
    y = model.quantised(model.add("MatMul", x, weights), 0.2, 10)
    proto = model.proto(y)
    changed = canonical(proto)
    assert_canonical(changed)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in changed.graph.initializer}
    (zero,) = (constants[n.input[2]] for n in changed.graph.node if n.input[0] in constants)
    assert zero.shape == shape
    assert bool(zero.any()) != centred
    inputs = {"x": rng.normal(size=(1, 6)).astype(np.float32)}
    np.testing.assert_array_equal(run(changed, inputs)[0], run(proto, inputs)[0])


def test_uint8_inputs_and_outputs_of_a_model_keep_their_type() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(1, 5, kind=TensorProto.UINT8)
    numbers = model.constant(np.float32(0.1)), model.constant(np.uint8(7))
    real = model.add("Relu", model.add("DequantizeLinear", x, *numbers))
    q = model.add("QuantizeLinear", real, *numbers)
    proto = model.proto(
        q, model.add("DequantizeLinear", q, *numbers), kinds=(TensorProto.UINT8, TensorProto.FLOAT)
    )
    changed = canonical(proto)
    assert_canonical(changed, uint8=1)
    assert [v.name for v in changed.graph.output] == [v.name for v in proto.graph.output]
    inputs = {"x": rng.integers(0, 256, (1, 5)).astype(np.uint8)}
    for found, expected in zip(run(changed, inputs), run(proto, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_zero_points_that_are_left_out_are_stated() -> None:
    rng = fresh_rng()
    model = Model(rng)
    scale = model.constant(np.float32(0.05))
    q = model.add("QuantizeLinear", model.input(2, 3), scale)
    proto = model.proto(model.add("DequantizeLinear", q, scale))
    changed = canonical(proto)
    assert_canonical(changed)
    inputs = {"x": rng.normal(size=(2, 3)).astype(np.float32)}
    np.testing.assert_array_equal(run(changed, inputs)[0], run(proto, inputs)[0])


def test_tensors_are_quantised_once_and_dequantised_for_every_reader() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(1, 4)
    numbers = model.constant(np.float32(0.05)), model.constant(np.int8(3))
    twice = [model.add("QuantizeLinear", x, *numbers) for _ in range(2)]
    a, b = (model.add("DequantizeLinear", q, *numbers) for q in twice)
    proto = model.proto(model.add("Add", model.add("Relu", a), model.add("Mul", a, b)), a)
    changed = canonical(proto)
    kinds = [node.op_type for node in changed.graph.node]
    assert kinds.count("QuantizeLinear") == 1
    assert kinds.count("DequantizeLinear") == 4
    inputs = {"x": rng.normal(size=(1, 4)).astype(np.float32)}
    for found, expected in zip(run(changed, inputs), run(proto, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_int32_biases_become_float_constants(per_channel) -> None:
    rng = fresh_rng()
    model = Model(rng)
    scale = rng.uniform(0.001, 0.01, 4 if per_channel else ()).astype(np.float32)
    bias = model.add(
        "DequantizeLinear",
        model.constant(rng.integers(-900, 900, 4).astype(np.int32)),
        model.constant(scale),
        axis=0,
    )
    proto = model.proto(model.add("Add", model.input(2, 4), bias))
    changed = canonical(proto)
    assert [node.op_type for node in changed.graph.node] == ["Add"]
    inputs = {"x": rng.normal(size=(2, 4)).astype(np.float32)}
    np.testing.assert_allclose(run(changed, inputs)[0], run(proto, inputs)[0], rtol=1e-6)


# -- QOperator models of ONNX Runtime as QDQ models -----------------------------------------------


class Data(quantization.CalibrationDataReader):
    """Two batches of noise."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
        self._batches = iter([{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(2)])

    def get_next(self):
        return next(self._batches, None)


def network(model: Model) -> onnx.ModelProto:
    """Every operator that ONNX Runtime has in this format."""
    x = model.input(1, 3, 8, 8)
    y = model.add("Conv", x, model.weights(4, 3, 3, 3), model.weights(4), pads=[1, 1, 1, 1])
    z = model.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = model.add("Concat", model.add("Add", y, z), model.add("LeakyRelu", z), axis=1)
    y = model.add("AveragePool", model.add("Mul", y, model.add("Sigmoid", y)), kernel_shape=[2, 2])
    y = model.add("GlobalAveragePool", y)
    y = model.add("Reshape", y, model.constant(np.array([1, 8])))
    y = model.add("Gemm", y, model.weights(8, 6), model.weights(6))
    y = model.add("MatMul", y, model.weights(6, 5))
    return model.proto(model.add("Softmax", y))


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_network_has_the_same_results_and_runs_on_the_accelerator(tmp_path, per_channel) -> None:
    rng = fresh_rng()
    source, target = tmp_path / "float.onnx", tmp_path / "qoperator.onnx"
    onnx.save(network(Model(rng)), source)
    quantization.quantize_static(
        source,
        target,
        Data(rng, (1, 3, 8, 8)),
        quant_format=quantization.QuantFormat.QOperator,
        per_channel=per_channel,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    kinds = {node.op_type for node in onnx.load(target).graph.node}
    assert {"QLinearConv", "QLinearAdd", "QLinearConcat", "QGemm", "QLinearMatMul"} <= kinds
    imported = import_network(target)
    assert imported.was_quantised
    inputs = {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
    (name,) = (output.name for output in imported.outputs)
    expected, found = (run_all(each, inputs)[name] for each in (onnx.load(target), imported.qdq))
    np.testing.assert_allclose(found, expected, atol=0.02)
    parts = partition(imported)
    assert_regions_agree(imported, parts, inputs, ties=0.3)
    places = {p.kind: p.place for p in parts.placements}
    assert {k for k, place in places.items() if place == "cpu"} <= {
        "LeakyRelu", "Mul", "Reshape", "Sigmoid", "Softmax",
    }  # fmt: skip
    assert places["MatMul"] == places["Gemm"] == places["Conv"] == "accelerator"


def test_a_bias_that_is_not_constant_is_refused(tmp_path) -> None:
    model = Model(fresh_rng())
    x = model.add(
        "QuantizeLinear",
        model.input(1, 3, 4, 4),
        scale := model.constant(np.float32(0.1)),
        zero := model.constant(np.int8(0)),
    )
    weights = model.constant(np.ones((2, 3, 1, 1), np.int8))
    bias = model.input(2, name="b", kind=onnx.TensorProto.INT32)
    y = model.add("QLinearConv", x, scale, zero, weights, scale, zero, scale, zero, bias)
    proto = model.proto(model.add("DequantizeLinear", y, scale, zero))
    with pytest.raises(WorkloadError, match="must have a constant bias"):
        import_network(proto)


def test_int8_pixels_may_be_resized(tmp_path) -> None:
    rng = fresh_rng()
    source, target = tmp_path / "float.onnx", tmp_path / "qoperator.onnx"
    model = Model(rng)
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    scales = model.constant(np.array([1, 1, 2, 2], np.float32))
    y = model.add("Resize", y, "", scales, mode="nearest")
    onnx.save(model.proto(model.add("Conv", y, model.weights(2, 4, 1, 1))), source)
    quantization.quantize_static(
        source,
        target,
        Data(rng, (1, 3, 4, 4)),
        quant_format=quantization.QuantFormat.QOperator,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    kinds = [node.op_type for node in onnx.load(target).graph.node]
    assert kinds[1:4] == ["QLinearConv", "Resize", "QLinearConv"]
    imported = import_network(target)
    inputs = {"x": rng.normal(size=(1, 3, 4, 4)).astype(np.float32)}
    (name,) = (output.name for output in imported.outputs)
    expected, found = (run_all(each, inputs)[name] for each in (onnx.load(target), imported.qdq))
    np.testing.assert_allclose(found, expected, atol=0.05)
    places = [p.place for p in partition(imported).placements if p.kind == "Conv"]
    assert places == ["accelerator"] * 2


def state_shape(proto: onnx.ModelProto, *sizes: int) -> None:
    """State what ONNX cannot infer behind ONNX Runtime's own operators."""
    shape = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, sizes).type
    proto.graph.output[0].type.CopyFrom(shape)


def test_the_bias_of_a_product_has_its_factor() -> None:
    rng = fresh_rng()
    model = Model(rng)
    scale, fine = model.constant(np.float32(0.05)), model.constant(np.float32(0.02))
    zero = model.constant(np.int8(3))
    none = model.constant(np.int8(0))
    x = model.add("QuantizeLinear", model.input(2, 3), scale, zero)
    weights = model.constant(rng.integers(-99, 99, (3, 4)).astype(np.int8))
    bias = model.constant(rng.integers(-999, 999, 4).astype(np.int32))
    inputs = [x, scale, zero, weights, fine, none, bias, scale, zero]
    y = model.add("QGemm", *inputs, domain="com.microsoft", alpha=0.5)
    proto = model.proto(model.add("DequantizeLinear", y, scale, zero))
    state_shape(proto, 2, 4)
    data = {"x": rng.normal(size=(2, 3)).astype(np.float32)}
    network = import_network(proto)
    (name,) = (output.name for output in network.outputs)
    found, expected = (run_all(each, data)[name] for each in (network.qdq, proto))
    np.testing.assert_allclose(found, expected, atol=0.06)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_over_several_axes_is_refused(axis) -> None:
    model = Model(fresh_rng())
    scale, zero = model.constant(np.float32(0.05)), model.constant(np.int8(0))
    x = model.add("QuantizeLinear", model.input(2, 3, 4), scale, zero)
    inputs = [x, scale, zero, scale, zero]
    y = model.add("QLinearSoftmax", *inputs, domain="com.microsoft", axis=axis, opset=11)
    proto = model.proto(model.add("DequantizeLinear", y, scale, zero))
    state_shape(proto, 2, 3, 4)
    if axis == 2:
        assert import_network(proto).was_quantised
        return
    with pytest.raises(WorkloadError, match="must be over the last axis before operator set 13"):
        import_network(proto)
