# SPDX-License-Identifier: Apache-2.0
"""Quantised models in their many spellings become one."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from onnxruntime import quantization
from support.networks.onnx_results import assert_same_results, read_in, results
from support.networks.qdq_runs import Samples, output_of
from support.networks.small_models import Model, assert_regions_agree
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.read.model_ends import arguments_of
from tilewright.host.compiler.rewrite import qdq
from tilewright.host.compiler.rewrite.int8_ends import to_int8_ends


def canonical(model: onnx.ModelProto, *, int8_ends: bool = False) -> onnx.ModelProto:
    current = read_in(model)
    qdq.canonical(current)
    if int8_ends:
        to_int8_ends(current)
    result = ir.to_proto(current)
    onnx.checker.check_model(result, full_check=int8_ends)
    return onnx.shape_inference.infer_shapes(result)


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
    assert_same_results(proto, changed, {"x": rng.integers(0, 256, (1, 5)).astype(np.uint8)})


def test_zero_points_that_are_left_out_are_stated() -> None:
    rng = fresh_rng()
    model = Model(rng)
    scale = model.constant(np.float32(0.05))
    q = model.add("QuantizeLinear", model.input(2, 3), scale)
    proto = model.proto(model.add("DequantizeLinear", q, scale))
    changed = canonical(proto)
    assert_canonical(changed)
    assert_same_results(proto, changed, {"x": rng.normal(size=(2, 3)).astype(np.float32)})


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
    assert_same_results(proto, changed, {"x": rng.normal(size=(1, 4)).astype(np.float32)})


# -- QOperator models of ONNX Runtime as QDQ models -----------------------------------------------


def network(model: Model) -> onnx.ModelProto:
    """Every operator that ONNX Runtime has in this format."""
    x = model.input(1, 3, 8, 8)
    y = model.add("Conv", x, model.weights(4, 3, 3, 3), model.weights(4), pads=[1, 1, 1, 1])
    z = model.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = model.add("Concat", model.add("Add", y, z), model.add("LeakyRelu", z), axis=1)
    y = model.add("AveragePool", model.add("Mul", y, model.add("Sigmoid", y)), kernel_shape=[2, 2])
    y = model.add("GlobalAveragePool", y)
    y = model.add("Reshape", y, [1, 8])
    y = model.add("Gemm", y, model.weights(8, 6), model.weights(6))
    y = model.add("MatMul", y, model.weights(6, 5))
    return model.proto(model.add("Softmax", y))


def in_qoperators(
    proto: onnx.ModelProto, folder: Path, samples: np.ndarray, *, per_channel: bool = False
) -> Path:
    """The file that ONNX Runtime's quantiser makes of a float model."""
    source, target = folder / "float.onnx", folder / "qoperator.onnx"
    onnx.save(proto, source)
    quantization.quantize_static(
        source,
        target,
        Samples(samples),
        quant_format=quantization.QuantFormat.QOperator,
        per_channel=per_channel,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    return target


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_network_has_the_same_results_and_runs_on_the_accelerator(tmp_path, per_channel) -> None:
    rng = fresh_rng()
    samples = rng.normal(size=(4, 3, 8, 8)).astype(np.float32)
    target = in_qoperators(network(Model(rng)), tmp_path, samples, per_channel=per_channel)
    kinds = {node.op_type for node in onnx.load(target).graph.node}
    assert {"QLinearConv", "QLinearAdd", "QLinearConcat", "QGemm", "QLinearMatMul"} <= kinds
    imported = import_network(target)
    assert imported.was_quantised
    inputs = {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
    found, expected = output_of((imported.qdq, onnx.load(target)), inputs)
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
    model = Model(rng)
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    y = model.add("Resize", y, "", np.array([1, 1, 2, 2], np.float32), mode="nearest")
    proto = model.proto(model.add("Conv", y, model.weights(2, 4, 1, 1)))
    target = in_qoperators(proto, tmp_path, rng.normal(size=(4, 3, 4, 4)).astype(np.float32))
    kinds = [node.op_type for node in onnx.load(target).graph.node]
    assert kinds[1:4] == ["QLinearConv", "Resize", "QLinearConv"]
    imported = import_network(target)
    inputs = {"x": rng.normal(size=(1, 3, 4, 4)).astype(np.float32)}
    found, expected = output_of((imported.qdq, onnx.load(target)), inputs)
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
    found, expected = output_of((import_network(proto).qdq, proto), data)
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


# -- Networks that take and give int8: the same results, in steps of the first and last tensor
def both(model: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Canonical, and that with int8 ends."""
    return canonical(model), canonical(model, int8_ends=True)


def in_real_numbers(model: onnx.ModelProto, data: np.ndarray) -> list[np.ndarray]:
    """What a model of one input with int8 ends, or without, gives for real numbers."""
    (given,), ports = arguments_of(model)
    found = results(model, {given.name: given.quantise(data) if given.is_quantised else data})
    return [
        port.dequantise(array) if port.is_quantised else array
        for port, array in zip(ports, found, strict=True)
    ]


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("moved", [False, True], ids=["straight", "moved"])
def test_real_numbers_give_the_same_result_either_way(kind, moved) -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(2, 6)
    if moved:
        x = model.add("Transpose", model.add("Reshape", x, [6, 2]))
    x = model.quantised(x, 0.03, 5, kind)
    weights = model.constant(rng.normal(size=(6, 4)).astype(np.float32))
    y = model.quantised(model.add("MatMul", x, weights), 0.11, 7, kind)
    if moved:
        y = model.add("Flatten", y, axis=0)
    before, after = both(model.proto(y))
    (given,), (result,) = arguments_of(after)
    assert (given.dtype, result.dtype) == ("int8", "int8")
    offset = 128 if kind is np.uint8 else 0
    assert (given.scale, given.zero_point) == (pytest.approx(0.03), 5 - offset)
    assert (result.scale, result.zero_point) == (pytest.approx(0.11), 7 - offset)
    assert [argument.name for argument in arguments_of(before)[0]] == [given.name]
    assert [argument.name for argument in arguments_of(before)[1]] == [result.name]
    assert not [n for n in after.graph.node if n.op_type == "QuantizeLinear"][1:]
    data = rng.normal(size=given.shape).astype(np.float32)
    (found,), (expected,) = (in_real_numbers(each, data) for each in (after, before))
    np.testing.assert_array_equal(found, expected)


def test_ends_without_one_scale_stay_as_they_are() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.input(1, 4)
    coarse, fine = (model.quantised(x, scale, 0, np.int8) for scale in (0.1, 0.01))
    total = model.add("Add", coarse, fine)
    before, after = both(model.proto(model.add("Softmax", total)))
    assert [a.dtype for a in (*arguments_of(after)[0], *arguments_of(after)[1])] == ["float32"] * 2
    assert_same_results(before, after, {"x": rng.normal(size=(1, 4)).astype(np.float32)})


@pytest.mark.parametrize("moved", [False, True])
def test_an_output_that_is_read_inside_too_stays_real(moved) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.quantised(model.input(1, 4), 0.1, 0, np.int8)
    if moved:
        y = model.add("Reshape", y, [2, 2])
    before, after = both(model.proto(y, model.add("Softmax", y)))
    if moved:
        assert [a.dtype for a in arguments_of(after)[1]] == ["float32"] * 2
    data = rng.normal(size=(1, 4)).astype(np.float32)
    found, expected = (in_real_numbers(each, data) for each in (after, before))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("kind", ["LayerNormalization", "Sigmoid"])
def test_functions_that_leave_the_network_are_rounded_too(kind, ends) -> None:
    """Nothing reads them, so nothing would ask for int8 but the end itself."""
    model = Model(fresh_rng())
    if kind == "Sigmoid":
        y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(8, 3, 3, 3))
        y = model.add("Sigmoid", y)
    else:
        y = model.add("MatMul", model.input(1, 6, 8), model.weights(8, 16))
        y = model.add("LayerNormalization", y, model.weights(16), model.weights(16), axis=-1)
    options = QuantiseOptions(row_functions=True, activation_tables=True, int8_ends=ends)
    network = import_network(
        model.proto(y),
        calibration=Calibration(random_samples=2),
        options=ImportOptions(quantise=options),
    )
    (port,) = network.outputs
    assert (port.name, port.is_quantised) == (y, ends)
    placed = {p.kind: p.place for p in partition(network, rows=True, tables=True).placements}
    assert "Reshape" not in placed
    assert placed[kind] == ("accelerator" if ends else "cpu")
