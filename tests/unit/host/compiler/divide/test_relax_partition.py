# SPDX-License-Identifier: Apache-2.0
"""Operators of quantised models as regions, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.qdq_runs import run_all
from support.qgraph_floats import FloatRegions
from support.randomness import fresh_rng
from support.small_models import (
    TIES,
    Model,
    accelerated,
    assert_regions_agree,
    imported,
    noise,
    operators,
)

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.cost import CostModel, _fused, _noted
from tilewright.host.compiler.divide.placement import Work
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConcat,
    QConv,
    QGather,
    QMatmul,
    QPool,
    QRescale,
    QReshape,
    QSelect,
    QStack,
)
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.run.relax_host import HostProgram
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig


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
    parts = accelerated(model.proto(model.add("Relu", y)), asymmetric=asymmetric)
    (operator,) = operators(parts)
    assert isinstance(operator, QConv)
    assert operator.groups == groups
    assert operator.bias.any()
    assert operator.weight_scales.std() > 0
    # a Relu that ONNX Runtime dropped is a bound of the uint8 range
    assert operator.bounds == ((None, None) if asymmetric else (0.0, None))


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(groups) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 4, 5, 6)
    y = model.add(
        "ConvTranspose",
        x,
        model.weights(4, 6 // groups, 3, 2),
        model.weights(6),
        strides=[2, 3],
        pads=[1, 0, 0, 1],
        output_padding=[1, 2],
        group=groups,
    )
    (operator,) = operators(accelerated(model.proto(y)))
    assert isinstance(operator, QConv)
    assert operator.transposed


def test_clip_is_a_bound_and_a_batch_of_images_stays_one_tensor() -> None:
    model = Model(fresh_rng())
    x = model.input(3, 2, 5, 5)
    y = model.add("Conv", x, model.weights(3, 2, 1, 1))
    low, high = model.constant(np.float32(-0.5)), model.constant(np.float32(0.25))
    (operator,) = operators(accelerated(model.proto(model.add("Clip", y, low, high))))
    assert operator.bounds == (-0.5, 0.25)


@pytest.mark.parametrize("transposed", [False, True])
def test_dense_layers_of_vectors(transposed) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 7)
    weights = model.weights(5, 7) if transposed else model.weights(7, 5)
    y = model.add("Gemm", x, weights, model.weights(5), transB=int(transposed))
    parts = accelerated(model.proto(y))
    (operator,) = operators(parts)
    assert isinstance(operator, QConv)
    assert operator.weights.shape == (5, 7, 1, 1)
    assert operator.bias.any()


def test_square_weights_are_not_taken_for_their_transpose() -> None:
    for transposed in (0, 1):
        model = Model(fresh_rng())
        y = model.add("Gemm", model.input(1, 6), model.weights(6, 6), transB=transposed)
        accelerated(model.proto(y))


def test_dense_layers_of_sequences_keep_their_bias_exact() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 3, 4)
    product = model.add("MatMul", x, model.weights(4, 6))
    bias = model.weights(6)
    parts = accelerated(model.proto(model.add("Add", bias, product)))
    (operator,) = operators(parts)
    assert isinstance(operator, QConv)
    (region,) = parts.regions
    assert region.tensors[operator.output].shape == (2, 6, 3, 1)
    assert region.model_shapes[operator.output] == (2, 3, 6)
    assert operator.bias.std() > 0


def test_dense_layers_of_images_with_channels_last() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 3, 5, 4)  # rows, columns, channels
    y = model.add("Add", model.add("MatMul", x, model.weights(4, 6)), model.weights(6))
    y = model.add("MatMul", model.add("Relu", y), model.weights(6, 3))
    parts = accelerated(model.proto(y))
    (region,) = parts.regions
    assert [type(operator) for operator in region.operators] == [QConv, QConv]
    assert region.tensors[region.outputs[0]].shape == (1, 3, 15, 1)
    assert region.model_shapes[region.outputs[0]] == (1, 3, 5, 3)


def test_dense_layers_between_permutations_of_an_image_are_one_region() -> None:
    """The form of ConvNeXt: channels go last for two dense layers, and first again."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 3, 5, 6), model.weights(4, 3, 1, 1))
    y = model.add("Transpose", x, perm=[0, 2, 3, 1])
    y = model.add("MatMul", y, model.weights(4, 8))
    y = model.add("MatMul", model.add("Relu", y), model.weights(8, 4))
    y = model.add("Add", x, model.add("Transpose", y, perm=[0, 3, 1, 2]))
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(2, 4, 3, 3))))
    assert len(parts.regions) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}


