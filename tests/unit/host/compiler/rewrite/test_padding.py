# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose padding follows from other attributes state it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.onnx_results import rewritten
from support.randomness import fresh_rng
from support.small_models import Model, accelerated

from tilewright.host.compiler.rewrite.rewrites import rewrite

SIDES = (5, 4)


def attributes_of(proto: onnx.ModelProto) -> ir.Node:
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current)
    (node,) = (node for node in current.graph if node.op_type == "ConvTranspose")
    return node


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_shape": [10, 8]},
        {"output_shape": [9, 7], "auto_pad": "SAME_UPPER"},
        {"output_shape": [9, 7], "auto_pad": "SAME_LOWER"},
        {"output_shape": [12, 9]},  # more rows than without padding, and columns with it
        {"output_shape": [10, 9], "output_padding": [1, 1]},
        {"output_shape": [10, 8], "pads": [3, 3, 3, 3]},  # which ONNX Runtime does not read
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "output_padding": [1, 0]},
        {"auto_pad": "SAME_LOWER", "dilations": [2, 1]},
    ],
)
def test_padding_of_transposed_convolutions_is_stated(attributes) -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, *SIDES)
    weights = model.weights(2, 3, 3, 4)
    proto = model.proto(model.add("ConvTranspose", x, weights, strides=[2, 2], **attributes))
    assert rewritten(proto, x=(1, 2, *SIDES)) == ["ConvTranspose"]
    node = attributes_of(proto)
    assert not {"auto_pad", "output_shape"} & set(node.attributes)
    assert "pads" in node.attributes


def test_a_sequence_is_enlarged_to_a_stated_length() -> None:
    model = Model(fresh_rng())
    x = model.input(1, 2, 6)
    y = model.add("ConvTranspose", x, model.weights(2, 3, 4), strides=[2], output_shape=[12])
    proto = model.proto(y)
    assert "ConvTranspose" in rewritten(proto, x=(1, 2, 6))
    assert list(attributes_of(proto).attributes["pads"].as_ints()) == [0, 1, 0, 1]


def test_an_image_of_a_stated_size_is_enlarged_on_the_accelerator() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("Conv", model.input(1, 3, *SIDES), model.weights(4, 3, 1, 1)))
    y = model.add(
        "ConvTranspose", y, model.weights(4, 6, 3, 3), strides=[2, 2], output_shape=[10, 8]
    )
    parts = accelerated(model.proto(y))
    assert len(parts.regions) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}
    assert np.prod(parts.host.outputs[0].shape) == 6 * 80
