# SPDX-License-Identifier: Apache-2.0
"""What STORE takes for the output of a layer: short rows in DRAM are short bursts."""

from __future__ import annotations

from collections import Counter

from tilewright.host.lowering.outputs import out_boxes, parts
from tilewright.host.lowering.plan import Plan
from tilewright.host.lowering.walk import walk
from tilewright.host.machine.board import MemoryModel
from tilewright.host.network.layout import blocks_of


def store_cycles(plan: Plan, memory: MemoryModel) -> float:
    """Cycles of STORE for a layer's whole output, if nothing else holds it up.

    A burst takes its beats, or its share of the time from its address to its response, because
    only so many bursts are in flight.
    """
    hw = plan.hw
    beat = hw.axi_bytes / min(hw.axi_bytes, memory.write_bytes_per_cycle)
    in_flight = min(memory.max_writes, hw.write_outstanding)

    def burst(beats: int) -> float:
        moved = beats * beat
        return max(moved, (memory.write_latency + moved) / in_flight)

    rows: Counter[int] = Counter()
    for item in walk(plan):
        if not item.last:
            continue
        for part in parts(plan, item, 0, plan.channels.tiles[item.co].count):
            for _, _, region in out_boxes(plan, item, part):
                rows[region.x_size] += region.y_size * region.z_size
    total = 0.0
    for tiles, count in rows.items():
        beats = blocks_of(tiles * hw.out_tile_bytes, hw.axi_bytes)
        whole, rest = divmod(beats, hw.axi_burst_beats)
        total += count * (whole * burst(hw.axi_burst_beats) + (burst(rest) if rest else 0.0))
    return total
