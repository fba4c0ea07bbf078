# SPDX-License-Identifier: Apache-2.0
"""Single instructions of the row unit at the ends of their ranges, on RTL, `dpi` and reference.

ACC cannot be stored. So each result is requantised with a bias that makes it -1 if it is right, and
something else if any of its 32 bits is wrong.
"""

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pytest

from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_store,
    pack_vector,
)
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import PARAM_FIELDS, Memory, Reduce, Unit, VectorOp, pack_fields
from tilewright.host.machine.program import Program, layout_regions
from tilewright.sim.devices import open_simulated

HW = load_hwconfig("tiny-4x4").with_(row_unit=1)
LOW, HIGH = -(2**31), 2**31 - 1
ONE = 1 << 16
POWER_15 = 2**15 * 16386 // 2**14  # EXP2 of 15: the middle of a table's first step


@dataclass(frozen=True, kw_only=True)
class Case:
    """An instruction: its fields, its source, its held operand, and what it leaves."""

    op: VectorOp
    fields: dict[str, int] = field(default_factory=dict)
    first: tuple[int, int, int, int]
    held: tuple[int, int, int, int] = (0, 0, 0, 0)
    result: tuple[int, int, int, int]


def reduced(kind: Reduce, op: VectorOp, first: tuple[int, ...], result: int, **fields: int) -> Case:
    return Case(op=op, fields={"reduce": kind, **fields}, first=first, result=(result,) * 4)


def held(op: VectorOp, first: tuple[int, ...], operand: tuple[int, ...], *result: int) -> Case:
    return Case(op=op, fields={"hold": 1}, first=first, held=operand, result=result)


GREATEST = (HIGH,) * 4
WRAPS = 16385
"""Tiles of `GREATEST` whose sum is above 2^47, if only just."""

CASES = (
    # Sums: of one tile, at 48 bits and at 32.
    reduced(Reduce.SUM, VectorOp.ADD, GREATEST, HIGH, iter_inner=WRAPS - 2),
    reduced(Reduce.SUM, VectorOp.ADD, GREATEST, LOW, iter_inner=WRAPS),
    reduced(Reduce.MAX, VectorOp.ADD, GREATEST, HIGH, iter_inner=WRAPS),
    reduced(Reduce.LOG_SUM, VectorOp.ADD, GREATEST, 0, iter_inner=WRAPS),
    reduced(Reduce.LOG_SUM, VectorOp.ADD, GREATEST, 46 * ONE + 65527, iter_inner=WRAPS - 2),
    reduced(Reduce.SUM, VectorOp.ADD, (HIGH, 1, -1, 0), HIGH),
    reduced(Reduce.SUM, VectorOp.ADD, (HIGH, 1, 0, 0), HIGH),
    reduced(Reduce.SUM, VectorOp.ADD, (LOW, -1, 0, 0), LOW),
    reduced(Reduce.SUM, VectorOp.ADD, (LOW, 1, 0, 0), LOW + 1),
    # Channels that count: of one tile, of the last one of two, more than there are.
    reduced(Reduce.SUM, VectorOp.ADD, (1, 20, 300, 4000), 1, lanes=1),
    reduced(Reduce.SUM, VectorOp.ADD, (1, 20, 300, 4000), 4321 + 321, lanes=3, iter_inner=2),
    reduced(Reduce.SUM, VectorOp.ADD, (1, 20, 300, 4000), 4321, lanes=4),
    reduced(Reduce.SUM, VectorOp.ADD, (1, 20, 300, 4000), 4321, lanes=63),
    reduced(Reduce.MAX, VectorOp.ADD, (LOW, HIGH, HIGH, HIGH), LOW, lanes=1),
    reduced(Reduce.MAX, VectorOp.ADD, (-9, -7, -8, -9), -7),
    # Logarithms below 2 and at powers; a sum beyond 32 bits.
    *(reduced(Reduce.LOG_SUM, VectorOp.ADD, (n, 0, 0, 0), 0) for n in (LOW, -1, 0, 1)),
    reduced(Reduce.LOG_SUM, VectorOp.ADD, (2, 0, 0, 0), ONE + 32),
    reduced(Reduce.LOG_SUM, VectorOp.ADD, (1 << 30, 1 << 30, 0, 0), 31 * ONE + 32),
    reduced(Reduce.LOG_SUM, VectorOp.ADD, (1 << 30,) * 4, 32 * ONE + 32),
    # What is reduced are results: saturated, of MOV, of what is held.
    reduced(Reduce.SUM, VectorOp.ADD, (HIGH, 0, 0, 0), HIGH, imm=1, lanes=1),
    reduced(Reduce.SUM, VectorOp.MOV, (5, 5, 5, 5), -7 * 12, imm=-7, iter_inner=3),
    reduced(Reduce.SUM, VectorOp.EXP2, (0, -1, LOW, 15 * ONE), 1 + POWER_15),
    Case(
        op=VectorOp.MUL,
        fields={"hold": 1, "reduce": Reduce.SUM, "iter_inner": 2, "lanes": 2},
        first=(1, 2, 3, 4),
        held=(1000, 100, 10, 1),
        result=(2434,) * 4,
    ),
    # Operands in ACC, of 32 bits or of their lowest 18.
    held(VectorOp.SUB, (LOW, HIGH, 0, 5), (1, -1, LOW, 7), LOW, HIGH, HIGH, -2),
    held(VectorOp.ADD, (LOW, HIGH, HIGH, 5), (-1, 1, LOW, 7), LOW, HIGH, -1, 12),
    held(VectorOp.MIN, (LOW, HIGH, 1, 5), (HIGH, LOW, -1, 7), LOW, LOW, -1, 5),
    held(VectorOp.MAX, (LOW, HIGH, 1, 5), (HIGH, LOW, -1, 7), HIGH, HIGH, 1, 7),
    held(VectorOp.MOV, (0, 0, 0, 0), (LOW, HIGH, 1 << 18, -5), LOW, HIGH, 1 << 18, -5),
    held(VectorOp.SHR, (LOW, LOW, LOW, 77), (31, 1 << 20, -1, LOW), -1, -1, LOW, 77),
    held(VectorOp.MUL, (3, 3, 3, 3), (1 << 18, (1 << 18) + 5, 1 << 17, -1), 0, 15, -393216, -3),
    held(VectorOp.MUL, (LOW, HIGH, LOW, HIGH), (-1, -1, 1, 131071), HIGH, -HIGH, LOW, HIGH),
    Case(op=VectorOp.SQUARE, first=(46340, 46341, -46341, -131072),
         result=(46340**2, HIGH, HIGH, HIGH)),
    Case(op=VectorOp.SQUARE, first=(1 << 18, 1 << 17, LOW, HIGH), result=(0, LOW, 0, -HIGH)),
    Case(op=VectorOp.EXP2, first=(LOW, -1, 0, ONE), result=(0, 0, 1, 2)),
    Case(op=VectorOp.EXP2, first=(31 * ONE - 1, 31 * ONE, 1 << 21, HIGH),
         result=(32751 << 16,) * 4),
    Case(op=VectorOp.EXP2, first=(30 * ONE, 16 * ONE, 15 * ONE, 14 * ONE),
         result=(16386 << 16, 16386 << 2, 16386 << 1, 16386)),
)  # fmt: skip


