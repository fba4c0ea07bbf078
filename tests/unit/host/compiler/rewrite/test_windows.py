# SPDX-License-Identifier: Apache-2.0
"""Rolls, patch merging and means with channels last: rewritten, but with the same results."""

import numpy as np
import pytest
from support.onnx_results import rewritten
from support.randomness import fresh_rng
from support.small_models import Model


def bounds(model: Model, start: int, end: int, axis: int, step: int = 1) -> list[str]:
    return [model.constant(np.array([value])) for value in (start, end, axis, step)]


@pytest.mark.parametrize(("axis", "shift"), [(1, 3), (2, 1), (-1, 4)])
def test_a_roll_is_a_gather(axis, shift) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 5, 6, 7)
    parts = [model.add("Slice", x, *bounds(model, *pair, axis)) for pair in
             ((shift, 2**63 - 1), (0, shift))]  # fmt: skip
    y = model.add("Concat", *parts, axis=axis)
    assert rewritten(model.proto(model.add("Relu", y)), x=(1, 5, 6, 7)) == ["Gather", "Relu"]


@pytest.mark.parametrize("pairs", [((2, 5), (0, 1)), ((0, 3), (2, 5)), ((0, 2), (2, 3))])
def test_slices_that_leave_out_or_repeat_something_stay(pairs) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 5, 3)
    parts = [model.add("Slice", x, *bounds(model, *pair, 1)) for pair in pairs]
    kinds = rewritten(model.proto(model.add("Concat", *parts, axis=1)), x=(1, 5, 3))
    assert kinds == ["Slice", "Slice", "Concat"]


def test_slices_of_different_tensors_stay() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 4, 3)
    y = model.add("Relu", x)
    parts = [model.add("Slice", x, *bounds(model, 2, 4, 1)),
             model.add("Slice", y, *bounds(model, 0, 2, 1))]  # fmt: skip
    assert "Gather" not in rewritten(model.proto(model.add("Concat", *parts, axis=1)), x=(1, 4, 3))


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
    kinds = rewritten(model.proto(y), x=(1, 6, 4, 3))
    assert kinds == ["Transpose", *["Conv"] * 4, "Concat", "Transpose"]


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
        assert "Conv" not in rewritten(model.proto(y), x=(1, 6, 4, 3))


@pytest.mark.parametrize(("keepdims", "last"), [(0, "Flatten"), (1, "Transpose")])
def test_a_mean_over_pixels_with_channels_last_is_a_global_pool(keepdims, last) -> None:
    model = Model(fresh_rng())
    y = model.add("ReduceMean", model.input(2, 3, 4, 5), axes=[1, 2], keepdims=keepdims)
    assert rewritten(model.proto(y), x=(2, 3, 4, 5)) == ["Transpose", "GlobalAveragePool", last]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_mask_of_windows_is_added_in_the_shape_of_the_scores(swapped) -> None:
    model = Model(fresh_rng())
    scores = model.add("Relu", model.input(6, 2, 4, 4))
    y = model.add("Add", scores, model.weights(2, 4, 4))
    wide = model.add("Reshape", y, model.constant(np.array([2, 3, 2, 4, 4])))
    pair = (wide, model.weights(1, 3, 1, 4, 4))
    y = model.add("Add", *(pair[::-1] if swapped else pair))
    y = model.add("Reshape", y, model.constant(np.array([-1, 2, 4, 4])))
    kinds = rewritten(model.proto(model.add("Softmax", y, axis=-1)), x=(6, 2, 4, 4))
    assert kinds == ["Relu", "Add", "Softmax"]


def test_sums_that_grow_or_keep_another_shape_stay() -> None:
    for added, last in (((2, 1, 3, 4), (2, 2, 3, 4)), ((3, 4), (3, 8))):
        model = Model(fresh_rng())
        x = model.add("Relu", model.input(6, 4))
        wide = model.add("Reshape", x, model.constant(np.array([1, 2, 3, 4] if len(added) > 2
                                                               else [2, 3, 4])))  # fmt: skip
        y = model.add("Add", wide, model.weights(*added))
        y = model.add("Reshape", y, model.constant(np.array(last)))
        kinds = rewritten(model.proto(y), x=(6, 4))
        assert kinds == ["Relu", "Reshape", "Add", "Reshape"]
