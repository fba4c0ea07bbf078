# SPDX-License-Identifier: Apache-2.0
"""Programs for systems of cores, that take the bus, hang or trespass; a system of unlike cores."""

from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode, Unit
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.system_config import SystemConfig, SystemCore

_TINY = load_hwconfig("tiny-4x4")
MIXED = SystemConfig(
    name="mixed",
    cores=(
        SystemCore(hw=_TINY, port=1, weight=2),
        SystemCore(hw=load_hwconfig("edge-8x8")),
        SystemCore(
            hw=_TINY.with_(name="narrow", axi_data_bits=32, axi_burst_beats=4, activation_table=1),
            port=2,
        ),
        SystemCore(hw=_TINY.with_(name="deep", block_out=8, write_outstanding=4), port=1),
    ),
    memory_ports=3,
    queue_depth=2,
)
"""Cores of different parameters on three ports of different widths."""


def program_of(hw: HwConfig, *instructions: Instruction, data: int = 8192) -> Program:
    """These instructions and FINISH, with a region ``data``."""
    stream = b"".join(i.encode() for i in (*instructions, Instruction(Opcode.FINISH, {})))
    regions, total = layout_regions({"insn": len(stream), "data": data})
    return Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=regions,
        constants={},
        memory_bytes=total,
    )


DATA = 4096
"""Offset of ``data`` in a program of fewer than 128 instructions."""


def reader(hw: HwConfig, loads: int, offset: int = DATA) -> Program:
    """Loads 4 KiB of INP again and again: as many read beats as the bus gives."""
    tiles = 4096 // hw.inp_tile_bytes
    fields = {"memory": Memory.INP, "dram_offset": offset, "x_size": tiles, "y_size": 1}
    return program_of(hw, *[Instruction(Opcode.LOAD, {**fields, "z_size": 1})] * loads)


def writer(hw: HwConfig, stores: int, offset: int = DATA) -> Program:
    """Stores 2 KiB of OUT again and again."""
    tiles = 2048 // hw.out_tile_bytes
    fields = {"dram_offset": offset, "x_size": tiles, "y_size": 1, "z_size": 1}
    return program_of(hw, *[Instruction(Opcode.STORE, fields)] * stores)


def hanging(hw: HwConfig) -> Program:
    """Waits for a token that nobody gives."""
    waits = {"memory": Memory.INP, "dram_offset": DATA, "x_size": 1, "y_size": 1, "z_size": 1}
    return program_of(hw, Instruction(Opcode.LOAD, {**waits, "pop": 1 << Unit.STORE}))
