# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits are those of 8; other types are refused by the name of the tensor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.networks.onnx_results import results
from support.networks.qdq_runs import run_all
from support.networks.small_models import (
    Model,
    assert_regions_agree,
    imported,
    imported_near_its_results,
    imported_with_its_results,
    noise,
)
from support.randomness import fresh_rng, generator, sample, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read import old_operator_sets
from tilewright.host.compiler.read.element_types import widen_integers
from tilewright.host.compiler.read.model_file import normalised
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

ROWS, DEPTH, OUTPUTS, STEP = 4, 16, 8, 0.1
SIGNED, UNSIGNED = ml_dtypes.int4, ml_dtypes.uint4


def weights_of(
    model: Model, dtype: Any, shape: tuple[int, ...], *, axis: int, zero: int | None, block: int = 0
) -> str:
    """Dequantised weights: as many scales as outputs, or as blocks and outputs."""
    info, rng = ml_dtypes.iinfo(dtype), model.rng
    numbers = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    many: tuple[int, ...] = (OUTPUTS,)
    if block:
        many = tuple(size // block if n == axis else size for n, size in enumerate(shape))
    scales = rng.uniform(0.01, 0.02, many).astype(np.float32)
    zeros = [] if zero is None else [model.constant(np.full(many, zero).astype(dtype))]
    more = {"block_size": block} if block else {}
    constants = [model.constant(numbers), model.constant(scales), *zeros]
    return model.add("DequantizeLinear", *constants, axis=axis, **more)


def network(
    dtype: Any, *, kind: str = "MatMul", zero: int | None = None, quantised: bool = True,
    block: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    model = Model(fresh_rng(), opset=21)
    if kind == "Conv":
        x, shape, axis = model.input(1, DEPTH, 5, 5), (OUTPUTS, DEPTH, 1, 1), 0
    else:
        x, shape, axis = model.input(ROWS, DEPTH), (DEPTH, OUTPUTS), 0 if block else 1
    data = model.quantised(x, 0.03, 3) if quantised else x
    y = model.add(kind, data, weights_of(model, dtype, shape, axis=axis, zero=zero, block=block))
    return model.proto(model.quantised(y, STEP, -5) if quantised else y)


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize(
    ("dtype", "zero"), [(SIGNED, None), (SIGNED, 3), (UNSIGNED, None), (UNSIGNED, 8)]
)
def test_a_quantised_model_runs_with_its_numbers(kind, dtype, zero) -> None:
    proto = network(dtype, kind=kind, zero=zero)
    found, inputs = imported_with_its_results(proto, fresh_rng(), STEP)
    parts = partition(found)
    assert_regions_agree(found, parts, inputs)
    assert [p.place for p in parts.placements if p.kind == kind] == ["accelerator"]


@pytest.mark.parametrize(("dtype", "zero"), [(SIGNED, None), (UNSIGNED, 8)])
@pytest.mark.parametrize("bits", [8, 4])
def test_an_accelerator_that_unpacks_them_keeps_them_packed(dtype, zero, bits) -> None:
    hw = load_hwconfig("tiny-4x4").with_(int4_weights=int(bits == 4))
    proto = network(dtype, zero=zero)
    done = compile_model(proto, hw, load_board("pynq-z2"), offload_all=True)
    (layer,) = (layer for graph in done.layers for layer in graph.layers)
    assert layer.workload.weight_bits == bits
    inputs = noise(done.imported, fresh_rng())
    found = run_network(done.network, ReferenceDevice(hw), inputs, trusted=True).outputs
    for name, array in found.items():
        np.testing.assert_allclose(array, run_all(proto, inputs)[name], atol=1.01 * STEP)


@pytest.mark.parametrize("block", [0, 8])
@pytest.mark.parametrize(("dtype", "zero"), [(SIGNED, None), (UNSIGNED, 8), (np.int8, None)])
def test_weights_alone_make_a_float_model(dtype, zero, block) -> None:
    proto = network(dtype, zero=zero, quantised=False, block=block)
    with pytest.raises(WorkloadError, match="a float model needs calibration data"):
        compile_model(proto, load_hwconfig("tiny-4x4"), load_board("pynq-z2"))
    found, _ = imported_near_its_results(proto, fresh_rng(), 0.1)
    assert not found.was_quantised
    parts = partition(found)
    assert [p.place for p in parts.placements if p.kind == "MatMul"] == ["accelerator"]


def float8_weights() -> onnx.ModelProto:
    model = Model(fresh_rng(), opset=21)
    x = model.quantised(model.input(ROWS, DEPTH), 0.03, 3)
    ones = np.ones((DEPTH, OUTPUTS))
    real = model.add("DequantizeLinear", ones.astype(ml_dtypes.float8_e4m3fn), np.float32(0.01))
    return model.proto(model.quantised(model.add("MatMul", x, real), STEP))


def narrow_activations(how: str) -> onnx.ModelProto:
    model = Model(fresh_rng(), opset=21)
    x = model.input(ROWS, DEPTH)
    scale, zero = model.constant(np.float32(0.1)), model.constant(np.zeros((), SIGNED))
    if how == "zero point":
        y = model.add("QuantizeLinear", x, scale, zero)
    elif how == "moved zero point":
        y = model.add("QuantizeLinear", x, scale, model.add("Identity", zero))
    elif how == "stated":
        y = model.add("QuantizeLinear", x, scale, output_dtype=TensorProto.INT4)
    elif how == "cast like":
        y = model.add("CastLike", x, zero)
    else:
        y = model.add("Cast", x, to=TensorProto.INT4)
    real = model.add("Cast", y, to=TensorProto.FLOAT)
    return model.proto(model.add("MatMul", real, model.weights(DEPTH, OUTPUTS)))


def input_of_text() -> onnx.ModelProto:
    model = Model(fresh_rng())
    x = model.input(1, name="words", kind=TensorProto.STRING)
    return model.proto(model.add("Identity", x), kinds=[TensorProto.STRING])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (float8_weights, r"c2: must be of floats.*not 'float8e4m3fn'; export the model with int8"),
        (lambda: narrow_activations("zero point"), "QuantizeLinear .*: activations must have 8"),
        (lambda: narrow_activations("moved zero point"), "QuantizeLinear .*: activations must"),
        (lambda: narrow_activations("stated"), "quantizelinear0: must be of floats.*not 'int4'"),
        (lambda: narrow_activations("cast like"), "CastLike .*: activations must have 8 bits"),
        (lambda: narrow_activations("cast"), "cast0: must be of floats.*not 'int4'"),
        (input_of_text, "words: must be a tensor of numbers, not 'string'"),
    ],
)
def test_what_is_not_taken_is_told_by_the_name_of_its_tensor(
    make: Callable[[], onnx.ModelProto], told: str
) -> None:
    with pytest.raises(WorkloadError, match=told) as caught:
        imported(make())
    assert "TVM" not in str(caught.value)
    assert caught.value.remedy


