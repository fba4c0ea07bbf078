# SPDX-License-Identifier: Apache-2.0
"""The untuned schedule of a product of two tensors: a closed form decides between a few tiles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from tilewright.host.lowering.fewest_cycles import fewest_cycles
from tilewright.host.lowering.geometry import halved, halved_blocks
from tilewright.host.lowering.products import ProductPlan, make_product_plan
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

_REQUANT_START: Final = 20
"""Cycles, about, that a requantise pass of a block takes besides its tiles: it reads parameters."""

_TURN: Final = 80
"""Cycles, about, from a tile's end to the next one's data where they share a slot."""


def default_product_schedule(hw: HwConfig, workload: Workload) -> Schedule:
    """The legal schedule that should take the fewest cycles, of tiles that halve evenly."""
    return fewest_cycles(hw, workload, _candidates(hw, workload), make_product_plan, _cycles)


def _candidates(hw: HwConfig, workload: Workload) -> Iterator[Schedule]:
    """The one that needs least of every buffer comes last."""
    for tile_h, tile_co, threads in product(
        halved(workload.height), halved_blocks(hw, workload.channels_out), (2, 1)
    ):
        yield Schedule(
            tile_h=tile_h,
            tile_w=workload.width,
            tile_ci=1,
            tile_co=tile_co,
            h_threading=threads,
        )


def _cycles(plan: ProductPlan) -> float:
    """Cycles, about: of the vector unit or the bus, or of both where tiles share a slot."""
    hw, workload = plan.hw, plan.workload
    blocks, rows = blocks_of(workload.channels_out, hw.block_out), workload.height
    data, factor = plan.data_tiles(blocks, rows), plan.factor_tiles(blocks, rows)
    tiles = plan.batches * len(plan.channel_tiles) * len(plan.row_tiles)
    starts = plan.batches * len(plan.row_tiles) * blocks
    parts = hw.out_tile_bytes // hw.vector_lanes
    vector = plan.batches * 2 * (data + factor) * parts + starts * _REQUANT_START
    loaded = plan.batches * (data + factor) * hw.out_tile_bytes + 6 * tiles * INSTRUCTION_BYTES
    bus = loaded / hw.axi_bytes
    outside = (bus + plan.batches * data * hw.out_tile_bytes / hw.axi_bytes) / tiles
    if plan.slots == 1:
        return bus + vector + tiles * _TURN
    return max(bus, vector) + outside
