# SPDX-License-Identifier: Apache-2.0
"""End-to-end latency of a compiled network: accelerator, crossings and CPU, one after another.

The accelerator's seconds are counted cycles. The other two follow from the rates of the board file
(`host.machine.board.CpuModel`), which say themselves how sure they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from tilewright.host.common.names import counted
from tilewright.host.common.printable import printable
from tilewright.host.compiler.lower.executable import RegionExecutable
from tilewright.host.compiler.pack.artefact import CompiledNetwork, Placed
from tilewright.host.machine.board import Board, CpuModel

_FLOAT_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Seconds of one inference."""

    accelerator: float  # in programs
    crossings: float  # calls of the accelerator, packing and unpacking, quantising and dequantising
    cpu: float  # in the operators that stay on the CPU

    @property
    def total(self) -> float:
        """All three: they do not overlap."""
        return self.accelerator + self.crossings + self.cpu

    @property
    def bottleneck(self) -> str:
        """The part that takes longest: ``accelerator``, ``crossings`` or ``cpu``."""
        parts = {"accelerator": self.accelerator, "crossings": self.crossings, "cpu": self.cpu}
        return max(parts, key=lambda name: parts[name])

    @property
    def cpu_share(self) -> float:
        """Of the total, what crossings and the CPU take."""
        return (self.crossings + self.cpu) / self.total if self.total else 0.0


def latency(network: CompiledNetwork, board: Board, cycles: int) -> Latency:
    """What one inference takes on a board."""
    cpu = board.cpu
    return Latency(
        accelerator=cycles / (board.clock_mhz * 1e6),
        crossings=cpu.work_seconds(nbytes=network.conversion_bytes)
        + sum(region_seconds(region, cpu) for region in network.regions),
        cpu=sum(cpu_seconds(p, cpu) for p in network.placements if p.where != "accelerator"),
    )


def cpu_seconds(placed: Placed, cpu: CpuModel) -> float:
    """What an operator takes on the CPU, whether it runs there or not."""
    return cpu.work_seconds(macs=placed.macs, nbytes=placed.bytes)


def behind_seconds(placed: Placed, cpu: CpuModel) -> float:
    """What it costs that an operator stays behind on the CPU: its work, and crossings for it.

    Crossings of neighbours on the CPU are those of both: the costs do not add up.
    """
    crossing = placed.crossing_bytes
    converted = (1 + _FLOAT_BYTES) * crossing
    return cpu_seconds(placed, cpu) + (
        cpu.transfer_seconds(crossing) + cpu.work_seconds(nbytes=converted)
    )


def region_seconds(region: RegionExecutable, cpu: CpuModel) -> float:
    """What a region costs the CPU: its calls, and to pack and unpack its tensors.

    An output that is a view is read where it lies, with what lies between its elements, and nothing
    is written.
    """
    copied = [name for name in region.outputs if name not in region.views]
    moved = sum(prod(region.tensors[name].shape) for name in (*region.inputs, *copied))
    calls = len(region.steps) * cpu.call_seconds
    return calls + cpu.transfer_seconds(moved) + cpu.work_seconds(nbytes=region.viewed_bytes)


def layers_left_behind(network: CompiledNetwork) -> str:
    """One line on the operators with multiplications that stay on the CPU; empty: there is none."""
    working = [placed for placed in network.placements if placed.macs]
    left = [placed for placed in working if placed.where != "accelerator"]
    if not left:
        return ""
    most = max(left, key=lambda placed: placed.macs)
    return (
        f"{len(left)} of {counted(len(working), 'operator')} with multiplications run on the CPU, "
        f"with {100 * (1 - mac_share(network)):.3g} % of all multiplications; the largest, "
        f"{printable(most.kind)} {printable(most.name, limit=40)}: {printable(most.reason)}"
    )


def mac_share(network: CompiledNetwork) -> float:
    """The share of the multiplications that the accelerator computes; 1 if there are none."""
    total = sum(placed.macs for placed in network.placements)
    taken = sum(placed.macs for placed in network.placements if placed.where == "accelerator")
    return taken / total if total else 1.0
