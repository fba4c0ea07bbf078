# SPDX-License-Identifier: Apache-2.0
"""Regions written operator by operator, and their programs beside their layers."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from support.programs.hazards import check_hazards

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.qgraph import QConv, QGraph, QOperator, QTensor
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.compiler.lower.region_program import RegionProgram
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.reference.device import ReferenceDevice


def region_of(
    operators: Iterable[QOperator],
    shapes: Mapping[str, tuple[int, int, int, int]],
    outputs: tuple[str, ...] = ("y",),
    *,
    scale: float = 0.05,
    **more: Any,
) -> QGraph:
    """A graph of tensors of one scale; what no operator writes is an input."""
    operators = tuple(operators)
    written = {operator.output for operator in operators}
    return QGraph(
        name="g",
        tensors={
            name: QTensor(name=name, shape=shape, scale=scale) for name, shape in shapes.items()
        },
        operators=operators,
        inputs=tuple(name for name in shapes if name not in written),
        outputs=outputs,
        **more,
    )


def layer_of(
    rng: np.random.Generator, inputs: tuple[str, ...], output: str, *shape: int, **more: Any
) -> QConv:
    """A layer of that name, with random weights; dense if no kernel is stated."""
    weights = rng.integers(-99, 99, (*shape, *(1,) * (4 - len(shape)))).astype(np.int8)
    given = {"weight_scales": np.full(shape[0], 0.01), "bias": np.zeros(shape[0])} | more
    return QConv(name=output, inputs=inputs, output=output, weights=weights, **given)


def int8_inputs(graph: QGraph | LayerGraph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Any data for a region."""
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def image_over_residue(
    program: RegionProgram, data: Mapping[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """The memory of a program whose activations held anything before its inputs."""
    memory = program.program.image()
    region = program.program.regions["activations"]
    residue = rng.integers(0, 256, region.nbytes).astype(np.uint8)
    memory[region.offset : region.offset + region.nbytes] = residue
    program.write_inputs(memory, data)
    return memory


def assert_program_has_bits(
    layers: LayerGraph, hw: HwConfig, data: Mapping[str, np.ndarray], rng: np.random.Generator
) -> None:
    """Whatever memory held, a program gives the bits of its layers; and no unit races another."""
    program = lower_region(layers, hw, lambda workload: default_schedule(hw, workload))
    memory = image_over_residue(program, data, rng)
    check_hazards(hw, program.program, memory)
    expected = evaluate(layers, data)
    found = program.read_outputs(ReferenceDevice(hw).run(program.program, memory).memory)
    assert set(found) == set(layers.outputs)
    for name, array in found.items():
        assert np.array_equal(array, expected[name]), name
