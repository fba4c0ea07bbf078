# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt and Swin, small: one region from the first operator to the last, and its bits."""

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import pytest
from support.qdq_runs import quantised_names, region_errors, run_all
from support.vision_models import convnext, swin

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


@pytest.mark.parametrize(
    ("make", "block_in", "moves"),
    [
        pytest.param(convnext, 4, 0, id="convnext"),
        # to windows in two blocks, and back; keys and values of two heads apart in each
        pytest.param(swin, 4, 3 + 8, id="swin"),
        # windows of 9 tokens of 8 bytes begin at beats of the bus
        pytest.param(partial(swin, width=16), 8, 3, id="swin on a rectangle"),
    ],
)
def test_a_network_is_one_region_with_its_bits(
    make: Callable[[np.random.Generator], onnx.ModelProto], block_in: int, moves: int
) -> None:
    hw = ROWED.with_(block_in=block_in)
    model = make(np.random.default_rng(7))
    options = {"calibration": Calibration(random_samples=4), "offload_all": True}
    compilation = compile_model(model, hw, load_board("pynq-z2"), **options)
    placements = compilation.network.placements
    assert [(p.name, p.reason) for p in placements if p.where != "accelerator"] == []
    (graph,) = compilation.layers
    gathers = [layer for layer in graph.layers if layer.workload.kind is Kind.GATHER]
    assert len(gathers) == moves
    (source,), (result,) = graph.inputs, graph.outputs
    data = np.random.default_rng(0).normal(size=graph.tensors[source].shape).astype(np.float32)
    qdq = compilation.imported.qdq
    tensors, names = run_all(qdq, {"x": data}), quantised_names(qdq)
    (region,) = partition(compilation.imported, rows=True).regions
    (errors,) = region_errors(region, tensors, names).values()
    assert np.abs(errors).max() <= 2  # by real numbers, operator by operator
    expected = evaluate(graph, {source: tensors[names["x"]]})[result]
    run = run_network(compilation.network, ReferenceDevice(hw), {"x": data}, trusted=True)
    (found,) = run.outputs.values()
    output = graph.tensors[result]
    steps = np.rint(found / output.scale) + output.zero_point
    assert np.array_equal(steps.reshape(-1), expected.reshape(-1))
    real = run_all(model, {"x": data})[model.graph.output[0].name]
    assert np.abs(found - real).max() < 0.12 * np.abs(real).max()
