# SPDX-License-Identifier: Apache-2.0
"""`ProductPlan`: a product of two tensors checked against a configuration, with buffers' places.

So are their maximum and minimum, which differ in one operation of the vector unit.

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

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, zip_longest
from typing import Final, NamedTuple

from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.geometry import even_tiles, halved, halved_blocks, stored_parts
from tilewright.host.lowering.legality import (
    MEMORY_MAX,
    Legality,
    check_extents,
    check_stored_blocks,
    fewest_cycles,
    first_over,
    refuse,
    refuse_long,
    repeats,
)
from tilewright.host.lowering.program_builder import ProgramBuilder, pack_load, pack_vector
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX, Box, box
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.isa import Memory, Operand, Unit, VectorOp
from tilewright.host.network.layout import blocks_of, interleaved_blocks
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductPlan:
    """A legal schedule's tiles and buffers."""

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    channel_tiles: tuple[tuple[int, int], ...]  # (first, count) of output blocks
    row_tiles: tuple[tuple[int, int], ...]  # (first, count) of rows
    interleave: int  # blocks of a stored block of activations (`host.network.layout`)
    slots: int  # tiles held in RES, and in OUT
    param_slots: int  # channel tiles whose parameters are held

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


_OPERATIONS: Final = {Kind.MAXIMUM: VectorOp.MAX, Kind.MINIMUM: VectorOp.MIN}

_ACC: Final = ("acc", 0)
"""ACC holds one tile: only the vector unit works on it, in order."""


class _Tile(NamedTuple):
    """A tile: (first, count) of output blocks and of rows, and a batch tile."""

    number: int
    channel: int
    blocks: tuple[int, int]
    batch: int
    rows: tuple[int, int]


def emit_product(
    builder: ProgramBuilder, plan: ProductPlan, clip: tuple[int, int], placement: OperandPlacement
) -> Emitted:
    """Append a plan's instructions to a program, which follow what it holds already."""
    return _ProductEmitter(builder, plan, clip, placement).run()


