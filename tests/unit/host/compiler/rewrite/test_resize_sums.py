# SPDX-License-Identifier: Apache-2.0
"""Resizings of any factor, size, mode and coordinates: the same numbers, and one region."""

import numpy as np
import onnxruntime
import pytest
from support.networks.compiled_runs import compiled_on_its_data, run_compiled
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import assert_near, run_all
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

HW, BOARD = load_hwconfig("pynq-16x16-rows"), load_board("pynq-z2")
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resized(model: Model, x: str, mode: str) -> str:
    """Any resizing of an image of 8 channels and 7 by 9 pixels."""
    rng = model.rng
    attributes = {"mode": mode, "coordinate_transformation_mode": str(rng.choice(COORDINATES))}
    if mode == "nearest":
        attributes["nearest_mode"] = str(rng.choice(ROUNDINGS))
    elif mode == "cubic":
        attributes["cubic_coeff_a"] = float(rng.choice([-0.75, -0.5]))
        attributes["exclude_outside"] = int(rng.integers(2))
    elif attributes["coordinate_transformation_mode"] not in COORDINATES[3:]:
        attributes["antialias"] = int(rng.integers(2))
    region = ""
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        region = model.constant(np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 0.95], np.float32))
    if rng.random() < 0.5:
        sizes = [1, 8, *(int(n) for n in rng.integers(2, 16, 2))]
        ends = [region, "", model.constant(np.array(sizes))]
    else:
        factors = rng.choice([0.5, 0.75, 1, 1.05, 1.1, 1.5, 2, 3], 2)  # 7 x 1.1 are 7
        ends = [region, model.constant(np.array([1, 1, *factors], np.float32))]
    return model.add("Resize", x, *ends, **attributes)


def network(rng: np.random.Generator, mode: str) -> Model:
    """A resizing between two convolutions, in a form that ONNX Runtime has."""
    while True:
        model = Model(rng, opset=19)
        x = model.add("Conv", model.input(1, 3, 7, 9), model.weights(8, 3, 1, 1))
        model.add("Conv", resized(model, x, mode), model.weights(4, 8, 1, 1))
        proto = model.proto(model.nodes[-1].output[0])
        try:
            onnxruntime.InferenceSession(proto.SerializeToString())
        except Exception:  # ONNX Runtime raises kinds of its own
            continue
        return model


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_same_numbers_without_a_resizing(mode: str) -> None:
    rng = generator(f"resizes {mode}")
    left = [
        "Resize" in rewritten(model.proto(model.nodes[-1].output[0]), QuantiseOptions())
        for model in (network(rng, mode) for _ in range(12))
    ]
    # Whole factors between pixel centres are layers as they stand.
    assert not any(left) or (mode == "linear" and not all(left))


def test_the_nearest_of_two_pixels_is_the_one_of_its_own_coordinates() -> None:
    """5 of 9 columns: the middle one lies on a pixel, but for the last bit."""
    model = Model(generator("ties"))
    attributes = {"nearest_mode": "floor", "mode": "nearest",
                  "coordinate_transformation_mode": "half_pixel_symmetric"}  # fmt: skip
    sizes = model.constant(np.array([1, 2, 3, 5]))
    y = model.add("Resize", model.input(1, 2, 7, 9), "", "", sizes, **attributes)
    assert rewritten(model.proto(y)) == ["Gather", "Gather"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_one_region_that_is_near_the_float_model(mode: str) -> None:
    rng = generator(f"resized regions {mode}")
    for _ in range(2):
        model = network(rng, mode)
        proto = model.proto(model.nodes[-1].output[0])
        data = rng.normal(size=(8, 3, 7, 9)).astype(np.float32)
        _, found, expected = compiled_on_its_data(proto, data, HW)
        assert_near(found, expected)


def test_a_quantised_image_is_resized_to_one_row_with_corners_aligned() -> None:
    rng = generator("one row")
    model = Model(rng, opset=19)
    x = model.quantised(model.input(1, 8, 5, 6), 0.05)
    weights = model.constant(rng.integers(-128, 128, (8, 8, 1, 1)).astype(np.int8))
    real = model.add("DequantizeLinear", weights, np.float32(0.01), np.int8(0))
    x = model.quantised(model.add("Conv", x, real), 0.08)
    sizes = model.constant(np.array([1, 8, 1, 9]))
    y = model.add(
        "Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners"
    )
    y = model.quantised(y, 0.08)
    compilation = compile_model(model.proto(y), HW, BOARD, offload_all=True)
    inputs = {"x": rng.normal(size=(1, 8, 5, 6)).astype(np.float32)}
    (found,) = run_compiled(compilation, inputs).values()
    errors = np.rint((found - run_all(model.proto(y), inputs)[y]) / 0.08)
    assert np.abs(errors).max() <= 1
