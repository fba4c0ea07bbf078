# SPDX-License-Identifier: Apache-2.0
"""The instruction set: the one description of every instruction and micro-op field.

`host.machine.codegen` generates the SystemVerilog package, the C++ header and the docs table from
the tables here. Instructions are 256 bits, micro-ops 64 bits, both little-endian in DRAM, with one
fixed layout that is wide enough for the largest legal `HwConfig`: a configuration changes bounds
checks, never field positions.

What instructions compute is written in `host.machine.instruction_text`, from which
docs/reference/instructions.md is generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tilewright.host.common.errors import ProgramError

INSTRUCTION_BITS: Final = 256
UOP_BITS: Final = 64


class Unit(IntEnum):
    """Execution units, in token-mask bit order."""

    LOAD = 0
    GEMM = 1
    VECTOR = 2
    STORE = 3


class Opcode(IntEnum):
    """Instruction opcodes; 0 is illegal so that zeroed memory is refused."""

    LOAD = 1
    GEMM = 2
    VECTOR = 3
    STORE = 4
    FINISH = 5


class Memory(IntEnum):
    """Scratchpads, as the LOAD instruction names them."""

    INP = 0
    WGT = 1
    ACC = 2
    UOP = 3
    PARAM = 4
    RES = 5
    OUT = 6
    """Written by VECTOR and read by STORE only; not a LOAD target."""
    TABLE = 7
    """Activation table, read by VECTOR; optional."""


class VectorOp(IntEnum):
    """Operations of the vector unit."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    MOV = 5
    REQUANT = 6
    SUB = 7
    """From here on: of the row unit, which is optional."""
    SQUARE = 8
    EXP2 = 9


class Operand(IntEnum):
    """Second operand of a vector operation."""

    IMM = 0
    RES = 1


class Reduce(IntEnum):
    """What a vector operation leaves of each row."""

    NONE = 0
    """The row itself."""
    MAX = 1
    SUM = 2
    LOG_SUM = 3
    """Binary logarithm of the sum."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One bit field: name, width in bits, signedness and meaning; its type in `tw_pkg`, if any."""

    name: str
    bits: int
    meaning: str
    signed: bool = False
    type: str = ""


def _f(name: str, bits: int, meaning: str, *, signed: bool = False) -> Field:
    return Field(name=name, bits=bits, meaning=meaning, signed=signed)


HEADER: Final = (
    _f("opcode", 4, "Opcode"),
    _f("pop", 4, "mask of units whose token is popped first"),
    _f("push", 4, "mask of units that get a token at the end"),
    _f("acc_banks", 4, "mask of ACC banks that the instruction uses"),
)

_SHAPE: Final = (
    _f("dram_offset", 40, "byte offset from MEM_BASE"),
    _f("x_size", 16, "tiles in a row"),
    _f("y_size", 16, "rows in a plane"),
    _f("z_size", 16, "planes, at least 1"),
    _f("y_stride", 24, "tiles from row to row in DRAM"),
    _f("z_stride", 24, "tiles from plane to plane in DRAM"),
)

LOAD_FIELDS: Final = (
    *HEADER,
    _f("memory", 3, "Memory to write (not OUT)"),
    _f("pad_value", 8, "int8 written to every byte of a padding tile", signed=True),
    _f("sram_base", 18, "first tile written"),
    *_SHAPE,
    _f("pad_left", 6, "padding tiles before each row"),
    _f("pad_right", 6, "padding tiles after each row"),
    _f("pad_top", 6, "padding rows before each plane"),
    _f("pad_bottom", 6, "padding rows after each plane"),
    _f("diagonal", 1, "1: DRAM holds the diagonals of WGT tiles"),
    _f("phase", 4, "block that has the diagonal in the first row (with diagonal)"),
    _f("int4", 1, "1: DRAM holds WGT tiles of 4-bit numbers"),
)

STORE_FIELDS: Final = (
    *HEADER,
    _f("sram_base", 18, "first OUT tile read"),
    *_SHAPE,
)

