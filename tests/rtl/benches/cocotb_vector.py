# SPDX-License-Identifier: Apache-2.0
"""tw_vector with behavioural scratchpads against Python integers."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, generator, parameters, reset, start_clock
from cocotb.triggers import RisingEdge
from support.programs.elements import HIGH, LOW, OPERATIONS, reduced, requantised
from support.programs.loops import nest, places
from units import Surroundings, answer, pack, random_tokens, unpack

from tilewright.host.machine.isa import (
    PARAM_FIELDS,
    Instruction,
    Opcode,
    VectorOp,
    pack_fields,
)
from tilewright.host.machine.registers import ErrorCode

_TABLE = 0x5A
"""The table of the bench: a result with these bits turned."""


class Memories:
    """PARAM, ACC, RES and OUT; reads answer a cycle later."""

    def __init__(self, dut: Any, rng: np.random.Generator) -> None:
        p = parameters()
        self.p = p
        self._dut = dut
        shape = (p["Batch"], p["BlockOut"])
        self.acc = rng.integers(LOW, HIGH + 1, (p["AccDepth"], *shape)).astype(np.int32)
        small = rng.integers(-3000, 3000, self.acc.shape)
        self.acc = np.where(rng.random(self.acc.shape) < 0.5, self.acc, small).astype(np.int32)
        powers = rng.integers(-(1 << 16), 32 << 16, self.acc.shape)
        self.acc = np.where(rng.random(self.acc.shape) < 0.7, self.acc, powers).astype(np.int32)
        self.res = rng.integers(-128, 128, (p["ResDepth"], *shape)).astype(np.int8)
        self.out = np.zeros((p["OutDepth"], *shape), dtype=np.int8)
        self.par = [
            [
                {
                    "bias": int(rng.choice([0, rng.integers(LOW, HIGH + 1)])),
                    "m1": int(rng.integers(-(2**15), 2**15)),
                    "m2": int(rng.integers(-(2**15), 2**15)),
                    "shift": int(rng.integers(48)),
                    "zero_point": int(rng.integers(-128, 128)),
                }
                for _ in range(p["BlockOut"])
            ]
            for _ in range(p["ParDepth"])
        ]
        self.tiles = 0

    def step(self) -> None:
        """Serve reads and take writes of the past cycle."""
        dut, p = self._dut, self.p
        if int(dut.par_read_o.value):
            channels = p["ParRowBytes"] // 16
            rows = p["BlockOut"] // channels
            tile, row = divmod(int(dut.par_addr_o.value), rows)
            entries = self.par[tile][row * channels : (row + 1) * channels]
            dut.par_data_i.value = sum(
                pack_fields(PARAM_FIELDS, entry) << (128 * i) for i, entry in enumerate(entries)
            )
        locked = int(dut.acc_lock_o.value)
        if int(dut.acc_read_o.value):
            address = int(dut.acc_read_addr_o.value)
            assert locked >> (address >> p["AccBankShift"]) & 1, "read of an unlocked bank"
            dut.acc_read_data_i.value = pack(self.acc[address], 32)
        if int(dut.res_read_o.value):
            dut.res_data_i.value = pack(self.res[int(dut.res_addr_o.value)], 8)
        if int(dut.acc_write_o.value):
            address = int(dut.acc_write_addr_o.value)
            assert locked >> (address >> p["AccBankShift"]) & 1, "write to an unlocked bank"
            self._part(self.acc, address, dut.acc_write_part_o, dut.acc_write_data_o, 32)
        if int(dut.out_write_o.value):
            self._part(self.out, int(dut.out_addr_o.value), dut.out_part_o, dut.out_data_o, 8)
        self.tiles += int(dut.issue_o.value)

    def _part(self, memory: np.ndarray, address: int, part: Any, data: Any, bits: int) -> None:
        lanes = self.p["Lanes"]
        first = int(part.value) * lanes
        flat = memory[address].reshape(-1)
        flat[first : first + lanes] = unpack(int(data.value), bits, (lanes,))
        if memory is self.out and int(self._dut.out_lookup_o.value):
            flat[first : first + lanes] ^= _TABLE


def apply(instruction: Instruction, m: Memories, acc: np.ndarray, out: np.ndarray) -> int:
    """Run one instruction on arrays; returns the number of tiles."""
    v = instruction.values
    imm = v["imm"]
    low, high = (int(np.uint8(x & 0xFF).astype(np.int8)) for x in (imm, imm >> 8))
    for o in range(v["iter_outer"]):
        held = acc[v["opd_base"] + o * v["opd_outer"]].copy() if v["hold"] else None
        rows: list[list[int]] = [[] for _ in acc[0]]
        for i in range(v["iter_inner"]):
            dst, src, opd = places(v, ("dst", "src", "opd"), o, i)
            moved = v["op"] == VectorOp.MOV
            a = np.zeros_like(acc[0]) if moved else acc[src].copy()
            for index in np.ndindex(*a.shape):
                r = int(m.res[(opd, *index)]) if v["operand"] else 0
                if v["op"] == VectorOp.REQUANT:
                    entry = m.par[v["param_base"] + (o if v["param_step"] else 0)][index[1]]
                    result = requantised(int(a[index]), r, entry, low, high)
                    out[(dst, *index)] = result ^ (_TABLE if v["lookup"] else 0)
                else:
                    operand = r if v["operand"] else imm
                    if held is not None:
                        operand = int(held[index])
                    result = OPERATIONS[v["op"]](int(a[index]), operand)
                    if not v["reduce"]:
                        acc[(dst, *index)] = result
                    elif i < v["iter_inner"] - 1 or not v["lanes"] or index[1] < v["lanes"]:
                        rows[index[0]].append(result)
        if v["reduce"]:
            target = v["dst_base"] + o * v["dst_outer"]
            acc[target] = [[reduced(v["reduce"], row)] * a.shape[1] for row in rows]
    return v["iter_outer"] * (v["iter_inner"] + v["hold"] + (v["reduce"] > 0))


def random_vector(rng: np.random.Generator, p: dict[str, int]) -> Instruction:
    """A legal instruction on few tiles, so that hazards are frequent."""
    while True:
        instruction = _random_vector(rng, p)
        v = instruction.values
        reduced = {v["dst_base"] + o * v["dst_outer"] for o in range(v["iter_outer"])}
        read = {tile for o, i in nest(v) for tile in places(v, ("src",), o, i)}
        read |= {v["opd_base"] + o * v["opd_outer"] for o, _ in nest(v) if v["hold"]}
        if not v["reduce"] or not reduced & read:
            return instruction


def _random_vector(rng: np.random.Generator, p: dict[str, int]) -> Instruction:
    outer, inner = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    more = [VectorOp.SUB, VectorOp.SQUARE, VectorOp.EXP2, VectorOp.EXP2] if p["RowUnit"] else []
    op = int(rng.choice([*range(6), 6, 6, 6, *more]))
    requant = op == VectorOp.REQUANT
    rows = p["RowUnit"] and not requant
    hold = int(rows and rng.random() < 0.4)
    reduce = int(rng.integers(4)) if rows and rng.random() < 0.5 else 0
    depths = {
        "dst": p["OutDepth"] if requant else p["AccDepth"],
        "src": p["AccDepth"],
        "opd": p["AccDepth"] if hold else p["ResDepth"],
    }
    values: dict[str, int] = {"iter_outer": outer, "iter_inner": inner, "op": op}
    values |= {"hold": hold, "reduce": reduce}
    values["lanes"] = int(rng.integers(min(64, p["BlockOut"] + 2))) if reduce else 0
    near = int(rng.integers(min(8, p["AccDepth"] // 2)))
    spans = {}
    for name, depth in depths.items():
        steps = [int(x) for x in rng.integers(0, 3, 2)]
        values[f"{name}_outer"], values[f"{name}_inner"] = steps
        spans[name] = (outer - 1) * steps[0] + (inner - 1) * steps[1] + 1
        values[f"{name}_base"] = min(near + int(rng.integers(3)), depth - spans[name])
    step = int(rng.integers(2))
    values["param_step"] = step
    values["param_base"] = int(rng.integers(p["ParDepth"] - (outer - 1) * step))
    values["operand"] = 0 if hold else int(rng.integers(2))
    values["lookup"] = int(requant and p["TableDepth"] > 0 and rng.integers(2))
    low, high = sorted(int(x) for x in rng.integers(-128, 128, 2))
    clip = (high & 0xFF) << 8 | (low & 0xFF)
    values["imm"] = (
        clip - 2**16 * (clip >> 15)
        if requant
        else int(rng.choice([rng.integers(-40, 40), rng.integers(-(2**15), 2**15)]))
    )
    banks = 0
    for name in ("src",) if requant else ("src", "dst", "opd") if hold else ("src", "dst"):
        for tile in (values[f"{name}_base"], values[f"{name}_base"] + spans[name] - 1):
            banks |= 1 << (tile >> p["AccBankShift"])
    banks |= 6 if banks & 9 == 9 else 2 if banks & 5 == 5 else 4 if banks & 10 == 10 else 0
    return Instruction(Opcode.VECTOR, {**values, "acc_banks": banks, **random_tokens(rng, 2)})


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def operations_compute_as_defined(dut: Any, knob: str) -> None:
    rng = generator("vector" + knob)
    await start_clock(dut)
    memories = Memories(dut, rng)
    program = [random_vector(rng, memories.p) for _ in range(80)]
    around = Surroundings(dut, memories, program, rng, knob)
    await reset(dut)
    acc, out = memories.acc.copy(), memories.out.copy()
    tiles = sum(apply(instruction, memories, acc, out) for instruction in program)
    await around.run()
    assert memories.tiles == tiles
    for name, actual, expected in (("ACC", memories.acc, acc), ("OUT", memories.out, out)):
        wrong = np.flatnonzero((actual != expected).any(axis=(1, 2)))
        assert not wrong.size, f"{name}: tiles {wrong.tolist()} differ"
    await RisingEdge(dut.clk_i)
    assert answer(dut)["idle"]
    assert not int(dut.acc_lock_o.value)


@cocotb.test()
@cocotb.parametrize(
    case=[
        ({"dst_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"src_base": 2**16 - 1}, ErrorCode.SRAM_RANGE),
        ({"opd_base": 2**18 - 1, "operand": 1}, ErrorCode.SRAM_RANGE),
        ({"op": 6, "imm": 0x7F80, "param_base": 2**15 - 1}, ErrorCode.SRAM_RANGE),
        ({"op": 6, "imm": 0x0001}, ErrorCode.ILLEGAL_FIELD),
        ({"lookup": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"acc_banks": 0}, ErrorCode.ACC_BANK),
        ({"iter_inner": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"op": 10}, ErrorCode.ILLEGAL_FIELD),
        ({"op": 6, "imm": 0x7F80, "reduce": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"op": 6, "imm": 0x7F80, "hold": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"operand": 1, "hold": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"lanes": 1}, ErrorCode.ILLEGAL_FIELD),
        ({"pop": 4}, ErrorCode.ILLEGAL_FIELD),
        ({"push": 4}, ErrorCode.ILLEGAL_FIELD),
    ]
)
async def a_bad_field_is_reported_with_its_instruction(
    dut: Any, case: tuple[dict[str, int], ErrorCode]
) -> None:
    change, code = case
    rng = generator(f"vector errors {sorted(change)}")
    await start_clock(dut)
    memories = Memories(dut, rng)
    program = [random_vector(rng, memories.p) for _ in range(4)]
    add = {
        **program[2].values,
        "op": int(VectorOp.ADD),
        "dst_base": 0,
        "dst_outer": 0,
        "dst_inner": 0,
    }
    add |= {"src_base": 0, "src_outer": 0, "src_inner": 0, "acc_banks": 1}
    add |= {"lookup": 0, "hold": 0, "reduce": 0, "lanes": 0}
    program[2] = Instruction(Opcode.VECTOR, {**add, **change})
    around = Surroundings(dut, memories, program, rng, wrong={2: code})
    await reset(dut)
    await around.reports(code, 2)


@cocotb.test()
@cocotb.parametrize(
    case=[
        ({"op": VectorOp.SUB}, ErrorCode.NONE),
        ({"op": VectorOp.SQUARE}, ErrorCode.NONE),
        ({"op": VectorOp.EXP2}, ErrorCode.NONE),
        ({"hold": 1, "opd_base": 1}, ErrorCode.NONE),
        ({"reduce": 1, "dst_base": 1, "lanes": 1}, ErrorCode.NONE),
        ({"hold": 1, "opd_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"reduce": 1, "dst_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        ({"hold": 1, "opd_base": -1}, ErrorCode.ACC_BANK),
        ({"reduce": 2, "dst_base": -1}, ErrorCode.ACC_BANK),
    ]
)
async def the_row_unit_checks_what_it_reads_and_puts(
    dut: Any, case: tuple[dict[str, int], ErrorCode]
) -> None:
    """-1 is the last tile of ACC, whose bank the instruction does not declare."""
    change, code = case
    rng = generator(f"vector rows {sorted(change)}")
    await start_clock(dut)
    memories = Memories(dut, rng)
    last = memories.p["AccDepth"] - 1
    change = {name: last if value == -1 else int(value) for name, value in change.items()}
    one = {"op": int(VectorOp.ADD), "iter_outer": 1, "iter_inner": 1, "acc_banks": 1}
    program = [Instruction(Opcode.VECTOR, one | change)]
    if not memories.p["RowUnit"]:
        code = ErrorCode.ILLEGAL_FIELD
    around = Surroundings(dut, memories, program, rng, wrong={0: code})
    await reset(dut)
    await around.reports(code, 0, limit=200)
    assert around.done == (code == ErrorCode.NONE)


_EXTREMES = [
    *(LOW, LOW + 1, -(2**17) - 1, -(2**17), -2, -1, 0, 1, 2, 3, 2**17 - 1, 2**17),
    *(0xFFFF, 1 << 16, 15 << 16, 30 << 16, (31 << 16) - 1, 31 << 16, 1 << 30, HIGH - 1, HIGH),
]


def row_instruction(rng: np.random.Generator, p: dict[str, int], **values: int) -> Instruction:
    """An instruction of the row unit on tiles of its own: it reads from 0 on, and writes to 48."""
    lanes = [0, 1, p["BlockOut"] - 1, *(min(63, p["BlockOut"] + n) for n in range(2))]
    row = {"operand": 0, "op": int(rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 9])), "acc_banks": 15}
    row |= {"imm": int(rng.choice([-(2**15), -1, 0, 1, 17, 31, 32, 2**15 - 1]))}
    row |= {"iter_outer": int(rng.integers(1, 4)), "iter_inner": int(rng.choice([1, 1, 2, 5]))}
    row |= {"src_base": int(rng.integers(16)), "src_outer": 5, "src_inner": 1}
    row |= {"hold": int(rng.integers(2)), "opd_base": int(rng.integers(32)), "opd_outer": 1}
    row |= {"opd_inner": 3}  # which does not count
    row |= {"reduce": int(rng.integers(4)), "dst_base": 48, "dst_outer": 5, "dst_inner": 1}
    row |= {"lanes": int(rng.choice(lanes)) if values.get("reduce", row["reduce"]) else 0}
    return Instruction(Opcode.VECTOR, row | values)


async def run(dut: Any, memories: Memories, program: list[Instruction], salt: str) -> None:
    """Run a program from what ACC holds now, and compare: all is written when the last retires."""
    rng = generator(salt)
    around = Surroundings(dut, memories, program, rng)
    acc, out = memories.acc.copy(), memories.out.copy()
    for instruction in program:
        apply(instruction, memories, acc, out)
    await around.run(400)
    wrong = np.flatnonzero((memories.acc != acc).any(axis=(1, 2)))
    assert not wrong.size, f"tiles {wrong.tolist()} differ"
    await RisingEdge(dut.clk_i)


@cocotb.test(skip=not parameters().get("RowUnit"))
async def rows_of_extreme_values_compute_as_defined(dut: Any) -> None:
    """Each row alone, so that no other operation writes where one is wrong."""
    rng = generator("vector extremes")
    await start_clock(dut)
    memories = Memories(dut, rng)
    few = rng.random((len(memories.acc), 1, 1)) < 0.5
    values = rng.choice(_EXTREMES, memories.acc.shape)
    # Sums of few ones and zeros have logarithms of 0 and of the first powers.
    memories.acc = np.where(few, values, rng.integers(-1, 2, values.shape)).astype(np.int32)
    await reset(dut)
    for number in range(60):
        program = [row_instruction(rng, memories.p)]
        await run(dut, memories, program, f"vector extremes {number}")


@cocotb.test(skip=not parameters().get("RowUnit"))
async def a_power_of_a_sum_that_saturates_is_that_of_the_limit(dut: Any) -> None:
    """The sum comes from the stage before: it may be just above or below 32 bits."""
    rng = generator("vector saturated exponents")
    await start_clock(dut)
    memories = Memories(dut, rng)
    await reset(dut)
    one = {"hold": 1, "reduce": 0, "iter_outer": 1, "iter_inner": 1, "src_base": 0, "opd_base": 1}
    power = {**one, "hold": 0, "op": int(VectorOp.EXP2), "src_base": 48, "dst_base": 52}
    for number in range(20):
        sign = rng.choice([-1, 1], memories.acc[:2].shape)
        memories.acc[:2] = sign * (2**30 + rng.integers(0, 2**20, sign.shape))
        op = int(rng.choice([VectorOp.ADD, VectorOp.SUB]))
        program = [row_instruction(rng, memories.p, **row) for row in ({**one, "op": op}, power)]
        await run(dut, memories, program, f"vector saturated exponents {number}")


@cocotb.test(skip=not parameters().get("RowUnit"))
async def a_halted_reduction_retires_at_most_once(dut: Any) -> None:
    """An error of another unit comes in any cycle of it; it is seen until the reset."""
    rng = generator("vector halt")
    await start_clock(dut)
    memories = Memories(dut, rng)
    await reset(dut)
    parts = memories.p["Batch"] * memories.p["BlockOut"] // memories.p["Lanes"]
    for cycles in range(3 * parts + 16):
        row = {"reduce": 2, "iter_outer": 1, "iter_inner": 2, "hold": 0, "push": 9, "lanes": 0}
        program = [row_instruction(rng, memories.p, **row)]
        around = Surroundings(dut, memories, program, rng)
        while not around.taken:
            await around.cycles()
        await around.cycles(cycles)
        dut.halt_i.value = 1
        retired = around.retired
        for _ in range(64):
            await RisingEdge(dut.clk_i)
            memories.step()
            assert not answer(dut)["token_push"], "a halted unit pushes a token"
            retired += answer(dut)["retire"]
        assert retired <= 1, f"halted after {cycles} cycles, it retired {retired} times"
        await reset(dut, cycles=1)
        after = [row_instruction(rng, memories.p) for _ in range(2)]
        await run(dut, memories, after, f"vector after halt {cycles}")


@cocotb.test(skip=not parameters().get("RowUnit"))
async def a_reset_in_the_middle_of_a_row_leaves_nothing_of_it(dut: Any) -> None:
    rng = generator("vector reset")
    await start_clock(dut)
    memories = Memories(dut, rng)
    await reset(dut)
    for cycles in range(1, 40, 3):
        program = [row_instruction(rng, memories.p, reduce=1 + cycles % 3, lanes=0)]
        around = Surroundings(dut, memories, program, rng)
        await around.cycles(cycles)
        dut.queue_i.value = 0
        await reset(dut, cycles=1)
        after = [row_instruction(rng, memories.p) for _ in range(2)]
        await run(dut, memories, after, f"vector after reset {cycles}")
