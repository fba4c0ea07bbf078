# SPDX-License-Identifier: Apache-2.0
"""Channels and pixels exchange places, exactly, on any blocks, whatever memory held."""

import numpy as np
import pytest
from support.qgraph_floats import evaluate as evaluate_floats
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGraph, QTensor, QTurn
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

PLAIN = load_hwconfig("tiny-4x4")
ARRAYS = {
    "4x4": PLAIN,
    "8x4": PLAIN.with_(name="8x4", block_in=8),
    "4x8": PLAIN.with_(name="4x8", block_out=8),
    "4x16": PLAIN.with_(name="4x16", block_out=16),
}


def turn(channels: int, rows: int, columns: int = 1, zero_point: int = 0) -> QGraph:
    shapes = {"x": (1, channels, rows, columns), "y": (1, rows * columns, channels, 1)}
    tensors = {
        name: QTensor(name=name, shape=shape, scale=0.03, zero_point=zero_point)
        for name, shape in shapes.items()
    }
    return QGraph(name="g", tensors=tensors, operators=(QTurn(name="turn", inputs=("x",),
                  output="y"),), inputs=("x",), outputs=("y",))  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize(
    ("channels", "rows", "columns", "zero_point"),
    [(8, 8, 1, 0), (40, 16, 1, 0), (37, 9, 1, 5), (3, 4, 5, -128), (16, 2, 3, 127), (70, 2, 1, 0)],
)
def test_a_turn_is_exact(
    array: str, channels: int, rows: int, columns: int, zero_point: int
) -> None:
    hw, graph, rng = ARRAYS[array], turn(channels, rows, columns, zero_point), fresh_rng()
    layers = layer_graph(graph, hw)
    data = {"x": rng.integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)}
    expected = evaluate(layers, data)["y"]
    moved = data["x"].reshape(channels, -1).T
    assert np.array_equal(expected[0, :, :, 0], moved)
    assert np.array_equal(evaluate_floats(graph, [data["x"]])[0], expected)
    program = lower_region(layers, hw, lambda workload: default_schedule(hw, workload))
    memory = program.program.image()
    region = program.program.regions["activations"]
    residue = rng.integers(0, 256, region.nbytes).astype(np.uint8)
    memory[region.offset : region.offset + region.nbytes] = residue
    program.write_inputs(memory, data)
    found = ReferenceDevice(hw).run(program.program, memory)
    assert np.array_equal(program.read_outputs(found.memory)["y"], expected)


def test_many_channels_are_multiplied_by_small_identities() -> None:
    workloads = [layer.workload for layer in layer_graph(turn(64, 32), PLAIN).layers]
    assert len(workloads) == 4
    assert {(each.height, each.channels_in, each.channels_out) for each in workloads} == {
        (16, 16, 32)
    }


def test_an_array_with_a_batch_refuses() -> None:
    with pytest.raises(WorkloadError, match="batch is 1"):
        layer_graph(turn(8, 8), PLAIN.with_(name="b2", batch=2))