def test_convolutions_over_time_are_one_region() -> None:
    model = Model(fresh_rng(), opset=18)
    x = model.add("Relu", model.add("Conv", model.input(1, 4, 9), model.weights(6, 4, 3)))
    y = model.add("Conv", x, model.weights(6, 6, 3), model.weights(6), pads=[1, 1])
    y = model.add("Relu", model.add("Add", x, y))
    y = model.add("ReduceMean", y, model.constant(np.array([2])), keepdims=0)
    parts = accelerated(model.proto(model.add("Gemm", y, model.weights(6, 3))))
    (region,) = parts.regions
    assert [p.kind for p in parts.placements if p.place == "cpu"] == ["Reshape"]
    assert sum(isinstance(operator, QConv) for operator in region.operators) == 3


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
        (
            "AveragePool",
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        ),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_pools(kind, attributes) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 8, 9), model.weights(4, 3, 1, 1))
    parts = accelerated(model.proto(model.add(kind, y, **attributes)), ties=0.3)
    assert [type(operator) for operator in operators(parts)] == [QConv, QPool]


def test_an_average_that_leaves_padding_out_stays_on_the_cpu() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 1, 1))
    y = model.quantised(y, 0.02)
    y = model.add("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = model.quantised(y, 0.02)
    parts = partition(import_network(_with_quantised_convolutions(model, y)))
    (placement,) = [p for p in parts.placements if p.kind == "AveragePool"]
    assert (placement.place, placement.reason) == ("cpu", "its average leaves out the padding")


def test_means_over_rows_and_columns_are_global_pools() -> None:
    for keeps in (0, 1):
        model = Model(fresh_rng())
        y = model.add("Conv", model.input(1, 3, 4, 6), model.weights(5, 3, 1, 1))
        y = model.add("ReduceMean", y, axes=[-1, 2], keepdims=keeps)
        if keeps:
            y = model.add("Flatten", y)
        y = model.add("Gemm", y, model.weights(5, 2))
        parts = accelerated(model.proto(y))
        assert [type(o) for o in operators(parts)] == [QConv, QPool, QConv]


def test_means_over_tokens_are_pools() -> None:
    model = Model(fresh_rng(), opset=18)
    y = model.add("MatMul", model.input(2, 6, 4), model.weights(4, 8))
    y = model.add("ReduceMean", y, model.constant(np.array([1])), keepdims=0)
    parts = accelerated(model.proto(model.add("Gemm", y, model.weights(8, 3))))
    assert [type(o) for o in operators(parts)] == [QConv, QPool, QConv]


def test_sums_concatenations_and_activations() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 3, 6, 6)
    a = model.add("Conv", x, model.weights(4, 3, 1, 1))
    b = model.add("Relu", model.add("Conv", x, model.weights(4, 3, 3, 3), pads=[1, 1, 1, 1]))
    total = model.add("Relu", model.add("Add", a, b))
    joined = model.add("Concat", total, b, a, axis=1)
    parts = accelerated(model.proto(model.add("Relu", joined)))
    assert {type(operator) for operator in operators(parts)} == {QConv, QAdd, QConcat}
    assert len(parts.regions) == 1