def program_of(hw: HwConfig, cases: tuple[Case, ...]) -> Program:
    """Load three tiles per case, run the cases, requantise and store the last tile of each."""
    count = len(cases)
    tiles = np.array([[case.first, case.held, (0,) * 4] for case in cases], dtype="<i4")
    bias = [[~value for value in case.result] for case in cases]
    entries = [
        pack_fields(PARAM_FIELDS, {"bias": value, "m1": 1}).to_bytes(16, "little")
        for values in bias
        for value in values
    ]
    constants = {"acc": tiles.tobytes(), "param": b"".join(entries)}
    sizes = {name: len(data) for name, data in constants.items()}
    sizes["out"] = count * hw.out_tile_bytes
    at, _ = layout_regions(sizes)
    builder = ProgramBuilder(hw)
    banks = (1 << hw.acc_banks) - 1
    once = {"y_size": 1, "z_size": 1}
    load = pack_load(memory=Memory.ACC, acc_banks=banks, x_size=3 * count, **once,
                     dram_offset=at["acc"].offset)  # fmt: skip
    builder.emit_word(Unit.LOAD, load, (), (("acc", 0),))
    load = pack_load(memory=Memory.PARAM, x_size=count, **once, dram_offset=at["param"].offset)
    builder.emit_word(Unit.LOAD, load, (), (("param", 0),))
    for number, case in enumerate(cases):
        tile = 3 * number
        places = {"src_base": tile, "opd_base": tile + 1, "dst_base": tile + 2}
        fields = {"iter_outer": 1, "iter_inner": 1, "acc_banks": banks, **places, **case.fields}
        builder.emit_word(Unit.VECTOR, pack_vector(op=case.op, **fields), (), (("acc", 0),))
    requant = pack_vector(
        op=VectorOp.REQUANT, imm=0x7F80, acc_banks=banks, param_step=1, iter_outer=count,
        iter_inner=1, src_base=2, src_outer=3, dst_outer=1,
    )  # fmt: skip
    builder.emit_word(Unit.VECTOR, requant, (("acc", 0), ("param", 0)), (("out", 0),))
    store = pack_store(x_size=count, **once, dram_offset=at["out"].offset)
    builder.emit_word(Unit.STORE, store, (("out", 0),), ())
    return builder.finish(sizes, constants)


@pytest.mark.parametrize("fidelity", ["reference", "dpi", "rtl"])
def test_results_at_the_ends_of_their_ranges(fidelity: str) -> None:
    """Literal results: no model of the instructions is asked."""
    wrong = []
    with closing(open_simulated(fidelity, HW, load_memory("pynq-z2"))) as device:
        for first in range(0, len(CASES), HW.param_depth):
            cases = CASES[first : first + HW.param_depth]
            program = program_of(HW, cases)
            memory = device.run(program, program.image()).memory
            found = program.read(memory, "out").view(np.int8).reshape(len(cases), 4)
            wrong += [case for case, lanes in zip(cases, found, strict=True) if (lanes != -1).any()]
    assert not wrong, wrong
