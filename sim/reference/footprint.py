# SPDX-License-Identifier: Apache-2.0
"""Which tiles and bytes an instruction touches: address arithmetic shared by every model.

Everything here follows the address part of `host.machine.isa`; no data is touched and no state
kept. Index arrays are int64 and flat, in program order (outer loop, inner loop, micro-op).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine import isa
from tilewright.host.machine.hwconfig import UOP_BYTES, HwConfig
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.network.layout import diagonal_bytes

Index = npt.NDArray[np.int64]
Values = Mapping[str, int]

BLOCK: Final = 1 << 16
"""Most products whose indices are materialised at once."""


def loadable(hw: HwConfig) -> frozenset[isa.Memory]:
    """What LOAD may write on a configuration."""
    return frozenset(scratchpads(hw)) - {isa.Memory.OUT}


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """Size of a scratchpad: ``depth`` tiles of ``tile_bytes`` bytes."""

    depth: int
    tile_bytes: int


def scratchpads(hw: HwConfig) -> dict[isa.Memory, Scratchpad]:
    """Every scratchpad of a configuration; TABLE where it has one."""
    pads = {
        isa.Memory.INP: Scratchpad(depth=hw.inp_depth, tile_bytes=hw.inp_tile_bytes),
        isa.Memory.WGT: Scratchpad(depth=hw.wgt_depth, tile_bytes=hw.wgt_tile_bytes),
        isa.Memory.ACC: Scratchpad(depth=hw.acc_depth, tile_bytes=hw.acc_tile_bytes),
        isa.Memory.UOP: Scratchpad(depth=hw.uop_depth, tile_bytes=UOP_BYTES),
        isa.Memory.PARAM: Scratchpad(depth=hw.param_depth, tile_bytes=hw.param_tile_bytes),
        isa.Memory.RES: Scratchpad(depth=hw.res_depth, tile_bytes=hw.out_tile_bytes),
        isa.Memory.OUT: Scratchpad(depth=hw.out_depth, tile_bytes=hw.out_tile_bytes),
    }
    if hw.activation_table:
        pads[isa.Memory.TABLE] = Scratchpad(depth=hw.table_depth, tile_bytes=hw.axi_bytes)
    return pads


def loaded_pad(hw: HwConfig, v: Values) -> Scratchpad:
    """The scratchpad of a LOAD with legal fields, with the bytes of a tile *in DRAM*.

    That is the size of the tile, of its diagonal, or of its numbers with 4 bits.
    """
    pad = scratchpads(hw)[isa.Memory(v["memory"])]
    if v.get("int4", 0):
        return Scratchpad(depth=pad.depth, tile_bytes=hw.int4_tile_bytes)
    if not v.get("diagonal", 0):
        return pad
    size = diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
    return Scratchpad(depth=pad.depth, tile_bytes=size)


def diagonal_places(hw: HwConfig, v: Values) -> Index:
    """Bytes of each tile that a diagonal LOAD fills, shape (tiles, bytes); the rest is zero."""
    size = diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
    row = np.arange(v["z_size"] * v["y_size"], dtype=np.int64)
    block = (v.get("phase", 0) + row) % (max(hw.block_in, hw.block_out) // size)
    # Blocks lie below each other if the tile has more outputs than inputs, else side by side.
    step = size * (hw.block_in if hw.block_out > hw.block_in else 1)
    places = block[:, None] * step + np.arange(size) * (hw.block_in + 1)
    return np.repeat(places, v["x_size"], axis=0)


def unpack_words(
    layout: tuple[isa.Field, ...], words: npt.NDArray[np.uint64]
) -> dict[str, npt.NDArray[np.int64]]:
    """Values of fields, least significant first, of records of shape (..., words)."""
    values: dict[str, npt.NDArray[np.int64]] = {}
    position = 0
    for field in layout:
        word, low = divmod(position, 64)
        if low + field.bits > 64:
            raise ProgramError("a field must not straddle 64-bit words", field=field.name)
        raw = (words[..., word] << np.uint64(64 - low - field.bits)).view(np.int64)
        spare = np.int64(64 - field.bits)
        values[field.name] = (
            raw >> spare
            if field.signed
            else (raw.view(np.uint64) >> np.uint64(spare)).view(np.int64)
        )
        position += field.bits
    return values


@dataclass(frozen=True, kw_only=True)
class Uops:
    """Fields of consecutive micro-ops, each an int64 array of one element a micro-op."""

    inp: Index
    wgt: Index
    acc: Index
    first: Index

    @classmethod
    def from_bytes(cls, tiles: npt.NDArray[np.uint8]) -> Uops:
        """Decode uint8 micro-ops of shape ``(count, 8)``."""
        words = np.ascontiguousarray(tiles).view("<u8").astype(np.uint64, copy=False)
        return cls(**unpack_words(isa.UOP_FIELDS, words))


# -- DRAM transfers ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """The walk of a LOAD or STORE, over ``count`` scratchpad tiles, padding included."""

    first: int
    count: int
    tiles: Index  # scratchpad tile of each tile that exists in DRAM, in walk order
    dram: Index  # byte offset of that tile from the start of the program's memory


def _region(v: Values) -> tuple[int, int, int]:
    """Planes, rows a plane and tiles a row of the padded region."""
    rows = v.get("pad_top", 0) + v["y_size"] + v.get("pad_bottom", 0)
    columns = v.get("pad_left", 0) + v["x_size"] + v.get("pad_right", 0)
    return v["z_size"], rows, columns


def transfer(v: Values, tile_bytes: int) -> Transfer:
    """The walk of a legal LOAD or STORE (see `transfer_fault`)."""
    planes, rows, columns = _region(v)
    z = np.arange(planes, dtype=np.int64)[:, None, None]
    y = np.arange(v["y_size"], dtype=np.int64)[None, :, None]
    x = np.arange(v["x_size"], dtype=np.int64)[None, None, :]
    top, left = v.get("pad_top", 0), v.get("pad_left", 0)
    tiles = v["sram_base"] + (z * rows + y + top) * columns + x + left
    dram = v["dram_offset"] + tile_bytes * (z * v["z_stride"] + y * v["y_stride"] + x)
    return Transfer(
        first=v["sram_base"],
        count=planes * rows * columns,
        tiles=tiles.reshape(-1),
        dram=dram.reshape(-1),
    )


def transfer_fault(v: Values, pad: Scratchpad, axi_bytes: int, memory_bytes: int) -> ErrorCode:
    """What is wrong with a LOAD's or STORE's addresses; of several faults what shows first."""
    planes, rows, columns = _region(v)
    if planes * rows * columns == 0:
        return ErrorCode.ILLEGAL_FIELD
    has_data = v["x_size"] and v["y_size"]
    if has_data and v["dram_offset"] % min(pad.tile_bytes, axi_bytes):
        return ErrorCode.DRAM_ALIGNMENT
    if v["sram_base"] + planes * rows * columns > pad.depth:
        return ErrorCode.SRAM_RANGE
    if has_data:
        last = (planes - 1) * v["z_stride"] + (v["y_size"] - 1) * v["y_stride"] + v["x_size"]
        if v["dram_offset"] + pad.tile_bytes * last > memory_bytes:
            return ErrorCode.DRAM_RANGE
    return ErrorCode.NONE


# -- loops ------------------------------------------------------------------------------------


def loop_blocks(outer: int, inner: int, body: int) -> Iterator[tuple[Index, Index]]:
    """Blocks of about `BLOCK` bodies in program order: outer (o, 1, 1), inner (1, i, 1) indices."""
    if inner * body <= BLOCK:
        step = max(1, BLOCK // (inner * body))
        every = np.arange(inner, dtype=np.int64)[None, :, None]
        for start in range(0, outer, step):
            stop = min(outer, start + step)
            yield np.arange(start, stop, dtype=np.int64)[:, None, None], every
        return
    step = max(1, BLOCK // body)
    for o in range(outer):
        for start in range(0, inner, step):
            stop = min(inner, start + step)
            yield (
                np.full((1, 1, 1), o, dtype=np.int64),
                np.arange(start, stop, dtype=np.int64)[None, :, None],
            )


def _affine(v: Values, name: str, o: Index, i: Index) -> Index:
    index: Index = v[f"{name}_base"] + o * v[f"{name}_outer"] + i * v[f"{name}_inner"]
    return index


def _affine_last(v: Values, name: str) -> int:
    """Largest index of an affine walk (steps are never negative)."""
    return (
        v[f"{name}_base"]
        + (v["iter_outer"] - 1) * v[f"{name}_outer"]
        + (v["iter_inner"] - 1) * v[f"{name}_inner"]
    )


@dataclass(frozen=True, kw_only=True)
class GemmBlock:
    """Tile indices of consecutive products; ``fresh``: the accumulator starts from zero."""

    acc: Index
    inp: Index
    wgt: Index
    fresh: npt.NDArray[np.bool_]


def gemm_blocks(v: Values, uops: Uops) -> Iterator[GemmBlock]:
    """Products of a GEMM in program order; ``uops`` are its ``uop_count`` micro-ops."""
    starts = (uops.first != 0) & bool(v["overwrite"])
    for o, i in loop_blocks(v["iter_outer"], v["iter_inner"], v["uop_count"]):
        acc = _affine(v, "acc", o, i) + uops.acc
        yield GemmBlock(
            acc=acc.reshape(-1),
            inp=(_affine(v, "inp", o, i) + uops.inp).reshape(-1),
            wgt=(_affine(v, "wgt", o, i) + uops.wgt).reshape(-1),
            fresh=np.broadcast_to(starts, acc.shape).reshape(-1),
        )


def gemm_fault(v: Values, uops: Uops, pads: Mapping[isa.Memory, Scratchpad]) -> ErrorCode:
    """What is wrong with a GEMM's addresses, ACC banks aside."""
    for name, memory, field in (
        ("acc", isa.Memory.ACC, uops.acc),
        ("inp", isa.Memory.INP, uops.inp),
        ("wgt", isa.Memory.WGT, uops.wgt),
    ):
        if _affine_last(v, name) + int(field.max()) >= pads[memory].depth:
            return ErrorCode.SRAM_RANGE
    return ErrorCode.NONE


