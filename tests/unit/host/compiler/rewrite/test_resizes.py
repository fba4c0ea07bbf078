# SPDX-License-Identifier: Apache-2.0
"""Resizing of any axes is what ONNX Runtime computes, and can be saved."""

import numpy as np
import pytest
from support.cpu_runs import assert_cpu_computes
from support.onnx_results import rewritten
from support.randomness import fresh_rng
from support.small_models import Model, accelerated

FORMS = {
    "channels last": ((1, 4, 6, 3), [1, 2, 2, 1]),
    "rows of channels last": ((1, 4, 6, 3), [1, 3, 1, 1]),
    "a matrix": ((4, 6), [2, 3]),
    "rows": ((4, 6), [2, 1]),
    "images without a batch": ((3, 4, 6), [1, 2, 2]),
    "sequences": ((2, 3, 5), [1, 1, 2]),
    "batch": ((2, 3, 5), [2, 1, 1]),
}
MODES = {
    "nearest": {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "linear": {},
    "symmetric": {"coordinate_transformation_mode": "half_pixel_symmetric"},
    "corners": {"coordinate_transformation_mode": "align_corners"},
}


def resized(
    shape: tuple[int, ...], factors: list[float], *, sizes: bool, **attributes: object
) -> Model:
    model = Model(fresh_rng(), opset=19)
    x = model.input(*shape)
    numbers = np.array(shape) * factors if sizes else np.array(factors, np.float32)
    given = ["", model.constant(numbers.astype(np.int64))] if sizes else [model.constant(numbers)]
    model.add("Resize", x, "", *given, **attributes)
    return model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_any_axes_are_resized(form, mode) -> None:
    shape, factors = FORMS[form]
    sizes = mode in ("linear", "corners")
    kind = mode if mode == "nearest" else "linear"
    if kind == "linear" and form == "batch":
        pytest.skip("ONNX Runtime refuses it")
    model = resized(shape, factors, sizes=sizes, mode=kind, **MODES[mode])
    data = fresh_rng().normal(size=shape).astype(np.float32)
    proto = model.proto(model.nodes[-1].output[0])
    layer = "ConvTranspose" if kind == "nearest" else "Resize"
    assert set(rewritten(proto, x=data)) <= {layer, "Transpose", "Reshape"}
    step = np.abs(data).max() / 127
    assert_cpu_computes(proto, {"x": data}, tolerance=2 * step if kind == "nearest" else 1e-4)


@pytest.mark.parametrize("sizes", [False, True])
def test_axes_may_be_named(sizes) -> None:
    model = Model(fresh_rng(), opset=19)
    numbers = np.array([9, 8]) if sizes else np.array([1.5, 2], np.float32)
    given = ["", model.constant(numbers)] if sizes else [model.constant(numbers)]
    y = model.add("Resize", model.input(1, 2, 4, 6), "", *given, mode="linear", axes=[3, 2])
    data = fresh_rng().normal(size=(1, 2, 4, 6)).astype(np.float32)
    assert_cpu_computes(model.proto(y), {"x": data})


def test_images_with_channels_last_are_enlarged_between_layers() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 5), model.weights(8, 4, 1, 1))
    y = model.add("Transpose", y, perm=[0, 2, 3, 1])
    y = model.add("Resize", y, "", model.constant(np.array([1, 2, 2, 1], np.float32)))
    y = model.add("Transpose", y, perm=[0, 3, 1, 2])
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 8, 1, 1))))
    assert len(parts.regions) == 1


def test_a_region_of_an_image_is_resized_by_onnx_runtime() -> None:
    model = Model(fresh_rng())
    roi = model.constant(np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8], np.float32))
    sizes = model.constant(np.array([1, 2, 4, 4]))
    more = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    y = model.add("Resize", model.input(1, 2, 6, 5), roi, "", sizes, **more)
    data = fresh_rng().normal(size=(1, 2, 6, 5)).astype(np.float32)
    assert_cpu_computes(model.proto(y), {"x": data})
