# SPDX-License-Identifier: Apache-2.0
"""`ProductPlan`: a product of two tensors checked against a configuration, with buffers' places.

A tile is ``tile_co`` output blocks of ``tile_h`` whole rows. Data and factor are loaded into RES;
the vector unit moves the factor to ACC, takes its zero point off, multiplies by the data, and
requantises with the factor as residual. GEMM has nothing to do. A factor of one pixel (`SCALE`) is
moved once a tile, and its accumulators are the sources of all pixels.

The knobs of a `Schedule` mean: ``h_threading``: tiles in RES and in OUT at a time. All others have
one value. Channel tiles are the outer loop, so that parameters are loaded once.

Layouts, with B interleaved blocks of a stored block: data in RES and products in ACC [stored
blocks][pixels][B]; the factor likewise, or of one pixel [stored blocks][B].
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.host.lowering.geometry import even_tiles
from tilewright.host.lowering.legality import (
    MEMORY_MAX,
    Legality,
    check_extents,
    check_stored_blocks,
    first_over,
    refuse,
    refuse_long,
    repeats,
)
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of, interleaved_blocks
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductPlan:
    """A legal schedule's tiles and buffers.

    Attributes:
        hw, workload, schedule: what is lowered.
        channel_tiles: (first, count) of output blocks.
        row_tiles: (first, count) of rows.
        interleave: blocks of a stored block of activations (`host.network.layout`).
        slots: tiles held in RES, and in OUT.
        param_slots: channel tiles whose parameters are held.
    """

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    channel_tiles: tuple[tuple[int, int], ...]
    row_tiles: tuple[tuple[int, int], ...]
    interleave: int
    slots: int
    param_slots: int

    @property
    def by_channel(self) -> bool:
        """Whether the factor has one pixel."""
        return self.workload.kind is Kind.SCALE

    @property
    def batches(self) -> int:
        """Batch tiles of the workload."""
        return blocks_of(self.workload.n, self.hw.batch)

    @property
    def stored_planes(self) -> int:
        """Stored blocks of the channels."""
        return blocks_of(self.workload.channels_in, self.interleave * self.hw.block_out)

    @property
    def plane(self) -> int:
        """Tiles of a stored block in DRAM."""
        return self.workload.height * self.workload.width * self.interleave

    def data_tiles(self, blocks: int, rows: int) -> int:
        """RES tiles of the data of so many output blocks and rows, and ACC tiles of products."""
        return blocks_of(blocks, self.interleave) * self.interleave * rows * self.workload.width

    def factor_tiles(self, blocks: int, rows: int) -> int:
        """RES tiles of their factor."""
        if self.by_channel:
            return blocks_of(blocks, self.interleave) * self.interleave
        return self.data_tiles(blocks, rows)

    def region_sizes(self) -> dict[str, int]:
        """Bytes of the tensor regions, in memory order."""
        hw = self.hw
        image = self.batches * self.stored_planes * hw.out_tile_bytes
        factor = self.interleave if self.by_channel else self.plane
        return {
            "inp": image * self.plane,
            "factor": image * factor,
            "param": blocks_of(self.workload.channels_out, hw.block_out) * hw.param_tile_bytes,
            "out": image * self.plane,
        }


def make_product_plan(
    hw: HwConfig, workload: Workload, schedule: Schedule
) -> ProductPlan | Legality:
    """Check a schedule of a product; a plan when it is legal, otherwise the reason."""
    refusal = _check_tiles(hw, workload, schedule) or _check_choices(workload, schedule)
    if refusal is not None:
        return refusal
    channel_tiles = even_tiles(blocks_of(workload.channels_out, hw.block_out), schedule.tile_co)
    row_tiles = even_tiles(workload.height, schedule.tile_h)
    tiles = len(channel_tiles) * len(row_tiles) * blocks_of(workload.n, hw.batch)
    if schedule.h_threading > tiles:
        return refuse("product_threading", "h_threading: there is one tile", 2, tiles)
    plan = ProductPlan(
        hw=hw,
        workload=workload,
        schedule=schedule,
        channel_tiles=channel_tiles,
        row_tiles=row_tiles,
        interleave=interleaved_blocks(hw),
        slots=schedule.h_threading,
        param_slots=min(schedule.h_threading, len(channel_tiles)),
    )
    # Two LOADs, three VECTORs and a STORE for each tile.
    return refuse_long(6 * tiles) or _check_fields(plan) or _check_capacity(plan) or plan


def _check_tiles(hw: HwConfig, workload: Workload, schedule: Schedule) -> Legality | None:
    """Tiles within the workload, in stored blocks and whole rows."""
    refusal = check_extents(
        (
            ("tile_b", schedule.tile_b, 1),
            ("tile_h", schedule.tile_h, workload.height),
            ("tile_w", schedule.tile_w, workload.width),
            ("tile_co", schedule.tile_co, blocks_of(workload.channels_out, hw.block_out)),
            ("tile_ci", schedule.tile_ci, 1),
        ),
        "a product has no reduction over channels",
    )
    return refusal or check_stored_blocks(hw, workload, schedule.tile_co, "product")


def _check_choices(workload: Workload, schedule: Schedule) -> Legality | None:
    """One value of every knob that does not change the program, or for the worse."""
    if schedule.tile_w != workload.width:
        return repeats("product_columns", "tile_w: a product's tile has whole rows")
    if schedule.loop_order is not LoopOrder.OUTPUT_STATIONARY:
        return repeats("product_loop_order", "loop_order: a product reads everything once")
    if schedule.fusion is not Fusion.TILE:
        why = "a product has no reduction whose last step could be split"
        return repeats("product_fusion", f"fusion: {why}")
    if schedule.oc_threading != 1:
        why = "threads over channels would repeat the program of threads over rows"
        return repeats("product_threading", f"oc_threading: {why}")
    return None


def _check_fields(plan: ProductPlan) -> Legality | None:
    """Values that an instruction field bounds."""
    blocks, rows = plan.schedule.tile_co, plan.schedule.tile_h
    return first_over((
        ("field_pixels", "tiles of a product's tile (16-bit loop)",
         plan.data_tiles(blocks, rows), ROW_MAX),
        ("field_plane_stride", "tiles from plane to plane (24-bit field)", plan.plane, STRIDE_MAX),
        ("memory", "bytes of the tensors in DRAM (40-bit offsets)",
         sum(plan.region_sizes().values()), MEMORY_MAX // 2),
    ))  # fmt: skip


def _check_capacity(plan: ProductPlan) -> Legality | None:
    """Scratchpad tiles that the schedule holds at once."""
    hw, blocks, rows, slots = plan.hw, plan.schedule.tile_co, plan.schedule.tile_h, plan.slots
    data, factor = plan.data_tiles(blocks, rows), plan.factor_tiles(blocks, rows)
    products = data + factor if plan.by_channel else data
    out_blocks = blocks_of(plan.workload.channels_out, hw.block_out)
    return first_over((
        ("res_capacity", f"RES must hold {slots} x {data + factor} tiles",
         slots * (data + factor), hw.res_depth),
        ("acc_capacity", "ACC must hold the products", products, hw.acc_depth),
        ("out_capacity", f"OUT must hold {slots} x {data} tiles", slots * data, hw.out_depth),
        ("param_capacity", f"PARAM must hold {plan.param_slots} channel tiles of {blocks} blocks",
         min(plan.param_slots * blocks, out_blocks), hw.param_depth),
    ))  # fmt: skip
