# SPDX-License-Identifier: Apache-2.0
"""From a pool's plan to instructions: loads one piece ahead of the vector unit.

RES and ACC are laid out as `pooling_gather` says; OUT is as ACC, or where blocks are interleaved in
DRAM [stored blocks][batches][rows][columns][blocks], so that its rows are those of DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product, zip_longest
from typing import Final, NamedTuple

from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.geometry import Span, stored_parts
from tilewright.host.lowering.pooling import PoolPlan
from tilewright.host.lowering.pooling_rows import Piece, gather
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_vector,
)
from tilewright.host.lowering.transfers import ROW_MAX, Box, box, input_box
from tilewright.host.lowering.vector_loops import Pass
from tilewright.host.machine.isa import Memory, Operand, Unit, VectorOp
from tilewright.host.network.golden import PAD_MAXPOOL
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.workload import Kind

_ACC: Final = ("acc", 0)
"""ACC holds one tile: only the vector unit works on it, in order."""


class _Tile(NamedTuple):
    """An output tile: spans of the image, (first, count) of batch tiles and output blocks."""

    number: int
    channel: int
    blocks: tuple[int, int]
    batch: tuple[int, int]
    row: Span
    column: Span

    @property
    def pixels(self) -> int:
        """Tiles of one output block."""
        return self.batch[1] * self.row.count * self.column.count


class _Step(NamedTuple):
    """A piece of a tile, and the RES slot that it is loaded to."""

    slot: int
    tile: _Tile
    piece: Piece
    last: bool


def emit_pool(
    builder: ProgramBuilder, plan: PoolPlan, clip: tuple[int, int], placement: OperandPlacement
) -> Emitted:
    """Append a plan's instructions to a program; padding is -128, as maxima alone have it."""
    return _PoolEmitter(builder, plan, clip, placement).run()


