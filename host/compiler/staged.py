# SPDX-License-Identifier: Apache-2.0
"""A network cut into stages, each compiled for the core that it runs on.

Stages hand tensors on through DRAM: a core writes into the memory of its descriptor, and the CPU
copies each tensor into the memory of the stage that reads it, in the blocks of that stage's core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.cut import cut
from tilewright.host.compiler.lower.executable import RegionExecutable
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.lower.qgraph import QGraph
from tilewright.host.compiler.lower.region import ScheduleOf
from tilewright.host.compiler.pipeline import PartitionedNetwork
from tilewright.host.compiler.run.network_runner import Array, CpuPart
from tilewright.host.compiler.run.recorded import Frame, Recorder
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.device import Device

Int8Array = npt.NDArray[np.int8]


def single_region(parts: PartitionedNetwork, *, keep_rounding: bool = False) -> QGraph:
    """The one region of a network, fused."""
    if len(parts.regions) != 1:
        between = sorted({p.kind for p in parts.placements if p.place == "cpu"})
        raise WorkloadError(
            "must run on the accelerator from its first to its last layer to be cut into stages",
            field="network",
            value=f"{len(parts.regions)} regions; on the CPU: {', '.join(between) or 'nothing'}",
            remedy="run it whole, beside other networks",
        )
    return fuse(parts.regions[0], keep_rounding=keep_rounding)


def compile_part(part: QGraph, hw: HwConfig, schedule_of: ScheduleOf) -> RegionExecutable:
    """A part of a region (`host.compiler.lower.cut.cut`), or all of it, for a configuration."""
    return make_executable(part, layer_graph(part, hw), hw, schedule_of)


def compile_stages(
    graph: QGraph,
    places: Sequence[int],
    hws: Sequence[HwConfig],
    schedule_of: Callable[[HwConfig], ScheduleOf],
) -> list[RegionExecutable]:
    """The stages of a fused region."""
    return [
        compile_part(part, hw, schedule_of(hw))
        for part, hw in zip(cut(graph, places), hws, strict=True)
    ]


def moved_bytes(stages: Sequence[RegionExecutable]) -> int:
    """Bytes that the CPU reads and writes per frame to hand tensors on between stages.

    A tensor is read as its writer packed it and written as its reader wants it: each with the
    channels that fill its blocks.
    """
    packed: dict[str, int] = {}
    total = 0
    for stage in stages:
        for step in stage.steps:
            size = {buffer.tensor: buffer.nbytes for buffer in step.program.inputs}
            for wire in step.reads:
                if wire.tensor in packed and wire.tensor in stage.inputs:
                    total += packed[wire.tensor] + size[wire.inner]
        for step in stage.steps:
            size = {buffer.tensor: buffer.nbytes for buffer in step.program.outputs}
            for wire in step.writes:
                packed[wire.tensor] = packed.get(wire.tensor, 0) + size[wire.inner]
    return total


@dataclass(frozen=True, kw_only=True, eq=False)
class StagedFrame:
    """One inference, stage by stage, as references ran it."""

    stages: tuple[Frame, ...]
    outputs: Mapping[str, Array]


def record_stages(
    part: CpuPart,
    region: QGraph,
    stages: Sequence[RegionExecutable],
    references: Sequence[Device],
    inputs: Iterable[Mapping[str, Array]],
) -> list[StagedFrame]:
    """Run a network stage by stage on references."""
    recorders = [Recorder(device) for device in references]

    def run(number: int, arguments: Sequence[Int8Array]) -> Sequence[Int8Array]:
        del number
        values = dict(zip(region.inputs, arguments, strict=True))
        for stage, recorder in zip(stages, recorders, strict=True):
            found, _ = stage.run(recorder, [values[name] for name in stage.inputs])
            values.update(zip(stage.outputs, found, strict=True))
        return [values[name] for name in region.outputs]

    frames = []
    for one in inputs:
        for recorder in recorders:
            recorder.runs = []
        outputs = part.run(one, run)
        frames.append(
            StagedFrame(
                stages=tuple(
                    Frame(runs=tuple(recorder.runs), outputs={}, cpu_seconds=None)
                    for recorder in recorders
                ),
                outputs=outputs,
            )
        )
    return frames
