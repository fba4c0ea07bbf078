# SPDX-License-Identifier: Apache-2.0
"""The whole accelerator against `ReferenceDevice`: programs, errors, resets, identity."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator
from cocotb.triggers import ClockCycles, RisingEdge
from support.programs.bus_faults import decode, index_of_failure
from top.axi import Accelerator

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import ISA_VERSION, HwConfig
from tilewright.host.machine.isa import UNIT_OF, Instruction, Opcode
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import (
    DEVICE_ID,
    NOT_COHERENT,
    UNIT_COUNTER_STATES,
    UNIT_NAMES,
    ErrorCode,
    ErrorUnit,
    Status,
    WaitState,
)
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs import directed
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import LONG, LONG_CYCLES, data_image

_EXACT = (
    "macs_tiles",
    "vector_tiles",
    "bytes_written",
    *(f"{unit}_instructions" for unit in UNIT_NAMES),
)


def hardware() -> HwConfig:
    """The configuration of this build."""
    return HwConfig(**json.loads(os.environ["TILEWRIGHT_HW"]))


async def prepare(dut: Any, knob: str, rng: np.random.Generator) -> Accelerator:
    """The device out of reset, with its clients."""
    hw = hardware()
    device = Accelerator(
        dut, Knob(knob, rng.spawn(1)[0]), reads=hw.read_outstanding, writes=hw.write_outstanding
    )
    await device.start()
    return device


async def check_run(device: Accelerator, program: Program, image: np.ndarray) -> None:
    """Run to FINISH; memory and counters must be those of the reference."""
    hw = hardware()
    expected = ReferenceDevice(hw).run(program, image)
    await device.launch(program, image)
    status = await device.wait(limit=2000)
    assert status == Status.DONE, await describe(device, status)
    assert not device.dram.refused, device.dram.refused
    actual = device.dram.image()
    wrong = np.flatnonzero(actual != expected.memory)
    assert not wrong.size, f"{wrong.size} bytes differ, first at {int(wrong[0]):#x}"
    counters = await device.counters()
    for name in _EXACT:
        assert counters[name] == expected.counters[name], (
            f"{name}: {counters[name]}, reference {expected.counters[name]}"
        )
    assert counters["bytes_read"] >= expected.counters["bytes_read"]
    assert counters["bytes_read"] % hw.axi_bytes == 0
    for unit in UNIT_NAMES:
        states = {
            state: counters[f"{unit}_{state}"]
            for state, _ in UNIT_COUNTER_STATES
            if state != f"token_{unit}"
        }
        assert sum(states.values()) == counters["cycles"], f"{unit}: {states}"


async def describe(device: Accelerator, status: Status) -> str:
    """The error registers as text."""
    error = await device.read("ERROR")
    return (
        f"{status!r} {ErrorCode(error & 0xFF).name} from {ErrorUnit(error >> 8 & 15).name} at "
        f"instruction {await device.read('ERROR_INSN')}, "
        f"waits {await device.read('WAIT_STATE'):#06x}"
    )


async def check_error(
    device: Accelerator, code: ErrorCode, unit: ErrorUnit, instruction: int
) -> None:
    """The run must have ended with this error."""
    status = await device.wait(limit=2000)
    text = await describe(device, status)
    assert status == Status.ERROR, text
    error = await device.read("ERROR")
    assert (error & 0xFF, error >> 8) == (code, unit), f"{text}; not {code.name}, {unit.name}"
    assert await device.read("ERROR_INSN") == instruction, f"{text}; not {instruction}"


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def registers_identify_the_device(dut: Any, knob: str) -> None:
    rng = generator("identity" + knob)
    device = await prepare(dut, knob, rng)
    assert await device.read("ID") == DEVICE_ID
    assert await device.read("ISA") == ISA_VERSION
    assert await device.read("CONFIG_HASH") == hardware().config_hash
    assert await device.read("STATUS") == 0


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def random_programs_match_the_reference(dut: Any, knob: str) -> None:
    rng = generator("programs" + knob)
    device = await prepare(dut, knob, rng)
    for _ in range(6):
        program, image = random_program(hardware(), rng, instructions=30)
        await check_run(device, program, image)


@cocotb.test()
async def soft_reset_in_mid_run_leaves_no_trace(dut: Any) -> None:
    rng = generator("soft reset")
    device = await prepare(dut, "back-pressure", rng)
    for _ in range(5):
        program, image = random_program(hardware(), rng, instructions=20)
        await device.launch(program, image)
        await ClockCycles(dut.aclk, int(rng.integers(1, 1500)))
        await device.soft_reset()
        touched = np.flatnonzero(device.dram.image() != image)
        result = program.regions["result"]
        assert ((touched >= result.offset) & (touched < result.offset + result.nbytes)).all()
        await check_run(device, program, image)


@cocotb.test()
async def interrupts_are_levels_that_a_write_clears(dut: Any) -> None:
    rng = generator("interrupts")
    device = await prepare(dut, "none", rng)
    program, image = random_program(hardware(), rng, instructions=3)
    await device.launch(program, image)
    assert await device.wait() == Status.DONE
    assert not int(dut.irq_o.value), "interrupt although not enabled"
    assert await device.read("IRQ_STATUS") == 1

    async def write(name: str, value: int) -> None:
        await device.write(name, value)
        await RisingEdge(dut.aclk)  # the interrupt is a register

    await write("IRQ_ENABLE", 1)
    assert int(dut.irq_o.value)
    await write("IRQ_STATUS", 2)
    assert int(dut.irq_o.value), "cleared by a 0 bit"
    await write("IRQ_STATUS", 1)
    assert not int(dut.irq_o.value)


def _storing_program(rng: np.random.Generator) -> tuple[Program, np.ndarray]:
    """A short random program with a write burst."""
    hw = hardware()
    while True:
        program, image = random_program(hw, rng, instructions=5)
        if ReferenceDevice(hw).run(program, image).counters["bytes_written"]:
            return program, image


@cocotb.test()
async def bursts_carry_the_attributes_of_their_run(dut: Any) -> None:
    rng = generator("attributes")
    device = await prepare(dut, "none", rng)
    seen: dict[str, set[int]] = {}

    async def watch() -> None:
        while True:
            await RisingEdge(dut.aclk)
            for channel in ("ar", "aw"):
                if int(getattr(dut, f"m_axi_{channel}valid").value):
                    cache, prot, qos = (
                        int(getattr(dut, f"m_axi_{channel}{name}").value)
                        for name in ("cache", "prot", "qos")
                    )
                    seen.setdefault(channel, set()).add(qos << 8 | prot << 4 | cache)

    cocotb.start_soon(watch())
    for attributes in (None, 0xA5F, 0x02F):
        wanted = NOT_COHERENT if attributes is None else attributes
        if attributes is not None:
            await device.write("AXI_ATTRIBUTES", attributes)
        seen.clear()
        await check_run(device, *_storing_program(rng))
        assert seen == {"ar": {wanted}, "aw": {wanted}}


MOST_FAULTS = 10
"""Of `FAULTS`, of which the contract of devices tries all on this top."""

# -- errors ---------------------------------------------------------------------------------


def with_instructions(
    program: Program, image: np.ndarray, stream: list[bytes]
) -> tuple[Program, np.ndarray]:
    """A program of the same layout with other instructions, and its image."""
    changed = replace(program, instructions=b"".join(stream))
    copy = image.copy()
    changed.write(copy, "insn", np.frombuffer(changed.instructions, dtype=np.uint8))
    return changed, copy


def reference_error(program: Program, image: np.ndarray) -> DeviceStatusError | None:
    """How the reference ends a program, if not with FINISH."""
    try:
        ReferenceDevice(hardware()).run(program, image)
    except DeviceStatusError as error:
        return error
    return None


def broken(
    fault: str, programs: list[tuple[Program, np.ndarray]], rng: np.random.Generator
) -> tuple[Program, np.ndarray, DeviceStatusError] | None:
    """One of these programs with a fault of `FAULTS`, and what the reference says about it."""
    hw = hardware()
    name, change, code = directed.FAULTS[fault]
    opcode, values = directed.legal_steps(hw)[name]
    for place in rng.permutation(len(programs)).tolist():
        program, image = programs[place]
        instructions = decode(program)
        stream = [instruction.encode() for instruction in instructions]
        for index in rng.permutation(len(instructions)).tolist():
            chosen = instructions[index]
            if chosen.opcode != opcode or chosen.values.get("memory") != values.get("memory"):
                continue
            spoiled = Instruction(opcode, chosen.values | change(hw)).encode()
            changed, copy = with_instructions(
                program, image, [*stream[:index], spoiled, *stream[index + 1 :]]
            )
            try:
                error = reference_error(changed, copy)
            except ProgramError:  # no fault of this instruction, and its data are missing now
                continue
            if error is not None and error.code == code:
                return changed, copy, error
    return None


@cocotb.test()
async def broken_instructions_stop_with_the_error_of_the_reference(dut: Any) -> None:
    rng = generator("errors")
    device = await prepare(dut, "idle", rng)
    good, good_image = random_program(hardware(), rng, instructions=2)
    programs = [random_program(hardware(), rng, instructions=8, tail=False) for _ in range(20)]
    wrong = []
    tried = 0
    for fault in rng.permutation(list(directed.FAULTS)).tolist():
        found = broken(fault, programs, rng) if tried < MOST_FAULTS else None
        if found is None:
            continue
        tried += 1
        program, image, error = found
        await device.launch(program, image)
        try:
            await check_error(device, error.code, error.unit, error.instruction)
        except AssertionError as failure:
            wrong.append(f"{fault}: {failure}")
        await device.soft_reset()
        await check_run(device, good, good_image)
    assert tried == MOST_FAULTS, f"only {tried} faults could be tried"
    assert not wrong, "\n".join(wrong)


@cocotb.test()
async def illegal_opcodes_and_a_missing_finish_are_errors(dut: Any) -> None:
    rng = generator("opcodes")
    device = await prepare(dut, "none", rng)
    program, image = random_program(hardware(), rng, instructions=8, tail=False)
    stream = [instruction.encode() for instruction in decode(program)]
    for opcode in (0, 6, 15):
        index = int(rng.integers(len(stream)))
        changed, copy = with_instructions(
            program, image, [*stream[:index], bytes([opcode] + [0] * 31), *stream[index + 1 :]]
        )
        await device.launch(changed, copy)
        await check_error(device, ErrorCode.ILLEGAL_OPCODE, ErrorUnit.FETCH, index)
        await device.soft_reset()
    changed, copy = with_instructions(program, image, stream[:-1])
    await device.launch(changed, copy)
    await check_error(device, ErrorCode.NO_FINISH, ErrorUnit.FETCH, len(stream) - 1)
    await device.soft_reset()
    await check_run(device, program, image)


def program_using_every_region(rng: np.random.Generator) -> tuple[Program, np.ndarray]:
    """A random program that reads its parameters (not only the probes) and writes results."""
    for _ in range(100):
        program, image = random_program(hardware(), rng, instructions=8, tail=False)
        used = {
            (instruction.opcode, name)
            for instruction in decode(program)
            if instruction.opcode in (Opcode.LOAD, Opcode.STORE)
            for name, region in program.regions.items()
            if 0 <= instruction.values["dram_offset"] - region.offset < region.nbytes
        }
        if used >= {(Opcode.LOAD, "param"), (Opcode.STORE, "result")}:
            return program, image
    raise AssertionError("no random program of 100 uses the regions param and result")


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def bus_errors_are_reported_and_soft_reset_recovers(dut: Any, knob: str) -> None:
    rng = generator("bus errors" + knob)
    device = await prepare(dut, knob, rng)
    program, image = program_using_every_region(rng)
    for region, code, unit, opcode in (
        ("insn", ErrorCode.AXI_READ, ErrorUnit.FETCH, None),
        ("param", ErrorCode.AXI_READ, ErrorUnit.LOAD, Opcode.LOAD),
        ("result", ErrorCode.AXI_WRITE, ErrorUnit.STORE, Opcode.STORE),
    ):
        place = program.regions[region]
        bad = range(place.offset, place.offset + place.nbytes)
        # Set before the start: the program may run while the host waits for the response.
        if region == "result":
            device.dram.bad_writes = bad
        else:
            device.dram.bad_reads = bad
        await device.launch(program, image)
        await check_error(device, code, unit, index_of_failure(program, hardware(), bad, opcode))
        device.dram.bad_reads = device.dram.bad_writes = range(0)
        await device.soft_reset()
        await check_run(device, program, image)


@cocotb.test()
@cocotb.parametrize(
    case=[
        (Opcode.LOAD, 2, WaitState.TOKEN_GEMM),
        (Opcode.GEMM, 1, WaitState.TOKEN_LOAD),
        (Opcode.VECTOR, 8, WaitState.TOKEN_STORE),
        (Opcode.STORE, 4, WaitState.TOKEN_VECTOR),
    ]
)
async def watchdog_names_the_unit_that_waits_for_a_token(
    dut: Any, case: tuple[Opcode, int, WaitState]
) -> None:
    opcode, pop, wait = case
    rng = generator(f"watchdog{opcode}")
    device = await prepare(dut, "none", rng)
    legal = {
        Opcode.LOAD: ("x_size", "y_size", "z_size"),
        Opcode.GEMM: ("uop_count", "iter_outer", "iter_inner"),
        Opcode.VECTOR: ("iter_outer", "iter_inner"),
        Opcode.STORE: ("x_size", "y_size", "z_size"),
    }[opcode]
    program = directed.build(hardware(), (opcode, {"pop": pop, **dict.fromkeys(legal, 1)}))
    await device.launch(program, program.image(), watchdog=200)
    await check_error(device, ErrorCode.WATCHDOG, ErrorUnit.WATCHDOG, 0)
    assert await device.read("WAIT_STATE") == wait << 4 * UNIT_OF[opcode]
    await device.soft_reset()
    good, image = random_program(hardware(), rng, instructions=5)
    await check_run(device, good, image)


@cocotb.test()
@cocotb.parametrize(case=list(LONG))
async def work_that_outlasts_the_watchdog_is_no_hang(dut: Any, case: str) -> None:
    rng = generator(f"long work {case}")
    device = await prepare(dut, "none", rng)
    steps = directed.legal_steps(hardware())
    steps[case] = directed.changed(steps[case], **LONG[case])
    program = directed.build(hardware(), *steps.values())
    image = data_image(program)
    expected = ReferenceDevice(hardware()).run(program, image)
    await device.launch(program, image, watchdog=LONG_CYCLES // 2)
    status = await device.wait()
    assert status == Status.DONE, await describe(device, status)
    assert (await device.counters())["cycles"] > LONG_CYCLES, "the instruction must be long"
    assert np.array_equal(device.dram.image(), expected.memory)
