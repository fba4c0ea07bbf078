# SPDX-License-Identifier: Apache-2.0
"""The NumPy reference in hand-made programs for the corners.

`tests/unit/host/machine/test_instruction_text.py` holds it against a model, element by element.
"""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from tilewright.host.common.errors import DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import (
    PARAM_FIELDS,
    Instruction,
    Memory,
    Opcode,
    VectorOp,
    encode_uop,
    pack_fields,
)
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.registers import ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


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


@pytest.mark.parametrize("kind", ["out", "acc", "uop"])
def test_strict_refuses_to_read_what_was_never_written(kind: str) -> None:
    gemm = {"uop_count": 1, "iter_outer": 1, "iter_inner": 1, "acc_banks": 15}
    reader = {"out": store(0), "acc": requant(), "uop": (Opcode.GEMM, gemm)}[kind]
    program = assemble(TINY, reader, data=bytes(64))
    with pytest.raises(ProgramError, match=rf"instruction 0.*no instruction wrote.*{kind.upper()}"):
        ReferenceDevice(TINY).run(program, program.image())
    ReferenceDevice(TINY, strict=False).run(program, program.image())


def test_param_shift_above_the_maximum_is_refused() -> None:
    loads = row(Memory.PARAM, 0), row(Memory.ACC, 4096)
    program = assemble(TINY, *loads, requant(), param=params(m1=1, shift=48), acc=bytes(16))
    with pytest.raises(ProgramError, match="shift must be at most 47"):
        ReferenceDevice(TINY).run(program, program.image())


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
    wrapped = (2**32 - 1 + 100_000 * 4 * 127 * 127) % 2**32 - 2**31
    assert out[0] == round(Fraction(wrapped, 2**24))
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
