# SPDX-License-Identifier: Apache-2.0
"""From a product's plan to instructions: loads one tile ahead of the vector unit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product, zip_longest
from typing import Final, NamedTuple

from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.geometry import stored_parts
from tilewright.host.lowering.products import ProductPlan
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_vector,
)
from tilewright.host.lowering.transfers import Box, box
from tilewright.host.machine.isa import Memory, Operand, Unit, VectorOp
from tilewright.host.network.layout import blocks_of

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
    """Append a plan's instructions to a program.

    Args:
        builder: of the program; what it holds already is followed (`ProgramBuilder.fence`).
        plan: a legal plan.
        clip: int8 bounds of the output.
        placement: where the operands lie.
    """
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
            self._vector(VectorOp.MUL, 0, factor, (data,), **whole, **operand)
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
