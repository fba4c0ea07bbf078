# SPDX-License-Identifier: Apache-2.0
"""Random and damaged programs on the whole RTL, in process: hundreds a second.

A legal race-free program must leave the memory image of the reference, whatever the memory's timing
and whatever registers and memories held before the reset. A program with one flipped bit must end:
with the same image, or with the error, the unit and the instruction that the reference names, and
the next program must run as if nothing happened.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.programs.drawing import any_built
from support.programs.hazards import check_hazards
from support.programs.rtl import any_memory
from support.randomness import generator, sample, where

from tilewright.host.common.errors import DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.device import VerilatorDevice

INSN_BYTES = 32
MAX_CYCLES = 200_000
WATCHDOG = 20_000
INDEX_FAULTS = (ErrorCode.SRAM_RANGE, ErrorCode.ACC_BANK, ErrorCode.DRAM_RANGE)
"""Of an instruction with several, the hardware names the one of the tile that it meets first."""
MEMORIES = 5
"""Memory timings a configuration is tried with."""


def check_programs(hw: HwConfig, rng: np.random.Generator, programs: int) -> None:
    """Random programs on random memories; the last device runs them all once more."""
    for _ in range(MEMORIES):
        device = VerilatorDevice(
            hw,
            any_memory(rng, stalls=True),
            initial_seed=int(rng.integers(1, 2**31)),
        )
        for number in range(programs // MEMORIES):
            program, image = random_program(hw, rng, instructions=int(rng.integers(3, 60)))
            expected = ReferenceDevice(hw).run(program, image)
            facts = where(hw=hw.parameters(), memory=device.memory, program=number)
            run = device.run(program, image, max_cycles=2_000_000)
            wrong = np.flatnonzero(run.memory != expected.memory)
            assert not wrong.size, f"{wrong.size} bytes differ from {wrong[0]:#x}: {facts}"
            for name in ("macs_tiles", "vector_tiles", "bytes_written"):
                assert run.counters[name] == expected.counters[name], f"{name}: {facts}"
        device.close()


def test_random_programs_equal_the_reference_on_the_smallest_array() -> None:
    check_programs(load_hwconfig("tiny-4x4"), generator("programs tiny"), 60)


@pytest.mark.parametrize("number", sample(1, 24))
def test_random_programs_equal_the_reference_on_any_configuration(number: int) -> None:
    rng = generator(f"programs {number}")
    check_programs(any_built(number, rng), rng, 20 if number == 0 else 200)


# -- damaged programs -----------------------------------------------------------------------


def damage(
    program: Program, image: np.ndarray, rng: np.random.Generator
) -> tuple[Program, np.ndarray]:
    """The program with one bit of one instruction flipped before FINISH."""
    stream = np.frombuffer(program.instructions, dtype=np.uint8).copy()
    bit = int(rng.integers(len(program.executed()) * INSN_BYTES * 8))
    stream[bit // 8] ^= np.uint8(1 << bit % 8)
    changed = replace(program, instructions=stream.tobytes())
    copy = image.copy()
    changed.write(copy, "insn", stream)
    return changed, copy


Outcome = np.ndarray | DeviceStatusError | DeviceTimeoutError


def outcome_of_reference(hw: HwConfig, program: Program, image: np.ndarray) -> Outcome | None:
    """Memory or error status; None where the program has no single right outcome."""
    try:
        check_hazards(hw, program, image)
        return ReferenceDevice(hw).run(program, image, max_cycles=MAX_CYCLES // 4).memory
    except DeviceStatusError as error:
        return error
    except (ProgramError, DeviceError, DeviceTimeoutError):
        return None  # a race, an unwritten tile, a pop before its push, or too long


def outcome_of_rtl(
    device: VerilatorDevice, program: Program, image: np.ndarray, max_cycles: int = MAX_CYCLES
) -> Outcome:
    """Memory, error status, or a run that is still busy at the limit."""
    try:
        return device.run(program, image, max_cycles=max_cycles).memory
    except (DeviceStatusError, DeviceTimeoutError) as error:
        return error


def place(error: DeviceStatusError) -> tuple[object, ...]:
    """What of an error must agree."""
    code = "index" if error.code in INDEX_FAULTS else error.code.name
    return code, error.unit.name, error.instruction


def agree(actual: Outcome, expected: Outcome | None) -> bool:
    """Whether the RTL ended as the reference did."""
    if expected is None:
        return True
    if isinstance(expected, DeviceStatusError):
        if isinstance(actual, DeviceStatusError):
            return place(actual) == place(expected)
        return isinstance(actual, DeviceTimeoutError)
    return isinstance(actual, np.ndarray) and np.array_equal(actual, expected)


def check_damaged(hw: HwConfig, rng: np.random.Generator, programs: int) -> Counter[str]:
    """Damaged programs, each followed by a good one; what they ended with."""
    device = VerilatorDevice(
        hw,
        any_memory(rng, stalls=True),
        watchdog_cycles=WATCHDOG,
        initial_seed=int(rng.integers(1, 2**31)),
    )
    good, good_image = random_program(hw, rng, instructions=10)
    good_memory = ReferenceDevice(hw).run(good, good_image).memory
    seen: Counter[str] = Counter()
    for number in range(programs):
        program, image = damage(*random_program(hw, rng, instructions=12), rng)
        expected = outcome_of_reference(hw, program, image)
        actual = outcome_of_rtl(device, program, image)
        if isinstance(expected, np.ndarray) and isinstance(actual, DeviceTimeoutError):
            # A slow memory under more data than the good program had; a hang stays one.
            actual = outcome_of_rtl(device, program, image, 50 * MAX_CYCLES)
        facts = where(hw=hw.parameters(), memory=device.memory, program=number)
        assert agree(actual, expected), f"{actual}, not {expected}: {facts}"
        known = isinstance(actual, DeviceStatusError)
        seen[actual.code.name if known else type(actual).__name__] += 1
        run = device.run(good, good_image, max_cycles=2_000_000)
        assert np.array_equal(run.memory, good_memory), f"the run after it: {facts}"
    device.close()
    return seen


def test_a_flipped_bit_ends_as_the_reference_says() -> None:
    seen = check_damaged(load_hwconfig("tiny-4x4"), generator("damage"), 80)
    assert seen["ndarray"] > 10, seen
    assert len(seen.keys() & {code.name for code in ErrorCode}) >= 2, seen


@pytest.mark.parametrize("number", sample(0, 8))
def test_a_flipped_bit_ends_as_the_reference_says_on_any_configuration(number: int) -> None:
    rng = generator(f"damage {number}")
    check_damaged(any_hwconfig(rng), rng, 300)
