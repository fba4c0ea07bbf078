# SPDX-License-Identifier: Apache-2.0
"""The untuned schedule of a max pool: there are few choices, so a closed form decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from tilewright.host.lowering.fewest_cycles import fewest_cycles
from tilewright.host.lowering.geometry import halved, halved_blocks
from tilewright.host.lowering.pooling import PoolPlan, make_pool_plan
from tilewright.host.lowering.pooling_gather import gather
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Workload

_REQUANT_START: Final = 20
"""Cycles, about, that a requantise pass takes besides its tiles: it reads the parameters."""

_TURN: Final = 40
"""Cycles, about, from the end of a piece's use to the arrival of the next one in its slot."""


def default_pool_schedule(hw: HwConfig, workload: Workload) -> Schedule:
    """The legal schedule that should take the fewest cycles, of tiles that halve evenly."""
    return fewest_cycles(hw, workload, _candidates(hw, workload), make_pool_plan, _cycles)


def _candidates(hw: HwConfig, workload: Workload) -> Iterator[Schedule]:
    """The one that needs least of every buffer comes last."""
    for tile_h, tile_w, tile_co, threads, order in product(
        halved(workload.out_height),
        halved(workload.out_width),
        halved_blocks(hw, workload.channels_out),
        (2, 1),
        (LoopOrder.INPUT_STATIONARY, LoopOrder.OUTPUT_STATIONARY),
    ):
        yield Schedule(
            tile_h=tile_h,
            tile_w=tile_w,
            tile_ci=1,
            tile_co=tile_co,
            h_threading=threads,
            loop_order=order,
        )


def _cycles(plan: PoolPlan) -> float:
    """Cycles, about: those of the vector unit, of the bus, or of a RES slot's turns.

    A slot is loaded, used, and free again. Nothing overlaps the first load and the last store; the
    bus does not overlap the last use.
    """
    hw, workload, column = plan.hw, plan.workload, plan.columns.tiles[0]
    tiles = len(plan.batch_tiles) * len(plan.columns.tiles) * len(plan.channel_tiles)
    blocks = blocks_of(workload.channels_out, hw.block_out)
    taps = loads = rows = instructions = 0
    for span, tile in zip(plan.rows.tiles, plan.pieces, strict=True):
        instructions += 2
        for piece in tile:
            loads += piece.loads
            rows += piece.span.size
            for use in piece.uses:
                taps += use.outs * max(use.taps * workload.kernel_w, 1)
                window = plan.window(
                    piece,
                    use,
                    blocks=plan.schedule.tile_co,
                    batches=plan.schedule.tile_b,
                    rows=span.count,
                    column=column,
                )
                instructions += len(gather(window))
    row = plan.batches * workload.out_width * blocks * (hw.out_tile_bytes // hw.vector_lanes)
    starts = plan.batches * len(plan.columns.tiles) * len(plan.rows.tiles) * blocks
    gathered, requantised = row * taps, row * workload.out_height + starts * _REQUANT_START
    pixels = plan.batches * rows * sum(span.size for span in plan.columns.tiles)
    loaded = pixels * plan.stored_planes * plan.interleave * hw.out_tile_bytes
    fetched = tiles * (loads + instructions) * INSTRUCTION_BYTES
    bus = (loaded + fetched) / hw.axi_bytes
    pieces = tiles * max(loads, 1)
    turns = (gathered + bus + pieces * _TURN) / plan.res_slots + requantised
    first = plan.slot * hw.out_tile_bytes / hw.axi_bytes
    stored = plan.schedule.tile_co * plan.pixels * hw.out_tile_bytes / hw.axi_bytes
    vector = gathered + requantised
    return max(first + max(vector, turns), bus + vector / pieces) + stored
