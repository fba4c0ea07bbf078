# SPDX-License-Identifier: Apache-2.0
"""Softmax over any axis is one over the last axis; expectations are convolutions in groups."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.detector_models import SIDES, Detector
from support.onnx_results import rewritten
from support.randomness import fresh_rng

from tilewright.host.compiler.read.edit import array_of, integers
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.rewrites import rewrite

ROWS = QuantiseOptions(row_functions=True)


@pytest.mark.parametrize(("shape", "axis"), [((2, 5, 4, 3), 1), ((2, 5, 4, 3), -2), ((2, 5, 4), 1)])
def test_softmax_over_another_axis_is_turned(shape, axis) -> None:
    model = Detector(fresh_rng())
    y = model.add("Neg", model.add("Softmax", model.input(*shape), axis=axis))
    assert rewritten(model.proto(y), ROWS, x=shape) == ["Transpose", "Softmax", "Transpose", "Neg"]
    assert rewritten(model.proto(y), x=shape) == ["Softmax", "Neg"]


def test_an_output_is_turned_where_it_is_rounded() -> None:
    model = Detector(fresh_rng())
    y = model.add("Softmax", model.input(2, 5, 4, 3), axis=1)
    for ends, kinds in ((False, ["Softmax"]), (True, ["Transpose", "Softmax", "Transpose"])):
        options = QuantiseOptions(row_functions=True, int8_ends=ends)
        assert rewritten(model.proto(y), options, x=(2, 5, 4, 3)) == kinds


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_an_expectation_is_a_convolution_in_groups(outputs, bias) -> None:
    model = Detector(fresh_rng())
    turned = model.add("Transpose", model.input(2, 4, 6, 7), perm=[0, 2, 1, 3])
    parts = [model.weights(outputs, 6, 1, 1), *([model.weights(outputs)] if bias else [])]
    y = model.add("Conv", model.add("Softmax", turned, axis=1), *parts)
    proto = model.proto(model.add("Neg", y))
    kinds = rewritten(proto, ROWS, x=(2, 4, 6, 7))
    back = ["Reshape"] if outputs == 1 else ["Reshape", "Transpose"]
    assert kinds == ["Transpose", "Softmax", "Transpose", "Reshape", "Conv", *back, "Neg"]
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current, ROWS)
    (layer,) = [node for node in current.graph if node.op_type == "Conv"]
    weights = array_of(layer.inputs[1])
    assert weights is not None
    assert weights.shape == (4 * outputs, 6, 1, 1)
    np.testing.assert_allclose(weights.max(axis=1), -weights.min(axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("perm", "attributes"),
    [([0, 1, 2, 3], {}), ([0, 2, 1, 3], {"strides": [1, 2]}), ([0, 2, 1, 3], {"pads": [1] * 4})],
)
def test_other_convolutions_of_a_softmax_stay(perm, attributes) -> None:
    model = Detector(fresh_rng())
    turned = model.add("Transpose", model.input(1, 6, 6, 7), perm=perm)
    y = model.add("Softmax", turned, axis=1)
    y = model.add("Conv", y, model.weights(2, 6, 1, 1), **attributes)
    proto = model.proto(model.add("Neg", y))
    assert "Reshape" not in rewritten(proto, ROWS, x=(1, 6, 6, 7))


def test_what_a_detector_expects_has_its_numbers() -> None:
    model = Detector(fresh_rng())
    anchors = sum(side * side for side in SIDES)
    y = model.expectation(model.input(1, 32, anchors), 8)
    proto = model.proto(model.add("Neg", y))
    kinds = rewritten(proto, ROWS, x=(1, 32, anchors))
    assert kinds.count("Softmax") == kinds.count("Conv") == 1
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current, ROWS)
    (first,) = [node for node in current.graph if node.op_type == "Transpose"][:1]
    assert integers(first, "perm", ()) == [0, 1, 3, 2]


def test_an_expectation_with_a_bias_that_is_no_constant_stays() -> None:
    model = Detector(fresh_rng())
    turned = model.add("Transpose", model.input(2, 4, 6, 7), perm=[0, 2, 1, 3])
    parts = model.weights(3, 6, 1, 1), model.input(3, name="b")
    y = model.add("Conv", model.add("Softmax", turned, axis=1), *parts)
    kinds = rewritten(model.proto(model.add("Neg", y)), ROWS, x=(2, 4, 6, 7), b=(3,))
    assert "Reshape" not in kinds
