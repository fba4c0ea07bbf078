# SPDX-License-Identifier: Apache-2.0
"""What only moves elements, as operators of a region or none, compared with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from support.partitioned_runs import assert_same_outputs
from support.randomness import fresh_rng
from support.small_models import Model, accelerated, imported, operators

from tilewright.host.compiler.lower.qgraph import QConv, QGather, QReshape, QSelect, QStack
from tilewright.host.compiler.pipeline import partition


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
    assert_same_outputs(network, parts)


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
    assert_same_outputs(network, parts)
