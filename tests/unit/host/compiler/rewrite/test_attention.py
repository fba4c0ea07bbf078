# SPDX-License-Identifier: Apache-2.0
"""Masks, single tokens and positions: rewrites keep results."""

import numpy as np
import onnx
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng
from unit.host.compiler.rewrite.test_rewrites import rewritten

SEEN = np.tri(6) > 0


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("fill", [-np.inf, -1e9])
def test_a_condition_that_masks_is_an_addition(keeps, fill) -> None:
    model = Model(fresh_rng())
    x, fill = model.input(1, 2, 6, 6), model.constant(number(fill))
    parts = (x, fill) if keeps else (fill, x)
    proto = model.proto(model.add("Softmax", model.add("Where", keeps == SEEN, *parts), axis=-1))
    assert rewritten(proto) == ["Add", "Softmax"]


@pytest.mark.parametrize(
    ("condition", "fill"),
    [
        (SEEN, -30.0),  # such a score may still have a share
        (np.arange(6)[:, None] > np.arange(6), -1e9),  # the first row has no place at all
    ],
)
def test_other_conditions_stay(condition, fill) -> None:
    model = Model(fresh_rng())
    scores = model.add("Where", condition, model.input(1, 2, 6, 6), number(fill))
    assert rewritten(model.proto(model.add("Softmax", scores, axis=-1))) == ["Where", "Softmax"]


def test_constants_that_are_added_one_after_another_are_one() -> None:
    model = Model(fresh_rng())
    bias, mask = model.rng.normal(size=(2, 6, 6)), np.where(SEEN, 0, -100.0)
    x = model.add("Add", model.input(1, 2, 6, 6), bias.astype(np.float32))
    x = model.add("Add", mask.astype(np.float32), x)
    assert rewritten(model.proto(model.add("Softmax", x, axis=-1))) == ["Add", "Softmax"]


def test_what_is_read_elsewhere_stays() -> None:
    model = Model(fresh_rng())
    bias = model.constant(model.rng.normal(size=(6, 6)).astype(np.float32))
    between = model.add("Add", model.input(1, 2, 6, 6), bias)
    softmax = model.add("Softmax", model.add("Add", between, bias), axis=-1)
    kinds = rewritten(model.proto(softmax, model.add("Relu", between)))
    assert sorted(kinds) == ["Add", "Add", "Relu", "Softmax"]


@pytest.mark.parametrize("place", [0, 3, -1])
def test_a_token_is_a_slice(place) -> None:
    model = Model(fresh_rng())
    y = model.add("Gather", model.input(1, 7, 4), np.array(place), axis=1)
    assert rewritten(model.proto(y)) == ["Slice", "Reshape"]


@pytest.mark.parametrize(("places", "axis"), [([1, 2], 1), ([0, 2], 2), (0, 0)])
def test_other_elements_are_gathered(places, axis) -> None:
    model = Model(fresh_rng())
    y = model.add("Gather", model.input(1, 7, 4), np.array(places), axis=axis)
    assert rewritten(model.proto(y)) == ["Gather"]


@pytest.mark.parametrize("shape", [(7, 4), (7, 1), (1, 7, 4), (4,), (1,)])
def test_positions_have_the_shape_of_the_sequence_and_biases_stay(shape) -> None:
    model = Model(fresh_rng())
    positions = model.constant(model.rng.normal(size=shape).astype(np.float32))
    assert rewritten(model.proto(model.add("Add", positions, model.input(1, 7, 4)))) == ["Add"]


def cut(model: Model, *sizes: int) -> str:
    """Twelve features of five tokens, cut into heads behind an operator of their own."""
    return model.add("Reshape", model.add("Relu", model.input(1, 5, 12)), [1, 5, *sizes])


@pytest.mark.parametrize("turned", ["never", "before", "behind"])
def test_queries_are_a_slice_of_features(turned) -> None:
    model = Model(fresh_rng())
    perm, axis = [2, 0, 3, 1, 4], 0 if turned == "before" else 2
    x = cut(model, 3, 2, 2)
    if turned == "before":
        x = model.add("Transpose", x, perm=perm)
    one, two, axes = (model.constant(np.array([n])) for n in (1, 2, axis))
    x = model.add("Slice", x, one, two, axes)
    if turned == "behind":
        x, axes = model.add("Transpose", x, perm=perm), model.constant(np.array([0]))
    kinds = rewritten(model.proto(model.add("Squeeze", x, axes)))
    moves = ["Reshape"] if turned == "never" else ["Reshape", "Transpose"]
    assert kinds == ["Relu", "Slice", *moves]


