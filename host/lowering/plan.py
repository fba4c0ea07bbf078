# SPDX-License-Identifier: Apache-2.0
"""`Plan`: a schedule checked against a configuration, with every buffer's place.

This is the one place that decides legality. `legal` reports what it finds, `lower` raises the
same text, and the emitter relies on it: a plan that exists can be emitted.

Buffers follow the schedule alone; their depths are only compared with what it needs, so that two
configurations that differ in depths run a schedule that is legal on both in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tilewright.host.lowering.geometry import (
    ChannelTiles,
    Geometry,
    Spans,
    channel_tiles,
    column_spans,
    even_tiles,
    geometry,
    row_spans,
)
from tilewright.host.lowering.kernels import Gemm, gemm_loops
from tilewright.host.lowering.legality import (
    MEMORY_MAX,
    Legality,
    check_extents,
    check_sides,
    first_over,
    refuse,
    refuse_long,
    repeats,
)
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of, diagonal_bytes
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload

RULES = (
    "tile_b_extent",
    "tile_h_extent",
    "tile_w_extent",
    "tile_co_extent",
    "tile_ci_extent",
    "tile_ci_interleave",
    "depthwise_loop_order",
    "program_length",
    "field_pad_rows",
    "field_input_rows",
    "field_pad_columns",
    "field_input_columns",
    "field_pixels",
    "field_output_columns",
    "field_blocks",
    "field_planes",
    "field_weight_row",
    "field_row_stride",
    "field_plane_stride",
    "field_image_stride",
    "memory",
    "inp_capacity",
    "wgt_capacity",
    "acc_capacity",
    "out_capacity",
    "res_capacity",
    "param_capacity",
    "uop_capacity",
)
"""What a schedule may break, in the order in which it is checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A legal schedule's tiles and buffers.

    Attributes:
        hw, workload, schedule: what is lowered.
        rows, columns: output tiles on the image axes.
        inp_slots, wgt_slots: tiles held for a streamed operand.
        inp_copies, wgt_copies: sets held of a resident operand; 0 when it is streamed.
        inp_members, wgt_members: tiles of a group that share a resident operand's set.
    """

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    shape: Geometry  # the workload in blocks
    rows: Spans
    columns: Spans
    batch_tiles: tuple[tuple[int, int], ...]  # (first, count) of batch tiles
    ci_tiles: tuple[tuple[int, int], ...]  # (first, count) of input blocks of a reduction step
    channels: ChannelTiles  # output-channel tiles
    contexts: int  # regions of ACC, OUT and RES that tiles use in turn
    inp_slots: int
    wgt_slots: int
    inp_copies: int
    wgt_copies: int
    inp_members: int
    wgt_members: int
    param_slots: int  # co tiles whose parameters are held; each co tile uses its index modulo this
    block_pixels: int  # tiles of one output block of a full output tile
    banks: int  # ACC banks over which a context spreads its output blocks (block fusion)

    @property
    def by_block(self) -> bool:
        """Whether GEMM, VECTOR and STORE are issued per output-channel block."""
        return self.schedule.fusion is Fusion.BLOCK

    @property
    def inp_tile(self) -> int:
        """INP tiles of one full operand tile of a reduction step."""
        blocks, interleave = self.channels.max_inp_count, self.shape.inp_interleave
        if not blocks:
            blocks = blocks_of(self.schedule.tile_ci, interleave) * interleave
        return self.schedule.tile_b * blocks * self.rows.loaded * self.columns.loaded

    @property
    def wgt_tile(self) -> int:
        """WGT tiles of one full operand tile of a reduction step."""
        shape = self.shape
        blocks = shape.reduce_blocks if shape.depthwise else self.schedule.tile_ci
        return self.schedule.tile_co * blocks * shape.taps

    @property
    def inp_set(self) -> int:
        """INP tiles of a spatial tile's whole reduction (input-stationary)."""
        return self.schedule.tile_b * self.shape.in_blocks * self.rows.loaded * self.columns.loaded

    @property
    def wgt_set(self) -> int:
        """WGT tiles of a co tile's whole reduction (weight-stationary)."""
        return self.schedule.tile_co * self.shape.reduce_blocks * self.shape.taps

    @property
    def stored_wgt_tile(self) -> int:
        """Bytes of a weight tile in DRAM: of a depthwise layer only its diagonal."""
        hw = self.hw
        if self.shape.depthwise:
            return diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
        return hw.int4_tile_bytes if self.shape.int4 else hw.wgt_tile_bytes

    def held(self) -> dict[str, tuple[int, int, int]]:
        """What the scratchpads of operands and results hold at once."""
        shape, contexts = self.shape, self.contexts
        if self.inp_copies:
            inps, inp = self.inp_copies * self.inp_members, self.inp_set
        else:
            inps, inp = self.inp_slots, self.inp_tile
        if self.wgt_copies:
            wgts, wgt = self.wgt_copies * self.wgt_members, self.wgt_set
        else:
            wgts, wgt = self.wgt_slots, self.wgt_tile
        blocks = self.schedule.tile_co
        out = blocks * self.block_pixels
        accs, acc = contexts, out
        if self.by_block:
            accs, acc = contexts * self.banks, blocks_of(blocks, self.banks) * self.block_pixels
        return {
            "inp": (inps, inp, shape.inp_depth),
            "wgt": (wgts, wgt, shape.wgt_depth),
            "acc": (accs, acc, shape.acc_depth),
            "out": (contexts, out, shape.out_depth),
            "res": (contexts, out if shape.residual else 0, shape.res_depth),
        }

    @property
    def side_by_side(self) -> int:
        """How many layers with this plan the scratchpads hold at once: one or two."""
        return 2 if all(2 * n * tiles <= room for n, tiles, room in self.held().values()) else 1

    def gemm(self, batches: int, rows: int, columns: int, ci: int, run: tuple[int, int]) -> Gemm:
        """Loops and kernel of a GEMM.

        Args:
            batches: batch tiles.
            rows: output rows.
            columns: output columns.
            ci: input blocks of the reduction step.
            run: output blocks of the run, and input blocks of its tile (depthwise).
        """
        shape = self.shape
        return gemm_loops(
            blocks_out=run[0],
            blocks_in=ci,
            batches=batches,
            rows=rows,
            columns=columns,
            kernel_h=shape.kernel_h,
            kernel_w=shape.kernel_w,
            row_step=self.rows.step,
            column_step=self.columns.step,
            dilation_h=shape.dilation_h,
            dilation_w=shape.dilation_w,
            inp_blocks=run[1] or ci,
            inp_per_out=shape.reduce_blocks if shape.depthwise and shape.share == 1 else 0,
            interleave=shape.inp_interleave,
        )

    def region_sizes(self) -> dict[str, int]:
        """Bytes of the tensor regions, in memory order."""
        hw, shape = self.hw, self.shape
        out_tiles = shape.batches * shape.stored_out_blocks * shape.out_height * shape.out_width
        sizes = {
            "inp": shape.batches * shape.in_blocks * shape.height * shape.width * hw.inp_tile_bytes,
            "wgt": shape.out_blocks * shape.reduce_blocks * shape.taps * self.stored_wgt_tile,
            "param": shape.out_blocks * hw.param_tile_bytes,
        }
        if shape.residual:
            sizes["res"] = out_tiles * hw.out_tile_bytes
        sizes["out"] = out_tiles * hw.out_tile_bytes
        return sizes


