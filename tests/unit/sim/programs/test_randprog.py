# SPDX-License-Identifier: Apache-2.0
"""Random programs are legal, race-free, short, varied, and show what they compute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs import loops
from support.programs.hazards import check_hazards

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine import hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode, Operand, Reduce, VectorOp
from tilewright.host.machine.program import Program
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice

TINY = hwconfig.load_hwconfig("tiny-4x4")


def decoded(program: Program) -> list[Instruction]:
    return list(map(Instruction.decode, program.executed()))


def powers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from([1 << n for n in range(low, high + 1)])


@st.composite
def any_config(draw: st.DrawFn) -> hwconfig.HwConfig:
    """Legal configurations over the whole space; buffers mostly near the smallest legal size."""
    batch, block_in = draw(powers(0, 3)), draw(powers(2, 6))
    block_out = min(draw(powers(2, 6)), 4096 // (batch * block_in))
    elements = batch * block_out
    tile = {
        "inp": batch * block_in,
        "wgt": block_in * block_out,
        "acc": 4 * elements,
        "out": elements,
        "res": elements,
        "uop": 8,
        "param": 16 * block_out,
    }
    buffers = {
        f"{name}_bytes": max(1024, 2 * nbytes) << draw(st.sampled_from([0, 0, 0, 2, 5]))
        for name, nbytes in tile.items()
    }
    bus = min(draw(powers(5, 9)), 32 * elements)
    return hwconfig.HwConfig(
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        axi_data_bits=bus,
        vector_lanes=min(max(draw(powers(0, 9)), -(-elements // 64)), elements),
        activation_table=draw(st.sampled_from([0, 1])),
        row_unit=draw(st.sampled_from([0, 1])),
        acc_bank_count=draw(st.sampled_from([2, 4])),
        int4_weights=draw(st.sampled_from([0, 1, 2])) if 4 * block_in * block_out >= bus else 0,
        **buffers,
    )


@settings(max_examples=40, deadline=None)
@given(hw=any_config(), seed=st.integers(0, 2**32 - 1))
def test_program_is_legal_and_race_free_on_any_configuration(
    hw: hwconfig.HwConfig, seed: int
) -> None:
    program, memory = random_program(hw, np.random.default_rng(seed), instructions=25)
    result = ReferenceDevice(hw, strict=True).run(program, memory)
    report = check_hazards(hw, program, memory)
    assert report.instructions == len(program.executed()) + 1
    assert report.unused_tokens == 0
    assert result.counters["bytes_written"] > 0


@pytest.mark.parametrize("name", hwconfig.named_configs())
def test_work_is_bounded_in_cycles(name: str) -> None:
    """The work of each unit, one after another, without latencies: far below 20,000 cycles."""
    hw = hwconfig.load_hwconfig(name)
    for seed in range(5):
        counters = (
            ReferenceDevice(hw).run(*random_program(hw, np.random.default_rng(seed))).counters
        )
        work = (
            counters["macs_tiles"]
            + counters["vector_tiles"] * hw.batch * hw.block_out // hw.vector_lanes
            + (counters["bytes_read"] + counters["bytes_written"]) // hw.axi_bytes
        )
        assert 500 < work < 10_000


def test_a_few_programs_together_use_every_feature() -> None:
    hw = TINY.with_(activation_table=1, row_unit=1, int4_weights=1)
    stream = [
        instruction
        for seed in range(40)
        for instruction in decoded(random_program(hw, np.random.default_rng(seed))[0])
    ]
    loads = [i.values for i in stream if i.opcode == Opcode.LOAD]
    gemms = [i.values for i in stream if i.opcode == Opcode.GEMM]
    vectors = [i.values for i in stream if i.opcode == Opcode.VECTOR]
    stores = [i.values for i in stream if i.opcode == Opcode.STORE]
    assert {v["memory"] for v in loads} == set(Memory) - {Memory.OUT}
    for memory in set(Memory) - {Memory.OUT, Memory.PARAM}:
        for side in ("pad_left", "pad_right", "pad_top", "pad_bottom"):
            assert any(v[side] for v in loads if v["memory"] == memory), (memory, side)
    diagonals = [v for v in loads if v["diagonal"]]
    assert {v["memory"] for v in diagonals} == {Memory.WGT}
    assert any(v["pad_left"] or v["pad_top"] for v in diagonals)
    assert any(v["y_size"] > 1 and v["y_stride"] > v["x_size"] for v in diagonals)
    assert any(v["z_size"] > 1 for v in diagonals)
    assert any(v["dram_offset"] % TINY.axi_bytes for v in diagonals)
    packed = [v for v in loads if v["int4"]]
    assert {(v["memory"], v["diagonal"]) for v in packed} == {(Memory.WGT, 0)}
    assert any(v["pad_left"] or v["pad_top"] for v in packed)
    assert any(v["y_size"] > 1 and v["y_stride"] > v["x_size"] for v in packed)
    assert any(v["memory"] == Memory.WGT and not (v["diagonal"] or v["int4"]) for v in loads)
    assert any(v["x_size"] == 0 for v in loads)
    assert any(v["y_size"] == 0 for v in loads)
    for transfers in (loads, stores):
        assert any(v["z_size"] > 1 and v["y_size"] > 1 and v["x_size"] > 1 for v in transfers)
        assert any(v["y_size"] > 1 and v["y_stride"] > v["x_size"] for v in transfers)
        assert any(v["y_size"] > 1 and v["y_stride"] == v["x_size"] for v in transfers)
    for loop in ("iter_outer", "iter_inner"):
        for group in (gemms, vectors):
            assert any(v[loop] == 1 for v in group)
            assert any(v[loop] > 2 for v in group)
    assert {v["overwrite"] for v in gemms} == {0, 1}
    assert any(v["acc_inner"] == 0 and v["iter_inner"] > 2 for v in gemms)
    pairs = {(v["op"], v["operand"]) for v in vectors}
    assert pairs == {(op, operand) for op in VectorOp for operand in Operand}
    pairs = {(v["reduce"], v["hold"]) for v in vectors}
    assert pairs == {(reduce, hold) for reduce in Reduce for hold in (0, 1)}
    assert {v["lanes"] for v in vectors} == set(range(hw.block_out + 2))
    for field in ("param_step", "lookup"):
        assert {v[field] for v in vectors if v["op"] == VectorOp.REQUANT} == {0, 1}
    for unit in Opcode.LOAD, Opcode.GEMM, Opcode.VECTOR, Opcode.STORE:
        pushed = {v.values["push"] for v in stream if v.opcode == unit}
        own = 1 << (0, 1, 2, 3)[(Opcode.LOAD, Opcode.GEMM, Opcode.VECTOR, Opcode.STORE).index(unit)]
        assert all(not mask & own for mask in pushed)
        assert {bit for bit in range(4) if any(m >> bit & 1 for m in pushed)} == set(range(4)) - {
            own.bit_length() - 1
        }


def test_a_chain_inside_one_vector_instruction_occurs() -> None:
    """Some iteration reads what an earlier one of the same instruction wrote."""
    found = False
    for seed in range(20):
        for i in decoded(random_program(TINY, np.random.default_rng(seed))[0]):
            v = i.values
            if i.opcode != Opcode.VECTOR or v["op"] in (VectorOp.REQUANT, VectorOp.MOV):
                continue
            written: set[int] = set()
            for o, n in loops.nest(v):
                src, dst = loops.places(v, ("src", "dst"), o, n)
                found |= src in written
                written.add(dst)
    assert found


@pytest.mark.parametrize("name", ["tiny-4x4", "batch2-8x16"])
def test_a_lost_gemm_iteration_is_mostly_visible_in_the_result(name: str) -> None:
    """Results are hidden only where the program itself overwrites or clips them."""
    hw = hwconfig.load_hwconfig(name)
    device = ReferenceDevice(hw, strict=False)
    visible = tried = 0
    for seed in range(12):
        program, memory = random_program(hw, np.random.default_rng(seed))
        stream = program.regions["insn"]
        expected = device.run(program, memory).memory
        for index, instruction in enumerate(decoded(program)):
            values = dict(instruction.values)
            if instruction.opcode != Opcode.GEMM or values["iter_outer"] == 1:
                continue
            values["iter_outer"] -= 1
            at = stream.offset + index * hwconfig.INSTRUCTION_BYTES
            mutated = memory.copy()
            encoded = Instruction(Opcode.GEMM, values).encode()
            mutated[at : at + hwconfig.INSTRUCTION_BYTES] = np.frombuffer(encoded, dtype=np.uint8)
            try:
                result = device.run(program, mutated).memory
            except TilewrightError:
                continue
            tried += 1
            visible += not np.array_equal(result[: stream.offset], expected[: stream.offset])
    assert tried > 15
    assert visible > 0.5 * tried
