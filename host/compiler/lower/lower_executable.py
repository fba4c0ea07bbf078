# SPDX-License-Identifier: Apache-2.0
"""Lowers a region into the programs of a `RegionExecutable`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.executable import ProgramStep, RegionExecutable, Wire
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.compiler.lower.output_order import Leaving
from tilewright.host.compiler.lower.qgraph import QGraph, QTensor
from tilewright.host.compiler.lower.region import ScheduleOf, lower_region
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import chains

DATA: Final = "data"
"""What a step that is one layer calls its input."""


def make_executable(
    region: QGraph,
    graph: LayerGraph,
    hw: HwConfig,
    schedule_of: ScheduleOf,
    board: Board | None = None,
) -> RegionExecutable:
    """Lower a region for a configuration.

    Args:
        region: as the front end made it; names inputs, outputs and their shapes in the model.
        graph: its layers.
        hw: the configuration.
        schedule_of: a legal schedule for each workload.
        board: its memory and CPU decide which results are stored as they leave; None: none is.
    """
    if chains(hw):
        leaving = Leaving(shapes=region.model_shapes, any_strides=region.any_strides, board=board)
        program = lower_region(graph, hw, schedule_of, leaving)
        views = leaving.views(program)
        kept = {*graph.inputs, *graph.outputs}
        steps = [
            ProgramStep(
                program=program,
                reads=_whole(b.tensor for b in program.inputs),
                writes=_whole(graph.outputs),
            )
        ]
        elsewhere: dict[str, str] = {}  # the program gives every output under its own name
    else:
        steps = [
            _single(graph, layer, hw, schedule_of, number)
            for number, layer in enumerate(graph.layers)
        ]
        kept = {w.tensor for step in steps for w in (*step.reads, *step.writes)}
        kept |= {*graph.inputs, *graph.outputs}
        elsewhere = {n: graph.storage(n) for n in graph.outputs if n in graph.aliases}
        views = frozenset()
    return RegionExecutable(
        name=region.name,
        steps=tuple(steps),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in kept},
        inputs=graph.inputs,
        outputs=graph.outputs,
        model_shapes=dict(region.model_shapes),
        aliases=elsewhere,
        views=views,
    )


def _whole(names: Iterable[str]) -> tuple[Wire, ...]:
    return tuple(Wire(inner=name, tensor=name, channel=0) for name in dict.fromkeys(names))


def _single(
    graph: LayerGraph, layer: Layer, hw: HwConfig, schedule_of: ScheduleOf, number: int
) -> ProgramStep:
    """A layer as a program of its own, on copies of the parts that it reads and writes."""
    workload = layer.workload
    tensors: dict[str, QTensor] = {}
    reads: list[Wire] = []
    constants: dict[str, npt.NDArray[np.int8]] = {}

    def own(part: ChannelSlice, channels: int, label: str) -> ChannelSlice:
        source = graph.tensors[part.tensor]
        shape = (source.shape[0], channels, *source.shape[2:])
        if label == "out" and layer.spread is not None:
            shape = workload.output_shape
        tensors[label] = replace(source, name=label, shape=shape)
        storage = graph.storage(part.tensor)
        if storage in graph.constants:
            whole = graph.constants[storage].reshape(source.shape)
            constants[label] = whole[:, part.channel : part.channel + channels]
        elif label != "out":
            reads.append(Wire(inner=label, tensor=storage, channel=part.channel))
        return ChannelSlice(tensor=label)

    data, weights, residual = layer.data, layer.weights, layer.residual
    if isinstance(data, ChannelSlice):
        data = own(data, workload.channels_in, DATA)
    if isinstance(weights, ChannelSlice):
        weights = own(weights, workload.channels_in, "weights")
    if residual is not None:
        residual = own(residual, workload.channels_out, "residual")
    factor = None if layer.factor is None else own(layer.factor, workload.channels_out, "factor")
    mask = None if layer.mask is None else own(layer.mask, workload.channels_in, "mask")
    output = own(layer.output, workload.channels_out, "out")
    alone = LayerGraph(
        name=f"{graph.name}/{number}",
        tensors=tensors,
        layers=(
            replace(
                layer,
                data=data,
                weights=weights,
                residual=residual,
                factor=factor,
                mask=mask,
                output=output,
                spread=None,
            ),
        ),
        inputs=tuple(wire.inner for wire in reads),
        outputs=("out",),
        constants=constants,
    )
    written = Wire(
        inner="out",
        tensor=graph.storage(layer.output.tensor),
        channel=layer.output.channel,
        spread=layer.spread,
    )
    return ProgramStep(
        program=lower_region(alone, hw, schedule_of), reads=tuple(reads), writes=(written,)
    )