@dataclass(frozen=True, kw_only=True)
class VectorBlock:
    """Tile indices of consecutive vector iterations; unused operands have indices all the same.

    ``opd`` is in ACC where the instruction holds its operand. Iterations that are reduced have the
    ``dst`` of their row.
    """

    dst: Index
    src: Index
    opd: Index
    param: Index


def vector_blocks(v: Values) -> Iterator[VectorBlock]:
    """Iterations of a VECTOR in program order."""
    v = _row_steps(v)
    for o, i in loop_blocks(v["iter_outer"], v["iter_inner"], 1):
        param = v["param_base"] + (o if v["param_step"] else 0 * o) + 0 * i
        yield VectorBlock(
            dst=_affine(v, "dst", o, i).reshape(-1),
            src=_affine(v, "src", o, i).reshape(-1),
            opd=_affine(v, "opd", o, i).reshape(-1),
            param=param.reshape(-1),
        )


def _row_steps(v: Values) -> Values:
    """A VECTOR's values, without inner steps of a held operand and of what is reduced."""
    steps = {"opd_inner": "hold", "dst_inner": "reduce"}
    return {**v, **{step: 0 for step, field in steps.items() if v.get(field)}}


def vector_fault(v: Values, pads: Mapping[isa.Memory, Scratchpad]) -> ErrorCode:
    """What is wrong with a VECTOR's addresses, ACC banks aside.

    Operands that the operation does not use may have any address (the source of MOV too).
    """
    v = _row_steps(v)
    requant = v["op"] == isa.VectorOp.REQUANT
    target = isa.Memory.OUT if requant else isa.Memory.ACC
    bad = _affine_last(v, "dst") >= pads[target].depth
    if v["op"] != isa.VectorOp.MOV:
        bad |= _affine_last(v, "src") >= pads[isa.Memory.ACC].depth
    if v["hold"] or v["operand"] == isa.Operand.RES:
        bad |= _affine_last(v, "opd") >= pads[isa.Memory.ACC if v["hold"] else isa.Memory.RES].depth
    if requant:
        steps = v["iter_outer"] - 1 if v["param_step"] else 0
        bad |= v["param_base"] + steps >= pads[isa.Memory.PARAM].depth
    return ErrorCode.SRAM_RANGE if bad else ErrorCode.NONE