GEMM_FIELDS: Final = (
    *HEADER,
    _f("overwrite", 1, "1: micro-ops marked first start from zero"),
    _f("uop_begin", 17, "first micro-op"),
    _f("uop_count", 18, "micro-ops in the innermost loop, at least 1"),
    _f("iter_outer", 16, "outer iterations, at least 1"),
    _f("iter_inner", 16, "inner iterations, at least 1"),
    _f("acc_base", 16, "added to every micro-op's acc"),
    _f("inp_base", 18, "added to every micro-op's inp"),
    _f("wgt_base", 16, "added to every micro-op's wgt"),
    _f("acc_outer", 16, "ACC step of the outer loop"),
    _f("inp_outer", 18, "INP step of the outer loop"),
    _f("wgt_outer", 16, "WGT step of the outer loop"),
    _f("acc_inner", 16, "ACC step of the inner loop"),
    _f("inp_inner", 18, "INP step of the inner loop"),
    _f("wgt_inner", 16, "WGT step of the inner loop"),
)

VECTOR_FIELDS: Final = (
    *HEADER,
    _f("op", 4, "VectorOp"),
    _f("operand", 1, "Operand"),
    _f("param_step", 1, "1: PARAM index advances with the outer loop"),
    _f("param_base", 15, "first PARAM tile (requant)"),
    _f("imm", 16, "immediate; requant: clip maximum (15:8) and minimum (7:0)", signed=True),
    _f("iter_outer", 16, "outer iterations, at least 1"),
    _f("iter_inner", 16, "inner iterations, at least 1"),
    _f("dst_base", 18, "first destination tile: OUT (requant) or ACC"),
    _f("src_base", 16, "first source tile in ACC"),
    _f("opd_base", 18, "first operand tile in RES, or in ACC with hold"),
    _f("dst_outer", 18, "destination step of the outer loop"),
    _f("src_outer", 16, "source step of the outer loop"),
    _f("opd_outer", 18, "operand step of the outer loop"),
    _f("dst_inner", 18, "destination step of the inner loop"),
    _f("src_inner", 16, "source step of the inner loop"),
    _f("opd_inner", 18, "operand step of the inner loop"),
    _f("lookup", 1, "1: results are looked up in TABLE (requant)"),
    _f("hold", 1, "1: the operand is an ACC tile, read once before each inner loop"),
    _f("reduce", 2, "Reduce"),
    _f("lanes", 6, "channels of the last inner tile that reduce counts; 0: all"),
)

FINISH_FIELDS: Final = HEADER

UOP_FIELDS: Final = (
    _f("inp", 18, "INP tile"),
    _f("wgt", 16, "WGT tile"),
    _f("acc", 16, "ACC tile"),
    _f("first", 1, "first reduction step of its accumulator"),
)

PARAM_FIELDS: Final = (
    _f("bias", 32, "added to the accumulator", signed=True),
    _f("m1", 16, "multiplier of accumulator plus bias", signed=True),
    _f("m2", 16, "multiplier of the residual, in units of 2^8", signed=True),
    _f("shift", 6, "right shift, 0 to 47"),
    _f("reserved", 2, "zero"),
    _f("zero_point", 8, "added after rounding, before the clip", signed=True),
)
"""One channel of a PARAM tile, in 128 bits; bits that no field uses are zero."""

MAX_SHIFT: Final = 47

RESIDUAL_SHIFT: Final = 8
"""Bits by which the residual's product is shifted left before it joins the accumulator's.

A step of a residual is some hundred to some thousand accumulator steps. With a common shift alone
the accumulator's multiplier would keep as few as 4 of its 15 bits.
"""

TABLE_ENTRIES: Final = 256
"""Entries of the activation table: one for each int8 result, at its two's complement byte."""

TABLE_ROW_ENTRIES: Final = 2
"""Entries that a beat brings.

A LUT RAM takes one write a cycle, and nothing holds back the beats that LOAD writes. Rows of two
entries need the least logic behind the RAM: one LUT a bit chooses the entry or passes by.
"""