def make_plan(
    hw: HwConfig, workload: Workload, schedule: Schedule, *, any_length: bool = False
) -> Plan | Legality:
    """Check a schedule; a plan when it is legal, otherwise the reason."""
    shape = geometry(hw, workload)
    refusal = _check_tiles(shape, schedule)
    if refusal is None and not any_length:
        refusal = _check_length(shape, schedule)
    if refusal is not None:
        return refusal
    plan = _place(hw, workload, schedule, shape)
    return _check_fields(plan) or _check_capacity(plan) or _check_kernels(plan) or plan


def _check_tiles(shape: Geometry, schedule: Schedule) -> Legality | None:
    """Tiles within the workload, in stored blocks, and a loop order of their own."""
    refusal = check_extents(
        (
            ("tile_b", schedule.tile_b, shape.batches),
            ("tile_h", schedule.tile_h, shape.out_height),
            ("tile_w", schedule.tile_w, shape.out_width),
            ("tile_co", schedule.tile_co, shape.out_blocks),
            ("tile_ci", schedule.tile_ci, 1 if shape.depthwise else shape.reduce_blocks),
        ),
        "a depthwise layer reduces inside one block" if shape.depthwise else "",
    )
    if refusal is not None:
        return refusal
    unit, tile = shape.tile_ci_unit, schedule.tile_ci
    if tile % unit and tile < shape.reduce_blocks:
        detail = (
            f"tile_ci: {unit} input blocks are interleaved in DRAM, so a tile is a multiple of "
            f"{unit}, or the whole reduction"
        )
        whole = min(blocks_of(tile, unit) * unit, shape.reduce_blocks)
        return refuse("tile_ci_interleave", detail, whole, tile)
    if shape.depthwise and schedule.loop_order is LoopOrder.INPUT_STATIONARY:
        return repeats(
            "depthwise_loop_order",
            "loop_order: a depthwise input feeds one output tile, so input-stationary "
            "would repeat the output-stationary program",
        )
    return None


