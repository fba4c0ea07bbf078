# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose padding follows from other attributes state it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.networks.compiled_runs import assert_cpu_computes
from support.networks.onnx_results import after_rewrites, rewritten
from support.networks.small_models import Model, accelerated
from support.randomness import fresh_rng

SIDES = (5, 4)


def attributes_of(proto: onnx.ModelProto) -> ir.Node:
    (node,) = (node for node in after_rewrites(proto).graph if node.op_type == "ConvTranspose")
    return node


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_shape": [10, 8]},
        {"output_shape": [9, 7], "auto_pad": "SAME_UPPER"},
        {"output_shape": [9, 7], "auto_pad": "SAME_LOWER"},
        {"output_shape": [12, 9]},  # more rows than without padding, and columns with it
        {"output_shape": [10, 9], "output_padding": [1, 1]},
        {"output_shape": [10, 8], "pads": [3, 3, 3, 3]},  # which ONNX Runtime does not read
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "output_padding": [1, 0]},
        {"auto_pad": "SAME_LOWER", "dilations": [2, 1]},
    ],
)
def test_padding_of_transposed_convolutions_is_stated(attributes) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, *SIDES)
    weights = model.weights(2, 3, 3, 4)
    proto = model.proto(model.add("ConvTranspose", x, weights, strides=[2, 2], **attributes))
    assert rewritten(proto) == ["ConvTranspose"]
    node = attributes_of(proto)
    assert not {"auto_pad", "output_shape"} & set(node.attributes)
    assert "pads" in node.attributes


# -- padding of every form is what ONNX Runtime computes, and can be saved ------------------------


def padded(model: Model, x: str, widths: list[int], *axes: int, **attributes: str) -> str:
    more = ["", model.constant(np.array(axes))] if axes else []
    return model.add("Pad", x, np.array(widths), *more, **attributes)


@pytest.mark.parametrize(
    ("widths", "axes", "mode"),
    [
        ([0, 2, 1, 1], (), "reflect"),
        ([0, 2, 1, 1], (), "edge"),
        ([3, 0, 9, 0], (), "edge"),
        ([1, 2, 0, 3], (), "wrap"),
        ([-1, 2, 1, -2], (), "constant"),
        ([-1, 0, 0, -2], (), "constant"),
        ([2, 1], (-1,), "constant"),
        ([2, 1, 0, 3], (1, 0), "edge"),
    ],
)
def test_padding_of_every_form(widths, axes, mode) -> None:
    model = Model(fresh_rng(), opset=19)
    proto = model.proto(padded(model, model.input(4, 5), widths, *axes, mode=mode))
    data = fresh_rng().normal(size=(4, 5)).astype(np.float32)
    assert set(rewritten(proto, x=data)) <= {"Gather", "Slice", "Pad"}
    assert_cpu_computes(proto, {"x": data})


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("value", [-np.inf, np.finfo(np.float32).min, 0.0])
@pytest.mark.parametrize(
    "widths", [(0, 0, 0, 1), (1, 0, 2, 1), (3, 0, 0, 0), (0, 1, 0, -1)], ids=str
)
def test_padding_of_a_maximum_is_its_own(widths, value, turned) -> None:
    """Rows before and behind, columns before and behind; more than the window is no padding."""
    top, left, bottom, right = widths
    model = Model(fresh_rng())
    before, behind = [0, 0, top, left], [0, 0, bottom, right]
    shape = (1, 2, 7, 8)
    if turned:
        before, behind, shape = (
            [each[axis] for axis in (0, 2, 3, 1)] for each in (before, behind, shape)
        )
    y = model.add("Pad", model.input(*shape), np.array([*before, *behind]), np.float32(value))
    if turned:
        y = model.add("Transpose", y, perm=[0, 3, 1, 2])
    y = model.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 0, 0])
    found = rewritten(model.proto(y))
    is_own = value != 0 and max(widths) < 3  # what is cut is a slice
    assert ("Pad" not in found) == is_own or right < 0


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_an_image_is_padded_between_layers(mode) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 7), model.weights(8, 4, 1, 1))
    y = padded(model, y, [0, 0, 1, 2, 0, 0, 2, 1], mode=mode)
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 8, 3, 3))))
    assert len(parts.regions) == 1


@pytest.mark.parametrize("exclusive", [0, 1])
def test_a_running_sum_from_the_end(exclusive) -> None:
    model = Model(fresh_rng())
    y = model.add("CumSum", model.input(2, 5), np.array(1), reverse=1, exclusive=exclusive)
    proto = model.proto(y)
    data = fresh_rng().normal(size=(2, 5)).astype(np.float32)
    assert rewritten(proto, x=data) == ["Gather", "CumSum", "Gather"]
    assert_cpu_computes(proto, {"x": data})


# -- what follows a transposed convolution channel by channel goes into it ------------------------

SHAPE = (1, 4, 5, 6)
ENLARGED = {"strides": [2, 2], "kernel_shape": [2, 2]}


