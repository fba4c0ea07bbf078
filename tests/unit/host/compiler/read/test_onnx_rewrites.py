# SPDX-License-Identifier: Apache-2.0
"""Rewrites keep results and bring the operators that the accelerator takes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.read.onnx_rewrites import rewrite


def rewritten(proto: onnx.ModelProto, **shapes: tuple[int, ...]) -> list[str]:
    """The kinds of operators after rewriting; results stay."""
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current)
    changed = ir.to_proto(current)
    onnx.checker.check_model(changed)
    rng = fresh_rng()
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    names = [value.name for value in proto.graph.output]
    assert [value.name for value in changed.graph.output] == names
    before, after = (
        onnxruntime.InferenceSession(model.SerializeToString()).run(names, inputs)
        for model in (proto, changed)
    )
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in changed.graph.node]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("kind", ["Conv", "MaxPool"])
def test_automatic_padding_is_written_out(mode, kind) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, 7, 8)
    more = {"strides": [2, 3], "auto_pad": mode}
    if kind == "Conv":
        dilations = [2, 1] if mode == "VALID" else [1, 1]  # all that ONNX Runtime takes
        y = model.add("Conv", x, model.weights(3, 2, 3, 4), dilations=dilations, **more)
    else:
        y = model.add("MaxPool", x, kernel_shape=[3, 2], **more)
    proto = model.proto(y)
    rewritten(proto, x=(1, 2, 7, 8))
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current)
    (node,) = current.graph
    assert "auto_pad" not in node.attributes
    assert len(node.attributes["pads"].as_ints()) == 4


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_over_an_image_is_a_global_pool(keepdims) -> None:
    model = Model(fresh_rng())
    y = model.add("ReduceMean", model.input(2, 3, 4, 5), axes=[2, -1], keepdims=keepdims)
    kinds = rewritten(model.proto(y), x=(2, 3, 4, 5))
    assert kinds == (["GlobalAveragePool"] if keepdims else ["GlobalAveragePool", "Flatten"])


def test_a_mean_over_other_axes_stays() -> None:
    model = Model(fresh_rng())
    y = model.add("ReduceMean", model.input(2, 3, 4, 5), axes=[1, 2])
    assert rewritten(model.proto(y), x=(2, 3, 4, 5)) == ["ReduceMean"]


def test_numbers_move_from_factors_to_their_product() -> None:
    model = Model(fresh_rng())
    a, b = model.input(2, 3, 4, name="a"), model.input(2, 4, 5, name="b")
    scaled = model.add("Mul", model.constant(np.float32(0.5)), a)
    divided = model.add("Div", b, model.constant(np.array([4], np.float32)))
    product = model.add("MatMul", scaled, divided)
    kinds = rewritten(model.proto(product, model.add("Relu", product)), a=(2, 3, 4), b=(2, 4, 5))
    assert sorted(kinds) == ["MatMul", "Mul", "Relu"]


def test_a_factor_that_is_read_elsewhere_stays() -> None:
    model = Model(fresh_rng())
    a, b = model.input(2, 3, 4, name="a"), model.input(2, 4, 5, name="b")
    scaled = model.add("Mul", a, model.constant(np.float32(0.5)))
    proto = model.proto(model.add("MatMul", scaled, b), scaled)
    assert rewritten(proto, a=(2, 3, 4), b=(2, 4, 5)) == ["Mul", "MatMul"]


def test_a_number_before_weights_stays() -> None:
    model = Model(fresh_rng())
    scaled = model.add("Mul", model.input(2, 3), model.constant(np.float32(0.5)))
    proto = model.proto(model.add("MatMul", scaled, model.weights(3, 4)))
    assert rewritten(proto, x=(2, 3)) == ["Mul", "MatMul"]
