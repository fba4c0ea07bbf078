# SPDX-License-Identifier: Apache-2.0
"""Dynamically quantised layers become layers of floats that compute the same."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic
from support.networks.onnx_results import assert_same_results, read_in, results
from support.networks.qdq_runs import assert_near
from support.networks.small_models import Model, accelerated
from support.randomness import fresh_rng

from tilewright.host.compiler.rewrite.constants import fold_dequantised
from tilewright.host.compiler.rewrite.dynamic_quantisation import fold_dynamic


def folded(model: onnx.ModelProto) -> tuple[bool, onnx.ModelProto]:
    read = read_in(model)
    return fold_dynamic(read), ir.to_proto(read)


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def layer(
    kind: str,
    shape: tuple[int, ...],
    weights: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None,
    **attributes: object,
) -> tuple[Model, str]:
    """One dynamically quantised layer, as ONNX Runtime writes it."""
    model = Model(np.random.default_rng(0))
    x = model.input(*shape)
    model.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", [x], ["q", "s", "z"]))
    zeros = () if zero is None else (model.constant(zero),)
    sums = model.add(kind, "q", weights, "z", *zeros, **attributes)
    factor = model.add("Mul", "s", scale)
    return model, model.add("Mul", model.add("Cast", sums, to=TensorProto.FLOAT), factor)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_product_with_a_table_of_integers_is_what_it_was(swapped) -> None:
    rng = fresh_rng()
    model = Model(rng)
    numbers = [model.constant(np.float32(0.03)), model.constant(np.uint8(77))]
    ids = model.input(2, 5, kind=TensorProto.INT64)
    rows = model.add("Gather", rng.integers(0, 256, (9, 6)).astype(np.uint8), ids)
    weights = model.constant(rng.integers(-128, 128, (6, 4)).astype(np.int8))
    sums = model.add("MatMulInteger", rows, weights, numbers[1])
    factors = [numbers[0], model.constant(rng.uniform(0.01, 0.1, 4).astype(np.float32))]
    factor = model.add("Mul", *(factors[::-1] if swapped else factors))
    product = model.add("Mul", model.add("Cast", sums, to=TensorProto.FLOAT), factor)
    proto = model.proto(product, model.add("Relu", model.add("DequantizeLinear", rows, *numbers)))
    read = read_in(proto)
    assert fold_dynamic(read)
    assert fold_dequantised(read, blocks_alone=False)
    result = ir.to_proto(read)
    assert sorted(kinds(result)) == ["Gather", "Gather", "MatMul", "Relu"]
    assert_same_results(proto, result, {"x": rng.integers(0, 9, (2, 5))}, rtol=1e-4, atol=1e-4)


def test_a_scale_of_another_axis_is_left() -> None:
    model, y = layer(
        "MatMulInteger", (4, 4), np.ones((4, 4), np.int8), np.ones((4, 1), np.float32), None
    )
    assert not folded(model.proto(y))[0]
    model, y = layer(
        "ConvInteger", (1, 2, 4, 4), np.ones((4, 2, 1, 1), np.int8), np.ones(4, np.float32), None
    )
    assert not folded(model.proto(y))[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_scales_of_other_types_are_left(dtype) -> None:
    model, y = layer("MatMulInteger", (4, 4), np.ones((4, 4), np.int8), np.ones((), dtype), None)
    assert not folded(model.proto(y))[0]


def test_integers_that_something_else_reads_are_left() -> None:
    model, y = layer("MatMulInteger", (2, 4), np.ones((4, 4), np.int8), np.float32(1), None)
    sums = next(node.output[0] for node in model.nodes if node.op_type == "MatMulInteger")
    assert not folded(model.proto(y, sums, kinds=[TensorProto.FLOAT, TensorProto.INT32]))[0]


def test_weights_that_are_no_constants_are_left() -> None:
    model = Model(np.random.default_rng(0))
    x = model.input(4, 4)
    model.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", [x], ["q", "s", "z"]))
    sums = model.add("MatMulInteger", "q", "q", "z", "z")
    factor = model.add("Mul", "s", "s")
    y = model.add("Mul", model.add("Cast", sums, to=TensorProto.FLOAT), factor)
    assert not folded(model.proto(y))[0]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_a_model_of_onnx_runtime_runs_on_the_accelerator(tmp_path, each, kind) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(8, 3, 3, 3), model.weights(8))
    y = model.add("Conv", model.add("Relu", y), model.weights(8, 8, 1, 1))
    y = model.add("Gemm", model.add("Flatten", y), model.weights(8 * 16, 10), model.weights(10))
    y = model.add("MatMul", model.add("Relu", y), model.weights(10, 12))
    onnx.save(model.proto(y), tmp_path / "float.onnx")
    quantize_dynamic(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", per_channel=each, weight_type=kind
    )
    quantised = onnx.load(tmp_path / "int8.onnx")
    assert kinds(quantised).count("ConvInteger") == 2
    assert kinds(quantised).count("MatMulInteger") == 2

    data = {"x": rng.normal(size=(1, 3, 6, 6)).astype(np.float32)}
    found, result = folded(quantised)
    assert found
    assert not {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"} & set(kinds(result))
    # Four layers quantise what they read: 16 % was seen once. Wrong numbers differ by the whole.
    assert_near(results(result, data)[0], results(quantised, data)[0], 0.3)

    assert len(accelerated(quantised).regions) == 1
