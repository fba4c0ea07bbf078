# SPDX-License-Identifier: Apache-2.0
"""Operators that TVM takes for others, or not at all, compute what ONNX Runtime computes."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as Type
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.networks.compiled_runs import assert_cpu_computes, beside_a_layer
from support.networks.onnx_results import rewritten
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, accelerated, imported, operators
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.run.relax_host import HostProgram

REDUCTIONS = {
    "ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceLogSumExp": "Identity",
    "ReduceMax": "Identity", "ReduceMean": "Identity", "ReduceProd": "Identity",
    "ReduceSum": "Identity", "ReduceSumSquare": "Mul",
}  # fmt: skip


def check(
    kind: str,
    data: np.ndarray,
    *constants: Any,
    opset: int = 17,
    result: int = Type.FLOAT,
    tolerance: float = 1e-4,
    **attributes: Any,
) -> None:
    """One operator of one input, an empty text for a constant that it leaves out."""
    model = Model(fresh_rng(), opset)
    x = model.input(*data.shape, kind=helper.np_dtype_to_tensor_dtype(data.dtype))
    given = [each if isinstance(each, str) else model.constant(each) for each in constants]
    proto = model.proto(model.add(kind, x, *given, **attributes), kinds=[result])
    assert_cpu_computes(proto, {"x": data}, tolerance)


def noise(*shape: int) -> np.ndarray:
    return fresh_rng().normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("stated", [False, True])
def test_a_reduction_over_no_axis_works_on_each_element(kind, stated) -> None:
    model = Model(fresh_rng(), opset=18)
    x = model.input(2, 3)
    axes = [model.constant(np.zeros(0, np.int64))] if stated else []
    proto = model.proto(model.add(kind, x, *axes, noop_with_empty_axes=1))
    data = noise(2, 3)
    data = np.abs(data) + np.float32(0.1) if kind == "ReduceLogSum" else data
    assert rewritten(proto, x=data) == [REDUCTIONS[kind]]
    assert_cpu_computes(proto, {"x": data})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axes", [[1], [0, -1], None])
def test_a_mean_of_integers_is_an_integer(dtype, axes) -> None:
    data = fresh_rng().integers(-99, 99, (2, 3, 4)).astype(dtype)
    result = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    attributes = {} if axes is None else {"axes": axes}
    check("ReduceMean", data, result=result, **attributes)
    check("ReduceMean", data, result=result, keepdims=0, **attributes)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("negative", [0, 1])
def test_infinity_of_one_sign_is_found(positive, negative) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3)
    found = model.add("Concat", model.add("Log", x), model.add("Reciprocal", x), axis=1)
    detected = {"detect_positive": positive, "detect_negative": negative}
    proto = model.proto(model.add("IsInf", found, **detected), kinds=[Type.BOOL])
    assert_cpu_computes(proto, {"x": np.array([[0, 1, 2], [0.5, 0, 3]], np.float32)})


def test_of_bounds_that_cross_each_other_the_upper_one_counts() -> None:
    bounds = [np.float32(1), np.float32(-1)]
    check("Clip", noise(2, 6), *bounds)
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    y = model.add("Clip", y, *(model.constant(bound) for bound in bounds))
    (layer,) = operators(accelerated(model.proto(y)))
    assert layer.bounds == (-1, -1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("bounds", [(1, 5), ("", 5), (1,)])
def test_integers_are_clipped(dtype, bounds) -> None:
    given = [bound if bound == "" else dtype(bound) for bound in bounds]
    data = fresh_rng().integers(0, 9, (2, 6)).astype(dtype)
    check("Clip", data, *given, result=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@pytest.mark.parametrize("exponent", [np.int64(2), np.int32(3), np.float64(2)])
def test_an_exponent_may_have_a_type_of_its_own(exponent) -> None:
    check("Pow", noise(2, 6), exponent)


def test_an_integer_exponent_may_be_computed() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3)
    y = model.add("Pow", x, model.add("Cast", x, to=Type.INT64))
    assert_cpu_computes(model.proto(y), {"x": np.array([[1, 2, 3.5], [0.5, 4, -3]], np.float32)})


@pytest.mark.parametrize("ends", [{}, {"start": 1}, {"end": -1}, {"start": -2, "end": 9}])
@pytest.mark.parametrize("quantised", [False, True])
def test_a_part_of_a_shape_is_a_constant(ends, quantised) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3, 4)
    y = model.quantised(x, 0.1) if quantised else x
    proto = model.proto(model.add("Shape", y, **ends), kinds=[Type.INT64])
    assert rewritten(proto) == ["Identity"]
    if not quantised:
        assert_cpu_computes(proto, {"x": noise(2, 3, 4)})


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("Celu", {"alpha": 1.5}),
        ("LpNormalization", {"axis": 1, "p": 1}),
        ("LpNormalization", {"axis": -1}),
        ("MeanVarianceNormalization", {"axes": [0, 2]}),
    ],
)
def test_what_tvm_does_not_know_is_written_out(kind, attributes) -> None:
    data = noise(2, 3, 4)
    data[1] = 0
    check(kind, data, **attributes)


def test_a_mean_far_from_0_leaves_the_deviation_exact() -> None:
    data = noise(1, 2, 9, 9) / np.float32(50) + np.float32(100)
    check("MeanVarianceNormalization", data, tolerance=2e-3)


def test_layer_normalisation_with_a_scale_of_fewer_axes() -> None:
    check("LayerNormalization", noise(2, 3, 4), noise(4), noise(3, 4), axis=1)


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_of_matrices_and_identities(upper) -> None:
    check("Trilu", noise(2, 4, 5), np.array(1), upper=upper)
    check("Trilu", noise(4, 5) > 0, upper=upper, result=Type.BOOL)
    check("EyeLike", noise(3, 4), k=upper, dtype=Type.DOUBLE, result=Type.DOUBLE)


def test_a_join_of_nothing_and_something() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 6)
    ends = [model.constant(np.array([each])) for each in (3, 1, 1)]
    y = model.add("Concat", model.add("Slice", x, *ends), x, axis=1)
    assert_cpu_computes(model.proto(y), {"x": noise(1, 4, 6)})


@pytest.mark.parametrize("sizes", [[4, 0], [0, 1, 3]])
def test_parts_without_elements_are_no_parts(sizes) -> None:
    model = Model(fresh_rng())
    parts = [f"part{index}" for index in range(len(sizes))]
    inputs = [model.input(1, 4, 3), model.constant(np.array(sizes))]
    model.nodes.append(helper.make_node("Split", inputs, parts, "split", axis=1))
    y = model.add("Concat", *(model.add("Sin", part) for part in reversed(parts)), axis=1)
    data = fresh_rng().normal(size=(1, 4, 3)).astype(np.float32)
    assert_cpu_computes(model.proto(y), {"x": data})


def test_the_largest_come_in_any_order() -> None:
    model = Model(fresh_rng())
    top = ["values", "places"]
    x, most = model.input(2, 5), model.constant(np.array([3]))
    model.nodes.append(helper.make_node("TopK", [x, most], top, "top", sorted=0))
    assert_cpu_computes(model.proto(model.add("ReduceSum", "values", [1])), {"x": noise(2, 5)})


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_masked_scores_of_attention_are_those_of_onnx(mode) -> None:
    rng = fresh_rng()
    model = Model(rng, opset=24)
    q, k, v = (model.input(1, 2, 5, 4, name=name) for name in "qkv")
    y = model.add("Attention", q, k, v, is_causal=1, qk_matmul_output_mode=mode)
    model.nodes[-1].output.extend(["", "", "scores"])
    proto = model.proto(y, "scores")
    inputs = {name: rng.normal(size=(1, 2, 5, 4)).astype(np.float32) for name in "qkv"}
    expected = ReferenceEvaluator(proto).run(None, inputs)[1]
    assert np.isneginf(expected).any() == (mode == 2)
    parts = partition(beside_a_layer(proto, inputs))
    beside = {"beside": np.ones((1, 2, 3, 3), np.float32)}
    found = HostProgram(module=parts.host).run({**inputs, **beside}, FloatRegions(parts.regions))
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(6, 10), (11, 4), (8, 8), (5, 5)])
def test_crops_and_pads_to_a_size_lie_between_layers(sizes) -> None:
    """ONNX Runtime writes them out with sizes that it computes: those are constants."""
    model = Model(fresh_rng(), opset=18)
    y = model.add("CenterCropPad", model.input(1, 3, 8, 8), np.array(sizes), axes=[2, 3])
    assert_cpu_computes(model.proto(y), {"x": model.rng.normal(size=(1, 3, 8, 8)).astype("f4")})
    model = Model(fresh_rng(), opset=18)
    y = model.add("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 1, 1))
    y = model.add("CenterCropPad", y, np.array(sizes), axes=[2, 3])
    proto = model.proto(model.add("Conv", y, model.weights(4, 4, 1, 1)))
    placed = [(p.kind, p.place) for p in partition(imported(proto)).placements]
    assert placed.count(("Conv", "accelerator")) == 2


@pytest.mark.parametrize("sides", [None, 0, 1])
def test_a_spectrum_has_one_side_unless_it_says_otherwise(sides) -> None:
    model = Model(fresh_rng())
    window = model.constant(np.hanning(16).astype(np.float32))
    stated = {} if sides is None else {"onesided": sides}
    y = model.add("STFT", model.input(1, 64, 1), np.int64(8), window, **stated)
    y = model.add("ReduceSum", model.add("Mul", y, y), [3], keepdims=0)
    y = model.add("MatMul", y, model.weights(16 if sides == 0 else 9, 5))
    placed = [(p.kind, p.place) for p in partition(imported(model.proto(y))).placements]
    assert ("MatMul", "accelerator") in placed
