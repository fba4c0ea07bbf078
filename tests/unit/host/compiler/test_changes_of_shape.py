# SPDX-License-Identifier: Apache-2.0
"""Changes of shape between layers: whatever they are, a network compiles and has its results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.qdq_runs import run_all
from support.small_models import Model

from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

HW = load_hwconfig("tiny-4x4").with_(row_unit=1)


def reshaped(model: Model, x: str, *shape: int) -> str:
    return model.add("Reshape", x, model.constant(np.array(shape, np.int64)))


def image(model: Model, outputs: int, side: int) -> str:
    return model.add("Conv", model.input(1, 3, side, side), model.weights(outputs, 3, 1, 1))


def features_as_an_image(model: Model) -> str:
    y = model.add("Gemm", model.input(1, 6), model.weights(6, 32))
    return model.add("Conv", reshaped(model, y, 1, 8, 2, 2), model.weights(4, 8, 2, 2))


def an_image_as_another(model: Model) -> str:
    y = reshaped(model, image(model, 8, 4), 1, 2, 8, 8)
    return model.add("Conv", y, model.weights(4, 2, 3, 3))


def a_norm_behind_a_flattened_image(model: Model) -> str:
    flat = model.add("Flatten", image(model, 4, 2))
    ones, zeros = (model.constant(make(16, np.float32)) for make in (np.ones, np.zeros))
    y = model.add("LayerNormalization", flat, ones, zeros, axis=-1)
    return model.add("Gemm", y, model.weights(16, 3))


def an_activation_behind_a_flattened_image(model: Model) -> str:
    return model.add("Relu", model.add("Flatten", image(model, 4, 2)))


def compiled(make: Callable[[Model], str]) -> Compilation:
    """A network, after comparing its result with ONNX Runtime's."""
    model = Model(np.random.default_rng(3))
    compilation = compile_model(
        model.proto(make(model)), HW, load_board("pynq-z2"),
        calibration=Calibration(random_samples=4), offload_all=True,
    )  # fmt: skip
    (source,), (result,) = compilation.network.inputs, compilation.network.outputs
    data = np.random.default_rng(0).normal(size=source.shape).astype(np.float32)
    expected = run_all(compilation.imported.qdq, {source.name: data})[result.name]
    run = run_network(compilation.network, ReferenceDevice(HW), {source.name: data}, trusted=True)
    assert np.abs(run.outputs[result.name] - expected).max() <= 0.05 * np.abs(expected).max()
    return compilation


@pytest.mark.parametrize(
    ("make", "regions"),
    [
        (features_as_an_image, 2),
        (an_image_as_another, 2),
        (a_norm_behind_a_flattened_image, 2),
        (an_activation_behind_a_flattened_image, 1),
    ],
)
def test_what_makes_pixels_channels_is_left_to_the_cpu(
    make: Callable[[Model], str], regions: int
) -> None:
    assert len(compiled(make).layers) == regions
