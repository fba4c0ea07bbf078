# SPDX-License-Identifier: Apache-2.0
"""`PoolPlan`: a pool's schedule checked against a configuration, with every buffer's place.

An output tile is ``tile_b x tile_co x tile_h x tile_w``. Input rows are loaded into RES, one pass
of the vector unit a kernel position gathers maxima or sums in ACC, and a requantise pass brings
them to OUT. The knobs of a `Schedule` mean:

- ``loop_order``: input-stationary loads the whole window of a tile at once, for few long
  instructions; output-stationary keeps the tile's accumulators and streams the stored input
  rows through RES, each once, so that tiles may be high and a small RES will do;
- ``h_threading``: loads in RES, and tiles in OUT, at a time. The vector unit works on one tile
  after the other whatever they are, so threads over channels would repeat the program;
- ``tile_ci`` and ``fusion`` mean nothing: a pool has no reduction over channels.

Channel tiles are the outer loop, so that parameters are loaded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from tilewright.host.lowering.geometry import Span, Spans, even_tiles, halved, halved_blocks, spans
from tilewright.host.lowering.legality import (
    MEMORY_MAX,
    Legality,
    check_extents,
    check_sides,
    check_stored_blocks,
    fewest_cycles,
    first_over,
    refuse,
    refuse_long,
    repeats,
)
from tilewright.host.lowering.pooling_rows import (
    Piece,
    Use,
    Window,
    gather,
    streamed_rows,
    whole_window,
)
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.network.layout import blocks_of, interleaved_blocks
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolPlan:
    """A legal schedule's tiles, on the image axes, and buffers."""

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    rows: Spans
    columns: Spans
    pieces: tuple[tuple[Piece, ...], ...]  # what each row tile loads at a time
    loaded_rows: int  # most input rows of a piece
    batch_tiles: tuple[tuple[int, int], ...]  # (first, count) of batch tiles
    channel_tiles: tuple[tuple[int, int], ...]  # (first, count) of output blocks
    interleave: int  # blocks of a stored block of activations (`host.network.layout`)
    res_slots: int  # pieces held in RES
    out_slots: int  # tiles held in OUT
    param_slots: int  # channel tiles whose parameters are held

    @property
    def batches(self) -> int:
        """Batch tiles of the workload."""
        return blocks_of(self.workload.n, self.hw.batch)

    @property
    def stored_planes(self) -> int:
        """Stored blocks of the channels, of input and output alike."""
        return blocks_of(self.workload.channels_in, self.interleave * self.hw.block_out)

    @property
    def slot(self) -> int:
        """RES tiles of the largest piece of a full tile."""
        planes = blocks_of(self.schedule.tile_co, self.interleave)
        line = self.columns.loaded * self.interleave
        return self.schedule.tile_b * planes * self.loaded_rows * line

    @property
    def pixels(self) -> int:
        """Tiles of one output block of a full output tile."""
        return self.schedule.tile_b * self.rows.count * self.columns.count

    @property
    def streams(self) -> bool:
        """Whether input rows are streamed."""
        return self.schedule.loop_order is LoopOrder.OUTPUT_STATIONARY

    @property
    def row_step(self) -> int:
        """Stored rows from one loaded row to the next."""
        return 1 if self.streams else _row_step(self.workload)

    def window(
        self, piece: Piece, use: Use, *, blocks: int, batches: int, rows: int, column: Span
    ) -> Window:
        """What output rows of a tile see of a piece."""
        return Window(
            blocks=blocks,
            batches=batches,
            rows=use.outs,
            columns=column.count,
            image=rows * column.count,
            row_step=self.rows.step,
            column_step=self.columns.step,
            loaded_rows=piece.span.loaded,
            loaded_columns=column.loaded,
            interleave=self.interleave,
            kernel_h=use.taps,
            kernel_w=self.workload.kernel_w,
            fresh=use.fresh,
        )

    def region_sizes(self) -> dict[str, int]:
        """Bytes of the tensor regions, in memory order."""
        hw, workload = self.hw, self.workload
        pixel = self.batches * self.stored_planes * self.interleave * hw.out_tile_bytes
        return {
            "inp": pixel * workload.height * workload.width,
            "param": blocks_of(workload.channels_out, hw.block_out) * hw.param_tile_bytes,
            "out": pixel * workload.out_height * workload.out_width,
        }


