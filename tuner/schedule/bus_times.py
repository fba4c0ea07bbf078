# SPDX-License-Identifier: Apache-2.0
"""Bus cycles of an operand's rows, and their sums over the tiles of an image axis by tile size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.lowering.geometry import Spans
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig

Floats = npt.NDArray[np.float64]

_BURST: Final = 6
"""Cycles that a burst holds its place in flight beyond latency and beats."""


@dataclass(frozen=True)
class Axis:
    """By tile size of an image axis (index 0 is unused): what its tiles sum up to."""

    tiles: Floats
    stored: Floats
    """Input positions read, summed over the tiles."""
    first: Floats
    """Input positions that the first tile reads."""
    read_time: Floats
    """Bus cycles of one row of each tile, summed (columns only)."""
    first_time: Floats
    write_time: Floats
    last: Floats
    """Output positions of the last tile."""


class BusTimes:
    """How long rows of tiles take on one bus and memory, with the cycles of a beat each way."""

    def __init__(self, hw: HwConfig, memory: MemoryModel) -> None:
        self._hw: Final = hw
        self._memory: Final = memory
        self.read_beat, self.write_beat, _ = memory.beat_cycles(hw.axi_bytes)
        self._reads: Final = min(hw.read_outstanding, memory.max_reads)
        self._writes: Final = min(hw.write_outstanding, memory.max_writes)

    def axis(
        self, extent: int, cut: Callable[[int], Spans], *, inp_bytes: int, out_bytes: int
    ) -> Axis:
        """Sums over the tiles of an image axis, by tile size."""
        table = np.zeros((7, extent + 1))
        for size in range(1, extent + 1):
            spans = cut(size)
            reads = [self.read_row(tile.size * inp_bytes) for tile in spans.tiles]
            table[:, size] = (
                len(spans.tiles),
                sum(tile.size for tile in spans.tiles),
                spans.tiles[0].size,
                sum(reads),
                reads[0],
                sum(self.write_row(tile.count * out_bytes) for tile in spans.tiles),
                spans.tiles[-1].count,
            )
        return Axis(*table)

    def read_row(self, nbytes: int) -> float:
        """Bus cycles of a row: its beats, or its bursts' share of the reads in flight."""
        beats = -(-nbytes // self._hw.axi_bytes)
        bursts = -(-beats // self._hw.axi_burst_beats)
        in_flight = (self._memory.read_latency + _BURST) * bursts + beats * self.read_beat
        return max(beats * self.read_beat, in_flight / self._reads)

    def write_row(self, nbytes: int) -> float:
        """Bus cycles of a written row; a response may be awaited for each burst in flight."""
        beats = -(-nbytes // self._hw.axi_bytes)
        bursts = -(-beats // self._hw.axi_burst_beats)
        in_flight = (self._memory.write_latency + _BURST) * bursts + beats * self.write_beat
        return max(beats * self.write_beat, in_flight / self._writes)
