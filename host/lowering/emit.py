# SPDX-License-Identifier: Apache-2.0
"""From a plan to instructions: loads one item ahead of the GEMM, the epilogue behind it.

Emission of item i: the epilogue's loads, the operand loads of item i + 1 (unless they overwrite
what item i still reads: then after its GEMM), GEMM, VECTOR, STORE. Units run decoupled, so
the stream's order only has to keep each unit's own order and the queues from filling up.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tilewright.host.lowering.emission import Emission, Emitted, Key, OperandPlacement
from tilewright.host.lowering.geometry import ChannelTile, Geometry, Run
from tilewright.host.lowering.kernels import Gemm, Kernel, kernel_bytes
from tilewright.host.lowering.outputs import (
    OutputPart,
    channels_last,
    out_boxes,
    parts,
    spread_boxes,
)
from tilewright.host.lowering.plan import Plan
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    field_shift,
    pack_gemm,
    pack_load,
    pack_store,
    pack_vector,
)
from tilewright.host.lowering.transfers import ROW_MAX, Box, box, input_box
from tilewright.host.lowering.walk import (
    Item,
    OperandSlots,
    input_slots,
    prefetches,
    resident_slot,
    walk,
    weight_slots,
)
from tilewright.host.machine.hwconfig import UOP_BYTES
from tilewright.host.machine.isa import Memory, Opcode, Operand, Unit
from tilewright.host.network.layout import blocks_of

_LOAD_OFFSET: Final = field_shift(Opcode.LOAD, "dram_offset")
_LOAD_BASE: Final = field_shift(Opcode.LOAD, "sram_base")
_GEMM_BANKS: Final = field_shift(Opcode.GEMM, "acc_banks")
_GEMM_OVERWRITE: Final = field_shift(Opcode.GEMM, "overwrite")
_GEMM_ACC: Final = field_shift(Opcode.GEMM, "acc_base")
_GEMM_INP: Final = field_shift(Opcode.GEMM, "inp_base")
_GEMM_WGT: Final = field_shift(Opcode.GEMM, "wgt_base")


class _Ready(NamedTuple):
    """An item whose operands have slots: what its GEMM needs, and the loads before it."""

    item: Item
    loads: list[tuple[int, Key]]
    operands: tuple[Key, Key]
    inp_base: int
    wgt_base: int
    gemms: list[tuple[Run, int, int, Key]]
    """(run, instruction word without bases, tile products, micro-op key)."""


class LayersBefore:
    """What the layers of a run have left in the scratchpads for the next one.

    A run is layers with one plan and equal parameters of which none reads what another one writes:
    no fence parts them. They take the halves of the scratchpads in turn, if each holds a layer; so
    operands are loaded while the layer before is computed. Micro-ops, parameters and operands that
    layers share stay.

    Attributes:
        layers: how many there were.
        operands: slots of INP and of WGT, by the part of the scratchpads.
        params: the output tile whose parameters a slot of PARAM holds.
        kernels: first micro-op and key of each kernel in UOP.
        gemm_words: instructions without bases, by shape of the tile.
        table_loaded: the activation table is in TABLE.
    """

    def __init__(self) -> None:
        self.layers = 0
        self.operands: dict[int, tuple[OperandSlots, OperandSlots]] = {}
        self.params: dict[int, int] = {}
        self.kernels: dict[Kernel, tuple[int, Key]] = {}
        self.gemm_words: dict[tuple[int, ...], tuple[int, int, Key]] = {}
        self.table_loaded = False


def emit(
    builder: ProgramBuilder,
    plan: Plan,
    clip: tuple[int, int],
    placement: OperandPlacement,
    before: LayersBefore | None = None,
) -> Emitted:
    """Append a plan's instructions to a program.

    Args:
        builder: of the program; what it holds already is followed (`ProgramBuilder.fence`).
        plan: a legal plan.
        clip: int8 bounds of the output.
        placement: where the operands lie.
        before: of the run that the layer belongs to; None: it is alone.
    """
    return _Emitter(builder, plan, clip, placement, before).run()


class _Emitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        plan: Plan,
        clip: tuple[int, int],
        placement: OperandPlacement,
        before: LayersBefore | None,
    ) -> None:
        super().__init__(builder, clip, placement)
        self.plan = plan = channels_last(plan) if placement.channels_last else plan
        sides = 1 if before is None else plan.side_by_side
        self.before = before = before or LayersBefore()
        self.table_loaded = before.table_loaded
        self.side = before.layers % sides
        """Which part of the scratchpads is this layer's."""
        self.depth = {name: room // sides for name, (_, _, room) in plan.held().items()}
        self.uop_offset = placement.uop
        self.pad_value = placement.pad_value
        self.weights_by_input = placement.weights_by_input
        self.spread = placement.spread
        self.input_plane = placement.input_plane or plan.shape.height * plan.shape.width
        self.weight_plane = placement.weight_plane // plan.hw.block_out or plan.shape.out_blocks
        if self.side not in before.operands:
            before.operands[self.side] = (
                input_slots(plan, self.side, self.depth["inp"]),
                weight_slots(plan, self.side, self.depth["wgt"]),
            )
        self.inp, self.wgt = before.operands[self.side]
        self.params, self.kernels = before.params, before.kernels
        self.uops: list[bytes] = []
        self.uop_count = 0
        self.gemm_words = before.gemm_words
        self.inp_words: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.macs_tiles = 0

    def run(self) -> Emitted:
        items = list(walk(self.plan))
        ahead = prefetches(self.plan, items)
        ready = self._prepare(items[0], [])
        self._emit_loads(ready)
        for index, item in enumerate(items):
            if item.last:
                self._epilogue_loads(item)
            following = late = None
            if index + 1 < len(items):
                following = self._prepare(items[index + 1], ahead.get(index + 1, []))
                if any(key in ready.operands for _, key in following.loads):
                    late = following
                else:
                    self._emit_loads(following)
            self._compute(ready, late)
            if following is not None:
                ready = following
        self.before.layers += 1
        self.before.table_loaded = self.table_loaded
        return Emitted(
            uops=b"".join(self.uops),
            macs_tiles=self.macs_tiles,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
        )

    # -- operands ---------------------------------------------------------------------------

    def _prepare(self, item: Item, ahead: list[Item]) -> _Ready:
        """Give the item's operands slots; collect the loads that this takes."""
        plan = self.plan
        loads: list[tuple[int, Key]] = []
        gemms = self._gemms(item, loads)
        inp_slot, wgt_slot = self._operand_inp(item, loads), self._operand_wgt(item, loads)
        for other in ahead:
            if plan.wgt_copies:
                self._operand_wgt(other, loads)
            else:
                self._operand_inp(other, loads)
        return _Ready(
            item=item,
            loads=loads,
            operands=(self.inp.keys[inp_slot], self.wgt.keys[wgt_slot]),
            inp_base=self.inp.bases[inp_slot],
            wgt_base=self.wgt.bases[wgt_slot],
            gemms=gemms,
        )

    def _emit_loads(self, ready: _Ready) -> None:
        for word, key in ready.loads:
            self.builder.emit_word(Unit.LOAD, word, (), (key,))

    def _operand_inp(self, item: Item, loads: list[tuple[int, Key]]) -> int:
        plan = self.plan
        tile = (self.offsets["inp"], *item.inp_tile(plan.shape.depthwise))
        if plan.inp_copies:
            slot = resident_slot(plan, item)
            fresh = self.inp.place(slot, tile)
        else:
            slot, fresh = self.inp.stream(tile)
        if fresh:
            channels = plan.channels.tiles[item.co]
            first, count = (
                (channels.inp_first, channels.inp_count)
                if plan.shape.depthwise
                else plan.ci_tiles[item.ci]
            )
            key = self.inp.keys[slot]
            for word in self._inp_loads(item, first, count, self.inp.bases[slot]):
                loads.append((word, key))
        return slot

    def _inp_loads(self, item: Item, first: int, count: int, base: int) -> list[int]:
        """LOADs of an input tile: all batch tiles at once if their blocks are contiguous."""
        plan, shape = self.plan, self.plan.shape
        batch, batches = plan.batch_tiles[item.batch]
        row, column = plan.rows.tiles[item.row], plan.columns.tiles[item.column]
        interleave = shape.inp_interleave
        planes = blocks_of(count, interleave)
        if planes == shape.in_planes and batches * planes <= ROW_MAX:
            planes, batches = planes * batches, 1
        cached = self.inp_words.get((item.row, item.column, planes))
        if cached is None:
            padded = input_box(
                row,
                column,
                planes=planes,
                width=shape.width,
                plane=self.input_plane,
                row_step=shape.row_step,
                interleave=interleave,
            )
            word = pack_load(memory=Memory.INP, pad_value=self.pad_value, **padded.fields())
            cached = self.inp_words[item.row, item.column, planes] = (word, padded.box.tiles)
        word, tiles = cached
        words = []
        size = self.plan.hw.inp_tile_bytes
        for index in range(batch, batch + batches):
            offset = self.offsets["inp"]
            if tiles:
                plane = index * shape.in_planes + first // interleave
                pixel = plane * self.input_plane + row.source * shape.width + column.source
                offset += pixel * interleave * size
            words.append(word + (offset << _LOAD_OFFSET) + (base << _LOAD_BASE))
            base += planes * row.loaded * column.loaded * interleave
            self.bytes_read += tiles * size
        return words

    def _operand_wgt(self, item: Item, loads: list[tuple[int, Key]]) -> int:
        plan, shape = self.plan, self.plan.shape
        tile = (self.offsets["wgt"], *item.wgt_tile())
        if plan.wgt_copies:
            slot = resident_slot(plan, item)
            fresh = self.wgt.place(slot, tile)
        else:
            slot, fresh = self.wgt.stream(tile)
        if fresh:
            channels = plan.channels.tiles[item.co]
            first, count = plan.ci_tiles[item.ci]
            if shape.depthwise:
                # Where blocks differ in size, the diagonal moves on with each row of the LOAD.
                blocks, taps = channels.count * shape.reduce_blocks, shape.taps
                moves = shape.reduce_blocks > 1 or shape.share > 1
                region = Box(taps, blocks, 1, taps, 0) if moves else box(taps, blocks, 1, taps, 0)
            elif self.weights_by_input:
                region = Box(1, count, channels.count, self.weight_plane, 1)
            else:
                reduction = shape.reduce_blocks * shape.taps
                region = box(count * shape.taps, channels.count, 1, reduction, 0)
            size = plan.stored_wgt_tile
            start = (channels.first * shape.reduce_blocks + first) * shape.taps
            if self.weights_by_input:
                start = first * self.weight_plane + channels.first
            word = pack_load(
                memory=Memory.WGT,
                sram_base=self.wgt.bases[slot],
                dram_offset=self.offsets["wgt"] + start * size,
                diagonal=int(shape.depthwise),
                phase=channels.first % shape.share,
                int4=int(shape.int4),
                **region._asdict(),
            )
            self.bytes_read += region.tiles * size
            loads.append((word, self.wgt.keys[slot]))
        return slot

    # -- GEMM -------------------------------------------------------------------------------

    def _runs(self, channels: ChannelTile) -> tuple[Run, ...]:
        """The output blocks of each GEMM instruction."""
        if not self.plan.by_block:
            return channels.runs
        shape = self.plan.shape
        return tuple(
            Run(first=block, count=1, inp_block=_inp_block(shape, channels, block))
            for block in range(channels.count)
        )

    def _gemms(self, item: Item, loads: list[tuple[int, Key]]) -> list[tuple[Run, int, int, Key]]:
        """The item's GEMMs; kernels that were not used before are loaded first."""
        plan = self.plan
        channels = plan.channels.tiles[item.co]
        batches, ci = plan.batch_tiles[item.batch][1], plan.ci_tiles[item.ci][1]
        rows, columns = plan.rows.tiles[item.row].count, plan.columns.tiles[item.column].count
        gemms = []
        for run in self._runs(channels):
            shape = (batches, rows, columns, ci, run.count, channels.inp_count)
            cached = self.gemm_words.get(shape)
            if cached is None:
                gemm = plan.gemm(batches, rows, columns, ci, (run.count, channels.inp_count))
                cached = self.gemm_words[shape] = self._gemm_word(gemm, loads)
            gemms.append((run, *cached))
        return gemms

    def _gemm_word(self, gemm: Gemm, loads: list[tuple[int, Key]]) -> tuple[int, int, Key]:
        placed = self.kernels.get(gemm.kernel)
        if placed is None:
            begin, key = self.uop_count, ("uop", len(self.kernels))
            for first in range(0, gemm.length, ROW_MAX):
                count = min(ROW_MAX, gemm.length - first)
                word = pack_load(
                    memory=Memory.UOP,
                    sram_base=begin + first,
                    dram_offset=self.uop_offset + (begin + first) * UOP_BYTES,
                    x_size=count,
                    y_size=1,
                    z_size=1,
                )
                loads.append((word, key))
            self.uops.append(kernel_bytes(gemm.kernel))
            self.uop_count += gemm.length
            self.bytes_read += gemm.length * UOP_BYTES
            placed = self.kernels[gemm.kernel] = (begin, key)
        outer, inner = gemm.outer, gemm.inner
        word = pack_gemm(
            uop_begin=placed[0],
            uop_count=gemm.length,
            iter_outer=outer.trips,
            iter_inner=inner.trips,
            acc_outer=outer.acc,
            inp_outer=outer.inp,
            wgt_outer=outer.wgt,
            acc_inner=inner.acc,
            inp_inner=inner.inp,
            wgt_inner=inner.wgt,
        )
        return word, gemm.length * outer.trips * inner.trips, placed[1]

    def _compute(self, ready: _Ready, late: _Ready | None) -> None:
        """GEMM of an item, the loads that had to wait for it, and its epilogue.

        VECTOR and STORE follow the last reduction step, per output block when fused by block.
        """
        plan, item = self.plan, ready.item
        by_block = plan.by_block
        ci = plan.ci_tiles[item.ci][1]
        row, column = plan.rows.tiles[item.row], plan.columns.tiles[item.column]
        pixels = plan.batch_tiles[item.batch][1] * row.count * column.count
        plane = row.loaded * column.loaded
        final = len(ready.gemms) - 1
        for index, (run, shape_word, macs, uop_key) in enumerate(ready.gemms):
            base = self._acc_base(item.context, run.first, pixels)
            banks = plan.hw.acc_bank_mask(base, run.count * pixels)
            word = (
                shape_word
                + (banks << _GEMM_BANKS)
                + (int(item.first) << _GEMM_OVERWRITE)
                + (base << _GEMM_ACC)
                + ((ready.inp_base + run.inp_block * plane) << _GEMM_INP)
                + ((ready.wgt_base + run.first * ci * plan.shape.taps) << _GEMM_WGT)
            )
            block = run.first if by_block else 0
            self.builder.emit_word(
                Unit.GEMM, word, (*ready.operands, uop_key), (self._key("acc", item, block),)
            )
            self.macs_tiles += macs
            if late is not None and index == final:
                self._emit_loads(late)
            if item.last and by_block:
                self._epilogue(item, run.first, 1, pixels)
        if item.last and not by_block:
            self._epilogue(item, 0, plan.channels.tiles[item.co].count, pixels)

    def _acc_base(self, context: int, block: int, pixels: int) -> int:
        """First ACC tile of an output block: fused by block, neighbours lie in different banks."""
        plan = self.plan
        region = self.depth["acc"] // plan.contexts
        start = self._region("acc", context)
        if not plan.by_block:
            return start + block * pixels
        bank, rank = block % plan.banks, block // plan.banks
        return start + bank * (region // plan.banks) + rank * plan.block_pixels

    def _region(self, name: str, context: int) -> int:
        """First tile of a context in ACC, OUT or RES."""
        return self.side * self.depth[name] + context * (self.depth[name] // self.plan.contexts)

    def _context(self, item: Item) -> int:
        """An item's context, of those of all layers side by side."""
        return self.side * self.plan.contexts + item.context

    def _key(self, name: str, item: Item, block: int) -> Key:
        return (name, self._context(item) * self.plan.schedule.tile_co + block)

    # -- epilogue ---------------------------------------------------------------------------

    def _epilogue_loads(self, item: Item) -> None:
        """Parameters of the co tile, unless they are there, and the residual tile."""
        plan = self.plan
        channels = plan.channels.tiles[item.co]
        slot = item.co % plan.param_slots
        if self.params.get(slot) != item.co:
            self.params[slot] = item.co
            self.load_params(slot, plan.schedule.tile_co, channels.first, channels.count)
        if plan.shape.residual:
            row, column = plan.rows.tiles[item.row], plan.columns.tiles[item.column]
            pixels = plan.batch_tiles[item.batch][1] * row.count * column.count
            base = self._region("res", item.context)
            for part in parts(plan, item, 0, channels.count):
                for offset, start, region in out_boxes(plan, item, part):
                    word = pack_load(
                        memory=Memory.RES,
                        sram_base=base + part.first * pixels + start,
                        dram_offset=self.offsets["res"] + offset,
                        **region._asdict(),
                    )
                    self.builder.emit_word(Unit.LOAD, word, (), (("res", self._context(item)),))
                    self.bytes_read += plan.hw.out_tile_bytes * region.tiles

    def _epilogue(self, item: Item, first: int, count: int, pixels: int) -> None:
        """VECTOR of output blocks ``first .. first + count - 1``; STORE of what they complete."""
        plan = self.plan
        out = self._region("out", item.context)
        for part in parts(plan, item, first, count):
            low, high = max(first, part.first), min(first + count, part.end)
            keys = [self._key("out", item, block) for block in part.keys]
            self._vector(item, part, (low, high - low), pixels, keys)
            if high < part.end:
                continue
            boxes = (
                out_boxes(plan, item, part)
                if self.spread is None
                else spread_boxes(plan, item, part, self.spread)
            )
            for offset, start, region in boxes:
                word = pack_store(
                    sram_base=out + part.first * plan.block_pixels + start,
                    dram_offset=self.offsets["out"] + offset,
                    **region._asdict(),
                )
                self.builder.emit_word(Unit.STORE, word, keys, ())
                self.bytes_written += plan.hw.out_tile_bytes * region.tiles

    def _vector(
        self, item: Item, part: OutputPart, blocks: tuple[int, int], pixels: int, keys: list[Key]
    ) -> None:
        """Requantise (first, count) output blocks of a part into its place in OUT."""
        plan, shape = self.plan, self.plan.shape
        first, count = blocks
        slot = item.co % plan.param_slots
        src = self._acc_base(item.context, first, pixels)
        out = self._region("out", item.context) + part.first * plan.block_pixels
        next_block, next_pixel = part.steps(pixels)
        skipped, step = (first - part.first) * next_block, next_block if count > 1 else 0
        operand: dict[str, int] = {}
        reads = [self._key("acc", item, first if plan.by_block else 0), ("param", slot)]
        reads += self.requant_reads
        if shape.residual:
            base = self._region("res", item.context)
            operand = {
                "operand": int(Operand.RES),
                "opd_base": base + part.first * pixels + skipped,
                "opd_outer": step,
                "opd_inner": next_pixel,
            }
            reads.append(("res", self._context(item)))
        word = pack_vector(
            acc_banks=plan.hw.acc_bank_mask(src, count * pixels),
            param_step=1,
            param_base=slot * plan.schedule.tile_co + first,
            iter_outer=count,
            iter_inner=pixels,
            dst_base=out + skipped,
            src_base=src,
            dst_outer=step,
            src_outer=pixels if count > 1 else 0,
            dst_inner=next_pixel,
            src_inner=1,
            **self.requant_fields,
            **operand,
        )
        self.builder.emit_word(Unit.VECTOR, word, reads, keys)


def _inp_block(shape: Geometry, channels: ChannelTile, block: int) -> int:
    """The first loaded input block that an output block of a tile reads."""
    if not shape.depthwise:
        return 0
    if shape.share == 1:
        return block * shape.reduce_blocks
    return (channels.first + block) // shape.share - channels.inp_first
