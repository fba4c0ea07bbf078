# SPDX-License-Identifier: Apache-2.0
"""Pools that round their sizes up become pools of stated padding, with ONNX Runtime's result."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.model_file import normalised


def results(model: onnx.ModelProto, data: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # it warns of the shape that ONNX infers
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": data})[0]


def pools(kind: str, height: int, width: int, **attributes: object) -> onnx.ModelProto:
    """Two pools, so that the second takes what the first gives."""
    model = Model(fresh_rng(), opset=19)
    y = model.add(kind, model.input(1, 2, height, width), ceil_mode=1, **attributes)
    return model.proto(model.add(kind, y, ceil_mode=1, kernel_shape=[2, 1], strides=[2, 1]))


def assert_same(model: onnx.ModelProto, height: int, width: int) -> None:
    before = model.SerializeToString()
    read = normalised(model, Path("pools.onnx"), {})
    stated = [d.dim_value for d in read.graph.output[0].type.tensor_type.shape.dim]
    data = fresh_rng().normal(size=(1, 2, height, width)).astype(np.float32)
    expected = results(onnx.load_from_string(before), data)
    assert stated == list(expected.shape)
    np.testing.assert_allclose(results(read, data), expected, atol=1e-6)
    assert not any(a.name == "ceil_mode" and a.i for n in read.graph.node for a in n.attribute)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_window_that_would_begin_behind_the_image_is_none(kind: str) -> None:
    assert_same(pools(kind, 6, 4, kernel_shape=[1, 1], strides=[3, 1]), 6, 4)
    more = {"kernel_shape": [3, 1], "strides": [3, 1], "pads": [1, 0, 2, 0]}
    assert_same(pools(kind, 5, 4, **more), 5, 4)
    assert_same(pools(kind, 9, 7, kernel_shape=[4, 2], strides=[2, 2], auto_pad="VALID"), 9, 7)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "padding counts"])
def test_any_pool_is_what_onnx_runtime_computes(kind: str) -> None:
    rng = fresh_rng()
    counts = {"count_include_pad": 1} if kind == "padding counts" else {}
    for _ in range(20):
        height, width = (int(size) for size in rng.integers(4, 12, 2))
        kernel = rng.integers(1, 5, 2).tolist()
        pads = [int(rng.integers(0, kernel[axis % 2])) for axis in range(4)]
        more = {"kernel_shape": kernel, "strides": rng.integers(1, 4, 2).tolist(), "pads": pads}
        name = "MaxPool" if kind == "MaxPool" else "AveragePool"
        assert_same(pools(name, height, width, **more, **counts), height, width)


def test_dilated_windows_beyond_the_padding_are_refused() -> None:
    more = {"kernel_shape": [1, 3], "strides": [1, 3], "dilations": [1, 2], "pads": [0, 0, 0, 2]}
    with pytest.raises(WorkloadError, match="pooling with dilations must not reach beyond"):
        normalised(pools("MaxPool", 4, 4, **more), Path("pools.onnx"), {})
