# SPDX-License-Identifier: Apache-2.0
"""What follows a transposed convolution channel by channel goes into it; all else stays."""

import numpy as np
import pytest
from support.onnx_results import rewritten
from support.randomness import fresh_rng
from support.small_models import Model

SHAPE = (1, 4, 5, 6)
ENLARGED = {"strides": [2, 2], "kernel_shape": [2, 2]}


def enlarged(model: Model, groups: int, bias: bool, channels: int = 6) -> str:
    weights = model.weights(4, channels // groups, 2, 2)
    more = [model.weights(channels)] if bias else []
    x = model.input(*SHAPE)
    return model.add("ConvTranspose", x, weights, *more, group=groups, **ENLARGED)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_offsets_factors_and_normalisation_go_into_the_layer(groups, bias) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = enlarged(model, groups, bias)
    y = model.add("Add", model.weights(6, 1, 1), y)
    y = model.add("Mul", y, model.constant(np.float32(-1.5)))
    numbers = [model.constant(rng.uniform(0.5, 2, 6).astype(np.float32)) for _ in range(4)]
    y = model.add("BatchNormalization", y, *numbers)
    y = model.add("Add", y, model.weights(1, 6, 1, 1))
    assert rewritten(model.proto(model.add("Relu", y)), x=SHAPE) == ["ConvTranspose", "Relu"]


def test_the_last_of_them_may_be_the_output_of_one_channel() -> None:
    model = Model(fresh_rng())
    y = model.add("Add", enlarged(model, 1, False, channels=1), model.weights(1, 1, 1, 1))
    assert rewritten(model.proto(y), x=SHAPE) == ["ConvTranspose"]


@pytest.mark.parametrize("case", ["rows", "two readers", "output", "wider"])
def test_what_is_no_number_for_each_channel_of_one_reader_stays(case) -> None:
    model = Model(fresh_rng())
    one = 1 if case == "wider" else 6
    y = enlarged(model, 1, True, channels=one)
    shapes = {"rows": (1, 1, 10, 1), "wider": (1, 6, 1, 1)}
    z = model.add("Add", y, model.weights(*shapes.get(case, (6, 1, 1))))
    outputs = {"two readers": (z, model.add("Relu", y)), "output": (z, y)}.get(case, (z,))
    more = ["Relu"] if case == "two readers" else []
    assert sorted(rewritten(model.proto(*outputs), x=SHAPE)) == ["Add", "ConvTranspose", *more]