def make_pool_plan(hw: HwConfig, workload: Workload, schedule: Schedule) -> PoolPlan | Legality:
    """Check a schedule of a pool; a plan when it is legal, otherwise the reason."""
    refusal = (
        _check_tiles(hw, workload, schedule)
        or _check_choices(schedule)
        or _check_length(hw, workload, schedule)
    )
    if refusal is not None:
        return refusal
    plan = _place(hw, workload, schedule)
    return (
        _check_pieces(plan)
        or _check_repeats(plan)
        or _check_fields(plan)
        or _check_capacity(plan)
        or plan
    )


def _row_step(workload: Workload) -> int:
    return workload.stride_h if workload.kernel_h == 1 else 1


def _check_tiles(hw: HwConfig, workload: Workload, schedule: Schedule) -> Legality | None:
    """Tiles within the workload, in stored blocks."""
    refusal = check_extents(
        (
            ("tile_b", schedule.tile_b, blocks_of(workload.n, hw.batch)),
            ("tile_h", schedule.tile_h, workload.out_height),
            ("tile_w", schedule.tile_w, workload.out_width),
            ("tile_co", schedule.tile_co, blocks_of(workload.channels_out, hw.block_out)),
            ("tile_ci", schedule.tile_ci, 1),
        ),
        "a pool has no reduction over channels",
    )
    return refusal or check_stored_blocks(hw, workload, schedule.tile_co, "pool")


def _check_choices(schedule: Schedule) -> Legality | None:
    """One canonical value of every knob that does not change the program."""
    if schedule.loop_order is LoopOrder.WEIGHT_STATIONARY:
        return repeats("pool_loop_order", "loop_order: a pool has no weights")
    if schedule.fusion is not Fusion.TILE:
        why = "a pool has no reduction whose last step could be split"
        return repeats("pool_fusion", f"fusion: {why}")
    if schedule.oc_threading != 1:
        why = "threads over channels would repeat the program of threads over rows"
        return repeats("pool_threading", f"oc_threading: {why}")
    return None


def _tiles(hw: HwConfig, workload: Workload, schedule: Schedule) -> int:
    """Output tiles of a row of tiles down the image, over columns, batches and channels."""
    return (
        blocks_of(blocks_of(workload.n, hw.batch), schedule.tile_b)
        * blocks_of(workload.out_width, schedule.tile_w)
        * blocks_of(blocks_of(workload.channels_out, hw.block_out), schedule.tile_co)
    )


def _check_length(hw: HwConfig, workload: Workload, schedule: Schedule) -> Legality | None:
    """At least two VECTORs and a STORE for each output tile, before anything is counted out."""
    rows = blocks_of(workload.out_height, schedule.tile_h)
    return refuse_long(3 * rows * _tiles(hw, workload, schedule))


def _check_pieces(plan: PoolPlan) -> Legality | None:
    """At least a VECTOR for each piece of a tile, and a VECTOR and a STORE for each tile."""
    pieces = sum(map(len, plan.pieces))
    tiles = _tiles(plan.hw, plan.workload, plan.schedule)
    return refuse_long((pieces + 2 * len(plan.rows.tiles)) * tiles)


def _place(hw: HwConfig, workload: Workload, schedule: Schedule) -> PoolPlan:
    rows = spans(
        extent=workload.out_height,
        tile=schedule.tile_h,
        stored=workload.height,
        stride=workload.stride_h,
        pad=workload.pad_top,
        kernel=workload.kernel_h,
        dilation=1,
        row_step=_row_step(workload),
    )
    columns = spans(
        extent=workload.out_width,
        tile=schedule.tile_w,
        stored=workload.width,
        stride=workload.stride_w,
        pad=workload.pad_left,
        kernel=workload.kernel_w,
        dilation=1,
        row_step=1,
    )
    if schedule.loop_order is LoopOrder.OUTPUT_STATIONARY:
        pieces = _streamed(hw, workload, schedule, rows, columns)
    else:
        pieces = tuple(whole_window(row, workload.kernel_h) for row in rows.tiles)
    batch_tiles = even_tiles(blocks_of(workload.n, hw.batch), schedule.tile_b)
    channel_tiles = even_tiles(blocks_of(workload.channels_out, hw.block_out), schedule.tile_co)
    bands = len(batch_tiles) * len(columns.tiles) * len(channel_tiles)
    loads = bands * sum(piece.loads for tile in pieces for piece in tile)
    return PoolPlan(
        hw=hw,
        workload=workload,
        schedule=schedule,
        rows=rows,
        columns=columns,
        pieces=pieces,
        loaded_rows=max(piece.span.loaded for tile in pieces for piece in tile),
        batch_tiles=batch_tiles,
        channel_tiles=channel_tiles,
        interleave=interleaved_blocks(hw),
        res_slots=max(1, min(schedule.h_threading, loads)),
        out_slots=min(schedule.h_threading, bands * len(rows.tiles)),
        param_slots=min(schedule.h_threading, len(channel_tiles)),
    )