def enlarged(model: Model, groups: int, bias: bool, channels: int = 6) -> str:
    weights = model.weights(4, channels // groups, 2, 2)
    more = [model.weights(channels)] if bias else []
    return model.add("ConvTranspose", model.input(*SHAPE), weights, *more, group=groups, **ENLARGED)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_offsets_factors_and_normalisation_go_into_the_layer(groups, bias) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = enlarged(model, groups, bias)
    y = model.add("Add", model.weights(6, 1, 1), y)
    y = model.add("Mul", y, np.float32(-1.5))
    numbers = [model.constant(rng.uniform(0.5, 2, 6).astype(np.float32)) for _ in range(4)]
    y = model.add("BatchNormalization", y, *numbers)
    y = model.add("Add", y, model.weights(1, 6, 1, 1))
    assert rewritten(model.proto(model.add("Relu", y))) == ["ConvTranspose", "Relu"]


# -- rolls, patch merging and means with channels last --------------------------------------------


def bounds(model: Model, start: int, end: int, axis: int, step: int = 1) -> list[str]:
    return [model.constant(np.array([value])) for value in (start, end, axis, step)]


@pytest.mark.parametrize(("axis", "shift"), [(1, 3), (2, 1), (-1, 4)])
def test_a_roll_is_a_gather(axis, shift) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 5, 6, 7)
    parts = [model.add("Slice", x, *bounds(model, *pair, axis)) for pair in
             ((shift, 2**63 - 1), (0, shift))]  # fmt: skip
    y = model.add("Concat", *parts, axis=axis)
    assert rewritten(model.proto(model.add("Relu", y))) == ["Gather", "Relu"]


@pytest.mark.parametrize("pairs", [((2, 5), (0, 1)), ((0, 3), (2, 5)), ((0, 2), (2, 3))])
def test_slices_that_leave_out_or_repeat_something_stay(pairs) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 5, 3)
    parts = [model.add("Slice", x, *bounds(model, *pair, 1)) for pair in pairs]
    kinds = rewritten(model.proto(model.add("Concat", *parts, axis=1)))
    assert kinds == ["Slice", "Slice", "Concat"]


def test_slices_of_different_tensors_stay() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 3)
    y = model.add("Relu", x)
    parts = [model.add("Slice", x, *bounds(model, 2, 4, 1)),
             model.add("Slice", y, *bounds(model, 0, 2, 1))]  # fmt: skip
    assert "Gather" not in rewritten(model.proto(model.add("Concat", *parts, axis=1)))


def merged(model: Model, corners: list[tuple[int, int]], axis: int = 3) -> str:
    """Every other pixel of an image with channels last, at some corners."""
    x = model.input(1, 6, 4, 3)
    parts = []
    for row, column in corners:
        y = model.add("Slice", x, *bounds(model, row, 2**63 - 1, 1, 2))
        parts.append(model.add("Slice", y, *bounds(model, column, 2**63 - 1, 2, 2)))
    return model.add("Concat", *parts, axis=axis)


def test_patch_merging_is_depthwise_convolutions() -> None:
    model = Model(fresh_rng())
    y = merged(model, [(0, 0), (1, 0), (0, 1), (1, 1)])
    assert rewritten(model.proto(y)) == ["Transpose", *["Conv"] * 4, "Concat", "Transpose"]


def test_corners_beyond_the_first_and_pixels_joined_to_images_stay() -> None:
    for corners, axis in (([(0, 0), (2, 1)], 3), ([(0, 0), (1, 1)], 1)):
        model = Model(fresh_rng())
        if corners[1] == (2, 1):  # fewer rows than the first corner has
            x = model.input(1, 6, 4, 3)
            first = model.add("Slice", x, *bounds(model, 0, 4, 1, 2))
            second = model.add("Slice", x, *bounds(model, 2, 6, 1, 2))
            y = model.add("Concat", first, second, axis=axis)
        else:
            y = merged(model, corners, axis)
        assert "Conv" not in rewritten(model.proto(y))


@pytest.mark.parametrize(("keepdims", "last"), [(0, "Flatten"), (1, "Transpose")])
def test_a_mean_over_pixels_with_channels_last_is_a_global_pool(keepdims, last) -> None:
    model = Model(fresh_rng())
    y = model.add("ReduceMean", model.input(2, 3, 4, 5), axes=[1, 2], keepdims=keepdims)
    assert rewritten(model.proto(y)) == ["Transpose", "GlobalAveragePool", last]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mask_of_windows_is_added_in_the_shape_of_the_scores(swapped) -> None:
    model = Model(fresh_rng())
    y = model.add("Add", model.add("Relu", model.input(6, 2, 4, 4)), model.weights(2, 4, 4))
    pair = (model.add("Reshape", y, [2, 3, 2, 4, 4]), model.weights(1, 3, 1, 4, 4))
    y = model.add("Add", *(pair[::-1] if swapped else pair))
    y = model.add("Reshape", y, [-1, 2, 4, 4])
    assert rewritten(model.proto(model.add("Softmax", y, axis=-1))) == ["Relu", "Add", "Softmax"]


def test_sums_that_grow_or_keep_another_shape_stay() -> None:
    for added, last in (((2, 1, 3, 4), (2, 2, 3, 4)), ((3, 4), (3, 8))):
        model = Model(fresh_rng())
        x = model.add("Relu", model.input(6, 4))
        wide = model.add("Reshape", x, np.array([1, 2, 3, 4] if len(added) > 2
                                                               else [2, 3, 4]))  # fmt: skip
        y = model.add("Add", wide, model.weights(*added))
        y = model.add("Reshape", y, np.array(last))
        assert rewritten(model.proto(y)) == ["Relu", "Reshape", "Add", "Reshape"]