class _ProductEmitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        plan: ProductPlan,
        clip: tuple[int, int],
        placement: OperandPlacement,
    ) -> None:
        super().__init__(builder, clip, placement)
        self.plan = plan
        self.factor_zero = placement.factor_zero

    def run(self) -> Emitted:
        plan = self.plan
        held = -1
        tiles = list(_tiles(plan))
        self._load(tiles[0])
        for tile, following in zip_longest(tiles, tiles[1:]):
            if tile.channel != held:
                held = tile.channel
                self.load_params(held % plan.param_slots, plan.schedule.tile_co, *tile.blocks)
            if following is not None and plan.slots > 1:
                self._load(following)
            self._multiply(tile)
            self._requantise(tile)
            if following is not None and plan.slots == 1:
                self._load(following)
            self._store(tile)
        return self.emitted()

    # -- places -----------------------------------------------------------------------------

    def _slot(self, tile: _Tile) -> int:
        return tile.number % self.plan.slots

    def _pixels(self, tile: _Tile) -> int:
        return tile.rows[1] * self.plan.workload.width

    def _planes(self, tile: _Tile) -> int:
        return blocks_of(tile.blocks[1], self.plan.interleave)

    def _data(self, tile: _Tile) -> int:
        """First RES tile of the data; the factor lies behind what a full tile has."""
        largest = self.plan.schedule.tile_co, self.plan.schedule.tile_h
        return self._slot(tile) * sum(
            tiles(*largest) for tiles in (self.plan.data_tiles, self.plan.factor_tiles)
        )

    def _factor(self, tile: _Tile) -> int:
        schedule = self.plan.schedule
        return self._data(tile) + self.plan.data_tiles(schedule.tile_co, schedule.tile_h)

    def _products(self, tile: _Tile) -> int:
        """First ACC tile of the products; the moved factor of one pixel is before them."""
        plan = self.plan
        return plan.factor_tiles(tile.blocks[1], tile.rows[1]) if plan.by_channel else 0

    # -- LOAD -------------------------------------------------------------------------------

    def _load(self, tile: _Tile) -> None:
        plan = self.plan
        planes, interleave = self._planes(tile), plan.interleave
        image = tile.batch * plan.stored_planes + tile.blocks[0] // interleave
        first = image * plan.plane + tile.rows[0] * plan.workload.width * interleave
        region = box(self._pixels(tile) * interleave, planes, 1, plan.plane, 0)
        self._load_box("inp", self._data(tile), first, region, tile)
        if plan.by_channel:
            first, region = image * interleave, box(planes * interleave, 1, 1, 0, 0)
        self._load_box("factor", self._factor(tile), first, region, tile)

    def _load_box(self, operand: str, base: int, first: int, region: Box, tile: _Tile) -> None:
        size = self.plan.hw.out_tile_bytes
        word = pack_load(
            memory=Memory.RES,
            sram_base=base,
            dram_offset=self.offsets[operand] + first * size,
            **region._asdict(),
        )
        self.builder.emit_word(Unit.LOAD, word, (), ((operand, self._slot(tile)),))
        self.bytes_read += region.tiles * size

    # -- VECTOR -----------------------------------------------------------------------------

    def _multiply(self, tile: _Tile) -> None:
        """Factor to ACC, less its zero point; times the data."""
        plan, factor = self.plan, self.plan.factor_tiles(tile.blocks[1], tile.rows[1])
        key = ("factor", self._slot(tile))
        whole = {"iter_outer": 1, "iter_inner": factor, "dst_inner": 1, "src_inner": 1}
        operand = {"operand": int(Operand.RES), "opd_base": self._factor(tile), "opd_inner": 1}
        self._vector(VectorOp.MOV, 0, factor, (key,), **whole, **operand)
        if self.factor_zero:
            self._vector(VectorOp.ADD, 0, factor, (), **whole, imm=-self.factor_zero)
        data = ("inp", self._slot(tile))
        operand["opd_base"] = self._data(tile)
        products = self._products(tile)
        if not plan.by_channel:
            op = _OPERATIONS.get(plan.workload.kind, VectorOp.MUL)
            self._vector(op, 0, factor, (data,), **whole, **operand)
            return
        pixels, interleave = self._pixels(tile), plan.interleave
        span = plan.data_tiles(tile.blocks[1], tile.rows[1]) + products
        if interleave == 1:
            self._vector(
                VectorOp.MUL, 0, span, (data,), operand=operand["operand"],
                iter_outer=factor, iter_inner=pixels, src_outer=1,
                dst_base=products, dst_outer=pixels, dst_inner=1,
                opd_base=self._data(tile), opd_outer=pixels, opd_inner=1,
            )  # fmt: skip
            return
        for plane in range(self._planes(tile)):
            at = plane * pixels * interleave
            self._vector(
                VectorOp.MUL, 0, span, (data,), operand=operand["operand"],
                iter_outer=pixels, iter_inner=interleave, src_base=plane * interleave, src_inner=1,
                dst_base=products + at, dst_outer=interleave, dst_inner=1,
                opd_base=self._data(tile) + at, opd_outer=interleave, opd_inner=1,
            )  # fmt: skip

    def _vector(
        self,
        op: VectorOp,
        first: int,
        span: int,
        reads: tuple[tuple[str, int], ...],
        **fields: int,
    ) -> None:
        """An operation on ACC tiles (first, span)."""
        banks = self.plan.hw.acc_bank_mask(first, span)
        word = pack_vector(acc_banks=banks, op=op, **fields)
        self.builder.emit_word(Unit.VECTOR, word, reads, (_ACC,))

    def _requantise(self, tile: _Tile) -> None:
        plan, pixels, slot = self.plan, self._pixels(tile), self._slot(tile)
        param_slot = tile.channel % plan.param_slots
        stored = plan.interleave
        for first, count in stored_parts(tile.blocks[1], stored):
            block, pixel = (pixels, 1) if stored == 1 else (1, stored)
            source = self._products(tile) + first * pixels
            factor = self._factor(tile) + first * (1 if plan.by_channel else pixels)
            word = pack_vector(
                acc_banks=plan.hw.acc_bank_mask(source, pixels * max(count, stored)),
                param_step=1,
                param_base=param_slot * plan.schedule.tile_co + first,
                iter_outer=count,
                iter_inner=pixels,
                dst_base=self._out(tile) + first * pixels,
                dst_outer=block,
                dst_inner=1 if stored == 1 else count,
                src_base=source,
                src_outer=block,
                src_inner=pixel,
                operand=int(Operand.RES),
                opd_base=factor,
                opd_outer=1 if plan.by_channel else block,
                opd_inner=0 if plan.by_channel else pixel,
                **self.requant_fields,
            )
            reads = (_ACC, ("factor", slot), ("param", param_slot), *self.requant_reads)
            self.builder.emit_word(Unit.VECTOR, word, reads, (("out", slot),))

    # -- STORE ------------------------------------------------------------------------------

    def _out(self, tile: _Tile) -> int:
        return self._slot(tile) * (self.plan.hw.out_depth // self.plan.slots)

    def _store(self, tile: _Tile) -> None:
        plan, pixels, slot = self.plan, self._pixels(tile), ("out", self._slot(tile))
        interleave, (first, count) = plan.interleave, tile.blocks
        image = tile.batch * plan.stored_planes + first // interleave
        start = image * plan.plane + tile.rows[0] * plan.workload.width * interleave
        full, rest = divmod(count, interleave)
        if full:
            region = box(pixels * interleave, full, 1, plan.plane, 0)
            self.store(self._out(tile), start, region, slot)
        if rest:
            base = self._out(tile) + full * pixels * interleave
            self.store(base, start + full * plan.plane, box(rest, pixels, 1, interleave, 0), slot)


def _tiles(plan: ProductPlan) -> Iterator[_Tile]:
    """All tiles in execution order, channel tiles outermost."""
    axes = product(enumerate(plan.channel_tiles), range(plan.batches), plan.row_tiles)
    for number, ((channel, blocks), batch, rows) in enumerate(axes):
        yield _Tile(number, channel, blocks, batch, rows)