def _shuffled(model: Model, x: str, channels: int, size: int) -> str:
    y = model.add("Reshape", x, model.constant(np.array([1, 2, channels // 2, size, size])))
    y = model.add("Transpose", y, perm=[0, 2, 1, 3, 4])
    return model.add("Reshape", y, model.constant(np.array([1, channels, size, size])))


def test_splits_and_shuffles_of_channels_are_selections() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("Conv", model.input(1, 3, 6, 6), model.weights(10, 3, 1, 1)))
    for number in range(2):
        halves = [f"left{number}", f"right{number}"]
        sizes = model.constant(np.array([5, 5]))
        split = onnx.helper.make_node("Split", [y, sizes], halves, f"split{number}", axis=1)
        model.nodes.append(split)
        worked = model.add("Relu", model.add("Conv", halves[1], model.weights(5, 5, 1, 1)))
        y = _shuffled(model, model.add("Concat", halves[0], worked, axis=1), 10, 6)
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 10, 3, 3))))
    assert len(parts.regions) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}
    shuffles = [o for o in operators(parts) if isinstance(o, QSelect) and len(o.channels) == 10]
    assert [o.channels for o in shuffles] == [(0, 5, 1, 6, 2, 7, 3, 8, 4, 9)] * 2


def test_what_only_moves_elements_of_images_runs_in_one_region() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(8, 3, 1, 1))
    mean, variance = model.weights(8), model.constant(np.full(8, 0.7, np.float32))
    y = model.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = model.add("BatchNormalization", y, mean, mean, mean, variance)
    scales = model.constant(np.array([1, 1, 2, 2], np.float32))
    y = model.add("Resize", model.add("Relu", y), "", scales)
    bounds = [model.constant(np.array([number])) for number in (7, -9, 1, -2)]
    y = model.add("Slice", y, *bounds)
    y = model.add("DepthToSpace", y, blocksize=2)
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 1, 3, 3))))
    assert len(parts.regions) == 1
    assert [type(o) for o in operators(parts)].count(QSelect) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}


def test_images_are_joined_pixel_by_pixel_and_leave_without_rows() -> None:
    for sides in ((4, 2), (3, 1), (8, 4)):
        model = Model(fresh_rng())
        flat = []
        for number, side in enumerate(sides):
            x = model.input(1, 3, side, side, name=f"x{number}")
            y = model.add("Conv", x, model.weights(6, 3, 1, 1))
            wanted = model.constant(np.array([1, 6, side * side]))
            flat.append(model.add("Reshape", y, wanted))
        parts = accelerated(model.proto(model.add("Concat", *flat, axis=2)))
        assert [type(o) for o in operators(parts)].count(QStack) == 1
        assert len(parts.regions) == 1
        assert {p.place for p in parts.placements} == {"accelerator"}


def test_slices_of_rows_stay_on_the_cpu() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(8, 3, 1, 1))
    y = model.add("Slice", y, *(model.constant(np.array([number])) for number in (1, 3, 2)))
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 8, 1, 1))))
    assert [p.kind for p in parts.placements if p.place == "cpu"] == ["Slice"]


def test_an_activation_of_its_own_is_a_rescale() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    y = model.quantised(y, 0.02)
    y = model.quantised(model.add("Relu", y), 0.015)
    network = import_network(_with_quantised_convolutions(model, y))
    parts = partition(network)
    assert [type(operator) for operator in operators(parts)] == [QConv, QRescale]
    assert operators(parts)[1].bounds == (0.0, None)


def _with_quantised_convolutions(model: Model, output: str) -> onnx.ModelProto:
    """Quantise data and weights of convolutions, which alone are float in a model."""
    proto = model.proto(output)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    nodes = []
    for node in proto.graph.node:
        if node.op_type == "Conv":
            for index, name in enumerate(node.input):
                weights = constants.get(name)
                scale = np.float32(0.02 if weights is None else np.abs(weights).max() / 127)
                stem = f"{node.name}_{index}"
                tensors = {f"{stem}_s": scale, f"{stem}_z": np.int8(0)}
                source = name
                if weights is None:
                    nodes.append(
                        onnx.helper.make_node(
                            "QuantizeLinear", [name, f"{stem}_s", f"{stem}_z"], [f"{stem}_q"]
                        )
                    )
                    source = f"{stem}_q"
                else:
                    source = f"{stem}_w"
                    tensors[source] = np.rint(weights / scale).astype(np.int8)
                for key, value in tensors.items():
                    proto.graph.initializer.append(
                        onnx.numpy_helper.from_array(np.asarray(value), key)
                    )
                nodes.append(
                    onnx.helper.make_node(
                        "DequantizeLinear", [source, f"{stem}_s", f"{stem}_z"], [f"{stem}_d"]
                    )
                )
                node.input[index] = f"{stem}_d"
        nodes.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