# -- rules that need no addresses -------------------------------------------------------------


def field_fault(hw: HwConfig, opcode: isa.Opcode, v: Values) -> ErrorCode:
    """Whether a field has a value that no instruction may have on a configuration."""
    bad = False
    if opcode in isa.UNIT_OF:
        bad |= bool((v["pop"] | v["push"]) >> isa.UNIT_OF[opcode] & 1)
    if opcode == isa.Opcode.LOAD:
        bad |= v["memory"] not in loadable(hw) or v["z_size"] == 0
        padded = any(v[f"pad_{side}"] for side in ("left", "right", "top", "bottom"))
        bad |= padded and v["memory"] == isa.Memory.PARAM
        bad |= bool(v["diagonal"] or v["int4"]) and v["memory"] != isa.Memory.WGT
        bad |= bool(v["int4"]) and not (hw.int4_weights and not v["diagonal"])
    elif opcode == isa.Opcode.STORE:
        bad |= 0 in (v["x_size"], v["y_size"], v["z_size"])
    elif opcode == isa.Opcode.GEMM:
        bad |= 0 in (v["uop_count"], v["iter_outer"], v["iter_inner"])
    elif opcode == isa.Opcode.VECTOR:
        bad |= 0 in (v["iter_outer"], v["iter_inner"]) or _row_fault(hw, v)
        if v["op"] == isa.VectorOp.REQUANT:
            low, high = (((v["imm"] >> at & 0xFF) ^ 0x80) - 0x80 for at in (0, 8))
            bad |= low > high
        bad |= bool(v["lookup"]) and not (hw.activation_table and v["op"] == isa.VectorOp.REQUANT)
    return ErrorCode.ILLEGAL_FIELD if bad else ErrorCode.NONE


def _row_fault(hw: HwConfig, v: Values) -> bool:
    """Whether a VECTOR asks for what only a row unit has, or what none has."""
    rows = v["hold"] or v["reduce"] or v["lanes"]
    if not hw.row_unit:
        return v["op"] > isa.VectorOp.REQUANT or bool(rows)
    return (
        v["op"] > max(isa.VectorOp)
        or bool(v["op"] == isa.VectorOp.REQUANT and rows)
        or bool(v["hold"] and v["operand"] == isa.Operand.RES)
        or bool(v["lanes"] and not v["reduce"])
    )


def outside_banks(hw: HwConfig, acc: Index, mask: int) -> bool:
    """Whether an ACC tile lies in a bank that ``mask`` does not declare."""
    banks = acc // (hw.acc_depth // hw.acc_banks)
    return bool((((mask >> banks) & 1) == 0).any())