def test_every_type_of_onnx_is_taken_or_refused() -> None:
    for name, number in TensorProto.DataType.items():
        if name == "UNDEFINED":
            continue
        tensor = helper.make_tensor("c", number, [0], [])
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        model = helper.make_model(helper.make_graph([], "g", [value], [value], [tensor]))
        if name.startswith(("FLOAT4", "FLOAT6", "FLOAT8", "COMPLEX", "STRING")):
            with pytest.raises(WorkloadError) as caught:
                widen_integers(model, Path("m"))
            assert caught.value.value == name.lower()
            continue
        widen_integers(model, Path("m"))
        kind = TensorProto.DataType.Name(model.graph.initializer[0].data_type)
        assert kind == name.replace("INT4", "INT8").replace("INT2", "INT8")


# -- old operator sets keep their meaning, which NumPy states here as the old documents do --------

PAIRS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
    "Less": np.less, "Greater": np.greater,
}  # fmt: skip


def old_model(node, version, shape, constants=(), result=TensorProto.FLOAT):
    graph = helper.make_graph(
        [node],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=4)


def computed(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return results(normalised(model, Path("old.onnx"), {}), {"x": x})[0]


@pytest.mark.parametrize("number", sample(20, 300))
def test_operands_lie_on_each_other_from_an_axis_on(number) -> None:
    """Sizes are drawn equal, too, where any other axis would fit as well."""
    rng = generator(f"old operand {number}")
    rank = int(rng.integers(1, 5))
    shape = rng.choice([2, 3, 3], rank).tolist()
    first = int(rng.integers(0, rank))
    last = int(rng.integers(first, rank)) + 1
    kind = str(rng.choice(list(PAIRS)))
    b = rng.normal(size=shape[first:last]).astype(np.float32) + 3
    stated = {"axis": first - (rank if rng.random() < 0.3 else 0)}
    if last == rank and rng.random() < 0.5:
        stated = {}  # a suffix needs none
    node = helper.make_node(kind, ["x", "b"], ["y"], broadcast=1, **stated)
    version = int(rng.integers(1, 7)) if kind not in ("Less", "Greater") else 6
    result = TensorProto.BOOL if kind in ("Less", "Greater") else TensorProto.FLOAT
    x = rng.normal(size=shape).astype(np.float32)
    expected = PAIRS[kind](x, b.reshape(*b.shape, *(1,) * (rank - last)))
    found = computed(old_model(node, version, shape, [("b", b)], result), x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=where(number=number, kind=kind))


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize("width", [4, 5])
def test_slopes_are_those_of_the_channels_also_where_columns_are_as_many(version, width) -> None:
    rng = fresh_rng()
    slopes, x = (rng.normal(size=size).astype(np.float32) for size in ((4,), (2, 4, 3, width)))
    model = old_model(
        helper.make_node("PRelu", ["x", "s"], ["y"]), version, x.shape, [("s", slopes)]
    )
    expected = np.where(x < 0, x * slopes[:, None, None], x)
    np.testing.assert_allclose(computed(model, x), expected, rtol=1e-6)


def test_inference_is_what_was_stated_and_training_is_refused() -> None:
    x = fresh_rng().normal(size=(2, 3)).astype(np.float32)
    node = helper.make_node("Dropout", ["x"], ["y"], is_test=1, ratio=0.5)
    np.testing.assert_array_equal(computed(old_model(node, 6, x.shape), x), x)
    node = helper.make_node("Dropout", ["x"], ["y"], ratio=0.5)
    with pytest.raises(WorkloadError, match="training mode"):
        computed(old_model(node, 6, x.shape), x)


def test_an_operator_whose_old_meaning_is_not_stated_is_refused() -> None:
    node = helper.make_node("Upsample", ["x"], ["y"], width_scale=2.0, height_scale=2.0)
    with pytest.raises(WorkloadError, match=r"operator set 1 .*not known"):
        computed(old_model(node, 1, (1, 2, 3, 3)), np.zeros((1, 2, 3, 3), np.float32))


@pytest.mark.parametrize("version", [1, 4])
def test_a_new_constant_is_known_where_weights_are_inputs(version) -> None:
    """Before version 4 of the file format all of them are."""
    model = old_model(helper.make_node("Reshape", ["x"], ["y"], shape=[2, 6]), version, [3, 4])
    model.ir_version = 3
    assert computed(model, np.zeros((3, 4), np.float32)).shape == (2, 6)


@pytest.mark.parametrize("version", [6, 7, 8])
def test_normalisation_of_each_pixel_is_told_in_every_old_set(version) -> None:
    names = "abcd"
    stated = {"spatial": 0, **({"is_test": 1} if version < 7 else {})}
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"], **stated)
    constants = [(name, np.ones((3, 2, 2), np.float32)) for name in names]
    with pytest.raises(WorkloadError, match=rf"set {version} \(it normalises each pixel"):
        computed(old_model(node, version, [1, 3, 2, 2], constants), np.zeros(()))


def test_what_the_converter_changes_is_refused(monkeypatch) -> None:
    """It forgets that Hardmax was over all axes behind its own; without the mend that shows."""
    x = fresh_rng().normal(size=(2, 3, 4)).astype(np.float32)
    model = old_model(helper.make_node("Hardmax", ["x"], ["y"], axis=1), 9, x.shape)
    assert computed(model, x).sum() == 2
    monkeypatch.setattr(old_operator_sets, "_flatten_hardmax", lambda model: None)
    with pytest.raises(WorkloadError, match="converter changes its results"):
        computed(model, x)


@pytest.mark.parametrize("mode", [True, None])
def test_dropout_whose_mode_is_an_input_is_refused_unless_it_is_off(mode) -> None:
    x = np.ones((2, 3), np.float32)
    node = helper.make_node("Dropout", ["x", "", "mode"], ["y"])
    constants = [("mode", np.array(False))]
    np.testing.assert_array_equal(computed(old_model(node, 13, x.shape, constants), x), x)
    model = old_model(node, 13, x.shape, [] if mode is None else [("mode", np.array(mode))])
    if mode is None:
        model.graph.input.append(helper.make_tensor_value_info("mode", TensorProto.BOOL, []))
    with pytest.raises(WorkloadError, match="inference mode"):
        computed(model, x)
