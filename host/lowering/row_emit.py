# SPDX-License-Identifier: Apache-2.0
"""From a plan of rows to instructions: programs of VECTOR alone.

Pieces of consecutive pixels are loaded to RES ahead of the vector unit, computed in ACC, and
stored. Each instruction does one operation of `host.network.row_functions` on all rows of a piece.

ACC holds ``[channel block][row]`` of a piece, then two tiles a row for what rows are reduced to,
then constants, then a mask as exponents, ``[channel block]``. RES and OUT are as DRAM:
``[stored block][row][blocks of a stored block]``; in RES that of each operand, then the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_store,
    pack_vector,
)
from tilewright.host.lowering.row_plan import CONSTANTS, RowPlan, Shape, plan_rows
from tilewright.host.machine.isa import Memory, Operand, Reduce, Unit, VectorOp
from tilewright.host.network.row_functions import (
    GREATEST_INVERSE,
    MEAN_BITS,
    ONE,
    PROBABILITY_BITS,
    LayerNorm,
    RowFunction,
    Softmax,
    addend_planes,
    is_masked,
)

_ACC: Final = ("acc", 0)
"""ACC holds one piece: only the vector unit works on it, in order."""

_MASK: Final = ("mask", 0)
"""RES holds one."""


def emit_rows(
    builder: ProgramBuilder,
    shape: Shape,
    layers: Sequence[tuple[RowFunction, OperandPlacement]],
) -> list[tuple[int, Emitted]]:
    """Append softmax or layer normalisation of activations of one shape to a program.

    No fence parts them: while a layer's last rows are computed, the first of the next are loaded.

    Args:
        builder: of the program; what it holds already is followed (`ProgramBuilder.fence`).
        shape: NCHW of the activations.
        layers: what to compute of the channels of each pixel, with addends of as many planes; and
            where ``inp``, ``param`` and ``out`` lie, the planes of an addend (``coarse``,
            ``fine``), which lie as activations do, and ``mask``, which lies as one of one pixel:
            all layers have one, or none. None reads what another one writes.
    """
    for function, _ in layers:
        _check(function, shape)
    first = layers[0][0]
    operands = 1 + len(addend_planes(first))
    plan = plan_rows(builder.hw, shape, operands, len(layers), masked=is_masked(first))
    emitters = [_RowEmitter(builder, plan, *layer) for layer in layers]
    pieces = [(emitter, piece) for emitter in emitters for piece in plan.pieces]
    starts = []
    working: _RowEmitter | None = None
    for number, (emitter, piece) in enumerate(pieces):
        if emitter is not working:
            starts.append(len(builder))
            if working is None:
                emitter.load(number, *piece)
            emitter.start(working)
            working = emitter
        following = pieces[number + 1] if number + 1 < len(pieces) else None
        if following is not None and plan.slots > 1:
            following[0].load(number + 1, *following[1])
        emitter.compute(number, *piece)
        if following is not None and plan.slots == 1:
            following[0].load(number + 1, *following[1])
    return list(zip(starts, (emitter.emitted() for emitter in emitters), strict=True))


def _check(function: RowFunction, shape: Shape) -> None:
    """Refuse a function of other rows."""
    if isinstance(function, LayerNorm) and function.channels != shape[1]:
        raise WorkloadError(
            f"must have the function's {function.channels} channels",
            field="layer norm: rows",
            value=shape,
            remedy="give the parameters of this layer",
        )
    if isinstance(function, Softmax) and function.addend is not None:
        images, channels, height, width = shape
        function.addend.check((images, height, width, channels))


class _RowEmitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        plan: RowPlan,
        function: RowFunction,
        placement: OperandPlacement,
    ) -> None:
        super().__init__(builder, function.clip, placement)
        self.plan = plan
        self.function = function
        self.operands = ("inp", *addend_planes(function))
        # Tiles of ACC: the piece from 0 on, then these.
        self.first = plan.piece
        self.second = self.first + plan.rows
        self.constants = self.second + plan.rows
        self.mask = self.constants + CONSTANTS
        self.banks = plan.hw.acc_bank_mask(0, self.mask + plan.mask_tiles)
        self.rows, self.taken = plan.rows, self.operands

    def start(self, before: _RowEmitter | None) -> None:
        """What the layer needs in PARAM and ACC but for what the one before has left there."""
        plan = self.plan
        same = before is not None and before.offsets["param"] == self.offsets["param"]
        if plan.held == plan.blocks and not same:
            self.load_params(0, plan.held, 0, plan.held)
        if before is None or before._values() != self._values():
            for index, value in enumerate(self._values()):
                self._constant(self.constants + index, value)
        if plan.masked and (before is None or before._mask_source() != self._mask_source()):
            self._take_mask()

    def compute(self, number: int, image: int, first: int, rows: int) -> None:
        """A piece that is loaded: its results, stored."""
        self.rows, self.taken = rows, self._needed(image, first, rows)
        if isinstance(self.function, Softmax):
            self._softmax(number)
        else:
            self._layer_norm(number)
        self._requantise(number)
        self._store(number, image, first, rows)

    def _needed(self, image: int, first: int, rows: int) -> tuple[str, ...]:
        """Operands of a piece: where nothing is masked there is no coarse addend."""
        plane = addend_planes(self.function).get("coarse")
        if plane is not None:
            batch = self.plan.hw.batch
            images = plane[image * batch : (image + 1) * batch]
            part = images.reshape(len(images), self.plan.pixels, -1)[:, first : first + rows]
            if not part.any():
                return tuple(name for name in self.operands if name != "coarse")
        return self.operands

    def _values(self) -> tuple[int, ...]:
        """The numbers that the function needs in ACC."""
        if isinstance(self.function, LayerNorm):
            unit = (self.function.unit,) if self.function.epsilon else ()
            return self.function.offset, GREATEST_INVERSE, *unit
        added, power = self.function.addend, PROBABILITY_BITS * ONE
        if added is None:
            return self.function.factor, power
        if added.coarse is None:
            return added.ratio, power
        return added.coarse_steps, power, added.ratio

    def _mask_source(self) -> tuple[int, int]:
        """Where the mask lies, and the exponent of a step of it."""
        assert isinstance(self.function, Softmax)  # no other function has a mask
        return self.offsets["mask"], self.function.mask_factor

    def _take_mask(self) -> None:
        """The mask in exponents, to ACC: each of its tiles serves all rows."""
        plan = self.plan
        offset, factor = self._mask_source()
        base = plan.slots * plan.operands * plan.piece
        word = pack_load(
            memory=Memory.RES,
            sram_base=base,
            dram_offset=offset,
            x_size=plan.mask_tiles,
            y_size=1,
            z_size=1,
        )
        self.builder.emit_word(Unit.LOAD, word, (), (_MASK,))
        self.bytes_read += plan.mask_tiles * plan.hw.out_tile_bytes
        # No row is reduced yet.
        self._constant(self.second, factor)
        word = pack_vector(
            op=VectorOp.MUL,
            operand=Operand.RES,
            acc_banks=self.banks,
            iter_outer=1,
            iter_inner=plan.mask_tiles,
            src_base=self.second,
            dst_base=self.mask,
            dst_inner=1,
            opd_base=base,
            opd_inner=1,
        )
        self.builder.emit_word(Unit.VECTOR, word, (_MASK,), (_ACC,))

    # -- the functions ------------------------------------------------------------------------

    def _exponents(self, number: int) -> None:
        """What softmax takes powers of."""
        assert isinstance(self.function, Softmax)  # `run` asks before
        added = self.function.addend
        if added is None or added.coarse is None:
            self._take(number, VectorOp.MUL, "inp", src_base=self.constants)
        elif "coarse" not in self.taken:
            self._take(number, VectorOp.MUL, "inp", src_base=self.constants + 2)
        else:
            self._take(number, VectorOp.MUL, "coarse", src_base=self.constants)
            self._take(number, VectorOp.ADD, "inp")
            if added.ratio > 1:
                self._piece(VectorOp.MUL, added.ratio)
        if added is None:
            return
        if added.fine is not None:
            self._take(number, VectorOp.ADD, "fine")
        self._piece(VectorOp.MUL, added.factor)
        if added.shift:
            self._piece(VectorOp.SHR, added.shift)

    def _softmax(self, number: int) -> None:
        one = self.constants + 1
        self._exponents(number)
        if self.plan.masked:
            self._add_mask()
        self._reduce(Reduce.MAX, VectorOp.ADD, self.first)
        self._rows_with(VectorOp.SUB, self.first, one)
        self._piece_with(VectorOp.SUB, self.first)
        self._reduce(Reduce.LOG_SUM, VectorOp.EXP2, self.second)
        self._rows_with(VectorOp.SUB, self.second, one)
        self._piece_with(VectorOp.SUB, self.second)
        self._piece(VectorOp.EXP2)

    def _add_mask(self) -> None:
        """To all rows of the piece: a tile of the mask is held while its block goes through."""
        self._vector(
            VectorOp.ADD,
            iter_outer=self.plan.mask_tiles,
            iter_inner=self.rows,
            src_outer=self.rows,
            src_inner=1,
            dst_outer=self.rows,
            dst_inner=1,
            hold=1,
            opd_base=self.mask,
            opd_outer=1,
        )

    def _layer_norm(self, number: int) -> None:
        assert isinstance(self.function, LayerNorm)  # `run` asks before
        offset, greatest = self.constants, self.constants + 1
        function = self.function
        # Where the sums of squares come later there is a constant first.
        self._constant(self.second, 1 << MEAN_BITS)
        self._take(number, VectorOp.MUL, "inp", src_base=self.second)
        self._reduce(Reduce.SUM, VectorOp.SHR, self.first, imm=MEAN_BITS)
        self._row(VectorOp.MUL, self.first, function.mean_factor)
        self._row(VectorOp.ADD, self.first, function.mean_half)
        self._row(VectorOp.SHR, self.first, function.mean_shift)
        self._piece_with(VectorOp.SUB, self.first)
        self._reduce(Reduce.LOG_SUM, VectorOp.SQUARE, self.second)
        if function.epsilon:
            self._add_epsilon(function.epsilon)
        self._row(VectorOp.SHR, self.second, 1)
        self._vector(
            VectorOp.SUB,
            iter_outer=self.rows,
            src_base=offset,
            dst_base=self.second,
            dst_outer=1,
            hold=1,
            opd_base=self.second,
            opd_outer=1,
        )
        self._rows_with(VectorOp.MIN, self.second, greatest)
        self._row(VectorOp.EXP2, self.second, 0)
        self._row(VectorOp.ADD, self.second, 1)
        self._row(VectorOp.SHR, self.second, 1)
        self._piece_with(VectorOp.MUL, self.second)

    def _add_epsilon(self, epsilon: int) -> None:
        """To sums of squares of which there is the logarithm; they are in its unit afterwards."""
        steps = {"src_inner": 1, "dst_inner": 1, "iter_inner": self.rows}
        self._rows_with(VectorOp.SUB, self.second, self.constants + 2)
        self._vector(VectorOp.EXP2, src_base=self.second, dst_base=self.first, **steps)
        each = {"iter_outer": self.rows, "src_outer": 1, "dst_outer": 1}
        self._vector(
            VectorOp.ADD,
            imm=epsilon,
            reduce=Reduce.LOG_SUM,
            lanes=1,
            src_base=self.first,
            dst_base=self.first,
            **each,
        )
        self._vector(
            VectorOp.MAX,
            hold=1,
            opd_base=self.first,
            opd_outer=1,
            src_base=self.second,
            dst_base=self.second,
            **each,
        )

    # -- VECTOR -------------------------------------------------------------------------------

    @property
    def _tiles(self) -> int:
        """Tiles of the piece in ACC."""
        return self.plan.planes * self.plan.interleave * self.rows

    def _vector(self, op: VectorOp, **fields: int) -> None:
        """An instruction on ACC alone, once in each loop that is not given."""
        loops = {"iter_outer": 1, "iter_inner": 1}
        word = pack_vector(op=op, acc_banks=self.banks, **{**loops, **fields})
        self.builder.emit_word(Unit.VECTOR, word, (), (_ACC,))

    def _constant(self, tile: int, value: int) -> None:
        """A number of up to 23 bits and a sign in every element of a tile."""
        at = {"dst_base": tile, "src_base": tile}
        self._vector(VectorOp.MOV, imm=value >> 8, **at)
        self._vector(VectorOp.MUL, imm=1 << 8, **at)
        self._vector(VectorOp.ADD, imm=value & 0xFF, **at)

    def _piece(self, op: VectorOp, imm: int = 0) -> None:
        """An operation on every tile of the piece."""
        self._vector(op, iter_inner=self._tiles, src_inner=1, dst_inner=1, imm=imm)

    def _take(
        self, number: int, op: VectorOp, operand: str, *, src_base: int | None = None
    ) -> None:
        """An operation of every tile of the piece and of what was loaded to RES for it."""
        plan = self.plan
        slot = number % plan.slots
        width = plan.interleave
        for plane in range(plan.planes if width > 1 else 1):
            each = width if width > 1 else plan.planes
            first = plane * width * self.rows
            source = {"src_base": first, "src_outer": self.rows, "src_inner": 1}
            if src_base is not None:
                source = {"src_base": src_base}
            word = pack_vector(
                op=op,
                operand=Operand.RES,
                acc_banks=self.banks,
                iter_outer=each,
                iter_inner=self.rows,
                **source,
                dst_base=first,
                dst_outer=self.rows,
                dst_inner=1,
                opd_base=self._res(slot, operand) + first,
                opd_outer=1 if width > 1 else self.rows,
                opd_inner=width,
            )
            self.builder.emit_word(Unit.VECTOR, word, (("res", slot),), (_ACC,))

    def _reduce(self, kind: Reduce, op: VectorOp, to: int, imm: int = 0) -> None:
        self._vector(
            op,
            imm=imm,
            iter_outer=self.rows,
            iter_inner=self.plan.blocks,
            src_outer=1,
            src_inner=self.rows,
            dst_base=to,
            dst_outer=1,
            reduce=kind,
            lanes=self.plan.shape[1] % self.plan.hw.block_out,
        )

    def _row(self, op: VectorOp, at: int, imm: int) -> None:
        """An operation on what each row was reduced to."""
        self._vector(
            op, iter_inner=self.rows, src_base=at, src_inner=1, dst_base=at, dst_inner=1, imm=imm
        )

    def _rows_with(self, op: VectorOp, at: int, held: int) -> None:
        """The same, with a constant."""
        self._vector(
            op,
            iter_inner=self.rows,
            src_base=at,
            src_inner=1,
            dst_base=at,
            dst_inner=1,
            hold=1,
            opd_base=held,
        )

    def _piece_with(self, op: VectorOp, held: int) -> None:
        """An operation on every tile of the piece and what its row was reduced to."""
        self._vector(
            op,
            iter_outer=self.rows,
            iter_inner=self.plan.planes * self.plan.interleave,
            src_outer=1,
            src_inner=self.rows,
            dst_outer=1,
            dst_inner=self.rows,
            hold=1,
            opd_base=held,
            opd_outer=1,
        )

    def _requantise(self, number: int) -> None:
        """All blocks of a piece; where PARAM does not hold their parameters, part by part."""
        plan = self.plan
        for first in range(0, plan.blocks, plan.held):
            count = min(plan.held, plan.blocks - first)
            if plan.held < plan.blocks:
                self.load_params(0, plan.held, first, count)
            self._requantise_blocks(number, first, first + count)

    def _requantise_blocks(self, number: int, start: int, end: int) -> None:
        plan, slot = self.plan, number % self.plan.slots
        width = plan.interleave
        step = width if width > 1 else end - start
        for first in range(start, end, step):
            count = min(step, end - first)
            word = pack_vector(
                acc_banks=self.banks,
                param_step=1,
                param_base=first - start,
                iter_outer=count,
                iter_inner=self.rows,
                src_base=first * self.rows,
                src_outer=self.rows,
                src_inner=1,
                dst_base=slot * plan.piece + first * self.rows,
                dst_outer=1 if width > 1 else self.rows,
                dst_inner=width,
                **self.requant_fields,
            )
            reads = (_ACC, ("param", 0))
            self.builder.emit_word(Unit.VECTOR, word, reads, (("out", slot),))

    # -- DRAM ---------------------------------------------------------------------------------

    def _walk(self, name: str, image: int, first: int, rows: int) -> dict[str, int]:
        """The piece in DRAM: a row of tiles for each stored block."""
        plan = self.plan
        line = plan.pixels * plan.interleave
        tile = image * plan.planes * line + first * plan.interleave
        return {
            "dram_offset": self.offsets[name] + tile * plan.hw.out_tile_bytes,
            "x_size": rows * plan.interleave,
            "y_size": plan.planes,
            "z_size": 1,
            "y_stride": line,
        }

    def _res(self, slot: int, operand: str) -> int:
        """First RES tile of what a slot holds of an operand."""
        return (slot * self.plan.operands + self.operands.index(operand)) * self.plan.piece

    def load(self, number: int, image: int, first: int, rows: int) -> None:
        """What a piece is computed of, to RES."""
        slot = number % self.plan.slots
        for name in self._needed(image, first, rows):
            walk = self._walk(name, image, first, rows)
            word = pack_load(memory=Memory.RES, sram_base=self._res(slot, name), **walk)
            self.builder.emit_word(Unit.LOAD, word, (), (("res", slot),))
            self.bytes_read += walk["x_size"] * walk["y_size"] * self.plan.hw.out_tile_bytes

    def _store(self, number: int, image: int, first: int, rows: int) -> None:
        plan, slot = self.plan, number % self.plan.slots
        walk = self._walk("out", image, first, rows)
        base = slot * plan.piece
        missing = plan.planes * plan.interleave - plan.blocks
        parts = [(walk, base)]
        if missing:  # the last stored block is not full: its rows are stored without the rest
            last = plan.planes - 1
            tiles = last * plan.interleave * rows
            narrow = {
                **walk,
                "dram_offset": walk["dram_offset"]
                + last * walk["y_stride"] * plan.hw.out_tile_bytes,
                "x_size": plan.interleave - missing,
                "y_size": 1,
                "y_stride": 0,
            }
            size = plan.interleave * plan.hw.out_tile_bytes
            parts = [(walk | {"y_size": last}, base)] if last else []
            parts += [
                (
                    narrow | {"dram_offset": narrow["dram_offset"] + row * size},
                    base + tiles + row * plan.interleave,
                )
                for row in range(rows)
            ]
        for fields, at in parts:
            word = pack_store(sram_base=at, **fields)
            self.builder.emit_word(Unit.STORE, word, (("out", slot),), ())
            self.bytes_written += fields["x_size"] * fields["y_size"] * plan.hw.out_tile_bytes
