# SPDX-License-Identifier: Apache-2.0
"""What waits for a shape that the model computes: recurrent layers are unrolled all the same."""

import numpy as np
import pytest
from support.networks.compiled_runs import run_compiled
from support.networks.qdq_runs import assert_near, run_all
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

HW, BOARD = load_hwconfig("pynq-16x16-rows"), load_board("pynq-z2")
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
    compilation = compile_model(
        proto, HW, BOARD, calibration=Calibration(arrays={"x": data}), offload_all=True
    )
    left = {p.kind for p in compilation.network.placements if p.where == "cpu"}
    assert left <= {"Reshape", "Transpose"}  # at the border
    assert len(compilation.layers) == 1
    inputs = {"x": data[:1]}
    (found,) = run_compiled(compilation, inputs).values()
    expected = run_all(proto, inputs)[y]
    assert found.shape == expected.shape
    assert_near(found, expected, 0.1)