def _check_length(shape: Geometry, schedule: Schedule) -> Legality | None:
    """A program that can be made in reasonable time and memory, before anything is counted out.

    What it must hold at least: a GEMM for each reduction step, a VECTOR and a STORE for each output
    tile.
    """
    tiles = (
        blocks_of(shape.batches, schedule.tile_b)
        * blocks_of(shape.out_height, schedule.tile_h)
        * blocks_of(shape.out_width, schedule.tile_w)
    )
    channels = blocks_of(shape.out_blocks, schedule.tile_co)
    steps = 1 if shape.depthwise else blocks_of(shape.reduce_blocks, schedule.tile_ci)
    runs = shape.out_blocks if schedule.fusion is Fusion.BLOCK else channels
    return refuse_long(tiles * (steps * runs + 2 * channels))


def _place(hw: HwConfig, workload: Workload, schedule: Schedule, shape: Geometry) -> Plan:
    rows = row_spans(shape, schedule.tile_h)
    columns = column_spans(shape, schedule.tile_w)
    batch_tiles = even_tiles(shape.batches, schedule.tile_b)
    if shape.depthwise:
        ci_tiles: tuple[tuple[int, int], ...] = ((0, shape.reduce_blocks),)
    else:
        ci_tiles = even_tiles(shape.reduce_blocks, schedule.tile_ci)
    channels = channel_tiles(
        out_blocks=shape.out_blocks,
        tile=schedule.tile_co,
        depthwise=shape.depthwise,
        reduce_blocks=shape.reduce_blocks,
        share=shape.share,
    )
    contexts = schedule.h_threading * schedule.oc_threading
    depth = 2 if contexts > 1 else 1
    co_tiles, steps = len(channels.tiles), len(ci_tiles)
    image_tiles = len(batch_tiles) * len(columns.tiles)
    spatial_tiles = image_tiles * len(rows.tiles)
    spatial_groups = image_tiles * blocks_of(len(rows.tiles), schedule.h_threading)
    co_groups = blocks_of(co_tiles, schedule.oc_threading)
    weights_stay = schedule.loop_order is LoopOrder.WEIGHT_STATIONARY
    inputs_stay = schedule.loop_order is LoopOrder.INPUT_STATIONARY
    wgt_members = min(schedule.oc_threading, co_tiles)
    # Parameters visited once stream through slots; otherwise every co tile keeps its own.
    param_slots = co_tiles
    if weights_stay or spatial_groups == 1:
        param_slots = min(co_tiles, depth * schedule.oc_threading)
    return Plan(
        hw=hw,
        workload=workload,
        schedule=schedule,
        shape=shape,
        rows=rows,
        columns=columns,
        batch_tiles=batch_tiles,
        ci_tiles=ci_tiles,
        channels=channels,
        contexts=contexts,
        inp_slots=min(depth, spatial_tiles * (co_tiles if shape.depthwise else steps)),
        wgt_slots=min(depth, co_tiles * steps),
        inp_copies=min(depth, spatial_groups) if inputs_stay else 0,
        wgt_copies=min(depth, co_groups) if weights_stay else 0,
        inp_members=min(schedule.h_threading, len(rows.tiles)),
        wgt_members=wgt_members,
        param_slots=param_slots,
        block_pixels=schedule.tile_b * rows.count * columns.count,
        banks=max(1, shape.acc_banks // contexts),
    )


def _check_fields(plan: Plan) -> Legality | None:
    """Values that an instruction field bounds."""
    shape, schedule = plan.shape, plan.schedule
    interleave = shape.inp_interleave
    rows, columns = plan.rows, plan.columns
    refusal = check_sides(
        (
            ("rows", rows.max_pad, rows.max_size, 1),
            ("columns", columns.max_pad, columns.max_size, interleave),
        ),
        "tile",
    )
    if refusal is not None:
        return refusal
    out_plane = shape.out_height * shape.out_width
    step = shape.reduce_blocks if shape.depthwise else schedule.tile_ci
    return first_over((
        ("field_pixels", "pixels of an output tile (16-bit loop)", plan.block_pixels, ROW_MAX),
        ("field_output_columns", "output columns of a tile times interleaved blocks (16-bit field)",
         plan.columns.count * shape.out_interleave, ROW_MAX),
        ("field_blocks", "output blocks of a tile (16-bit loop)", schedule.tile_co, ROW_MAX),
        ("field_planes", "input planes of a tile (16-bit field)", plan.channels.max_inp_count,
         ROW_MAX),
        ("field_weight_row", "weight tiles of a row (16-bit field)", step * shape.taps, ROW_MAX),
        ("field_row_stride", "tiles from row to row (24-bit field)",
         shape.row_step * shape.width * interleave, STRIDE_MAX),
        ("field_plane_stride", "tiles from plane to plane (24-bit field)",
         max(shape.height * shape.width * interleave, out_plane * shape.out_interleave),
         STRIDE_MAX),
        ("field_image_stride", "output tiles from image to image (24-bit field)",
         shape.stored_out_blocks * out_plane if schedule.tile_b > 1 else 0,
         STRIDE_MAX),
        ("memory", "bytes of the tensors in DRAM (40-bit offsets)",
         sum(plan.region_sizes().values()), MEMORY_MAX // 2),
    ))  # fmt: skip


def _check_capacity(plan: Plan) -> Legality | None:
    """Scratchpad tiles that the schedule holds at once."""
    shape, blocks = plan.shape, plan.schedule.tile_co
    return first_over((
        *(
            (f"{name}_capacity", f"{name.upper()} must hold {count} x {tiles} tiles",
             count * tiles, depth)
            for name, (count, tiles, depth) in plan.held().items()
        ),
        ("param_capacity", f"PARAM must hold {plan.param_slots} co tiles of {blocks} blocks",
         min(plan.param_slots * blocks, shape.out_blocks), shape.param_depth),
    ))  # fmt: skip


def _check_kernels(plan: Plan) -> Legality | None:
    """All distinct kernels in UOP at once."""
    if plan.by_block:
        runs = tuple(dict.fromkeys((1, inp_count) for _, inp_count in plan.channels.kinds))
    else:
        runs = plan.channels.kinds
    kernels = {}
    for (_, batches), rows, columns, (_, ci), run in product(
        {n: (f, n) for f, n in plan.batch_tiles}.values(),
        plan.rows.counts,
        plan.columns.counts,
        {n: (f, n) for f, n in plan.ci_tiles}.values(),
        runs,
    ):
        gemm = plan.gemm(batches, rows, columns, ci, run)
        kernels[gemm.kernel] = gemm.length
    needed = sum(kernels.values())
    if needed > plan.shape.uop_depth:
        detail = f"UOP must hold {len(kernels)} kernels"
        return refuse("uop_capacity", detail, needed, plan.shape.uop_depth)
    return None
