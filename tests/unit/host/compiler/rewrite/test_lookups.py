# SPDX-License-Identifier: Apache-2.0
"""Products of one-hot vectors are look-ups, for any index; what is none stays."""

import numpy as np
import pytest
from onnx import TensorProto
from support.networks.onnx_results import rewritten
from support.networks.small_models import Model
from support.randomness import fresh_rng

DEPTH, WIDTH = 7, 5
INDICES = np.array([[0, 6, 3, -1, 7, 100], [2, -7, -8, 5, -(2**31), 2**31 - 1]])
"""Inside, and on both sides outside."""


def compared(model: Model, indices: str, numbers: np.ndarray, *casts: int) -> str:
    """One-hot vectors as JAX and PyTorch write them."""
    value = model.add("Equal", model.add("Unsqueeze", indices, [-1]), numbers)
    for kind in casts or (TensorProto.FLOAT,):
        value = model.add("Cast", value, to=kind)
    return value


@pytest.mark.parametrize("order", [0, 1])
def test_the_sides_of_a_comparison_may_be_exchanged(order) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 6, 1, kind=TensorProto.INT64)
    sides = [x, model.constant(np.arange(DEPTH).reshape(1, 1, DEPTH))]
    same = model.add("Equal", *(sides if order else sides[::-1]))
    vectors = model.add("Cast", same, to=TensorProto.FLOAT)
    proto = model.proto(model.add("MatMul", vectors, model.weights(DEPTH, WIDTH)))
    assert "MatMul" not in rewritten(proto, x=INDICES[..., None])


def test_the_operator_one_hot_counts_negative_indices_from_the_end() -> None:
    model = Model(fresh_rng())
    x = model.input(2, 6, kind=TensorProto.INT64)
    vectors = model.add("OneHot", x, [DEPTH], np.array([0, 1], np.float32), axis=-1)
    proto = model.proto(model.add("MatMul", vectors, model.weights(DEPTH, WIDTH)))
    kinds = rewritten(proto, x=INDICES)
    assert "Gather" in kinds
    assert not {"MatMul", "OneHot"} & set(kinds)


def test_unsigned_bytes_of_256_rows_need_no_bounds() -> None:
    model = Model(fresh_rng())
    wide = model.add("Cast", model.input(3, 4, kind=TensorProto.UINT8), to=TensorProto.INT32)
    vectors = compared(model, wide, np.arange(256, dtype=np.int32))
    proto = model.proto(model.add("MatMul", vectors, model.weights(256, WIDTH)))
    assert "Clip" not in rewritten(proto, x=fresh_rng().integers(0, 256, (3, 4), dtype=np.uint8))


@pytest.mark.parametrize(
    "case", ["numbers", "order", "axis", "second reader", "values", "no constant"]
)
def test_what_is_no_one_hot_vector_stays(case) -> None:
    model = Model(fresh_rng())
    x = model.input(2, 6, kind=TensorProto.INT64)
    numbers = np.arange(DEPTH)
    if case == "numbers":
        numbers = numbers + 1
    elif case == "order":
        numbers = numbers[::-1].copy()
    more = []
    weights = model.weights(DEPTH, WIDTH)
    if case == "axis":  # 6 places are compared, not indices
        same = model.add("Equal", x, np.arange(6))
        vectors, weights = model.add("Cast", same, to=TensorProto.FLOAT), model.weights(6, WIDTH)
    elif case == "values":
        values = model.constant(np.array([0, 2], np.float32))
        vectors = model.add("OneHot", x, [DEPTH], values, axis=-1)
    else:
        vectors = compared(model, x, numbers)
    if case == "second reader":
        more = [model.add("Relu", vectors)]
    given = {"x": INDICES}
    if case == "no constant":
        weights = model.input(DEPTH, WIDTH, name="w")
        given["w"] = np.ones((DEPTH, WIDTH), np.float32)
    kinds = rewritten(model.proto(model.add("MatMul", vectors, weights), *more), **given)
    assert "MatMul" in kinds
    assert "Gather" not in kinds


PLACES = np.abs(INDICES) % DEPTH


@pytest.mark.parametrize("shape", [(1, 1, WIDTH), (1, 1, 1)])
def test_work_that_adds_an_axis_stays(shape) -> None:
    model = Model(fresh_rng())
    row = model.add("Gather", model.weights(DEPTH, WIDTH), model.input(6, kind=TensorProto.INT64))
    proto = model.proto(model.add("Relu", model.add("Add", row, model.weights(*shape))))
    assert rewritten(proto, x=PLACES[0]) == ["Gather", "Add", "Relu"]
