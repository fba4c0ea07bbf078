# SPDX-License-Identifier: Apache-2.0
"""Masks, single tokens and positions: rewrites keep results."""

import numpy as np
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng
from unit.host.compiler.rewrite.test_rewrites import rewritten

SEEN = np.tri(6) > 0


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


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


@pytest.mark.parametrize("place", [0, 3, -1])
def test_a_token_is_a_slice(place) -> None:
    model = Model(fresh_rng())
    y = model.add("Gather", model.input(1, 7, 4), np.array(place), axis=1)
    assert rewritten(model.proto(y)) == ["Slice", "Reshape"]


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
