# SPDX-License-Identifier: Apache-2.0
"""What waits for a shape that the model computes: recurrent layers are unrolled all the same."""

import numpy as np
import pytest
from support.networks.compiled_runs import compiled_on_its_data
from support.networks.qdq_runs import assert_near
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.host.machine.hwconfig import load_hwconfig

HW = load_hwconfig("pynq-16x16-rows")
STEPS, HIDDEN = 4, 16


def columns_of(model: Model, x: str, *, computed: bool) -> str:
    """An image's columns as a sequence (steps, batch, features), with a shape that is computed."""
    turned = model.add("Transpose", x, perm=[0, 3, 1, 2])
    if computed:
        sizes = model.add("Slice", model.add("Shape", turned), np.array([0]), np.array([2]))
        shape = model.add("Concat", sizes, np.array([-1]), axis=0)
    else:
        shape = model.constant(np.array([1, STEPS, -1]))
    return model.add("Transpose", model.add("Reshape", turned, shape), perm=[1, 0, 2])


@pytest.mark.parametrize("computed", [True, False])
@pytest.mark.parametrize("flat", [True, False])
def test_a_recurrent_layer_behind_a_computed_shape_is_in_the_region(
    computed: bool, flat: bool
) -> None:
    rng = generator(f"settled {computed} {flat}")
    model = Model(rng)
    kind, gates = [("GRU", 3), ("LSTM", 4)][int(rng.integers(2))]
    x = model.add("Conv", model.input(1, 3, 2, STEPS), model.weights(8, 3, 1, 1))
    sequence = columns_of(model, x, computed=computed)
    weights = model.weights(2, gates * HIDDEN, 16), model.weights(2, gates * HIDDEN, HIDDEN)
    y = model.add(kind, sequence, *weights, hidden_size=HIDDEN, direction="bidirectional")
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])
    y = model.add("Reshape", y, np.array([STEPS, 2 * HIDDEN] if flat else [STEPS, 1, 2 * HIDDEN]))
    y = model.add("MatMul", y, model.weights(2 * HIDDEN, 12))
    proto = model.proto(y)
    data = rng.normal(size=(8, 3, 2, STEPS)).astype(np.float32)
    at_the_border = ("Reshape", "Transpose")
    _, found, expected = compiled_on_its_data(proto, data, HW, at_the_border)
    assert_near(found, expected, 0.1)
