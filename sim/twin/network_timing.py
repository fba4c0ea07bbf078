# SPDX-License-Identifier: Apache-2.0
"""Cycles of each layer of a network program, on the cycle-exact twin."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

from tilewright.host.compiler.lower.region_program import RegionProgram
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import MemoryModel
from tilewright.host.network.workload import Workload
from tilewright.host.runtime.device import Counters
from tilewright.sim.twin.device import Twin

MAX_CYCLES: Final = 1 << 30
"""Of one program: eleven seconds at 100 MHz, 14 times what VGG-16 takes. A program from a
hostile file would otherwise hold this process for an hour."""


@dataclass(frozen=True, kw_only=True)
class LayerTiming:
    """A layer in its place."""

    name: str  # label of the layer
    workload: Workload  # what it computes
    # from the layer before it to its last retirement; their sum is the program's, less its end
    cycles: int
    bound: int  # no schedule of the workload takes fewer cycles (`host.lowering.cycle_bound`)
    limiter: str  # what the bound comes from
    bytes_read: int  # by LOAD
    bytes_written: int  # by STORE

    @property
    def utilisation(self) -> float:
        """Bound over cycles."""
        return self.bound / self.cycles if self.cycles else 0.0


@dataclass(frozen=True, kw_only=True)
class NetworkTiming:
    """A network's programs, one after another."""

    layers: tuple[LayerTiming, ...]  # of all programs
    cycles: int  # of all programs

    @property
    def bound(self) -> int:
        """The sum of the layers' bounds in cycles."""
        return sum(layer.bound for layer in self.layers)

    @property
    def utilisation(self) -> float:
        """Bound over cycles."""
        return self.bound / self.cycles if self.cycles else 0.0


def time_network(network: CompiledNetwork, memory: MemoryModel) -> NetworkTiming:
    """Cycles of a compiled network on the twin."""
    timed = [time_layers(program, memory) for program in network.programs]
    return NetworkTiming(
        layers=tuple(layer for _, layers in timed for layer in layers),
        cycles=sum(counters.cycles for counters, _ in timed),
    )


def time_layers(code: RegionProgram, memory: MemoryModel) -> tuple[Counters, list[LayerTiming]]:
    """Counters of a network program, and when each of its layers was done."""
    with closing(Twin(code.hw, memory)) as twin:
        counters, events = twin.timeline(code.program, max_cycles=MAX_CYCLES)
    timings, done = [], 0
    for layer in code.layers:
        retired = events[layer.first : layer.first + layer.count, 1]
        end = max(done, int(retired.max()))
        floor = bound(code.hw, layer.workload, memory, read_bytes=layer.bytes_read)
        timings.append(
            LayerTiming(
                name=layer.name,
                workload=layer.workload,
                cycles=end - done,
                bound=floor.cycles,
                limiter=floor.limiter,
                bytes_read=layer.bytes_read,
                bytes_written=layer.bytes_written,
            )
        )
        done = end
    return counters, timings
