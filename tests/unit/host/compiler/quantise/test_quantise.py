# SPDX-License-Identifier: Apache-2.0
"""What is quantised, and that a unit is rounded once."""

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.quantise.quantise import quantise
from tilewright.host.compiler.read.edit import array_of, is_kind
from tilewright.host.compiler.read.import_options import QuantiseOptions


def quantised(model: Model, *outputs: str, **options: bool) -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.shape_inference.infer_shapes(model.proto(*outputs))
    batches = [
        {
            value.name: rng.normal(
                size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]
            ).astype(np.float32)
            for value in proto.graph.input
        }
        for _ in range(2)
    ]
    return quantise(ir.from_proto(proto), batches, QuantiseOptions(**options))


def nodes(model: ir.Model, *kinds: str) -> list[ir.Node]:
    return [node for node in model.graph if is_kind(node, *kinds)]


def between(node: ir.Node, index: int = 0) -> str:
    """The operator that writes an input of a node."""
    value = node.inputs[index]
    writer = value.producer() if value is not None else None
    return writer.op_type if writer is not None else ""


@pytest.mark.parametrize("kind", ["Relu", "Clip"])
def test_nothing_is_rounded_between_a_layer_and_its_activation(kind) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    bounds = [model.constant(np.float32(0)), model.constant(np.float32(6))]
    found = quantised(model, model.add(kind, y, *(bounds if kind == "Clip" else [])))
    (node,) = nodes(found, kind)
    assert between(node) == "Conv"
    assert [use.node.op_type for use in node.outputs[0].uses()] == ["QuantizeLinear"]


def test_an_activation_of_a_tensor_that_others_read_too_is_a_step_of_its_own() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    found = quantised(model, model.add("Add", model.add("Relu", y), y))
    assert between(nodes(found, "Relu")[0]) == "DequantizeLinear"
    assert {between(nodes(found, "Add")[0], i) for i in (0, 1)} == {"DequantizeLinear"}


def test_biases_and_factors_of_products_stay_as_they_are() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3, 4)
    bias = model.rng.normal(size=5).astype(np.float32)
    a = model.add("Add", model.add("MatMul", x, model.weights(4, 5)), model.constant(bias))
    b = model.add("MatMul", x, model.weights(4, 5))
    b = model.add("Transpose", b, perm=[0, 2, 1])
    scores = model.add("Div", model.add("MatMul", a, b), model.constant(np.float32(3)))
    found = quantised(model, scores, bias_correction=False)
    (add,) = nodes(found, "Add")
    assert between(add) == "MatMul"
    np.testing.assert_array_equal(array_of(add.inputs[1]), bias)
    (divide,) = nodes(found, "Div")
    assert between(divide) == "MatMul"
    assert array_of(divide.inputs[1]) == np.float32(3)


def test_what_a_layer_computes_is_int8_for_readers_on_the_cpu_too() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    z = model.add("Conv", y, model.weights(4, 4, 1, 1))
    found = quantised(model, model.add("Mul", model.add("Sigmoid", y), y), z)
    for node in nodes(found, "Sigmoid"):
        assert between(node) == "DequantizeLinear"
    assert between(nodes(found, "Mul")[0], 1) == "DequantizeLinear"
    for node in nodes(found, "Conv"):
        readers = {use.node.op_type for use in node.outputs[0].uses()}
        assert readers == {"QuantizeLinear"}


def test_operators_that_the_accelerator_does_not_take_stay_float() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    averaged = model.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    shifted = model.add("Add", y, model.constant(np.float32(1)))
    joined = model.add("Concat", y, y, axis=2)
    found = quantised(model, averaged, shifted, joined, model.add("HardSwish", y))
    for node in nodes(found, "AveragePool", "Add", "Concat", "HardSwish"):
        assert not any(is_kind(use.node, "QuantizeLinear") for use in node.outputs[0].uses())