def test_flatten_between_image_and_vector_is_a_reshape_and_costs_nothing_for_one_pixel() -> None:
    for size, kinds in ((2, [QConv, QReshape, QConv]), (1, [QConv, QConv])):
        model = Model(fresh_rng())
        y = model.add("Conv", model.input(2, 3, size, size), model.weights(4, 3, 1, 1))
        y = model.add("Gemm", model.add("Flatten", y), model.weights(4 * size * size, 5))
        assert [type(o) for o in operators(accelerated(model.proto(y)))] == kinds


def test_an_image_as_a_sequence_of_pixels() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 6), model.weights(8, 3, 2, 2), strides=[2, 2])
    y = model.add("Reshape", y, model.constant(np.array([1, 8, 6])))
    y = model.add("MatMul", model.add("Transpose", y, perm=[0, 2, 1]), model.weights(8, 5))
    parts = accelerated(model.proto(y))
    assert len(parts.regions) == 1
    assert [type(o) for o in operators(parts)] == [QConv, QConv, QReshape]


def _attention(model: Model, x: str, tokens: int, heads: int, width: int) -> str:
    def project() -> str:
        y = model.add("MatMul", x, model.weights(heads * width, heads * width))
        y = model.add("Add", y, model.weights(heads * width))
        return model.add("Reshape", y, model.constant(np.array([1, tokens, heads, width])))

    query = model.add("Transpose", project(), perm=[0, 2, 1, 3])
    key = model.add("Transpose", project(), perm=[0, 2, 3, 1])
    value = model.add("Transpose", project(), perm=[0, 2, 1, 3])
    root = model.constant(np.float32(width**-0.25))
    scores = model.add("MatMul", model.add("Mul", query, root), model.add("Mul", root, key))
    y = model.add("MatMul", model.add("Softmax", scores, axis=-1), value)
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])
    y = model.add("Reshape", y, model.constant(np.array([1, tokens, heads * width])))
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


def test_moves_that_no_form_expresses_run_on_the_cpu_and_the_result_is_right() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 6), model.weights(4, 4, 1, 1))
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])  # channels and rows
    y = model.add("Conv", y, model.weights(4, 6, 1, 1))
    network = imported(model.proto(y))
    parts = partition(network)
    assert len(parts.regions) == 2
    (placement,) = [p for p in parts.placements if p.kind == "Transpose"]
    assert (placement.place, placement.reason) == (
        "cpu",
        "its data lie in an order that it does not take",
    )
    _assert_same_outputs(network, parts)


def test_rows_and_columns_exchanged_are_a_move_of_pixels() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 5), model.weights(4, 4, 1, 1))
    y = model.add("Transpose", y, perm=[0, 1, 3, 2])
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 4, 1, 1))))
    assert len(parts.regions) == 1
    (move,) = [o for o in operators(parts) if isinstance(o, QGather)]
    assert move.pixels.tolist() == np.arange(30).reshape(6, 5).T.reshape(-1).tolist()


@pytest.mark.parametrize("first", ["tokens", "image"])
def test_a_move_of_pixels_is_read_as_tokens_and_as_an_image(first) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 5), model.weights(4, 4, 1, 1))
    turned = model.add("Transpose", y, perm=[0, 1, 3, 2])

    def image() -> str:
        return model.add("Conv", turned, model.weights(3, 4, 3, 3))

    def tokens() -> str:
        flat = model.add("Reshape", turned, model.constant(np.array([1, 4, 30])))
        flat = model.add("Transpose", flat, perm=[0, 2, 1])
        return model.add("MatMul", flat, model.weights(4, 2))

    made = (tokens(), image()) if first == "tokens" else (image(), tokens())
    parts = accelerated(model.proto(*made))
    assert len(parts.regions) == 1
    assert sum(isinstance(o, QGather) for o in operators(parts)) == 1


def test_a_move_that_is_read_inside_and_outside_its_region() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 2, 2), model.weights(4, 4, 1, 1))
    flat = model.add("Flatten", y)
    y = model.add("Gemm", flat, model.weights(16, 3))
    network = imported(model.proto(y, model.add("Softmax", flat)))
    parts = partition(network)
    assert len(parts.regions) == 1
    assert len(parts.regions[0].outputs) == 2
    _assert_same_outputs(network, parts)


