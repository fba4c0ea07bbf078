# SPDX-License-Identifier: Apache-2.0
"""The NumPy reference against a scalar model transcribed from the text of `host.machine.isa`."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig, load_hwconfig
from tilewright.host.machine.isa import (
    PARAM_FIELDS,
    UOP_FIELDS,
    Instruction,
    Memory,
    Opcode,
    Reduce,
    VectorOp,
    encode_uop,
    pack_fields,
    unpack_fields,
)
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.registers import COUNTERS, ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.network.row_arithmetic import exp2, log2
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


# -- an independent model: Python integers, one tile at a time ---------------------------------


def wrap32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def saturate32(value: int) -> int:
    return min(max(value, -(2**31)), 2**31 - 1)


def signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def signed8(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def scalar_run(hw: HwConfig, stream: bytes, memory: np.ndarray) -> bytes:
    dram = bytearray(memory.tobytes())
    sram: dict[Memory, dict[int, list]] = {memory: {} for memory in Memory}
    size = {
        Memory.INP: hw.batch * hw.block_in,
        Memory.WGT: hw.block_in * hw.block_out,
        Memory.ACC: 4 * hw.batch * hw.block_out,
        Memory.UOP: 8,
        Memory.PARAM: 16 * hw.block_out,
        Memory.RES: hw.batch * hw.block_out,
        Memory.OUT: hw.batch * hw.block_out,
        Memory.TABLE: hw.axi_data_bits // 8,
    }

    def decode(kind: Memory, raw: bytes) -> list:
        if kind == Memory.UOP:
            return [unpack_fields(UOP_FIELDS, int.from_bytes(raw, "little"))]
        if kind == Memory.PARAM:
            entries = [raw[i : i + 16] for i in range(0, len(raw), 16)]
            return [unpack_fields(PARAM_FIELDS, int.from_bytes(e, "little")) for e in entries]
        if kind == Memory.ACC:
            words = [raw[i : i + 4] for i in range(0, len(raw), 4)]
            return [int.from_bytes(w, "little", signed=True) for w in words]
        return [signed8(b) for b in raw]

    def spread(diagonal: bytes, block: int) -> bytes:
        """A WGT tile with a diagonal in one of its blocks, byte by byte."""
        tile = []
        for o in range(hw.block_out):
            for i in range(hw.block_in):
                here = o // len(diagonal) + i // len(diagonal) == block
                meets = o % len(diagonal) == i % len(diagonal)
                tile.append(diagonal[o % len(diagonal)] if here and meets else 0)
        return bytes(tile)

    def unpacked(raw: bytes) -> list[int]:
        """4-bit numbers beat by beat, each with the scale that a beat before it has."""
        beat, numbers, scales = hw.axi_bytes, [], []
        for at in range(0, len(raw), beat):
            halves = [half for b in raw[at : at + beat] for half in (b & 15, b >> 4)]
            if hw.int4_weights == 2 and not scales:
                left = hw.wgt_tile_bytes // (2 * beat) - len(numbers) // (2 * beat)
                scales = [half + 1 for half in halves[:left]]
                continue
            scale = scales.pop(0) if scales else 1
            numbers += [scale * signed(half, 4) for half in halves]
        return numbers

    def load(v: dict[str, int]) -> None:
        kind, tile = Memory(v["memory"]), v["sram_base"]
        small, large = sorted((hw.block_in, hw.block_out))
        unit = small if v["diagonal"] else hw.int4_tile_bytes if v["int4"] else size[kind]
        for z in range(v["z_size"]):
            for y in range(-v["pad_top"], v["y_size"] + v["pad_bottom"]):
                for x in range(-v["pad_left"], v["x_size"] + v["pad_right"]):
                    raw = bytes([v["pad_value"] % 256]) * size[kind]
                    if 0 <= y < v["y_size"] and 0 <= x < v["x_size"]:
                        step = z * v["z_stride"] + y * v["y_stride"] + x
                        at = v["dram_offset"] + unit * step
                        raw = bytes(dram[at : at + unit])
                        if v["diagonal"]:
                            row = v["phase"] + z * v["y_size"] + y
                            raw = spread(raw, row % (large // small))
                        elif v["int4"]:
                            raw = bytes(number % 256 for number in unpacked(raw))
                    sram[kind][tile] = decode(kind, raw)
                    tile += 1

    def store(v: dict[str, int]) -> None:
        tile = v["sram_base"]
        for z in range(v["z_size"]):
            for y in range(v["y_size"]):
                for x in range(v["x_size"]):
                    step = z * v["z_stride"] + y * v["y_stride"] + x
                    at = v["dram_offset"] + size[Memory.OUT] * step
                    dram[at : at + size[Memory.OUT]] = bytes(
                        value % 256 for value in sram[Memory.OUT][tile]
                    )
                    tile += 1

    def gemm(v: dict[str, int]) -> None:
        for o in range(v["iter_outer"]):
            for i in range(v["iter_inner"]):
                for n in range(v["uop_begin"], v["uop_begin"] + v["uop_count"]):
                    [uop] = sram[Memory.UOP][n]
                    index = {
                        name: v[f"{name}_base"]
                        + uop[name]
                        + o * v[f"{name}_outer"]
                        + i * v[f"{name}_inner"]
                        for name in ("acc", "inp", "wgt")
                    }
                    inp = sram[Memory.INP][index["inp"]]
                    wgt = sram[Memory.WGT][index["wgt"]]
                    if v["overwrite"] and uop["first"]:
                        old = [0] * (hw.batch * hw.block_out)
                    else:
                        old = sram[Memory.ACC][index["acc"]]
                    sram[Memory.ACC][index["acc"]] = [
                        wrap32(
                            old[b * hw.block_out + c]
                            + sum(
                                inp[b * hw.block_in + k] * wgt[c * hw.block_in + k]
                                for k in range(hw.block_in)
                            )
                        )
                        for b in range(hw.batch)
                        for c in range(hw.block_out)
                    ]

    def vector(v: dict[str, int]) -> None:
        op = VectorOp(v["op"])
        elements = range(hw.batch * hw.block_out)
        for o in range(v["iter_outer"]):
            held = list(sram[Memory.ACC][v["opd_base"] + o * v["opd_outer"]]) if v["hold"] else []
            rows = [[] for _ in range(hw.batch)]
            for i in range(v["iter_inner"]):
                dst, src, opd = (
                    v[f"{n}_base"] + o * v[f"{n}_outer"] + i * v[f"{n}_inner"]
                    for n in ("dst", "src", "opd")
                )
                residual = sram[Memory.RES][opd] if v["operand"] else [0] * len(elements)
                if op == VectorOp.REQUANT:
                    params = sram[Memory.PARAM][v["param_base"] + (o if v["param_step"] else 0)]
                    acc = sram[Memory.ACC][src]
                    result = []
                    for e in elements:
                        p = params[e % hw.block_out]
                        total = (acc[e] + p["bias"]) * p["m1"] + residual[e] * p["m2"] * 256
                        value = round(Fraction(total, 2 ** p["shift"])) + p["zero_point"]
                        low, high = signed8(v["imm"] & 255), signed8(v["imm"] >> 8 & 255)
                        value = min(max(value, low), high)
                        if v["lookup"]:
                            row, entry = divmod(value % 256, 2)
                            value = sram[Memory.TABLE][row][entry]
                        result.append(value)
                    sram[Memory.OUT][dst] = result
                    continue
                b = held or (residual if v["operand"] else [v["imm"]] * len(elements))
                a = list(b) if op == VectorOp.MOV else sram[Memory.ACC][src]
                result = [
                    {
                        VectorOp.MOV: lambda x, y: y,
                        VectorOp.MIN: min,
                        VectorOp.MAX: max,
                        VectorOp.ADD: lambda x, y: saturate32(x + y),
                        VectorOp.SUB: lambda x, y: saturate32(x - y),
                        VectorOp.MUL: lambda x, y: saturate32(x * signed(y, 18)),
                        VectorOp.SQUARE: lambda x, y: saturate32(x * signed(x, 18)),
                        VectorOp.EXP2: lambda x, y: int(exp2(x)),
                        VectorOp.SHR: lambda x, y: x >> min(max(y, 0), 31),
                    }[op](a[e], b[e])
                    for e in elements
                ]
                if not v["reduce"]:
                    sram[Memory.ACC][dst] = result
                    continue
                last = i == v["iter_inner"] - 1 and v["lanes"]
                for e in elements:
                    if not last or e % hw.block_out < v["lanes"]:
                        rows[e // hw.block_out].append(result[e])
            if v["reduce"]:
                sums = [signed(sum(row), 48) for row in rows]
                reduced = {
                    Reduce.MAX: [max(row) for row in rows],
                    Reduce.SUM: [saturate32(total) for total in sums],
                    Reduce.LOG_SUM: [int(log2(total)) for total in sums],
                }[v["reduce"]]
                target = v["dst_base"] + o * v["dst_outer"]
                sram[Memory.ACC][target] = [reduced[e // hw.block_out] for e in elements]

    for at in range(0, len(stream), 32):
        instruction = Instruction.decode(stream[at : at + 32])
        if instruction.opcode == Opcode.FINISH:
            break
        {Opcode.LOAD: load, Opcode.STORE: store, Opcode.GEMM: gemm, Opcode.VECTOR: vector}[
            instruction.opcode
        ](dict(instruction.values))
    return bytes(dram)


@st.composite
def small_configs(draw: st.DrawFn) -> HwConfig:
    """Legal configurations with small tiles, buffers down to two tiles."""
    values = {p.name: p.low for p in PARAMETERS}
    values |= {
        "batch": draw(st.sampled_from([1, 2, 4])),
        "block_in": draw(st.sampled_from([4, 8, 16])),
        "block_out": draw(st.sampled_from([4, 8, 16])),
        "axi_data_bits": draw(st.sampled_from([32, 64, 128])),
    }
    values["vector_lanes"] = draw(st.sampled_from([1, 2, 4]))
    values["activation_table"] = draw(st.sampled_from([0, 1]))
    values["row_unit"] = draw(st.sampled_from([0, 1]))
    values["acc_bank_count"] = draw(st.sampled_from([2, 4]))
    fits = values["axi_data_bits"] <= 4 * values["block_in"] * values["block_out"]
    values["int4_weights"] = draw(st.sampled_from([0, 1, 2])) if fits else 0
    for name in ("inp", "wgt", "acc", "out", "uop", "res", "param"):
        values[f"{name}_bytes"] = draw(st.sampled_from([1024, 4096]))
    return HwConfig(**values)


@settings(max_examples=25, deadline=None)
@given(hw=small_configs(), seed=st.integers(0, 2**32 - 1))
def test_random_programs_equal_the_scalar_model(hw: HwConfig, seed: int) -> None:
    program, memory = random_program(hw, np.random.default_rng(seed), instructions=25)
    result = ReferenceDevice(hw).run(program, memory)
    assert result.memory.tobytes() == scalar_run(hw, program.instructions, memory)


# -- hand-made programs for the corners ---------------------------------------------------------


def assemble(
    hw: HwConfig, *instructions: tuple[Opcode, dict[str, int]], **regions: bytes
) -> Program:
    """A program with one region for each keyword, plus FINISH."""
    stream = b"".join(Instruction(opcode, values).encode() for opcode, values in instructions)
    stream += Instruction(Opcode.FINISH, {}).encode()
    placed, total = layout_regions(
        {**{name: len(data) for name, data in regions.items()}, "insn": len(stream)}
    )
    return Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=placed,
        constants=regions,
        memory_bytes=total,
    )


def row(memory: Memory, offset: int, count: int = 1, base: int = 0) -> tuple[Opcode, dict]:
    values = {"memory": memory, "dram_offset": offset, "x_size": count, "y_size": 1, "z_size": 1}
    return Opcode.LOAD, values | {"sram_base": base, "acc_banks": 15}


def requant(count: int = 1, **values: int) -> tuple[Opcode, dict]:
    defaults = {"op": 6, "imm": 0x7F80, "iter_outer": 1, "iter_inner": count, "acc_banks": 15}
    return Opcode.VECTOR, defaults | {"dst_inner": 1, "src_inner": 1} | values


def store(offset: int, count: int = 1) -> tuple[Opcode, dict]:
    return Opcode.STORE, {"dram_offset": offset, "x_size": count, "y_size": 1, "z_size": 1}


def params(**entry: int) -> bytes:
    return pack_fields(PARAM_FIELDS, entry).to_bytes(16, "little") * TINY.block_out


def through_requant(acc: list[int], **entry: int) -> list[int]:
    """The int8 results of one ACC tile of four elements."""
    program = assemble(
        TINY,
        row(Memory.PARAM, 0),
        row(Memory.ACC, 4096),
        requant(),
        store(8192),
        param=params(**entry),
        acc=np.array(acc, dtype="<i4").tobytes(),
        out=bytes(4),
    )
    result = ReferenceDevice(TINY).run(program, program.image())
    return program.read(result.memory, "out")[:4].view(np.int8).tolist()


def test_requant_rounds_halves_to_even() -> None:
    assert through_requant([1, 3, 5, -1], m1=1, shift=1) == [0, 2, 2, 0]
    assert through_requant([-3, -5, 7, 2], m1=1, shift=1) == [-2, -2, 4, 1]


def test_requant_with_shift_zero_does_not_round() -> None:
    assert through_requant([1, 3, -5, 7], m1=1, shift=0) == [1, 3, -5, 7]


def test_requant_is_exact_at_the_ends_of_every_range() -> None:
    ends = [-(2**31), 2**31 - 1, -1, 0]
    got = through_requant(ends, bias=-(2**31), m1=-(2**15), shift=47, zero_point=-100)
    exact = [round(Fraction((a - 2**31) * -(2**15), 2**47)) - 100 for a in ends]
    assert got == [min(max(value, -128), 127) for value in exact]


def gemm_program(uops: list[tuple[int, bool]], **values: int) -> tuple[Program, np.ndarray]:
    """One GEMM on ACC tile contents 2^31 - 1; INP all 127, WGT all 127."""
    inp = np.full(4, 127, dtype=np.int8).tobytes()
    wgt = np.full(16, 127, dtype=np.int8).tobytes()
    acc = np.full(8, 2**31 - 1, dtype="<i4").tobytes()
    words = [encode_uop(inp=0, wgt=0, acc=a, first=first) for a, first in uops]
    gemm = {"uop_count": len(uops), "iter_outer": 1, "iter_inner": 1, "acc_banks": 15} | values
    program = assemble(
        TINY,
        row(Memory.UOP, 0, len(uops)),
        row(Memory.INP, 4096),
        row(Memory.WGT, 8192),
        row(Memory.ACC, 12288, 2),
        row(Memory.PARAM, 16384),
        (Opcode.GEMM, gemm),
        requant(2),
        store(20480, 2),
        uop=np.array(words, dtype="<u8").tobytes(),
        inp=inp,
        wgt=wgt,
        acc=acc,
        param=params(m1=1, shift=24),
        out=bytes(8),
    )
    result = ReferenceDevice(TINY).run(program, program.image())
    return program, program.read(result.memory, "out")[:8].view(np.int8)


def test_gemm_wraps_at_32_bits() -> None:
    _, out = gemm_program([(0, False)])
    assert out[0] == -128
    assert out[4] == 127


def test_gemm_overwrite_in_the_middle_discards_earlier_products() -> None:
    _, out = gemm_program([(0, False), (0, False), (0, True), (1, False)], overwrite=1)
    assert out[0] == 0  # one product of 4 * 127 * 127, far below 2^24
    assert out[4] == -128


def test_first_without_overwrite_accumulates() -> None:
    _, out = gemm_program([(0, True)], overwrite=0)
    assert out[0] == -128


def test_vector_iterations_see_the_results_of_earlier_ones() -> None:
    """Each tile becomes its predecessor plus one: a chain through four tiles."""
    count = 4
    program = assemble(
        TINY,
        row(Memory.ACC, 0),
        row(Memory.PARAM, 4096),
        (
            Opcode.VECTOR,
            {
                "op": VectorOp.ADD,
                "imm": 1,
                "iter_outer": 1,
                "iter_inner": count,
                "dst_base": 1,
                "dst_inner": 1,
                "src_inner": 1,
                "acc_banks": 15,
            },
        ),
        requant(count + 1),
        store(8192, count + 1),
        acc=np.array([10, 20, 30, 40], dtype="<i4").tobytes(),
        param=params(m1=1, shift=0),
        out=bytes(4 * (count + 1)),
    )
    result = ReferenceDevice(TINY).run(program, program.image())
    out = program.read(result.memory, "out")[: 4 * (count + 1)].reshape(-1, 4)
    assert out[:, 0].tolist() == [10, 11, 12, 13, 14]


def test_memory_is_the_authority_on_instructions() -> None:
    program = assemble(TINY, store(0), out=bytes(4))
    memory = program.image()
    program.write(
        memory, "insn", np.frombuffer(Instruction(Opcode.FINISH, {}).encode(), dtype=np.uint8)
    )
    assert ReferenceDevice(TINY).run(program, memory).counters["store_instructions"] == 0


def test_counters_have_every_name_and_count_tiles_and_bytes() -> None:
    program, _ = gemm_program([(0, False), (1, False)], iter_outer=3)
    counters = ReferenceDevice(TINY).run(program, program.image()).counters
    assert set(counters.values) == {name for name, _ in COUNTERS}
    assert counters.cycles == 0
    assert counters["macs_tiles"] == 6
    assert counters["vector_tiles"] == 2
    assert counters["bytes_read"] == 2 * 8 + 4 + 16 + 2 * 16 + 64
    assert counters["bytes_written"] == 8
    assert [counters[f"{u}_instructions"] for u in ("load", "gemm", "vector", "store")] == [
        5,
        1,
        1,
        1,
    ]


def test_padding_is_not_counted_as_bytes_read() -> None:
    opcode, values = row(Memory.INP, 0)
    program = assemble(TINY, (opcode, values | {"pad_left": 3, "pad_top": 2}), data=bytes(4))
    assert ReferenceDevice(TINY).run(program, program.image()).counters["bytes_read"] == 4


@pytest.mark.parametrize("kind", ["out", "acc", "uop"])
def test_strict_refuses_to_read_what_was_never_written(kind: str) -> None:
    gemm = {"uop_count": 1, "iter_outer": 1, "iter_inner": 1, "acc_banks": 15}
    reader = {"out": store(0), "acc": requant(), "uop": (Opcode.GEMM, gemm)}[kind]
    program = assemble(TINY, reader, data=bytes(64))
    with pytest.raises(ProgramError, match=rf"instruction 0.*no instruction wrote.*{kind.upper()}"):
        ReferenceDevice(TINY).run(program, program.image())
    ReferenceDevice(TINY, strict=False).run(program, program.image())


def test_param_shift_above_the_maximum_is_refused() -> None:
    with pytest.raises(ProgramError, match="shift must be at most 47"):
        through_requant([1, 2, 3, 4], m1=1, shift=48)


def test_pop_before_its_push_is_a_token_underflow() -> None:
    opcode, values = row(Memory.INP, 0)
    program = assemble(TINY, (opcode, values | {"pop": 0b0010}), data=bytes(4))
    with pytest.raises(DeviceError, match="instruction 0: token underflow"):
        ReferenceDevice(TINY).run(program, program.image())


def test_token_counter_holds_65535_and_no_more() -> None:
    opcode, values = row(Memory.INP, 0)
    push = (opcode, values | {"push": 0b0010})
    program = assemble(TINY, *[push] * 65536, data=bytes(4))
    with pytest.raises(DeviceStatusError) as caught:
        ReferenceDevice(TINY).run(program, program.image())
    assert caught.value.code == ErrorCode.TOKEN_OVERFLOW
    assert caught.value.unit == ErrorUnit.LOAD
    assert caught.value.instruction == 65535


def test_cycle_limit_below_the_work_of_a_unit_is_a_timeout() -> None:
    program, _ = gemm_program([(0, False)], iter_outer=1000)
    ReferenceDevice(TINY).run(program, program.image(), max_cycles=1000)
    with pytest.raises(DeviceTimeoutError, match="cycle limit of 999"):
        ReferenceDevice(TINY).run(program, program.image(), max_cycles=999)


def test_long_loops_are_cut_into_blocks_without_a_change_of_meaning() -> None:
    """200,000 products of 4 * 127^2 on one accumulator: more than one block, wrapping often."""
    program, out = gemm_program([(0, True), (0, False)], overwrite=0, iter_inner=50_000)
    assert out[0] == round(Fraction(wrap32(2**31 - 1 + 100_000 * 4 * 127 * 127), 2**24))
    _, out = gemm_program([(0, True), (0, False)], overwrite=1, iter_inner=50_000)
    assert out[0] == 0
    assert ReferenceDevice(TINY).run(program, program.image()).counters["macs_tiles"] == 100_000


def test_closed_device_refuses_to_run() -> None:
    device = ReferenceDevice(TINY)
    program = assemble(TINY)
    device.run(program, program.image())
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.run(program, program.image())


def test_status_error_survives_pickling_and_names_what_units_wait_for() -> None:
    error = DeviceStatusError(
        code=ErrorCode.WATCHDOG,
        unit=ErrorUnit.WATCHDOG,
        instruction=7,
        wait_states=(WaitState.BUSY, WaitState.TOKEN_LOAD, WaitState.IDLE, WaitState.MEMORY),
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.wait_states == error.wait_states
    assert "gemm waits for a token from load" in str(error)


def test_a_tile_that_the_same_instruction_reduced_to_is_not_read_again() -> None:
    hw = TINY.with_(row_unit=1)
    row = {"op": VectorOp.ADD, "iter_outer": 2, "iter_inner": 1, "acc_banks": 15, "reduce": 2}
    chain = {**row, "src_outer": 1, "dst_base": 1}
    program = assemble(hw, (Opcode.VECTOR, {**row, "dst_base": 1}), (Opcode.VECTOR, chain))
    with pytest.raises(ProgramError, match="reduced an earlier row to"):
        ReferenceDevice(hw, strict=False).run(program, program.image())


def test_a_row_that_is_not_reduced_may_read_what_it_wrote() -> None:
    """Each iteration adds the held tile to the result of the one before."""
    hw = TINY.with_(row_unit=1)
    chain = {"op": VectorOp.ADD, "iter_outer": 1, "iter_inner": 3, "acc_banks": 15, "hold": 1}
    chain |= {"dst_base": 1, "src_inner": 1, "dst_inner": 1}
    acc = np.array([[1, 2, 3, 4]], dtype="<i4").tobytes()
    device = ReferenceDevice(hw)
    program = assemble(hw, row(Memory.ACC, 0), (Opcode.VECTOR, chain), acc=acc)
    device.run(program, program.image())
    found = device.scratchpad(Memory.ACC).view("<i4")[:4]
    assert found.tolist() == [[k * n for n in range(1, 5)] for k in range(1, 5)]
