# SPDX-License-Identifier: Apache-2.0
"""Zero every scratchpad of a device: nothing of one user's data is left for the next one to read.

A start and a soft reset leave the scratchpads as they are. The instruction set can already fill
them: a LOAD that is padding alone writes a tile a cycle and reads nothing from memory. So a scrub
is a program like any other. It needs no hardware and works on every `Device`.
"""

from __future__ import annotations

from typing import Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode, Unit, VectorOp
from tilewright.host.machine.program import REGION_ALIGNMENT, Program, layout_regions
from tilewright.host.runtime.device import Counters, Device

_SIDE: Final = 32
"""Tiles of padding in a row and rows in a plane: a power of two that the pad fields can hold."""
_INNER: Final = 256
_ALL_BANKS: Final = 0xF


def scrub_program(hw: HwConfig) -> Program:
    """A program that leaves zeros in every tile of every scratchpad."""
    vector, load = 1 << Unit.VECTOR, 1 << Unit.LOAD
    param_bytes = hw.param_depth * hw.param_tile_bytes
    row = min(param_bytes, max(REGION_ALIGNMENT, hw.param_tile_bytes))
    stream = [
        # First what VECTOR needs: it clears OUT while LOAD goes on.
        _padding(Memory.ACC, hw.acc_depth, acc_banks=_ALL_BANKS),
        Instruction(
            Opcode.LOAD,
            {
                "memory": Memory.PARAM,
                "dram_offset": 0,
                "x_size": row // hw.param_tile_bytes,
                "y_size": param_bytes // row,
                "z_size": 1,
                "push": vector,
            },
        ),
        # Zero times zero, from one ACC tile to every OUT tile.
        Instruction(
            Opcode.VECTOR,
            {
                "op": VectorOp.REQUANT,
                "imm": 0x7F80,
                "iter_inner": min(hw.out_depth, _INNER),
                "iter_outer": max(1, hw.out_depth // _INNER),
                "dst_inner": 1,
                "dst_outer": _INNER,
                "acc_banks": _ALL_BANKS,
                "pop": load,
            },
        ),
        _padding(Memory.INP, hw.inp_depth),
        _padding(Memory.WGT, hw.wgt_depth),
        _padding(Memory.RES, hw.res_depth),
        _padding(Memory.UOP, hw.uop_depth),
        *([_padding(Memory.TABLE, hw.table_depth)] if hw.activation_table else []),
        Instruction(Opcode.FINISH, {}),
    ]
    encoded = b"".join(instruction.encode() for instruction in stream)
    regions, memory_bytes = layout_regions({"zeros": row, "insn": len(encoded)})
    return Program(
        config_hash=hw.config_hash,
        instructions=encoded,
        regions=regions,
        constants={},
        memory_bytes=memory_bytes,
    )


def scrub(device: Device) -> Counters:
    """Zero every scratchpad of a device."""
    program = scrub_program(device.hw)
    return device.run(program, program.image()).counters


def _padding(memory: Memory, depth: int, **fields: int) -> Instruction:
    """A LOAD of nothing but padding, zero, into a whole scratchpad."""
    columns = min(depth, _SIDE)
    rows = min(depth // columns, _SIDE)
    return Instruction(
        Opcode.LOAD,
        {
            "memory": memory,
            "pad_left": columns,
            "pad_top": rows,
            "z_size": depth // (columns * rows),
            **fields,
        },
    )