def _assert_same_outputs(network, parts) -> None:
    """Region by region and as a whole, but for what the ties of a few elements change."""
    inputs = noise(network, np.random.default_rng(1))
    assert_regions_agree(network, parts, inputs)
    found = HostProgram(module=parts.host).run(inputs, FloatRegions(parts.regions))
    tensors = run_all(network.qdq, inputs)
    for name in (argument.name for argument in network.outputs):
        expected = tensors[name]
        assert found[name].shape == expected.shape
        difference = np.abs(found[name] - expected)
        assert (difference > 1e-5).sum() <= max(TIES, 0.02 * difference.size)
        assert difference.max() <= 0.1 * np.abs(expected).max() + 1e-5


def test_a_region_is_convex() -> None:
    """A path over the CPU between two layers divides them."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 4, 4), model.weights(4, 4, 1, 1))
    cpu = model.add("Sigmoid", x)
    y = model.add("Add", model.add("Conv", cpu, model.weights(4, 4, 1, 1)), x)
    network = imported(model.proto(model.add("Conv", y, model.weights(2, 4, 1, 1))))
    parts = partition(network)
    assert len(parts.regions) == 2
    _assert_same_outputs(network, parts)


def test_choose_decides_and_sees_the_whole_graph() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 6, 6)
    y = model.add("Conv", x, model.weights(8, 4, 3, 3), model.weights(8))
    y = model.add("Conv", model.add("Sigmoid", y), model.weights(2, 8, 1, 1))
    network = imported(model.proto(model.add("Flatten", y)))
    seen = []

    def first_layer(graph):
        seen.append(graph)
        return {graph.candidates[0].id}

    parts = partition(network, first_layer)
    _assert_same_outputs(network, parts)
    (graph,) = seen
    first, second = (c for c in graph.candidates if c.operator is not None)
    passes = (144 + 4 * 144) + (4 * 144 + 128)  # dequantise; convolution, bias and quantise
    assert first.work == Work(macs=8 * 4 * 9 * 16, bytes=passes)
    assert second.work.macs == 2 * 8 * 16
    ids = {c.id for c in graph.candidates} | {n.id for n in graph.cpu_nodes}
    assert {e.source for e in graph.edges} - {None} == ids
    assert {r for e in graph.edges for r in e.readers} <= ids
    assert any(e.source is None for e in graph.edges)
    assert sum(e.leaves for e in graph.edges) == 1
    assert "sigmoid" in {n.kind for n in graph.cpu_nodes}
    places = {p.name: (p.place, p.reason) for p in parts.placements if p.kind == "Conv"}
    assert sorted(places.values()) == [
        ("accelerator", ""),
        ("cpu", "it is left to the CPU by choice"),
    ]
    candidates = {p.candidate for p in parts.placements if p.kind == "Conv"}
    assert candidates == {first.id, second.id}


def test_an_add_behind_a_layer_costs_nothing_more_and_one_of_its_own_does() -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 8, 8), model.weights(4, 4, 3, 3), pads=[1, 1, 1, 1])
    pooled = model.add("MaxPool", x, kernel_shape=[1, 1])
    y = model.add("Add", model.add("Conv", pooled, model.weights(4, 4, 1, 1)), x)
    alone = model.add("Add", model.add("MaxPool", y, kernel_shape=[1, 1]), x)
    seen = []
    partition(imported(model.proto(alone)), lambda graph: seen.append(graph) or set())
    (graph,) = seen
    adds = [c for c in graph.candidates if isinstance(c.operator, QAdd)]
    costs = CostModel(load_hwconfig("tiny-4x4"), load_board("pynq-z2"))
    fused = _fused(graph)
    assert [c.id in fused for c in adds] == [True, False]
    assert [costs._accelerator_seconds(c, c.id in fused) > 0 for c in adds] == [False, True]


def test_a_selection_costs_a_copy_unless_only_concatenations_read_it() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(6, 3, 1, 1))
    bounds = [[model.constant(np.array([n])) for n in part] for part in ((0, 3, 1), (3, 6, 1))]
    left, right = (model.add("Slice", y, *part) for part in bounds)
    joined = model.add("Concat", left, right, right, axis=1)
    proto = model.proto(model.add("Conv", joined, model.weights(4, 9, 1, 1)),
                        model.add("Conv", left, model.weights(4, 3, 1, 1)))  # fmt: skip
    seen = []
    partition(imported(proto), lambda graph: seen.append(graph) or ())
    (graph,) = seen
    selects = [c for c in graph.candidates if isinstance(c.operator, QSelect)]
    costs = CostModel(load_hwconfig("tiny-4x4"), load_board("pynq-z2"))
    noted = _noted(graph)
    assert sorted(c.id in noted for c in selects) == [False, True]
    for candidate in selects:
        seconds = costs._accelerator_seconds(candidate, candidate.id in noted)
        assert (seconds == 0) == (candidate.id in noted)


def test_choosing_nothing_runs_everything_on_the_cpu() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    network = imported(model.proto(model.add("Relu", y)))
    parts = partition(network, lambda _: ())
    assert not parts.regions
    inputs = noise(network, np.random.default_rng(0))
    found = HostProgram(module=parts.host).run(inputs, FloatRegions(()))
    ((name, result),) = found.items()
    np.testing.assert_allclose(result, run_all(network.qdq, inputs)[name], atol=0.05)


def test_unknown_candidates_are_refused() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    with pytest.raises(WorkloadError, match=r"choose: must be ids of candidates, not \[99\]"):
        partition(imported(model.proto(y)), lambda _: {99})


def test_weights_with_a_zero_point_stay_on_the_cpu_with_a_reason() -> None:
    model = Model(fresh_rng())
    x = model.quantised(model.input(1, 4), 0.02)
    weights = model.add(
        "DequantizeLinear",
        model.constant(model.rng.integers(-128, 128, (4, 3)).astype(np.int8)),
        model.constant(np.float32(0.01)),
        model.constant(np.int8(5)),
    )
    y = model.quantised(model.add("MatMul", x, weights), 0.05)
    parts = partition(import_network(model.proto(y)))
    (placement,) = [p for p in parts.placements if p.kind == "MatMul"]
    assert (placement.place, placement.reason) == ("cpu", "its weights have a zero point")


def test_random_networks_agree_with_onnx_runtime() -> None:
    rng = fresh_rng()
    for _ in range(4):
        model = Model(rng)
        images = [model.input(1, 4, 10, 10)]
        for _ in range(8):
            images.append(_random_step(model, rng, images))
        unread = [y for y in images[1:] if not any(y in n.input for n in model.nodes)]
        y = model.add("GlobalAveragePool", unread[-1])
        outputs = [*unread[:-1], model.add("Gemm", model.add("Flatten", y), model.weights(4, 3))]
        network = imported(model.proto(*outputs), asymmetric=bool(rng.integers(2)))
        parts = partition(network)
        assert all(p.place == "accelerator" for p in parts.placements if p.kind == "Conv")
        # the sum of a tensor and its maxima has twice its scale, and is often a tie
        assert_regions_agree(network, parts, noise(network, rng), ties=0.3)


def _random_step(model: Model, rng: np.random.Generator, images: list[str]) -> str:
    """An operator on images of 4x10x10."""
    x = images[rng.integers(len(images))]
    kind = rng.choice(["conv", "depthwise", "add", "pool", "concat", "relu", "cpu"])
    if kind == "conv":
        y = model.add("Conv", x, model.weights(4, 4, 3, 3), model.weights(4), pads=[1, 1, 1, 1])
        return model.add("Relu", y) if rng.random() < 0.5 else y
    if kind == "depthwise":
        return model.add("Conv", x, model.weights(4, 1, 3, 3), pads=[0, 1, 2, 1], group=4)
    if kind == "add":
        return model.add("Add", x, images[rng.integers(len(images))])
    if kind == "pool":
        return model.add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    if kind == "concat":
        joined = model.add("Concat", x, images[rng.integers(len(images))], axis=1)
        return model.add("Conv", joined, model.weights(4, 8, 1, 1))
    return model.add("Relu" if kind == "relu" else "HardSwish", x)
