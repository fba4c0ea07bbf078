# SPDX-License-Identifier: Apache-2.0
"""Small directed programs and the ways to break them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import (
    Instruction,
    Memory,
    Opcode,
    Operand,
    Reduce,
    Unit,
    VectorOp,
    encode_uop,
)
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.runtime.device import Bytes

Step = tuple[Opcode, dict[str, int]]
Change = Callable[[HwConfig], dict[str, int]]

_ONE: Final = {"x_size": 1, "y_size": 1, "z_size": 1}
_DATA: Final = 4096


def directed(hw: HwConfig, steps: list[Step], *, finish: bool = True) -> tuple[Program, Bytes]:
    """A program over regions ``uop`` (micro-ops of tile 0) and ``data`` (zeros)."""
    stream = b"".join(Instruction(opcode, values).encode() for opcode, values in steps)
    if finish:
        stream += Instruction(Opcode.FINISH, {}).encode()
    regions, total = layout_regions({"uop": 64, "data": 16384, "insn": len(stream)})
    uop = encode_uop(inp=0, wgt=0, acc=0, first=True).to_bytes(8, "little")
    program = Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=regions,
        constants={"uop": uop * 8},
        memory_bytes=total,
    )
    return program, program.image()


def legal_steps() -> dict[str, Step]:
    """One legal instruction of each kind; in this order they are a sequential program."""
    load = {**_ONE, "dram_offset": _DATA}
    loop = {"iter_outer": 1, "iter_inner": 1, "acc_banks": 1}
    alu = {**loop, "op": VectorOp.ADD, "imm": 1, "pop": 1 << Unit.GEMM}
    requant = {**loop, "op": VectorOp.REQUANT, "imm": 0x7F80, "push": 1 << Unit.STORE}
    return {
        "uop": (Opcode.LOAD, {**_ONE, "memory": Memory.UOP}),
        "inp": (Opcode.LOAD, {**load, "memory": Memory.INP}),
        "wgt": (Opcode.LOAD, {**load, "memory": Memory.WGT}),
        "acc": (Opcode.LOAD, {**load, "memory": Memory.ACC, "acc_banks": 1}),
        "param": (Opcode.LOAD, {**load, "memory": Memory.PARAM}),
        "res": (Opcode.LOAD, {**load, "memory": Memory.RES, "push": 1 << Unit.GEMM}),
        "gemm": (
            Opcode.GEMM,
            {
                **loop,
                "uop_count": 1,
                "overwrite": 1,
                "pop": 1 << Unit.LOAD,
                "push": 1 << Unit.VECTOR,
            },
        ),
        "alu": (Opcode.VECTOR, alu),
        "requant": (Opcode.VECTOR, requant),
        "store": (Opcode.STORE, {**load, "pop": 1 << Unit.VECTOR}),
    }


def rare_programs(hw: HwConfig) -> list[list[Step]]:
    """Programs for what random ones meet seldom, each legal after the other.

    Padding under and over data of every memory, every loop of every VECTOR operation and operand,
    what options have, and each unit waiting for a token of each other one.
    """
    lookups = [_lookups(hw)] if hw.activation_table else []
    rows = [_rows(hw)] if hw.row_unit else []
    packed = [_packed_weights()] if hw.int4_weights else []
    return [_padding(hw), _vector_loops(hw), *lookups, *rows, *packed, *_token_waits()]


def _padding(hw: HwConfig) -> list[Step]:
    steps = legal_steps()
    names = ["uop", "inp", "wgt", "acc", "res"]
    if hw.activation_table:
        steps["table"] = _table_load()
        names.append("table")
    program = []
    for name in names:
        opcode, values = steps[name]
        values = {**values, "push": 0}
        if name == "acc":
            values["acc_banks"] = 15  # a bank may hold a single tile
        data = (opcode, {**values, "x_size": 2})
        padding = (opcode, {**values, "x_size": 0, "pad_left": 1, "pad_right": 1})
        # The run of padding alone fills the places of instructions in flight behind the data.
        program += [data, *[padding] * 12, data]
    return program


def _table_load(**values: int) -> Step:
    return Opcode.LOAD, {**_ONE, "dram_offset": _DATA, "memory": Memory.TABLE, **values}


def _lookups(hw: HwConfig) -> list[Step]:
    """A table is loaded whole, used, changed in a row, and used again."""
    steps = legal_steps()
    opcode, values = steps["requant"]
    used = {**values, "lookup": 1, "pop": 1 << Unit.LOAD, "push": 1 << Unit.LOAD}
    token = 1 << Unit.VECTOR
    return [
        steps["acc"],
        steps["param"],
        _table_load(x_size=hw.table_depth, push=token),
        (opcode, used),
        _table_load(sram_base=hw.table_depth - 1, pop=token, push=token),
        (opcode, {**used, "iter_inner": 3, "push": 0}),
    ]


def _rows(hw: HwConfig) -> list[Step]:
    """Every reduction, of whole rows and of some channels, with and without an operand in ACC."""
    opcode, values = legal_steps()["alu"]
    values = {**values, "pop": 0, "acc_banks": 15}
    steps: list[Step] = [(opcode, {**values, "op": VectorOp.MOV, "iter_inner": 2, "dst_inner": 1})]
    for kind in Reduce:
        for hold in (0, 1):
            for lanes in (0, 1, hw.block_out) if kind else (0,):
                row = {"reduce": kind, "hold": hold, "lanes": lanes, "dst_base": 1}
                steps += [
                    (opcode, {**values, **row, "iter_outer": outer, "iter_inner": inner})
                    for outer, inner in ((1, 1), (3, 1), (3, 3))
                ]
    return steps


def _packed_weights() -> list[Step]:
    """Weights of 4 bits: contiguous, strided, with padding, and none but padding."""
    opcode, values = legal_steps()["wgt"]
    values = {**values, "push": 0, "int4": 1}
    changes: tuple[dict[str, int], ...] = (
        {"x_size": 4},
        {"y_size": 2, "y_stride": 3},
        {"pad_left": 1, "pad_bottom": 1},
        {"x_size": 0, "pad_right": 2},
    )
    return [(opcode, {**values, **change}) for change in changes]


def _vector_loops(hw: HwConfig) -> list[Step]:
    steps = legal_steps()
    program = [steps["acc"], steps["param"]]
    opcode, values = steps["res"]
    program.append((opcode, {**values, "push": 1 << Unit.VECTOR}))
    pop = 1 << Unit.LOAD
    for op in VectorOp:
        if op > VectorOp.REQUANT and not hw.row_unit:
            continue
        name = "requant" if op == VectorOp.REQUANT else "alu"
        opcode, values = steps[name]
        for operand in Operand:
            for outer, inner in ((1, 1), (1, 3), (3, 1), (3, 3)):
                loop = {"iter_outer": outer, "iter_inner": inner, "operand": operand}
                program.append((opcode, {**values, **loop, "op": op, "pop": pop, "push": 0}))
                pop = 0
    return program


def _token_waits() -> list[list[Step]]:
    """One program a pair of units: the first works for long, the second waits for it."""
    names = {Unit.LOAD: "inp", Unit.GEMM: "gemm", Unit.VECTOR: "alu", Unit.STORE: "store"}
    steps = legal_steps()
    found = []
    for producer in Unit:
        for consumer in Unit:
            if producer == consumer:
                continue
            opcode, values = steps[names[producer]]
            long = {"iter_outer": 200} if "iter_outer" in values else {}
            first = (opcode, {**values, **long, "pop": 0, "push": 1 << consumer})
            opcode, values = steps[names[consumer]]
            second = (opcode, {**values, "pop": 1 << producer, "push": 0})
            found.append([*steps.values(), first, second])
    return found


def slow_units(hw: HwConfig) -> list[Step]:
    """The units work one after another, each for hundreds of cycles when memory is slow."""
    steps = legal_steps()
    for name in ("gemm", "alu"):
        opcode, values = steps[name]
        steps[name] = (opcode, {**values, "iter_outer": 500})
    opcode, values = steps["requant"]
    tiles = min(100, hw.out_depth)
    steps["requant"] = (opcode, {**values, "iter_outer": tiles, "dst_outer": 1})
    opcode, values = steps["store"]
    steps["store"] = (opcode, {**values, "x_size": tiles})
    return list(steps.values())


def _set(**values: int) -> Change:
    return lambda _: values


def _over(field: str, depth: str, **values: int) -> Change:
    return lambda hw: {field: getattr(hw, depth), **values}


FAULTS: Final[tuple[tuple[str, Change, ErrorCode], ...]] = (
    ("inp", _set(memory=Memory.OUT), ErrorCode.ILLEGAL_FIELD),
    ("inp", lambda hw: {"memory": 7, "diagonal": hw.activation_table}, ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(diagonal=1), ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(int4=1), ErrorCode.ILLEGAL_FIELD),
    ("wgt", _set(int4=1, diagonal=1), ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(z_size=0), ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(x_size=0), ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(push=1), ErrorCode.ILLEGAL_FIELD),
    ("inp", _set(pop=1), ErrorCode.ILLEGAL_FIELD),
    ("param", _set(pad_left=1), ErrorCode.ILLEGAL_FIELD),
    ("gemm", _set(uop_count=0), ErrorCode.ILLEGAL_FIELD),
    ("gemm", _set(iter_outer=0), ErrorCode.ILLEGAL_FIELD),
    ("gemm", _set(iter_inner=0), ErrorCode.ILLEGAL_FIELD),
    ("gemm", _set(push=6), ErrorCode.ILLEGAL_FIELD),
    ("alu", lambda hw: {"op": 10 if hw.row_unit else 7}, ErrorCode.ILLEGAL_FIELD),
    ("alu", _set(hold=1, operand=1), ErrorCode.ILLEGAL_FIELD),
    ("alu", _set(lanes=1), ErrorCode.ILLEGAL_FIELD),
    ("requant", _set(reduce=1), ErrorCode.ILLEGAL_FIELD),
    ("requant", _set(hold=1), ErrorCode.ILLEGAL_FIELD),
    ("alu", _set(iter_outer=0), ErrorCode.ILLEGAL_FIELD),
    ("alu", _set(push=4), ErrorCode.ILLEGAL_FIELD),
    ("alu", _set(lookup=1), ErrorCode.ILLEGAL_FIELD),
    ("requant", _set(iter_inner=0), ErrorCode.ILLEGAL_FIELD),
    ("requant", _set(imm=-0x8000 + 0x7F), ErrorCode.ILLEGAL_FIELD),
    ("store", _set(x_size=0), ErrorCode.ILLEGAL_FIELD),
    ("store", _set(y_size=0), ErrorCode.ILLEGAL_FIELD),
    ("store", _set(z_size=0), ErrorCode.ILLEGAL_FIELD),
    ("store", _set(push=8), ErrorCode.ILLEGAL_FIELD),
    ("uop", _over("sram_base", "uop_depth"), ErrorCode.SRAM_RANGE),
    ("inp", _over("sram_base", "inp_depth"), ErrorCode.SRAM_RANGE),
    ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "x_size": 2}, ErrorCode.SRAM_RANGE),
    ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "pad_right": 1}, ErrorCode.SRAM_RANGE),
    (
        "inp",
        lambda hw: {"sram_base": hw.inp_depth - 1, "x_size": 0, "pad_right": 2},
        ErrorCode.SRAM_RANGE,
    ),
    ("wgt", _over("sram_base", "wgt_depth"), ErrorCode.SRAM_RANGE),
    ("acc", _over("sram_base", "acc_depth", acc_banks=15), ErrorCode.SRAM_RANGE),
    ("param", _over("sram_base", "param_depth"), ErrorCode.SRAM_RANGE),
    ("res", _over("sram_base", "res_depth"), ErrorCode.SRAM_RANGE),
    ("gemm", _over("uop_begin", "uop_depth"), ErrorCode.SRAM_RANGE),
    ("gemm", _over("inp_base", "inp_depth"), ErrorCode.SRAM_RANGE),
    ("gemm", _over("wgt_base", "wgt_depth"), ErrorCode.SRAM_RANGE),
    ("gemm", _over("acc_base", "acc_depth", acc_banks=15), ErrorCode.SRAM_RANGE),
    ("requant", _set(dst_outer=(1 << 18) - 1, iter_outer=(1 << 16) - 1), ErrorCode.SRAM_RANGE),
    ("alu", _over("src_base", "acc_depth", acc_banks=15), ErrorCode.SRAM_RANGE),
    ("alu", _over("dst_base", "acc_depth", acc_banks=15), ErrorCode.SRAM_RANGE),
    ("requant", _over("dst_base", "out_depth"), ErrorCode.SRAM_RANGE),
    ("requant", _over("opd_base", "res_depth", operand=1), ErrorCode.SRAM_RANGE),
    ("requant", _over("param_base", "param_depth"), ErrorCode.SRAM_RANGE),
    ("store", _over("sram_base", "out_depth"), ErrorCode.SRAM_RANGE),
    ("inp", _set(dram_offset=1 << 30), ErrorCode.DRAM_RANGE),
    ("inp", _set(y_size=2, y_stride=(1 << 24) - 1), ErrorCode.DRAM_RANGE),
    ("store", _set(dram_offset=1 << 30), ErrorCode.DRAM_RANGE),
    ("inp", _set(dram_offset=_DATA + 1), ErrorCode.DRAM_ALIGNMENT),
    ("store", _set(dram_offset=_DATA + 2), ErrorCode.DRAM_ALIGNMENT),
    ("acc", _set(acc_banks=14), ErrorCode.ACC_BANK),
    ("acc", _set(acc_banks=14, x_size=0, pad_right=1), ErrorCode.ACC_BANK),
    ("gemm", _set(acc_banks=14), ErrorCode.ACC_BANK),
    ("alu", lambda hw: {"src_base": hw.acc_depth - 1}, ErrorCode.ACC_BANK),
    ("alu", lambda hw: {"dst_base": hw.acc_depth - 1}, ErrorCode.ACC_BANK),
    ("requant", _set(acc_banks=2), ErrorCode.ACC_BANK),
)
"""Step of `legal_steps`, what to change in it, the code that it must raise."""
