# SPDX-License-Identifier: Apache-2.0
"""Programs that fill every scratchpad, and programs that show what one of them holds."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, HwConfig
from tilewright.host.machine.isa import (
    PARAM_FIELDS,
    RESIDUAL_SHIFT,
    TABLE_ENTRIES,
    Instruction,
    Memory,
    Opcode,
    Operand,
    Unit,
    VectorOp,
    encode_uop,
    pack_fields,
)
from tilewright.host.machine.program import REGION_ALIGNMENT, Program, layout_regions
from tilewright.host.runtime.device import Bytes, Device

Values = dict[str, int]

_BANKS: Final = 0xF
_LOAD, _GEMM, _VECTOR, _STORE = (1 << unit for unit in Unit)
_UOPS: Final = {
    "none": encode_uop(inp=0, wgt=0, acc=0, first=False),
    "dirty": encode_uop(inp=1, wgt=1, acc=1, first=False),
}
_PARAMS: Final = {
    "plain": {"m1": 1},
    "residual": {"m2": 1, "shift": RESIDUAL_SHIFT},
    "dirty": {"m1": 3, "m2": 5, "shift": 2, "bias": 1000, "zero_point": 17},
}
_POOL: Final = 64  # entries of each kind
_RESULT: Final = 3 * REGION_ALIGNMENT  # after a region for each kind of constants


def _fill(memory: Memory, tiles: int, value: int, **fields: int) -> Instruction:
    """Padding of one value into the first tiles, a power of two."""
    columns = min(tiles, 32)
    values = {
        "memory": memory,
        "pad_value": value,
        "pad_left": columns,
        "pad_top": 1,
        "z_size": tiles // columns,
        "acc_banks": _BANKS * (memory is Memory.ACC),
    }
    return Instruction(Opcode.LOAD, {**values, **fields})


def _load(memory: Memory, offset: int, count: int, repeat: int = 1, **fields: int) -> Instruction:
    """The first ``count * repeat`` tiles from ``count`` tiles in DRAM."""
    values = {"memory": memory, "dram_offset": offset, "x_size": count, "y_size": repeat}
    return Instruction(Opcode.LOAD, {**values, "z_size": 1, **fields})


def _loop(tiles: int, *steps: str) -> Values:
    """Iterations over tiles (a power of two), with these indices counting them."""
    inner = min(tiles, 256)
    values = {"iter_inner": inner, "iter_outer": tiles // inner, "acc_banks": _BANKS}
    for step in steps:
        values |= {f"{step}_inner": 1, f"{step}_outer": inner}
    return values


def _requant(tiles: int, *steps: str, **fields: int) -> Instruction:
    values = {"op": VectorOp.REQUANT, "imm": 0x7F80, **_loop(tiles, "dst", *steps)}
    return Instruction(Opcode.VECTOR, {**values, **fields})


def _gemm(tiles: int, *steps: str, **fields: int) -> Instruction:
    values = {"uop_count": 1, **_loop(tiles, *steps), "pop": _LOAD, "push": _VECTOR}
    return Instruction(Opcode.GEMM, {**values, **fields})


def _program(hw: HwConfig, instructions: list[Instruction], result_bytes: int) -> Program:
    stream = b"".join(i.encode() for i in (*instructions, Instruction(Opcode.FINISH, {})))
    constants = {
        "uop": b"".join(word.to_bytes(8, "little") * _POOL for word in _UOPS.values()),
        "param": b"".join(
            pack_fields(PARAM_FIELDS, values).to_bytes(PARAM_BYTES_PER_CHANNEL, "little")
            * hw.block_out
            for values in _PARAMS.values()
        ),
        "every": np.resize(
            np.arange(-128, 128, dtype="<i4"), hw.out_tile_bytes * _every(hw)
        ).tobytes(),
    }
    sizes = {name: len(data) for name, data in constants.items()}
    regions, total = layout_regions({**sizes, "result": result_bytes, "insn": len(stream)})
    return Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=regions,
        constants=constants,
        memory_bytes=total,
    )


def _every(hw: HwConfig) -> int:
    """ACC tiles that hold every int8 value."""
    return max(1, TABLE_ENTRIES // hw.out_tile_bytes)


_UOP_OFFSET: Final = {"none": 0, "dirty": 8 * _POOL}


def _param(hw: HwConfig, kind: str, repeat: int = 1, **fields: int) -> Instruction:
    offset = REGION_ALIGNMENT + list(_PARAMS).index(kind) * hw.param_tile_bytes
    return _load(Memory.PARAM, offset, 1, repeat, **fields)


def dirt(hw: HwConfig) -> Program:
    """Leaves something that is not zero in every tile of every scratchpad."""
    pool = min(_POOL, hw.uop_depth)
    fills = [(Memory.INP, hw.inp_depth), (Memory.WGT, hw.wgt_depth), (Memory.RES, hw.res_depth)]
    if hw.activation_table:
        fills.append((Memory.TABLE, hw.table_depth))
    return _program(
        hw,
        [
            _fill(Memory.ACC, hw.acc_depth, 0x5A),
            *(_fill(memory, depth, 0x5A) for memory, depth in fills),
            _load(Memory.UOP, _UOP_OFFSET["dirty"], pool, hw.uop_depth // pool),
            _param(hw, "dirty", hw.param_depth, push=_VECTOR),
            _requant(hw.out_depth, pop=_LOAD),
        ],
        REGION_ALIGNMENT,
    )


def peek(hw: HwConfig, memory: Memory) -> Program:
    """Stores something that is zero where the scratchpad is, in region ``result``.

    What else it reads it writes first; of UOP the result is about the tiles that the micro-ops
    of a scrubbed one do not name.
    """
    depth = {
        Memory.OUT: hw.out_depth,
        Memory.PARAM: min(hw.param_depth, hw.acc_depth, hw.out_depth),
        Memory.INP: min(hw.inp_depth, hw.acc_depth, hw.out_depth),
        Memory.WGT: min(hw.wgt_depth, hw.acc_depth, hw.out_depth),
        Memory.UOP: min(hw.acc_depth, hw.out_depth),
        Memory.ACC: min(hw.acc_depth, hw.out_depth),
        Memory.RES: min(hw.res_depth, hw.acc_depth, hw.out_depth),
        Memory.TABLE: _every(hw),
    }[memory]
    last = {"push": _STORE}
    plain, none = _param(hw, "plain", push=_VECTOR), _load(Memory.UOP, _UOP_OFFSET["none"], 1)
    clear = _fill(Memory.ACC, depth, 0)
    one = {m: _fill(m, 1, 1, push=_GEMM) for m in (Memory.INP, Memory.WGT)}
    shown = [plain, _requant(depth, "src", pop=_LOAD | _GEMM, **last)]
    steps: dict[Memory, list[Instruction]] = {
        Memory.OUT: [],
        Memory.ACC: [plain, _requant(depth, "src", pop=_LOAD, **last)],
        Memory.RES: [
            clear,
            _param(hw, "residual", push=_VECTOR),
            _requant(depth, "src", "opd", operand=Operand.RES, pop=_LOAD, **last),
        ],
        Memory.PARAM: [
            _fill(Memory.ACC, depth, 0x11, push=_VECTOR),
            Instruction(
                Opcode.VECTOR,
                {
                    **_requant(depth, **last).values,
                    "iter_outer": depth,
                    "iter_inner": 1,
                    "dst_outer": 1,
                    "dst_inner": 0,
                    "param_step": 1,
                    "pop": _LOAD,
                },
            ),
        ],
        Memory.TABLE: [
            _load(Memory.ACC, 2 * REGION_ALIGNMENT, depth, acc_banks=_BANKS),
            plain,
            _requant(depth, "src", lookup=1, pop=_LOAD, **last),
        ],
        Memory.INP: [clear, none, one[Memory.WGT], _gemm(depth, "acc", "inp"), *shown],
        Memory.WGT: [clear, none, one[Memory.INP], _gemm(depth, "acc", "wgt"), *shown],
        Memory.UOP: [
            clear,
            _fill(Memory.INP, min(2, hw.inp_depth), 1),
            _fill(Memory.WGT, min(2, hw.wgt_depth), 1, push=_GEMM),
            _gemm(1, uop_count=hw.uop_depth),
            *shown,
        ],
    }
    row = min(depth, 256)
    store = Instruction(
        Opcode.STORE,
        {
            "dram_offset": _RESULT,
            "x_size": row,
            "y_size": depth // row,
            "y_stride": row,
            "z_size": 1,
            "pop": _VECTOR if steps[memory] else 0,
        },
    )
    return _program(hw, [*steps[memory], store], depth * hw.out_tile_bytes)


def residue(device: Device, memory: Memory) -> int:
    """Bytes that are not zero in what a scratchpad's `peek` stores, if it was written."""
    program = peek(device.hw, memory)
    image: Bytes = program.image()
    result = program.read(device.run(program, image).memory, "result")
    skip = device.hw.out_tile_bytes if memory is Memory.UOP else 0
    return int(np.count_nonzero(result[skip:]))