def _streamed(
    hw: HwConfig, workload: Workload, schedule: Schedule, rows: Spans, columns: Spans
) -> tuple[tuple[Piece, ...], ...]:
    """Pieces of every row tile; those of a single output row are no larger than a slot of RES."""
    most = workload.height
    if workload.out_height == 1:
        unit = interleaved_blocks(hw)
        line = blocks_of(schedule.tile_co, unit) * unit * columns.loaded * schedule.tile_b
        most = max(hw.res_depth // schedule.h_threading // line, 1)
    return tuple(
        streamed_rows(
            row.out,
            row.count,
            height=workload.height,
            stride=workload.stride_h,
            pad=workload.pad_top,
            kernel=workload.kernel_h,
            most=most,
        )
        for row in rows.tiles
    )


def _check_repeats(plan: PoolPlan) -> Legality | None:
    """Choices that only here name the program of another schedule."""
    one_row = plan.schedule.tile_h == 1 and not plan.streams
    places = plan.schedule, plan.rows, plan.columns
    if one_row and plan.pieces == _streamed(plan.hw, plan.workload, *places):
        why = "every tile has its rows at once, so this would repeat the output-stationary program"
        return repeats("pool_loop_order", f"loop_order: {why}")
    threads, loads = plan.schedule.h_threading, max(plan.res_slots, plan.out_slots)
    if threads > loads:
        return refuse("pool_threading", "h_threading: there is one load", threads, loads)
    return None


def _check_fields(plan: PoolPlan) -> Legality | None:
    """Values that an instruction field bounds."""
    workload, schedule, interleave = plan.workload, plan.schedule, plan.interleave
    rows = (0, plan.loaded_rows) if plan.streams else (plan.rows.max_pad, plan.rows.max_size)
    columns = (plan.columns.max_pad, plan.columns.max_size)
    refusal = check_sides((("rows", *rows, 1), ("columns", *columns, interleave)), "load")
    if refusal is not None:
        return refusal
    out_plane = workload.out_height * workload.out_width
    largest_plane = max(workload.height * workload.width, out_plane) * interleave
    image = plan.stored_planes * interleave * out_plane if schedule.tile_b > 1 else 0
    return first_over((
        ("field_taps", "kernel rows or columns (16-bit loop)",
         max(workload.kernel_h, workload.kernel_w), ROW_MAX),
        ("field_pixels", "pixels of an output tile (16-bit loop)", plan.pixels, ROW_MAX),
        ("field_output_columns", "output columns of a tile times interleaved blocks (16-bit field)",
         plan.columns.count * interleave, ROW_MAX),
        ("field_blocks", "output blocks of a tile (16-bit loop)", schedule.tile_co, ROW_MAX),
        ("field_row_stride", "tiles from row to row (24-bit field)",
         max(plan.row_step * workload.width, workload.out_width) * interleave, STRIDE_MAX),
        ("field_plane_stride", "tiles from plane to plane (24-bit field)", largest_plane,
         STRIDE_MAX),
        ("field_image_stride", "output tiles from image to image (24-bit field)", image,
         STRIDE_MAX),
        ("memory", "bytes of the tensors in DRAM (40-bit offsets)",
         sum(plan.region_sizes().values()), MEMORY_MAX // 2),
    ))  # fmt: skip


def _check_capacity(plan: PoolPlan) -> Legality | None:
    """Scratchpad tiles that the schedule holds at once."""
    hw, blocks = plan.hw, plan.schedule.tile_co
    tile = blocks * plan.pixels
    res, out, params = plan.res_slots, plan.out_slots, plan.param_slots
    out_blocks = blocks_of(plan.workload.channels_out, hw.block_out)
    return first_over((
        ("res_capacity", f"RES must hold {res} x {plan.slot} tiles", res * plan.slot,
         hw.res_depth),
        ("acc_capacity", "ACC must hold the tiles", tile, hw.acc_depth),
        ("out_capacity", f"OUT must hold {out} x {tile} tiles", out * tile, hw.out_depth),
        ("param_capacity", f"PARAM must hold {params} channel tiles of {blocks} blocks",
         min(params * blocks, out_blocks), hw.param_depth),
    ))  # fmt: skip


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
