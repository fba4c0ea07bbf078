# SPDX-License-Identifier: Apache-2.0
"""The race checker against a brute-force search for unordered pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs.hazards import check_hazards

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import UNIT_OF, Memory, Opcode, Unit
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs.directed import DATA, Step, build

TINY = load_hwconfig("tiny-4x4")


def assemble(*steps: Step) -> Program:
    return build(TINY, *steps)


def load(memory: Memory, base: int, offset: int = DATA, pop: int = 0, push: int = 0) -> Step:
    return Opcode.LOAD, {
        "memory": memory,
        "sram_base": base,
        "dram_offset": 0 if memory == Memory.UOP else offset,
        "x_size": 1,
        "y_size": 1,
        "z_size": 1,
        "acc_banks": 15,
        "pop": pop,
        "push": push,
    }


def gemm(acc: int, inp: int, pop: int = 0, push: int = 0) -> Step:
    return Opcode.GEMM, {
        "overwrite": 1,
        "uop_count": 1,
        "iter_outer": 1,
        "iter_inner": 1,
        "acc_base": acc,
        "inp_base": inp,
        "acc_banks": 15,
        "pop": pop,
        "push": push,
    }


def requant(dst: int, src: int, pop: int = 0, push: int = 0) -> Step:
    return Opcode.VECTOR, {
        "op": 6,
        "imm": 0x7F80,
        "iter_outer": 1,
        "iter_inner": 1,
        "dst_base": dst,
        "src_base": src,
        "acc_banks": 15,
        "pop": pop,
        "push": push,
    }


def store(base: int, offset: int = DATA, pop: int = 0, push: int = 0) -> Step:
    return Opcode.STORE, {
        "sram_base": base,
        "dram_offset": offset,
        "x_size": 1,
        "y_size": 1,
        "z_size": 1,
        "pop": pop,
        "push": push,
    }


L, G, V, S = (1 << unit for unit in Unit)


def test_chain_of_tokens_orders_load_gemm_vector_store() -> None:
    program = assemble(
        load(Memory.UOP, 0),
        load(Memory.WGT, 0),
        load(Memory.PARAM, 0),
        load(Memory.INP, 0, push=G),
        gemm(0, 0, pop=L, push=V),
        requant(0, 0, pop=G, push=S),
        store(0, pop=V, push=L),
        load(Memory.INP, 0, pop=S),
    )
    report = check_hazards(TINY, program)
    assert report.instructions == 9
    assert report.tokens == 4
    assert report.unused_tokens == 0


@pytest.mark.parametrize(
    ("steps", "pair"),
    [
        pytest.param((load(Memory.UOP, 0), gemm(0, 0)), "0", id="raw-uop"),
        pytest.param(
            (load(Memory.UOP, 0, push=G), load(Memory.INP, 0), gemm(0, 0, pop=L)), "1", id="raw-inp"
        ),
        pytest.param(
            (load(Memory.UOP, 0, push=G), gemm(0, 3, pop=L), load(Memory.INP, 3)), "1", id="war-inp"
        ),
        pytest.param(
            (load(Memory.UOP, 0, push=G), gemm(5, 0, pop=L), load(Memory.ACC, 5)), "1", id="waw-acc"
        ),
        pytest.param((requant(4, 0), load(Memory.PARAM, 0)), "0", id="war-param"),
        pytest.param((requant(4, 0), store(4)), "0", id="raw-out"),
        pytest.param((store(4), requant(4, 0)), "0", id="war-out"),
        pytest.param((store(4, DATA + 4), load(Memory.INP, 0, DATA + 4)), "0", id="raw-dram"),
        pytest.param((load(Memory.WGT, 0, DATA), store(4, DATA + 12)), "0", id="war-dram"),
    ],
)
def test_missing_token_is_found_and_both_instructions_are_named(
    steps: tuple[Step, ...], pair: str
) -> None:
    with pytest.raises(ProgramError, match=f"which instruction {pair} ") as caught:
        check_hazards(TINY, assemble(*steps))
    assert caught.value.field == f"instruction {len(steps) - 1}"


def test_neighbouring_tiles_and_bytes_do_not_conflict() -> None:
    check_hazards(TINY, assemble(requant(4, 0), store(5)))
    check_hazards(TINY, assemble(store(4, DATA + 4), load(Memory.INP, 0, DATA + 8)))
    check_hazards(TINY, assemble(load(Memory.WGT, 0, DATA), store(4, DATA + 16)))


def test_token_of_an_earlier_instruction_does_not_order_a_later_one() -> None:
    with pytest.raises(ProgramError, match="which instruction 1 "):
        check_hazards(TINY, assemble(requant(4, 0, push=S), requant(5, 0), store(5, pop=V)))


def test_tokens_are_matched_in_order_of_their_pushes() -> None:
    """The first pop takes the first push, though the second was meant."""
    steps = [requant(4, 0, push=S), requant(5, 0, push=S), store(5, pop=V), store(4, pop=V)]
    with pytest.raises(ProgramError, match="which instruction 1 "):
        check_hazards(TINY, assemble(*steps))
    check_hazards(TINY, assemble(steps[0], steps[1], steps[3], steps[2]))


def test_pop_without_an_earlier_push_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"instruction 0.*no earlier instruction pushed"):
        check_hazards(TINY, assemble(store(0, pop=V), requant(0, 0, push=S)))


def test_store_into_the_instruction_stream_is_refused() -> None:
    offset = assemble(store(0, 0)).regions["insn"].offset
    with pytest.raises(ProgramError, match="fetched ahead"):
        check_hazards(TINY, assemble(store(0, offset)))


def test_micro_ops_that_the_program_stored_are_refused() -> None:
    with pytest.raises(ProgramError, match="micro-ops"):
        check_hazards(TINY, assemble(store(0, 0, push=L), load(Memory.UOP, 0, pop=S)))


def test_missing_finish_is_a_status_error() -> None:
    program = assemble(load(Memory.INP, 0))
    memory = program.image()
    insn = program.regions["insn"].offset
    memory[insn + 32 : insn + 64] = memory[insn : insn + 32]
    with pytest.raises(DeviceStatusError) as caught:
        check_hazards(TINY, program, memory)
    assert caught.value.code == ErrorCode.NO_FINISH


# -- brute force --------------------------------------------------------------------------------


def accesses(step: Step) -> tuple[set, set]:
    """Cells read and written, straight from the meaning of these one-tile instructions."""
    opcode, v = step
    if opcode == Opcode.LOAD:
        size = {Memory.INP: 4, Memory.WGT: 16, Memory.ACC: 16}[Memory(v["memory"])]
        return (
            {("dram", b) for b in range(v["dram_offset"], v["dram_offset"] + size)},
            {(Memory(v["memory"]), v["sram_base"])},
        )
    if opcode == Opcode.STORE:
        return (
            {(Memory.OUT, v["sram_base"])},
            {("dram", b) for b in range(v["dram_offset"], v["dram_offset"] + 4)},
        )
    if opcode == Opcode.GEMM:
        reads = {(Memory.INP, v["inp_base"]), (Memory.WGT, 0), (Memory.UOP, 0)}
        return reads, {(Memory.ACC, v["acc_base"])}
    return {(Memory.ACC, v["src_base"]), (Memory.PARAM, 0)}, {(Memory.OUT, v["dst_base"])}


def has_race(steps: list[Step]) -> bool:
    """Transitive closure of unit order and token order, then every pair of instructions."""
    count = len(steps)
    before = np.zeros((count, count), dtype=bool)
    unit = [UNIT_OF[opcode] for opcode, _ in steps]
    for a, b in itertools.combinations(range(count), 2):
        before[a, b] |= unit[a] == unit[b]
    for source, target in itertools.permutations(Unit, 2):
        pushes = [
            n for n, s in enumerate(steps) if unit[n] == source and s[1]["push"] >> target & 1
        ]
        pops = [n for n, s in enumerate(steps) if unit[n] == target and s[1]["pop"] >> source & 1]
        for push, pop in zip(pushes, pops, strict=False):
            before[push, pop] = True
    for middle in range(count):
        before |= before[:, [middle]] & before[[middle], :]
    for a, b in itertools.combinations(range(count), 2):
        (reads_a, writes_a), (reads_b, writes_b) = accesses(steps[a]), accesses(steps[b])
        clash = writes_a & (reads_b | writes_b) or reads_a & writes_b
        if clash and unit[a] != unit[b] and not before[a, b]:
            return True
    return False


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    """Few tiles, random tokens; every pop has an earlier push."""
    tile = st.integers(0, 1)
    offset = st.sampled_from([DATA, DATA + 4, DATA + 8, DATA + 16])
    steps: list[Step] = []
    available = dict.fromkeys(itertools.permutations(Unit, 2), 0)
    for _ in range(draw(st.integers(2, 9))):
        unit = draw(st.sampled_from(Unit))
        if unit == Unit.LOAD:
            memory = draw(st.sampled_from([Memory.INP, Memory.ACC, Memory.WGT]))
            base = 1 if memory == Memory.WGT else draw(tile)
            aligned = draw(offset) & (~3 if memory == Memory.INP else ~7)
            step = load(memory, base, aligned)
        elif unit == Unit.GEMM:
            step = gemm(draw(tile), draw(tile))
        elif unit == Unit.VECTOR:
            step = requant(draw(tile), draw(tile))
        else:
            step = store(draw(tile), draw(offset))
        for other in Unit:
            if other == unit:
                continue
            if available[other, unit] and draw(st.booleans()):
                available[other, unit] -= 1
                step[1]["pop"] |= 1 << other
        for other in Unit:
            if other != unit and draw(st.integers(0, 3)) == 0:
                available[unit, other] += 1
                step[1]["push"] |= 1 << other
        steps.append(step)
    return steps


@settings(max_examples=300, deadline=None)
@given(steps=step_lists())
def test_verdict_equals_brute_force(steps: list[Step]) -> None:
    if has_race(steps):
        with pytest.raises(ProgramError, match="without a token"):
            check_hazards(TINY, assemble(*steps))
    else:
        check_hazards(TINY, assemble(*steps))


def test_twenty_thousand_instructions_are_checked() -> None:
    """A software pipeline of 4,000 rounds over two slots each."""
    steps: list[Step] = [load(Memory.UOP, 0), load(Memory.WGT, 0), load(Memory.PARAM, 0)]
    for n in range(4000):
        slot, again = n % 2, n >= 2
        steps += [
            load(Memory.INP, slot, pop=G if again else 0, push=G),
            gemm(slot, slot, pop=L | (V if again else 0), push=L | V),
            requant(slot, slot, pop=G | (S if again else 0), push=G | S),
            store(slot, DATA + 2048, pop=V, push=V),
            load(Memory.RES, slot),
        ]
    assert check_hazards(TINY, assemble(*steps)).instructions == 20_004
    steps[-4][1]["pop"] = L  # the last GEMM no longer waits for the vector unit
    with pytest.raises(ProgramError, match="writes ACC tile 1"):
        check_hazards(TINY, assemble(*steps))