class _PoolEmitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        plan: PoolPlan,
        clip: tuple[int, int],
        placement: OperandPlacement,
    ) -> None:
        super().__init__(builder, clip, placement)
        self.plan = plan
        sums = plan.workload.kind is Kind.AVGPOOL
        self.further = VectorOp.ADD if sums else VectorOp.MAX

    def run(self) -> Emitted:
        held = -1
        steps = list(_steps(self.plan))
        self._load_piece(steps[0])
        for step, following in zip_longest(steps, steps[1:]):
            if step.tile.channel != held:
                held = step.tile.channel
                slot = held % self.plan.param_slots
                self.load_params(slot, self.plan.schedule.tile_co, *step.tile.blocks)
            if following is not None and following.slot != step.slot:
                self._load_piece(following)
            self._gather(step)
            if following is not None and following.slot == step.slot:
                self._load_piece(following)
            if step.last:
                self._requantise(step.tile)
                self._store(step.tile)
        return self.emitted()

    def _load_piece(self, step: _Step) -> None:
        """LOADs of a piece: all batch tiles at once if their blocks are contiguous."""
        plan, workload, rows, tile = self.plan, self.plan.workload, step.piece.span, step.tile
        if not step.piece.loads:
            return
        batch, batches = tile.batch
        interleave, size = plan.interleave, plan.hw.out_tile_bytes
        planes = blocks_of(tile.blocks[1], interleave)
        if planes == plan.stored_planes and batches * planes <= ROW_MAX:
            planes, batches = planes * batches, 1
        padded = input_box(
            rows,
            tile.column,
            planes=planes,
            width=workload.width,
            plane=workload.height * workload.width,
            row_step=plan.row_step,
            interleave=interleave,
        )
        base = step.slot * plan.slot
        for index in range(batch, batch + batches):
            offset = self.offsets["inp"]
            if padded.box.tiles:
                plane = index * plan.stored_planes + tile.blocks[0] // interleave
                row = plane * workload.height + rows.source
                offset += (row * workload.width + tile.column.source) * interleave * size
            word = pack_load(
                memory=Memory.RES,
                pad_value=PAD_MAXPOOL,
                sram_base=base,
                dram_offset=offset,
                **padded.fields(),
            )
            self.builder.emit_word(Unit.LOAD, word, (), (("res", step.slot),))
            self.bytes_read += padded.box.tiles * size
            base += planes * rows.loaded * tile.column.loaded * interleave

    # -- VECTOR -----------------------------------------------------------------------------

    def _gather(self, step: _Step) -> None:
        """Maxima or sums of what a piece brings."""
        plan, tile = self.plan, step.tile
        line = tile.column.loaded * plan.interleave
        base = step.slot * plan.slot
        for use in step.piece.uses:
            acc, res = use.out * tile.column.count, base + use.row * line
            window = plan.window(
                step.piece,
                use,
                blocks=tile.blocks[1],
                batches=tile.batch[1],
                rows=tile.row.count,
                column=tile.column,
            )
            for first, part in gather(window):
                op = VectorOp.MOV if first else self.further
                self._vector(op, part, acc, res, None if use.taps == 0 else ("res", step.slot))

    def _vector(
        self, op: VectorOp, part: Pass, acc: int, res: int, key: tuple[str, int] | None
    ) -> None:
        """One instruction of `gather`; without a key its operand is what padding counts as."""
        operand: dict[str, int] = {"imm": PAD_MAXPOOL}
        if key is not None:
            operand = {
                "operand": int(Operand.RES),
                "opd_base": res + part.res,
                "opd_outer": part.outer.res,
                "opd_inner": part.inner.res,
            }
        first = acc + part.acc
        word = pack_vector(
            acc_banks=self.plan.hw.acc_bank_mask(first, part.acc_span),
            op=op,
            iter_outer=part.outer.trips,
            iter_inner=part.inner.trips,
            dst_base=first,
            src_base=first,
            dst_outer=part.outer.acc,
            src_outer=part.outer.acc,
            dst_inner=part.inner.acc,
            src_inner=part.inner.acc,
            **operand,
        )
        self.builder.emit_word(Unit.VECTOR, word, () if key is None else (key,), (_ACC,))

    def _requantise(self, tile: _Tile) -> None:
        """One pass over the tile, or one a stored block where OUT interleaves blocks."""
        plan, pixels = self.plan, tile.pixels
        param = tile.channel % plan.param_slots * plan.schedule.tile_co
        for first, count in stored_parts(tile.blocks[1], self.plan.interleave):
            block_step, pixel_step = (1, count) if plan.interleave > 1 else (pixels, 1)
            word = pack_vector(
                acc_banks=plan.hw.acc_bank_mask(first * pixels, count * pixels),
                param_step=1,
                param_base=param + first,
                iter_outer=count,
                iter_inner=pixels,
                dst_base=self._out_base(tile) + first * pixels,
                src_base=first * pixels,
                dst_outer=block_step if count > 1 else 0,
                src_outer=pixels if count > 1 else 0,
                dst_inner=pixel_step,
                src_inner=1,
                **self.requant_fields,
            )
            reads = (_ACC, ("param", tile.channel % plan.param_slots), *self.requant_reads)
            self.builder.emit_word(Unit.VECTOR, word, reads, (self._out_key(tile),))

    # -- OUT --------------------------------------------------------------------------------

    def _out_base(self, tile: _Tile) -> int:
        slots = self.plan.out_slots
        return tile.number % slots * (self.plan.hw.out_depth // slots)

    def _out_key(self, tile: _Tile) -> tuple[str, int]:
        return ("out", tile.number % self.plan.out_slots)

    def _store(self, tile: _Tile) -> None:
        for first, count in stored_parts(tile.blocks[1], self.plan.interleave):
            base = self._out_base(tile) + first * tile.pixels
            for offset, at, region in self._out_boxes(tile, first, count):
                self.store(base + at, offset, region, self._out_key(tile))

    def _out_boxes(self, tile: _Tile, first: int, count: int) -> list[tuple[int, int, Box]]:
        """Of each region that a stored part fills: tile in the output, tile in the part, shape."""
        plan, workload = self.plan, self.plan.workload
        interleave, (batch, batches) = plan.interleave, tile.batch
        rows, columns = tile.row.count, tile.column.count
        line = workload.out_width * interleave
        plane = workload.out_height * line
        image = plan.stored_planes * plane
        start = batch * image + (tile.blocks[0] + first) // interleave * plane
        start += tile.row.out * line + tile.column.out * interleave
        if interleave == 1 and batches == 1:
            return [(start, 0, box(columns, rows, count, line, plane))]
        if count == interleave:  # a whole stored block
            return [(start, 0, box(columns * count, rows, batches, line, image))]
        if interleave == 1:
            region = box(columns, rows, batches, line, image)
            return [(start + block * plane, block * tile.pixels, region) for block in range(count)]
        region = box(count, columns, rows, interleave, line)
        pixels = rows * columns * count
        return [(start + i * image, i * pixels, region) for i in range(batches)]


def _steps(plan: PoolPlan) -> Iterator[_Step]:
    """All pieces in execution order, channel tiles outermost."""
    loads = 0
    tiles = product(
        enumerate(plan.channel_tiles),
        plan.batch_tiles,
        zip(plan.rows.tiles, plan.pieces, strict=True),
        plan.columns.tiles,
    )
    for number, ((channel, blocks), batch, (row, pieces), column) in enumerate(tiles):
        tile = _Tile(number, channel, blocks, batch, row, column)
        for index, piece in enumerate(pieces):
            yield _Step(loads % plan.res_slots, tile, piece, index == len(pieces) - 1)
            loads += piece.loads