HELD_BITS: Final = 18
"""Bits that MUL takes of an ACC tile as its second operand: what one multiplier of a DSP has."""

SUM_BITS: Final = 48
"""Bits of the sum of a row."""

FORMATS: Final[Mapping[Opcode, tuple[Field, ...]]] = {
    Opcode.LOAD: LOAD_FIELDS,
    Opcode.GEMM: GEMM_FIELDS,
    Opcode.VECTOR: VECTOR_FIELDS,
    Opcode.STORE: STORE_FIELDS,
    Opcode.FINISH: FINISH_FIELDS,
}

OPCODE_MASK: Final = 0xF
"""Of an instruction's first byte."""

UNIT_OF: Final[Mapping[Opcode, Unit]] = {
    Opcode.LOAD: Unit.LOAD,
    Opcode.GEMM: Unit.GEMM,
    Opcode.VECTOR: Unit.VECTOR,
    Opcode.STORE: Unit.STORE,
}


def pack_fields(layout: tuple[Field, ...], values: Mapping[str, int]) -> int:
    """Pack field values, least significant field first; absent fields are 0."""
    word, position = 0, 0
    remaining = dict(values)
    for field in layout:
        value = int(remaining.pop(field.name, 0))
        low, high = (
            (-(1 << (field.bits - 1)), (1 << (field.bits - 1)) - 1)
            if field.signed
            else (0, (1 << field.bits) - 1)
        )
        if not low <= value <= high:
            raise ProgramError(
                f"must be from {low} to {high} ({field.bits} bits)",
                field=field.name,
                value=value,
                remedy="use smaller tiles or buffers",
            )
        word |= (value & ((1 << field.bits) - 1)) << position
        position += field.bits
    if remaining:
        raise ProgramError("unknown field", field=", ".join(sorted(remaining)))
    return word


def unpack_fields(layout: tuple[Field, ...], word: int) -> dict[str, int]:
    """The field values of a packed word."""
    values: dict[str, int] = {}
    for field in layout:
        raw = word & ((1 << field.bits) - 1)
        if field.signed and raw >> (field.bits - 1):
            raw -= 1 << field.bits
        values[field.name] = raw
        word >>= field.bits
    return values


@dataclass(frozen=True)
class Instruction:
    """One instruction: its opcode and the values of its fields (absent fields are 0)."""

    opcode: Opcode
    values: Mapping[str, int]

    def encode(self) -> bytes:
        """The 32 bytes of the instruction."""
        word = pack_fields(FORMATS[self.opcode], {**self.values, "opcode": int(self.opcode)})
        return word.to_bytes(INSTRUCTION_BITS // 8, "little")

    @classmethod
    def decode(cls, data: bytes) -> Instruction:
        """Decode 32 bytes."""
        if len(data) != INSTRUCTION_BITS // 8:
            raise ProgramError("an instruction is 32 bytes", field="length", value=len(data))
        word = int.from_bytes(data, "little")
        try:
            opcode = Opcode(word & 0xF)
        except ValueError as error:
            raise ProgramError("illegal opcode", field="opcode", value=word & 0xF) from error
        values = unpack_fields(FORMATS[opcode], word)
        del values["opcode"]
        return cls(opcode, values)

    def __str__(self) -> str:
        """One line of disassembly; zero fields are left out."""
        shown = " ".join(f"{k}={v}" for k, v in self.values.items() if v)
        return f"{self.opcode.name.lower()} {shown}".rstrip()


def encode_uop(*, inp: int, wgt: int, acc: int, first: bool) -> int:
    """The 64-bit word of a micro-op."""
    return pack_fields(UOP_FIELDS, {"inp": inp, "wgt": wgt, "acc": acc, "first": int(first)})


def layout_bits(layout: tuple[Field, ...]) -> int:
    """Bits that a layout uses."""
    return sum(field.bits for field in layout)
