# SPDX-License-Identifier: Apache-2.0
"""tw_gemm with behavioural scratchpads against plain loops over the instruction's definition."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, generator, parameters, reset, start_clock
from cocotb.triggers import RisingEdge
from support.programs.loops import products
from units import Surroundings, answer, pack, random_tokens, unpack

from tilewright.host.machine.isa import Instruction, Opcode, encode_uop
from tilewright.host.machine.registers import ErrorCode

_SMALL = 6


class Memories:
    """UOP, INP, WGT and ACC: one read port each, data a cycle later."""

    def __init__(self, dut: Any, rng: np.random.Generator) -> None:
        p = parameters()
        self.p = p
        self._dut = dut
        shape = (p["Batch"], p["BlockOut"])
        self.inp = rng.integers(-128, 128, (p["InpDepth"], p["Batch"], p["BlockIn"]))
        self.wgt = rng.integers(-128, 128, (p["WgtDepth"], p["BlockOut"], p["BlockIn"]))
        self.inp[0], self.wgt[0] = -128, -128
        self.acc = rng.integers(-(2**31), 2**31, (p["AccDepth"], *shape)).astype(np.int32)
        self.uop = [
            {
                "inp": int(rng.integers(_SMALL)),
                "wgt": int(rng.integers(_SMALL)),
                "acc": int(rng.integers(4)),
                "first": bool(rng.random() < 0.3),
            }
            for _ in range(p["UopDepth"])
        ]
        self.issued = 0

    def step(self) -> None:
        """Serve reads and take the write of the past cycle."""
        dut = self._dut
        if int(dut.uop_read_o.value):
            dut.uop_data_i.value = encode_uop(**self.uop[int(dut.uop_addr_o.value)])
        if int(dut.inp_read_o.value):
            dut.inp_data_i.value = pack(self.inp[int(dut.inp_addr_o.value)], 8)
        if int(dut.wgt_read_o.value):
            dut.wgt_data_i.value = pack(self.wgt[int(dut.wgt_addr_o.value)], 8)
        locked = int(dut.acc_lock_o.value)
        if int(dut.acc_read_o.value):
            address = int(dut.acc_read_addr_o.value)
            assert locked >> (address >> self.p["AccBankShift"]) & 1, "read of an unlocked bank"
            dut.acc_read_data_i.value = pack(self.acc[address], 32)
        if int(dut.acc_write_o.value):
            address = int(dut.acc_write_addr_o.value)
            assert locked >> (address >> self.p["AccBankShift"]) & 1, "write to an unlocked bank"
            shape = self.acc.shape[1:]
            self.acc[address] = unpack(int(dut.acc_write_data_o.value), 32, shape)
        self.issued += int(dut.issue_o.value)


def random_gemm(rng: np.random.Generator, p: dict[str, int]) -> Instruction:
    """A legal instruction with few products on few accumulators."""
    outer, inner = (int(x) for x in rng.integers(1, 4, 2))
    count = int(rng.integers(1, 5))
    steps = {
        f"{name}_{loop}": int(rng.integers(3))
        for name in ("acc", "inp", "wgt")
        for loop in ("outer", "inner")
    }
    span = {
        name: (outer - 1) * steps[f"{name}_outer"] + (inner - 1) * steps[f"{name}_inner"] + _SMALL
        for name in ("acc", "inp", "wgt")
    }
    values = {
        "overwrite": int(rng.integers(2)),
        "uop_begin": int(rng.integers(p["UopDepth"] - count + 1)),
        "uop_count": count,
        "iter_outer": outer,
        "iter_inner": inner,
        "acc_base": int(rng.integers(p["AccDepth"] - span["acc"] + 1)),
        "inp_base": int(rng.integers(p["InpDepth"] - span["inp"] + 1)),
        "wgt_base": int(rng.integers(p["WgtDepth"] - span["wgt"] + 1)),
        **steps,
        **random_tokens(rng, 1),
    }
    first = values["acc_base"] >> p["AccBankShift"]
    last = (values["acc_base"] + span["acc"] - 1) >> p["AccBankShift"]
    banks = sum(1 << bank for bank in range(first, last + 1))
    return Instruction(Opcode.GEMM, {**values, "acc_banks": banks})


def apply(instruction: Instruction, m: Memories, acc: np.ndarray) -> int:
    """The definition, one product after another; returns the number of products."""
    v = instruction.values
    steps = list(products(v, m.uop[v["uop_begin"] : v["uop_begin"] + v["uop_count"]]))
    for a, n, w, fresh in steps:
        total = acc[a].astype(np.int64) * (not fresh) + m.inp[n] @ m.wgt[w].T
        acc[a] = total.astype(np.uint64).astype(np.uint32).view(np.int32)
    return len(steps)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def products_accumulate_as_defined(dut: Any, knob: str) -> None:
    rng = generator("gemm" + knob)
    await start_clock(dut)
    memories = Memories(dut, rng)
    program = [random_gemm(rng, memories.p) for _ in range(60)]
    around = Surroundings(dut, memories, program, rng, knob)
    await reset(dut)
    expected = memories.acc.copy()
    count = sum(apply(instruction, memories, expected) for instruction in program)
    await around.run()
    await RisingEdge(dut.clk_i)
    assert memories.issued == count
    assert answer(dut)["idle"]
    assert not int(dut.acc_lock_o.value)
    wrong = np.flatnonzero((memories.acc != expected).any(axis=(1, 2)))
    assert not wrong.size, f"accumulators {wrong.tolist()} differ"


@cocotb.test()
async def instructions_follow_each_other_without_a_gap(dut: Any) -> None:
    rng = generator("gemm gap")
    await start_clock(dut)
    memories = Memories(dut, rng)
    program = [random_gemm(rng, memories.p) for _ in range(20)]
    program = [Instruction(i.opcode, {**i.values, "pop": 0}) for i in program]
    around = Surroundings(dut, memories, program, rng)
    await reset(dut)
    count = sum(apply(i, memories, memories.acc.copy()) for i in program)
    issues = []
    while not around.done:
        await around.cycles()
        issues.append(int(dut.issue_o.value))
    first = issues.index(1)
    assert issues[first : first + count] == [1] * count, "a cycle without a product"


@cocotb.test()
@cocotb.parametrize(
    case=[
        ({"inp_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"wgt_base": 2**16 - 1, "wgt_outer": 2**16 - 1}, ErrorCode.SRAM_RANGE),
        ({"uop_begin": 2**17 - 1}, ErrorCode.SRAM_RANGE),
        ({"acc_banks": 0}, ErrorCode.ACC_BANK),
        ({"iter_outer": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"pop": 2}, ErrorCode.ILLEGAL_FIELD),
        ({"push": 2}, ErrorCode.ILLEGAL_FIELD),
    ]
)
async def a_bad_field_is_reported_with_its_instruction(
    dut: Any, case: tuple[dict[str, int], ErrorCode]
) -> None:
    change, code = case
    rng = generator(f"gemm errors {sorted(change)}")
    await start_clock(dut)
    memories = Memories(dut, rng)
    program = [random_gemm(rng, memories.p) for _ in range(4)]
    program[2] = Instruction(Opcode.GEMM, {**program[2].values, **change})
    around = Surroundings(dut, memories, program, rng, wrong={2: code})
    await reset(dut)
    await around.reports(code, 2)
