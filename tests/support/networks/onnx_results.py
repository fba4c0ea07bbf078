# SPDX-License-Identifier: Apache-2.0
"""What ONNX models compute, before and after they are rewritten."""

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
from support.randomness import fresh_rng

from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.rewrite.rewrites import rewrite


def results(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes without its optimisations."""
    return open_session(model, optimised=False).run(None, dict(inputs))


def assert_same_results(
    model: onnx.ModelProto,
    changed: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """A changed model has the results of the model, but for tolerances."""
    for found, expected in zip(results(changed, inputs), results(model, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def drawn_inputs(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Noise for every input of a model of floats."""
    return {
        each.name: rng.normal(size=[d.dim_value for d in each.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for each in model.graph.input
    }


def read_in(model: onnx.ModelProto) -> ir.Model:
    """A model with its shapes, as passes of the compiler get it."""
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def after_rewrites(model: onnx.ModelProto, options: QuantiseOptions | None = None) -> ir.Model:
    """A model after all rewrites for what an accelerator has."""
    current = read_in(model)
    rewrite(current, options)
    return current


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
    changed = ir.to_proto(after_rewrites(proto, options))
    onnx.checker.check_model(changed)
    names = [value.name for value in proto.graph.output]
    assert [value.name for value in changed.graph.output] == names
    inputs = drawn_inputs(proto, fresh_rng()) | given
    assert_same_results(proto, changed, inputs, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in changed.graph.node]
