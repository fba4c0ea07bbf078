# SPDX-License-Identifier: Apache-2.0
"""Rewrites keep results and bring the operators that the accelerator takes."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model, operators
from support.randomness import fresh_rng

import tilewright as tw
from tilewright.host.compiler.lower.qgraph import QConv
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.rewrite.rewrites import rewrite


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("kind", ["Conv", "MaxPool"])
def test_automatic_padding_is_written_out(mode, kind) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, 7, 8)
    more = {"strides": [2, 3], "auto_pad": mode}
    if kind == "Conv":
        dilations = [2, 1] if mode == "VALID" else [1, 1]  # all that ONNX Runtime takes
        y = model.add("Conv", x, model.weights(3, 2, 3, 4), dilations=dilations, **more)
    else:
        y = model.add("MaxPool", x, kernel_shape=[3, 2], **more)
    proto = model.proto(y)
    rewritten(proto)
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current)
    (node,) = current.graph
    assert "auto_pad" not in node.attributes
    assert len(node.attributes["pads"].as_ints()) == 4


def test_numbers_move_from_factors_to_their_product() -> None:
    model = Model(fresh_rng())
    a, b = model.input(2, 3, 4, name="a"), model.input(2, 4, 5, name="b")
    scaled = model.add("Mul", np.float32(0.5), a)
    divided = model.add("Div", b, np.array([4], np.float32))
    product = model.add("MatMul", scaled, divided)
    kinds = rewritten(model.proto(product, model.add("Relu", product)))
    assert sorted(kinds) == ["MatMul", "Mul", "Relu"]


@pytest.mark.parametrize("keepdims", [0, 1])
def test_convolutions_over_time_are_convolutions_of_images_of_one_row(keepdims) -> None:
    model = Model(fresh_rng(), opset=18)
    x = model.input(2, 4, 11)
    y = model.add("Conv", x, model.weights(6, 4, 3), model.weights(6), strides=[2], pads=[2, 1])
    y = model.add("Relu", model.add("Mul", y, model.weights(6, 1)))
    z = model.add("Conv", y, model.weights(6, 1, 3), group=6, dilations=[2], pads=[2, 2])
    y = model.add("Add", model.add("Sigmoid", z), y)
    y = model.add("MaxPool", y, kernel_shape=[3], strides=[1], pads=[0, 2])
    y = model.add("Concat", y, y, axis=-2)
    y = model.add("AveragePool", y, kernel_shape=[2], pads=[1, 0], count_include_pad=1)
    mean = model.add("ReduceMean", y, [2], keepdims=keepdims)
    kinds = rewritten(model.proto(y, mean))
    assert kinds.count("Reshape") == (3 if keepdims else 2)  # in and out again
    assert ("Flatten" in kinds) == (not keepdims)
    current = ir.from_proto(onnx.shape_inference.infer_shapes(model.proto(y, mean)))
    rewrite(current)
    assert {len(n.inputs[0].shape or ()) for n in current.graph if n.op_type != "Reshape"} == {4}


def test_transposed_convolutions_over_time_are_rewritten_and_sequences_stay() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 6)
    more = {"strides": [2], "pads": [1, 0], "output_padding": [1]}
    y = model.add("ConvTranspose", x, model.weights(4, 3, 3), **more)
    y = model.add("Add", y, model.input(1, 3, 13, name="r"))
    rewritten(model.proto(y))
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("MatMul", model.input(1, 4, 6), model.weights(6, 3)))
    assert rewritten(model.proto(y)) == ["MatMul", "Relu"]


@pytest.mark.parametrize(
    ("shape", "indices", "axis", "kinds"),
    [
        ((2, 6), np.arange(6), 1, []),
        ((2, 6), np.array([0, 1, 2, -3, -2, -1]), 1, []),
        ((2, 6), np.arange(6).reshape(2, 3), 1, ["Reshape"]),
        ((3, 2), np.arange(3), -2, []),
        ((2, 6), np.array([0, 2, 1, 3, 4, 5]), 1, ["Gather"]),
        ((2, 6), np.arange(5), 1, ["Gather"]),
        ((2, 6), np.array(0), 0, ["Gather"]),
    ],
)
def test_a_gather_of_everything_in_order_is_no_gather(shape, indices, axis, kinds) -> None:
    model = Model(fresh_rng())
    y = model.add("Gather", model.add("Relu", model.input(*shape)), indices, axis=axis)
    assert rewritten(model.proto(model.add("Neg", y))) == ["Relu", *kinds, "Neg"]


@pytest.mark.parametrize(
    ("kind", "numbers", "kept"),
    [
        ("Pad", [[0, 0, 0, 0]], []),
        ("Pad", [[0, 0, 0, 1]], ["Pad"]),
        ("Pad", [[0, 1, 0, -1]], ["Slice", "Pad"]),
        ("Pad", [[0, 0, 0, -1]], ["Slice"]),
        ("Slice", [[0], [2**63 - 1], [1], [1]], []),
        ("Slice", [[0, 0], [4, 9]], []),
        ("Slice", [[-1], [-(2**63)], [1], [-1]], ["Slice"]),
        ("Slice", [[0], [3], [1], [1]], ["Slice"]),
    ],
)
def test_padding_of_nothing_and_slices_of_everything_are_dropped(kind, numbers, kept) -> None:
    model = Model(fresh_rng())
    x = model.add("Relu", model.input(4, 5))
    y = model.add(kind, x, *(model.constant(np.array(each)) for each in numbers))
    assert rewritten(model.proto(model.add("Neg", y))) == ["Relu", *kept, "Neg"]


def test_batch_normalisation_is_a_depthwise_convolution() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3, 4, 5)
    scale, offset, mean = (model.weights(3) for _ in range(3))
    variance = model.constant(np.array([0.5, 1, 2], np.float32))
    y = model.add("BatchNormalization", x, scale, offset, mean, variance, epsilon=0.01)
    assert rewritten(model.proto(y)) == ["Conv"]
    model = Model(fresh_rng())
    y = model.add("BatchNormalization", model.input(2, 3), *(model.constant(np.ones(3, np.float32))
                                                             for _ in range(4)))  # fmt: skip
    assert rewritten(model.proto(y)) == ["Mul", "Add"]


def layer_scale(shape: tuple[int, ...], *, gemm: bool = False, turned: bool = False) -> Model:
    """A dense layer, its result turned into an image or not, times numbers."""
    model = Model(fresh_rng())
    if gemm:
        y = model.add("Gemm", model.input(4, 3), model.weights(5, 3), model.weights(5), transB=1)
    else:
        y = model.add("MatMul", model.input(2, 4, 3, 3), model.weights(3, 5))
        y = model.add("Add", model.weights(5), y)
    if turned:
        y = model.add("Transpose", y, perm=[0, 3, 1, 2])
    model.add("Mul", model.weights(*shape), y)
    return model


@pytest.mark.parametrize(
    ("shape", "more", "kinds"),
    [
        ((5,), {}, ["MatMul", "Add"]),
        ((1, 1, 5), {}, ["MatMul", "Add"]),
        ((5, 1, 1), {"turned": True}, ["MatMul", "Add", "Transpose"]),
        ((5,), {"gemm": True}, ["Gemm"]),
        ((3, 1), {}, ["MatMul", "Add", "Mul"]),  # by columns
        ((4, 5), {"gemm": True}, ["Gemm", "Mul"]),
        ((3,), {"turned": True}, ["MatMul", "Add", "Transpose", "Mul"]),
    ],
)
def test_factors_of_channels_go_into_the_dense_layer_before_them(shape, more, kinds) -> None:
    model = layer_scale(shape, **more)
    assert rewritten(model.proto(model.nodes[-1].output[0])) == kinds


def test_a_result_that_is_read_without_its_factors_keeps_them_apart() -> None:
    model = layer_scale((5,))
    product, bias, scaled = (node.output[0] for node in model.nodes)
    for other in (product, bias):
        assert rewritten(model.proto(scaled, other)) == ["MatMul", "Add", "Mul"]


_LAYER, _MOVES = ["ConvTranspose"], ["Gather", "Gather"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_shuffles_between_channels_and_pixels_are_convolutions(mode) -> None:
    model = Model(fresh_rng())
    y = model.add("DepthToSpace", model.input(1, 12, 4, 6), blocksize=2, mode=mode)
    y = model.add("SpaceToDepth", model.add("Relu", y), blocksize=4)
    assert rewritten(model.proto(y)) == ["ConvTranspose", "Relu", "Conv"]


def test_patches_that_overlap_are_a_transposed_convolution() -> None:
    rng = fresh_rng()
    for _ in range(8):
        kernel, steps, gaps = ([int(n) for n in rng.integers(1, most, 2)] for most in (4, 4, 3))
        pads = [int(n) for n in rng.integers(0, 2, 4)]
        image, channels = [int(n) for n in rng.integers(7, 12, 2)], int(rng.integers(1, 4))
        counts = [
            (size + pads[axis] + pads[axis + 2] - gaps[axis] * (kernel[axis] - 1) - 1)
            // steps[axis] + 1
            for axis, size in enumerate(image)
        ]  # fmt: skip
        model = Model(rng, opset=18)
        x = model.input(1, channels * kernel[0] * kernel[1], counts[0] * counts[1])
        given = {"strides": steps, "pads": pads, "dilations": gaps}
        y = model.add("Col2Im", x, np.array(image), np.array(kernel), **given)
        assert rewritten(model.proto(y)) == ["Reshape", "ConvTranspose"]


@pytest.mark.parametrize("by_sizes", [False, True])
def test_resizing_may_state_some_axes_alone(by_sizes) -> None:
    for mode, kind in (("nearest", "ConvTranspose"), ("linear", "Resize")):
        model = Model(fresh_rng(), opset=18)
        stated = np.array([12, 12]) if by_sizes else np.array([2, 3], np.float32)
        given = ["", "", model.constant(stated)] if by_sizes else ["", model.constant(stated)]
        y = model.add("Resize", model.input(1, 3, 4, 6), *given, axes=[-1, 2], mode=mode)
        proto = model.proto(y)
        assert rewritten(proto) == [kind]
        current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
        rewrite(current)
        assert all("axes" not in node.attributes for node in current.graph)


@pytest.mark.parametrize("kind", ["BatchNormalization", "Mean", "Pixels", "Resize", "Windows"])
def test_numbers_of_other_types_are_not_layers(kind) -> None:
    """Layers work in single precision; integers and doubles stay as they are."""
    model, integers, doubles = Model(fresh_rng()), onnx.TensorProto.INT32, onnx.TensorProto.DOUBLE
    shape, data = (1, 4, 2, 6), fresh_rng().integers(-9, 9, (1, 4, 2, 6))
    dtype = integers if kind in ("Mean", "Resize") else doubles
    x = model.input(*shape, kind=dtype)
    if kind == "BatchNormalization":
        y = model.add(kind, x, *[model.constant(np.arange(1.0, 5)) for _ in range(4)])
    elif kind == "Mean":
        y = model.add("ReduceMean", x, axes=[2, 3])
    elif kind == "Pixels":
        y = model.add("DepthToSpace", x, blocksize=2)
    elif kind == "Resize":
        y = model.add("Resize", x, "", np.array([1, 1, 2, 2], np.float32))
    else:
        y = model.add("ReduceMean", x, axes=[1, 2])
    (node,) = model.nodes
    proto = model.proto(y, kinds=[dtype])
    given = data.astype(np.int32 if dtype == integers else np.float64)
    kinds = ["ReduceSum", "Div"] if kind == "Mean" else [node.op_type]
    assert rewritten(proto, x=given) == kinds


# -- constant parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_weights_that_are_rounded_again_are_one_constant(times) -> None:
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 3, 6, 6), 0.02)
    numbers = model.constant(np.float32(0.01)), model.constant(np.int8(0))
    steps = model.constant(model.rng.integers(-100, 100, (4, 3, 1, 1)).astype(np.int8))
    weights = model.add("DequantizeLinear", steps, *numbers)
    for number in range(times):
        weights = model.quantised(weights, 0.013 + 0.004 * number)
    proto = model.proto(model.quantised(model.add("Conv", x, weights), 0.05))
    network = import_network(proto)
    (layer,) = operators(partition(network))
    assert isinstance(layer, QConv)
    tensors = run_all(proto, {"x": np.zeros((1, 3, 6, 6), np.float32)})
    shape = (4, 3, 1, 1)
    rounded = [v for v in tensors.values() if v.dtype == np.int8 and v.shape == shape]
    assert any(np.array_equal(layer.weights, each) for each in rounded)
    assert sum(node.op_type == "QuantizeLinear" for node in network.qdq.graph.node) == 2


def test_no_region_computes_constants_alone() -> None:
    """What leaves the model is not folded."""
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 4, 6, 6), 0.02)
    numbers = model.constant(np.float32(0.02)), model.constant(np.int8(0))
    steps = model.constant(model.rng.integers(-100, 100, (1, 4, 6, 6)).astype(np.int8))
    positive = model.add("Relu", model.add("DequantizeLinear", steps, *numbers))
    y = model.quantised(model.add("Relu", x), 0.03)
    kinds = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT8]
    proto = model.proto(y, model.add("QuantizeLinear", positive, *numbers), kinds=kinds)
    parts = partition(import_network(proto))
    assert [region.inputs for region in parts.regions] == [parts.regions[0].inputs]
    assert all(region.inputs for region in parts.regions)
    assert "is constant" in next(p.reason for p in parts.placements if p.place == "cpu")


def test_layers_that_stay_on_the_cpu_are_told_loudly() -> None:
    """Weights with a scale for each input channel have no place in a layer."""
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 3, 6, 6), 0.02)
    numbers = model.constant(np.float32([1, 2, 3])), model.constant(np.zeros(3, np.int8))
    weights = model.add("DequantizeLinear", np.ones((4, 3, 1, 1), np.int8), *numbers, axis=1)
    proto = model.proto(model.quantised(model.add("Conv", x, weights), 0.05))
    with pytest.warns(UserWarning, match=r"1 of 1 operator .* 100 % .*each input channel"):
        tw.compile(proto, hw="tiny-4x4")