def test_keys_that_are_gathered_are_a_slice_of_features() -> None:
    model = Model(fresh_rng())
    x = model.add("Transpose", cut(model, 3, 2, 2), perm=[2, 0, 3, 1, 4])
    kinds = rewritten(model.proto(model.add("Gather", x, np.array(-2), axis=0)))
    assert kinds == ["Relu", "Slice", "Reshape", "Transpose"]


@pytest.mark.parametrize(("sizes", "axis"), [((2, 3, 2), 3), ((3, 4), 3), ((3, 4), 1)])
def test_other_positions_are_gathered(sizes, axis) -> None:
    model = Model(fresh_rng())
    y = model.add("Gather", cut(model, *sizes), np.array(1), axis=axis)
    assert "Slice" not in rewritten(model.proto(y))


def test_queries_of_a_layer_with_the_batch_in_the_middle_are_a_slice() -> None:
    """As PyTorch's multi-head attention cuts them."""
    model = Model(fresh_rng())
    x = model.add("MatMul", model.input(5, 1, 4), model.weights(4, 12))
    x = model.add("Add", x, model.weights(12))
    x = model.add("Reshape", x, [5, 1, 3, 4])
    x = model.add("Unsqueeze", x, [0])
    x = model.add("Transpose", x, perm=[3, 1, 2, 0, 4])
    x = model.add("Squeeze", x, [3])
    kinds = rewritten(model.proto(model.add("Gather", x, np.array(1), axis=0)))
    assert kinds == ["Reshape", "MatMul", "Add", "Reshape", "Slice", "Reshape"]


@pytest.mark.parametrize("leaves", [True, False])
def test_tokens_of_one_image_each_are_a_sequence_for_a_dense_layer(leaves) -> None:
    model = Model(fresh_rng())
    y = model.add("MatMul", model.input(5, 1, 4), model.weights(4, 3))
    y = y if leaves else model.add("Relu", y)
    kinds = rewritten(model.proto(y))
    assert kinds == ["Reshape", "MatMul", "Reshape", *([] if leaves else ["Relu"])]


@pytest.mark.parametrize("axis", [1, 2])
def test_parts_of_a_sequence_are_slices(axis) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 6, 6)
    sizes = model.constant(np.array([2, 4]))
    model.nodes.append(onnx.helper.make_node("Split", [x, sizes], ["a", "b"], "cut", axis=axis))
    assert rewritten(model.proto("a", "b")) == ["Slice", "Slice"]


@pytest.mark.parametrize("axis", [1, -2])
def test_masks_along_the_axis_of_the_softmax_leave_a_place(axis) -> None:
    """A column that is masked as a whole stays as it is, whatever its rows have."""
    no_column = np.broadcast_to(np.arange(6) > 0, (6, 6))
    for condition, kind in ((SEEN, "Add"), (no_column, "Where")):
        model = Model(fresh_rng())
        x, fill = model.input(2, 6, 6), model.constant(number(-1e9))
        proto = model.proto(model.add("Softmax", model.add("Where", condition, x, fill), axis=axis))
        assert rewritten(proto) == [kind, "Softmax"]


def test_masks_that_leave_no_place_together_stay() -> None:
    model = Model(fresh_rng())
    x, fill = model.input(1, 2, 6, 6), model.constant(number(-1e9))
    for condition in (np.arange(6) < 3, np.arange(6) >= 3):
        x = model.add("Where", condition, x, fill)
    assert rewritten(model.proto(model.add("Softmax", x, axis=-1))) == ["Where", "Where", "Softmax"]


def test_a_number_for_each_token_is_no_bias_of_the_layer_before() -> None:
    model = Model(fresh_rng())
    y = model.add("MatMul", model.input(5, 1, 4), model.weights(4, 5))
    y = model.add("Relu", model.add("Add", y, model.weights(5, 1, 1)))
    assert rewritten(model.proto(y)) == ["Reshape", "MatMul", "Reshape", "Add", "Relu"]


def test_a_slice_that_begins_before_its_data_takes_their_first_position() -> None:
    model = Model(fresh_rng())
    bounds = [model.constant(np.array([n])) for n in (-100, 1, 2)]
    x = model.add("Slice", cut(model, 3, 2, 2), *bounds)
    rewritten(model.proto(model.add("Squeeze", x, bounds[2])))
