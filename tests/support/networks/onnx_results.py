# SPDX-License-Identifier: Apache-2.0
"""Rewrites an ONNX model and compares what it computes before and after."""

import numpy as np
import onnx
import onnx_ir as ir
from support.randomness import fresh_rng

from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.rewrites import rewrite


def rewritten(
    proto: onnx.ModelProto,
    options: QuantiseOptions | None = None,
    /,
    **given: np.ndarray,
) -> list[str]:
    """The kinds of operators after rewriting; results stay.

    Args:
        proto: the model.
        options: what the accelerator has.
        given: inputs that are not drawn.
    """
    current = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    rewrite(current, options)
    changed = ir.to_proto(current)
    onnx.checker.check_model(changed)
    rng = fresh_rng()
    inputs = {
        each.name: given[each.name]
        if each.name in given
        else rng.normal(size=[d.dim_value for d in each.type.tensor_type.shape.dim]).astype("f4")
        for each in proto.graph.input
    }
    names = [value.name for value in proto.graph.output]
    assert [value.name for value in changed.graph.output] == names
    before, after = (
        open_session(model, optimised=False).run(names, inputs) for model in (proto, changed)
    )
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in changed.graph.node]
