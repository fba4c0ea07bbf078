# SPDX-License-Identifier: Apache-2.0
"""Operators that stay whole in Relax, and what cannot be imported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.qdq_runs import run_all
from support.qgraph_floats import FloatRegions
from support.randomness import fresh_rng
from support.small_models import Model, imported

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_import import operator_index, to_relax
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram


def run_saved(model: Model, output: str, *shape: int) -> None:
    """Compare the CPU part, saved and loaded, with ONNX Runtime."""
    network = imported(model.proto(output))
    parts = partition(network, lambda _: ())
    host = HostModule.from_json(parts.host.to_json())
    inputs = {"x": fresh_rng().normal(size=shape).astype(np.float32)}
    found = HostProgram(module=host).run(inputs, FloatRegions(()))[output]
    np.testing.assert_allclose(found, run_all(network.qdq, inputs)[output], atol=1e-5)


def test_padding_clipping_and_tiling_can_be_saved() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4), model.weights(2, 2, 1, 1))
    y = model.add("Clip", model.add("Sigmoid", y), "", model.constant(np.float32(0.6)))
    y = model.add("Clip", y, model.constant(np.float32(0.3)), model.constant(np.float32(0.5)))
    pads = model.constant(np.array([0, 1, 2, 0, 1, 0, 0, 3]))
    y = model.add("Pad", y, pads, model.constant(np.float32(2.5)))
    run_saved(model, model.add("Tile", y, model.constant(np.array([2, 1, 1, 3]))), 1, 2, 3, 4)


@pytest.mark.parametrize("sizes", [[3, 3], [1, 3, 2]])
def test_splits_can_be_saved(sizes) -> None:
    model = Model(fresh_rng(), opset=13)
    y = model.add("Sigmoid", model.add("Conv", model.input(1, 2, 3, 4), model.weights(6, 2, 1, 1)))
    parts = [f"part{index}" for index in range(len(sizes))]
    inputs = [y, model.constant(np.array(sizes))]
    model.nodes.append(onnx.helper.make_node("Split", inputs, parts, "split", axis=1))
    run_saved(model, model.add("Concat", *reversed(parts), axis=1), 1, 2, 3, 4)


def test_what_tvm_expands_to_loops_runs_but_is_not_saved() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 2, 3, 4), model.weights(2, 2, 1, 1))
    y = model.add("Einsum", model.add("Sigmoid", y), equation="bchw->bwhc")
    parts = partition(imported(model.proto(y)))
    program = HostProgram(module=parts.host)
    data = np.ones((1, 2, 3, 4), np.float32)
    assert program.run({"x": data}, FloatRegions(parts.regions))[y].shape == (1, 4, 3, 2)
    with pytest.raises(WorkloadError, match="a CPU part that is saved must consist of operators"):
        parts.host.to_json()


def test_variables_remember_their_operators() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("Sigmoid", model.input(2, 3)))
    proto = onnx.shape_inference.infer_shapes(model.proto(y))
    relax = to_relax(proto)
    names = [
        relax.operators[index].name
        for block in relax.module["main"].body.blocks
        for binding in block.bindings
        if (index := operator_index(binding.var.name)) is not None
    ]
    assert names == ["sigmoid0", "relu1"]
    assert (relax.inputs, relax.outputs) == (("x",), (y,))


def test_the_operator_at_which_tvm_gives_up_is_named() -> None:
    model = Model(fresh_rng())
    a, b = model.input(2, 3, name="a"), model.input(2, 3, name="b")
    y = model.add("MatMul", model.add("Relu", a), b)
    with pytest.raises(WorkloadError, match=r"MatMul matmul1: must be something that TVM can imp"):
        to_relax(model.proto(y))
