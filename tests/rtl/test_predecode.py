# SPDX-License-Identifier: Apache-2.0
"""`tw_predecode` against the rules of the reference, on random instructions and configurations."""

from __future__ import annotations

import numpy as np
from builds import literal, open_unit
from support.randomness import fresh_rng, where

from tilewright.host.machine.geometry import geometry_of
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import FORMATS, UNIT_OF, Instruction, Memory, Opcode, unpack_fields
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.wires import NEEDS, SIZES
from tilewright.sim.reference.footprint import field_fault
from tilewright.sim.verify.randconfig import any_hwconfig

_CASES = 400
_OPCODES = [opcode for opcode in Opcode if opcode in UNIT_OF]


def draw(rng: np.random.Generator, opcode: Opcode) -> Instruction:
    """Fields that are 0, 1, small or anything: most rules are broken now and then, none always."""
    values = {}
    for field in FORMATS[opcode]:
        half = 1 << (field.bits - 1)
        low, high = (-half, half - 1) if field.signed else (0, 2 * half - 1)
        pick = [0, 1, int(rng.integers(8)), int(rng.integers(low, high, endpoint=True))]
        values[field.name] = min(high, pick[int(rng.choice(4, p=[0.2, 0.3, 0.3, 0.2]))])
    for name, chance in (("pop", 0.5), ("push", 0.5), ("diagonal", 0.6), ("int4", 0.6)):
        if name in values and rng.random() < chance:
            values[name] = 0
    for name in ("pad_left", "pad_right", "pad_top", "pad_bottom"):
        if name in values and rng.random() < 0.7:
            values[name] = 0
    values.pop("opcode", None)
    values.pop("spare", None)
    return Instruction(opcode, values)


def expected(hw: HwConfig, instruction: Instruction) -> dict[str, int]:
    """What the reference says: rules of fields, empty regions, and where rows start."""
    v, opcode, sizes = instruction.values, instruction.opcode, geometry_of(hw)
    illegal = field_fault(hw, opcode, v) != ErrorCode.NONE
    unaligned = False
    banks = v.get("acc_banks", 0)
    if opcode == Opcode.LOAD:
        columns = v["pad_left"] + v["x_size"] + v["pad_right"]
        illegal |= not columns or not v["pad_top"] + v["y_size"] + v["pad_bottom"]
        tile = 1 << sizes["diag_shift"] if v["diagonal"] else _tile_bytes(hw, v["memory"])
        tile >>= bool(v["int4"] and not v["diagonal"])
        moves = v["x_size"] and v["y_size"]
        unaligned = bool(moves and v["dram_offset"] % min(tile, hw.axi_data_bits // 8))
        banks = banks if v["memory"] == Memory.ACC else 0
    if opcode == Opcode.STORE:
        tile = _tile_bytes(hw, Memory.OUT)
        unaligned = bool(v["dram_offset"] % min(tile, hw.axi_data_bits // 8))
        banks = 0
    return {
        "pop": 0 if illegal else v["pop"],
        "banks": banks,
        "illegal": int(illegal),
        "unaligned": int(unaligned and not illegal),
    }


def _tile_bytes(hw: HwConfig, memory: int) -> int:
    out = hw.batch * hw.block_out
    return {
        Memory.INP: hw.batch * hw.block_in,
        Memory.WGT: hw.block_in * hw.block_out,
        Memory.ACC: 4 * out,
        Memory.UOP: 8,
        Memory.PARAM: 16 * hw.block_out,
        Memory.TABLE: hw.axi_data_bits // 8,
    }.get(Memory(memory), out)


def test_what_an_instruction_needs_is_what_the_reference_says() -> None:
    rng = fresh_rng()
    seen = set()
    for _ in range(2):
        hw = any_hwconfig(rng)
        sizes = literal(SIZES, geometry_of(hw))
        beat = hw.axi_data_bits // 8
        bench = open_unit("tw_predecode", bench="bench_predecode", BeatBytes=beat, Sizes=sizes)
        with bench as sim:
            for _ in range(_CASES):
                instruction = draw(rng, _OPCODES[int(rng.integers(len(_OPCODES)))])
                sim.io.insn_i = int.from_bytes(instruction.encode(), "little")
                sim.settle()
                unit = UNIT_OF[instruction.opcode]
                told = int(sim.io.needs_o) >> (10 * unit) & 0x3FF
                want = expected(hw, instruction)
                assert unpack_fields(NEEDS, told) == want, where(hw=hw, instruction=instruction)
                seen.add((instruction.opcode, want["illegal"], want["unaligned"]))
    assert len({case for case in seen if case[1]}) == len(_OPCODES), "every unit has illegal ones"
    assert (Opcode.LOAD, 0, 0) in seen
    assert (Opcode.STORE, 0, 1) in seen
