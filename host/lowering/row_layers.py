# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation on the row unit: programs of VECTOR alone.

The rows of an activation are its pixels, a row's values are a pixel's channels. Pieces of
consecutive pixels are loaded to RES ahead of the vector unit, computed in ACC, and stored. Each
instruction does one operation of `host.network.row_functions` on all rows of a piece.

ACC holds ``[channel block][row]`` of a piece, then two tiles a row for what rows are reduced to,
then constants. RES and OUT are as DRAM: ``[stored block][row][blocks of a stored block]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_store,
    pack_vector,
)
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Memory, Operand, Reduce, Unit, VectorOp
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.network.layout import (
    blocks_of,
    output_block,
    pack_activations,
    pack_params,
    unpack_activations,
)
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.row_functions import (
    GREATEST_INVERSE,
    MEAN_BITS,
    ONE,
    PROBABILITY_BITS,
    LayerNorm,
    Softmax,
    layer_norm,
    softmax,
)

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]
RowFunction = Softmax | LayerNorm
Shape = tuple[int, int, int, int]

_CONSTANTS: Final = 2
_PIECES: Final = 6
_FEW_ROWS: Final = 16
"""Fewer in a piece cost more in the latency of its instructions than pieces side by side save."""
_CLIP: Final = (-128, 127)
_ACC: Final = ("acc", 0)
"""ACC holds one piece: only the vector unit works on it, in order."""


@dataclass(frozen=True, kw_only=True)
class RowPlan:
    """How a piece of rows lies in the scratchpads.

    Attributes:
        hw: the configuration.
        shape: NCHW of the activation; a row is the channels of a pixel.
        blocks: tiles of a row.
        interleave: tiles of a stored block at each pixel.
        rows: pixels of a piece.
        slots: pieces that RES and OUT hold.
    """

    hw: HwConfig
    shape: Shape
    blocks: int
    interleave: int
    rows: int
    slots: int

    @property
    def planes(self) -> int:
        """Stored blocks of a row."""
        return blocks_of(self.blocks, self.interleave)

    @property
    def piece(self) -> int:
        """Tiles of a piece, with those that fill the last stored block up."""
        return self.planes * self.interleave * self.rows

    @property
    def pixels(self) -> int:
        """Rows of an image."""
        return self.shape[2] * self.shape[3]