def rounded(model: ir.Model, kind: str) -> list[bool]:
    """Of each operator of a kind whether its result is rounded."""
    return [
        any(is_kind(use.node, "QuantizeLinear") for use in node.outputs[0].uses())
        for node in nodes(model, kind)
    ]


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_a_table_computes_a_written_out_gelu_rounded_only_at_its_ends(square: str) -> None:
    """Its cube is far larger than what it is added to: one scale for both costs accuracy."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))

    def scaled(value: str, factor: float) -> str:
        return model.add("Mul", value, model.constant(np.float32(factor)))

    if square == "Pow":
        cube = model.add("Pow", x, model.constant(np.float32(3)))
    else:
        cube = model.add("Mul", model.add("Mul", x, x), x)
    inner = scaled(model.add("Add", scaled(cube, 0.044715), x), (2 / np.pi) ** 0.5)
    share = model.add("Add", model.add("Tanh", inner), model.constant(np.float32(1)))
    y = model.add("Mul", x, scaled(share, 0.5))
    last = model.add("Conv", y, model.weights(4, 4, 1, 1))
    found = quantised(model, last, activation_tables=True)
    readers = {use.node.op_type for node in nodes(found, "Conv") for use in node.outputs[0].uses()}
    assert readers == {"QuantizeLinear"}
    for kind in ("Add", "Mul", "Pow", "Tanh"):
        names = [
            n.outputs[0].name
            for n, r in zip(nodes(found, kind), rounded(found, kind), strict=True)
            if r
        ]
        assert names == ([y] if kind == "Mul" else [])


@pytest.mark.parametrize("layer_behind", [False, True])
def test_sums_and_joins_with_results_of_the_cpu_are_float_at_the_end(layer_behind) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    other = model.add("Log", model.add("Exp", y))
    z = model.add("Concat", model.add("Add", y, other), other, axis=1)
    if layer_behind:
        z = model.add("Conv", z, model.weights(4, 8, 1, 1))
    found = quantised(model, model.add("Neg", z))
    assert rounded(found, "Add") == rounded(found, "Concat") == [layer_behind]


@pytest.mark.parametrize("kind", ["Neg", "Relu"])
def test_what_the_cpu_alone_reads_at_the_end_is_float(kind) -> None:
    """Boxes from distances: moved, cut, and constants added."""
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    y = model.add("Reshape", y, model.constant(np.array([1, 4, 25])))
    y = model.add("Slice", y, *(model.constant(np.array([n])) for n in (0, 2, 1)))
    anchors = model.constant(model.rng.normal(size=(1, 2, 25)).astype(np.float32))
    found = quantised(model, model.add(kind, model.add("Add", y, anchors)))
    taken = kind == "Relu"
    assert rounded(found, "Conv") == [True]
    assert rounded(found, "Reshape") == rounded(found, "Slice") == [taken]
    assert rounded(found, "Add") == [False]  # in a unit with what is behind it, or float
    assert rounded(found, kind) == [taken]


def test_what_a_table_computes_is_rounded_where_it_is_moved_at_the_end() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    for kind in ("Reshape", "Sigmoid", "Reshape"):
        sizes = [model.constant(np.array([1, 4, 25]))] if kind == "Reshape" else []
        y = model.add(kind, y, *sizes)
    found = quantised(model, model.add("Neg", y), activation_tables=True)
    assert rounded(found, "Sigmoid") == [True]
    assert rounded(found, "Reshape") == [True, True]


@pytest.mark.parametrize(("asymmetric", "dtype"), [(False, np.int8), (True, np.uint8)])
def test_types_and_zero_points_follow_the_options(asymmetric, dtype) -> None:
    model = Model(fresh_rng())
    y = model.add("Sigmoid", model.input(1, 3, 5, 5))  # all positive
    weights = model.constant(
        np.float32([-1, 1, 2, -3])[:, None, None, None] * np.ones((4, 3, 1, 1), "f4")
    )
    y = model.add("Conv", y, weights)  # of both signs
    found = quantised(model, y, asymmetric=asymmetric)
    zeros = [array_of(node.inputs[2]) for node in nodes(found, "QuantizeLinear")]
    assert {zero.dtype for zero in zeros} == {np.dtype(dtype)}
    assert any(zero.any() for zero in zeros) == asymmetric
    weights = [n for n in nodes(found, "DequantizeLinear") if array_of(n.inputs[0]) is not None]
    assert Counter(array_of(n.inputs[0]).dtype for n in weights)[np.dtype(np.int8)] == 1
    assert not array_of(weights[0].inputs[2]).any()


def calibrated_results(
    proto: onnx.ModelProto, found: ir.Model, *shape: int
) -> tuple[np.ndarray, np.ndarray]:
    """What a model and its quantised form compute of the first batch that `quantised` takes."""
    inputs = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    name = proto.graph.output[0].name
    return run_all(proto, inputs)[name], run_all(ir.to_proto(found), inputs)[name]


BOUNDS = {
    "above": (0.5, 3.0),
    "below": (-4.0, -1.0),
    "one step": (0.25, 0.25),
    "least": (0.5, None),
}


@pytest.mark.parametrize("case", BOUNDS)
@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_clip_whose_bounds_no_range_reaches_is_kept(case, asymmetric) -> None:
    """Ranges contain 0, so rounding to one does not clip at a bound on one side of it."""
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 9, 9), model.weights(4, 3, 3, 3))
    bounds = ["" if bound is None else model.constant(np.float32(bound)) for bound in BOUNDS[case]]
    y = model.add("Clip", y, *bounds)
    found = quantised(model, y, asymmetric=asymmetric)
    assert between(nodes(found, "Clip")[0]) == "Conv"
    exact, rounded = calibrated_results(model.proto(y), found, 1, 3, 9, 9)
    assert np.ptp(exact) > 0 or case == "one step"
    np.testing.assert_allclose(rounded, exact, atol=0.1)


@pytest.mark.parametrize("kind", ["Relu", "Clip"])
def test_a_clip_stays_where_the_asymmetric_range_ends_with_it(kind) -> None:
    """What is fused forgets calibrated ranges, so that none of them may stand for an operator."""
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 9, 9), model.weights(4, 3, 3, 3))
    bounds = [model.constant(np.float32(-99)), model.constant(np.float32(0))]
    y = model.add(kind, y, *(bounds if kind == "Clip" else []))
    found = quantised(model, y, asymmetric=True)
    assert [between(node) for node in nodes(found, kind)] == ["Conv"]
    exact, rounded = calibrated_results(model.proto(y), found, 1, 3, 9, 9)
    np.testing.assert_allclose(rounded, exact, atol=0.1)


def test_a_relu_whose_range_reaches_below_0_is_kept() -> None:
    """The range of scores is that of the function, and factors of a product have zero point 0."""
    model = Model(fresh_rng())
    x = model.input(1, 6, 8)
    scores = model.add("Sigmoid", model.add("Relu", model.add("MatMul", x, model.weights(8, 5))))
    a, b = (model.add("Relu", model.add("MatMul", x, model.weights(8, n))) for n in (6, 5))
    products = model.add("MatMul", a, b)
    found = quantised(model, scores, products, asymmetric=True)
    assert [between(node) for node in nodes(found, "Relu")] == ["MatMul"] * 3


@pytest.mark.parametrize("asymmetric", [False, True])
def test_quantisation_is_reproducible(asymmetric) -> None:
    seed = int(fresh_rng().integers(2**32))
    found = []
    for _ in range(2):
        model = Model(np.random.default_rng(seed))
        y = model.add("Relu", model.add("Conv", model.input(1, 3, 9, 9), model.weights(6, 3, 3, 3)))
        y = model.add("Conv", y, model.weights(4, 6, 3, 3))
        found.append(ir.to_proto(quantised(model, y, asymmetric=asymmetric)).SerializeToString())
    assert found[0] == found[1]


def test_channels_and_biases_stay_as_they_are_on_request() -> None:
    """Then weights are quantised as they are, and biases are int32 as ONNX Runtime makes them."""
    rng = fresh_rng()
    unequal = np.array([1.0, 4.0, 16.0, 64.0]).reshape(4, 1, 1, 1)
    kernels = [unequal * rng.normal(size=(4, 3, 3, 3)), rng.normal(size=(2, 4, 3, 3))]
    expected = [np.abs(kernel).max(axis=(1, 2, 3)) / 127 for kernel in kernels]
    for changed in (False, True):
        model = Model(rng)
        y = model.input(1, 3, 8, 8)
        for kernel in kernels:
            y = model.add("Conv", y, model.constant(kernel.astype(np.float32)))
        found = quantised(model, y, equalisation=changed, bias_correction=changed)
        layers = nodes(found, "Conv")
        scales = [array_of(layer.inputs[1].producer().inputs[1]) for layer in layers]
        same = [np.allclose(a, b, rtol=1e-3) for a, b in zip(scales, expected, strict=True)]
        assert all(same) is not changed
        assert [len(layer.inputs) for layer in layers] == [3 if changed else 2] * 2


def test_calibration_data_that_do_not_fit_are_one_error() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 1, 1))
    proto = onnx.shape_inference.infer_shapes(model.proto(y))
    batches = [{"x": np.zeros((1, 3, 5, 6), np.float32)}]
    with pytest.raises(WorkloadError, match="ONNX Runtime must be able to quantise it"):
        quantise(ir.from_proto(proto), batches, QuantiseOptions())
