# SPDX-License-Identifier: Apache-2.0
"""Padding of every form is what ONNX Runtime computes, and can be saved."""

import numpy as np
import pytest
from onnx import helper
from support.cpu_runs import assert_cpu_computes
from support.onnx_results import rewritten
from support.randomness import fresh_rng
from support.small_models import Model, accelerated


def padded(model: Model, x: str, widths: list[int], *axes: int, **attributes: str) -> str:
    more = ["", model.constant(np.array(axes))] if axes else []
    return model.add("Pad", x, model.constant(np.array(widths)), *more, **attributes)


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


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_integers_are_padded(dtype) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = Model(fresh_rng())
    x = model.input(2, 3, kind=kind)
    numbers = [model.constant(np.array([0, 1, 2, 0])), model.constant(dtype(7))]
    proto = model.proto(model.add("Pad", x, *numbers), kinds=[kind])
    assert_cpu_computes(proto, {"x": np.arange(6, dtype=dtype).reshape(2, 3)})


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
    axis = model.constant(np.array(1))
    y = model.add("CumSum", model.input(2, 5), axis, reverse=1, exclusive=exclusive)
    proto = model.proto(y)
    data = fresh_rng().normal(size=(2, 5)).astype(np.float32)
    assert rewritten(proto, x=data) == ["Gather", "CumSum", "Gather"]
    assert_cpu_computes(proto, {"x": data})