def plan_rows(hw: HwConfig, shape: Shape) -> RowPlan:
    """Pieces that fit, two at a time where RES and OUT hold two, and several for a long image.

    Args:
        hw: a configuration with a row unit.
        shape: NCHW of the activation.

    Raises:
        ProgramError: a configuration without a row unit.
        WorkloadError: rows that are longer than the scratchpads.
    """
    if not hw.row_unit:
        raise ProgramError(
            "softmax and layer normalisation need an accelerator with a row unit",
            field=hw.name,
            value="row_unit: 0",
            remedy="use a configuration with row_unit: 1",
        )
    blocks = blocks_of(shape[1], hw.block_out)
    interleave = output_block(hw) // hw.block_out
    tiles = blocks_of(blocks, interleave) * interleave
    shared = min(hw.res_depth, hw.out_depth) // tiles
    slots = min(2, shared)
    rows = min(shape[2] * shape[3], (hw.acc_depth - _CONSTANTS) // (tiles + 2))
    rows = min(rows, shared // slots if slots else 0)
    # What is loaded before the first piece and stored after the last has nothing beside it.
    rows = min(rows, max(_FEW_ROWS, blocks_of(shape[2] * shape[3], _PIECES)))
    if rows < 1 or blocks > hw.param_depth:
        raise WorkloadError(
            "a row and its parameters must fit ACC, RES, OUT and PARAM",
            field=f"rows on {hw.name}",
            value=f"{shape[1]} channels",
            remedy="enlarge the scratchpads, or leave the operator to the CPU",
        )
    return RowPlan(hw=hw, shape=shape, blocks=blocks, interleave=interleave, rows=rows, slots=slots)


def row_params(function: RowFunction, channels: int) -> RequantParams:
    """The parameters of a function, one of each channel."""
    if isinstance(function, LayerNorm):
        return function.params
    return function.params_for(channels)


def compute_rows(data: Int8Array, function: RowFunction) -> Int8Array:
    """What a function makes of the channels of each pixel, by definition; int8 NCHW."""
    rows = np.moveaxis(data, 1, 3)
    found = softmax(rows, function) if isinstance(function, Softmax) else layer_norm(rows, function)
    return np.ascontiguousarray(np.moveaxis(found, 3, 1))


def emit_rows(
    builder: ProgramBuilder, shape: Shape, function: RowFunction, placement: OperandPlacement
) -> Emitted:
    """Append softmax or layer normalisation to a program.

    Args:
        builder: of the program; what it holds already is followed (`ProgramBuilder.fence`).
        shape: NCHW of the activation.
        function: what to compute of the channels of each pixel.
        placement: where ``inp``, ``param`` and ``out`` lie.

    Raises:
        ProgramError: a configuration without a row unit.
        WorkloadError: rows that are longer than the scratchpads, or than the function's.
    """
    if isinstance(function, LayerNorm) and function.channels != shape[1]:
        raise WorkloadError(
            f"must have the function's {function.channels} channels",
            field="layer norm: rows",
            value=shape,
            remedy="give the parameters of this layer",
        )
    return _RowEmitter(builder, plan_rows(builder.hw, shape), function, placement).run()


class _RowEmitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        plan: RowPlan,
        function: RowFunction,
        placement: OperandPlacement,
    ) -> None:
        super().__init__(builder, _CLIP, placement)
        self.plan = plan
        self.function = function
        # Tiles of ACC: the piece from 0 on, then these.
        self.first = plan.piece
        self.second = self.first + plan.rows
        self.constants = self.second + plan.rows
        self.banks = plan.hw.acc_bank_mask(0, self.constants + _CONSTANTS)
        self.rows = plan.rows

    def run(self) -> Emitted:
        plan = self.plan
        images = blocks_of(plan.shape[0], plan.hw.batch)
        pieces = [
            (image, first, min(plan.rows, plan.pixels - first))
            for image in range(images)
            for first in range(0, plan.pixels, plan.rows)
        ]
        self._load(0, *pieces[0])
        self.load_params(0, plan.blocks, 0, plan.blocks)
        softmax = isinstance(self.function, Softmax)
        values = (
            (self.function.factor, PROBABILITY_BITS * ONE)
            if isinstance(self.function, Softmax)
            else (self.function.offset, GREATEST_INVERSE)
        )
        for index, value in enumerate(values):
            self._constant(self.constants + index, value)
        for number, piece in enumerate(pieces):
            if plan.slots > 1 and number + 1 < len(pieces):
                self._load(number + 1, *pieces[number + 1])
            self.rows = piece[2]
            if softmax:
                self._softmax(number)
            else:
                self._layer_norm(number)
            self._requantise(number)
            self._store(number, *piece)
            if plan.slots == 1 and number + 1 < len(pieces):
                self._load(number + 1, *pieces[number + 1])
        return Emitted(
            uops=b"",
            macs_tiles=0,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
        )

    # -- the functions ------------------------------------------------------------------------

    def _softmax(self, number: int) -> None:
        factor, one = self.constants, self.constants + 1
        self._take(number, VectorOp.MUL, src_base=factor)
        self._reduce(Reduce.MAX, VectorOp.ADD, self.first)
        self._rows_with(VectorOp.SUB, self.first, one)
        self._piece_with(VectorOp.SUB, self.first)
        self._reduce(Reduce.LOG_SUM, VectorOp.EXP2, self.second)
        self._rows_with(VectorOp.SUB, self.second, one)
        self._piece_with(VectorOp.SUB, self.second)
        self._vector(VectorOp.EXP2, iter_inner=self._tiles, src_inner=1, dst_inner=1)

    def _layer_norm(self, number: int) -> None:
        assert isinstance(self.function, LayerNorm)  # `run` asks before
        offset, greatest = self.constants, self.constants + 1
        # Where the sums of squares come later there is a constant first.
        self._constant(self.second, 1 << MEAN_BITS)
        self._take(number, VectorOp.MUL, src_base=self.second)
        self._reduce(Reduce.SUM, VectorOp.ADD, self.first)
        self._row(VectorOp.SHR, self.first, MEAN_BITS)
        self._row(VectorOp.MUL, self.first, self.function.mean_factor)
        self._row(VectorOp.SHR, self.first, self.function.mean_shift)
        self._piece_with(VectorOp.SUB, self.first)
        self._reduce(Reduce.LOG_SUM, VectorOp.SQUARE, self.second)
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
        """A number of up to 23 bits in every element of a tile."""
        at = {"dst_base": tile, "src_base": tile}
        self._vector(VectorOp.MOV, imm=value >> 8, **at)
        self._vector(VectorOp.MUL, imm=1 << 8, **at)
        self._vector(VectorOp.ADD, imm=value & 0xFF, **at)

    def _take(self, number: int, op: VectorOp, *, src_base: int) -> None:
        """An operation of one tile and of each that was loaded to RES, into the piece."""
        plan = self.plan
        slot = number % plan.slots
        width = plan.interleave
        for plane in range(plan.planes if width > 1 else 1):
            each = width if width > 1 else plan.planes
            word = pack_vector(
                op=op,
                operand=Operand.RES,
                acc_banks=self.banks,
                iter_outer=each,
                iter_inner=self.rows,
                src_base=src_base,
                dst_base=plane * width * self.rows,
                dst_outer=self.rows,
                dst_inner=1,
                opd_base=slot * plan.piece + plane * width * self.rows,
                opd_outer=1 if width > 1 else self.rows,
                opd_inner=width,
            )
            self.builder.emit_word(Unit.VECTOR, word, (("res", slot),), (_ACC,))

    def _reduce(self, kind: Reduce, op: VectorOp, to: int) -> None:
        self._vector(
            op,
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
        plan, slot = self.plan, number % self.plan.slots
        width = plan.interleave
        for first in range(0, plan.blocks, width if width > 1 else plan.blocks):
            count = min(width, plan.blocks - first) if width > 1 else plan.blocks
            word = pack_vector(
                acc_banks=self.banks,
                param_step=1,
                param_base=first,
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

    def _load(self, number: int, image: int, first: int, rows: int) -> None:
        slot = number % self.plan.slots
        walk = self._walk("inp", image, first, rows)
        word = pack_load(memory=Memory.RES, sram_base=slot * self.plan.piece, **walk)
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


@dataclass(frozen=True, kw_only=True)
class LoweredRows:
    """Softmax or layer normalisation as a program.

    Attributes:
        hw, shape, function: what was lowered.
        program: ready to run; regions ``inp``, ``param``, ``out``, ``insn``.
    """

    hw: HwConfig
    shape: Shape
    function: RowFunction
    program: Program

    def image(self, data: Int8Array) -> Bytes:
        """The memory image: program, packed activation and parameters.

        Args:
            data: int8 of `shape`.
        """
        memory = self.program.image()
        packed = pack_activations(data, batch=self.hw.batch, block=output_block(self.hw))
        self.program.write(memory, "inp", packed)
        params = row_params(self.function, self.shape[1])
        self.program.write(memory, "param", pack_params(params, block_out=self.hw.block_out))
        return memory

    def output(self, memory: Bytes) -> Int8Array:
        """The result, int8 of `shape`, from a memory image after a run."""
        return unpack_activations(
            self.program.read(memory, "out"),
            self.shape,
            batch=self.hw.batch,
            block=output_block(self.hw),
        )


def lower_rows(hw: HwConfig, shape: Shape, function: RowFunction) -> LoweredRows:
    """Lower softmax or layer normalisation over the channels of each pixel.

    Args:
        hw: a configuration with a row unit.
        shape: NCHW of the activation.
        function: what to compute.

    Raises:
        ProgramError: a configuration without a row unit.
        WorkloadError: rows that are longer than the scratchpads, or than the function's.
    """
    images, channels, height, width = shape
    block = output_block(hw)
    tiles = blocks_of(images, hw.batch) * blocks_of(channels, block) * height * width
    sizes = {
        "inp": tiles * hw.batch * block,
        "param": blocks_of(channels, hw.block_out) * hw.param_tile_bytes,
        "out": tiles * hw.batch * block,
    }
    regions, uop = layout_regions(sizes)
    offsets = {name: region.offset for name, region in regions.items()}
    builder = ProgramBuilder(hw)
    emit_rows(builder, shape, function, OperandPlacement(offsets=offsets, uop=uop))
    return LoweredRows(hw=hw, shape=shape, function=function, program=builder.finish(sizes, {}))
