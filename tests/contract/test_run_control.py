# SPDX-License-Identifier: Apache-2.0
"""What a host sees of resets, registers and the watchdog of the RTL, at register level."""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.rtl import IDEAL, MAX_CYCLES, RESET, ROUGH, STORED, Host
from support.randomness import generator

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Instruction, Opcode
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import (
    COHERENT,
    COUNTER_BASE,
    COUNTERS,
    Ctrl,
    ErrorCode,
    ErrorUnit,
    Status,
)
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import MEMORY_BASE, VerilatorDevice
from tilewright.testing import device_contract

TINY = load_hwconfig("tiny-4x4")
TRICKLE = replace(IDEAL, name="trickle", write_bytes_per_cycle=0.25)
"""A beat every 32 cycles: within a burst nothing else moves."""
DISTANT = replace(IDEAL, name="distant", read_latency=300, write_latency=300)
SHORT = device_contract.LONG_CYCLES // 2
"""A watchdog shorter than any of the long instructions."""

FIRST = random_program(TINY, np.random.default_rng(0), instructions=20)
SECOND = random_program(TINY, np.random.default_rng(1), instructions=20)


def expected(program, image):
    return ReferenceDevice(TINY).run(program, image).memory


@pytest.fixture(params=[IDEAL, ROUGH], ids=lambda memory: memory.name)
def host(request):
    opened = Host(build_model(TINY), TINY, request.param)
    yield opened
    opened.close()


def values_of(host: Host) -> dict[str, int]:
    return {name: host.read(name) for name in STORED}


def fill(host: Host) -> dict[str, int]:
    """Write ones to every register that keeps them; what it then reads."""
    for name in STORED:
        host.write(name, 2**32 - 1)
    return dict(STORED)


def test_every_register_has_its_first_value_after_a_hardware_reset(host):
    assert values_of(host) == RESET, "after power-on"
    assert fill(host) == values_of(host), "ones are kept where the register has bits"
    host.simulation.reset()
    assert values_of(host) == RESET, "after a reset that followed writes"


def test_a_hardware_reset_in_mid_run_leaves_nothing_behind(host):
    wanted = expected(*FIRST)
    host.start(*FIRST)
    host.finish(wanted)
    counters = host.counters()
    for cycles in range(1, 900, 113):
        host.start(*SECOND)
        host.run(cycles)
        host.simulation.reset()
        for name in ("STATUS", "ERROR", "ERROR_INSN", "WAIT_STATE", "IRQ_STATUS"):
            assert host.read(name) == 0, f"{name} after a reset in cycle {cycles}"
        assert values_of(host) == RESET, f"after a reset in cycle {cycles}"
        host.start(*FIRST)
        host.finish(wanted, f"after a reset in cycle {cycles}")
        assert host.counters() == counters, f"after a reset in cycle {cycles}"


def test_a_soft_reset_keeps_the_settings_so_that_a_start_alone_runs_the_program(host):
    wanted = expected(*FIRST)
    host.start(*FIRST)
    host.finish(wanted)
    counters, settings = host.counters(), values_of(host)
    host.start(*FIRST)
    host.run(200)
    host.soft_reset()
    assert values_of(host) == settings
    host.attach(FIRST[1])
    host.write("CTRL", Ctrl.START)
    host.finish(wanted)
    assert host.counters() == counters


def test_a_soft_reset_while_idle_keeps_every_register_and_clears_the_status(host):
    host.start(*FIRST)
    host.finish(expected(*FIRST))
    kept = fill(host)
    assert host.read("STATUS") == Status.DONE
    host.soft_reset()
    assert host.read("STATUS") == 0
    assert values_of(host) == kept


# -- the boundary between runs --------------------------------------------------------------

NARROW = TINY.with_(name="narrow", read_outstanding=1)
FAR = replace(IDEAL, name="far", read_latency=200)
"""A read that is in flight when a run ends would still be in the next."""


def test_what_follows_finish_is_not_in_flight_when_the_next_run_starts():
    tail = [Instruction(Opcode.LOAD, {}).encode()] * 8
    ended = device_contract.build(NARROW)
    longer = with_tail(ended, b"".join(tail))
    host = Host(build_model(NARROW), NARROW, FAR)
    for program in (longer, ended, longer, longer):
        host.start(program, program.image())
        host.finish(program.image())
    host.close()


@pytest.mark.parametrize("hw", [NARROW, TINY], ids=lambda hw: hw.name)
def test_programs_with_any_tail_run_one_after_another_without_a_reset(hw):
    rng = generator("tails")
    host = Host(build_model(hw), hw, FAR)
    for _ in range(20):
        program, image = random_program(hw, rng, instructions=3)
        host.start(program, image)
        host.finish(ReferenceDevice(hw).run(program, image).memory)
    host.close()


def with_tail(program: Program, tail: bytes) -> Program:
    """The program with instructions behind FINISH."""
    insn = program.regions["insn"]
    return replace(
        program,
        instructions=program.instructions + tail,
        regions={**program.regions, "insn": replace(insn, nbytes=insn.nbytes + len(tail))},
    )


def test_a_start_that_is_ignored_changes_nothing(host):
    spoiled = device_contract.build(TINY, *device_contract.legal_steps(TINY).values(), finish=False)
    host.start(spoiled, device_contract.data_image(spoiled))
    assert host.run(MAX_CYCLES)
    host.run(500, clear=True)
    assert host.read("STATUS") == Status.ERROR
    counters, error = host.counters(), host.read("ERROR")
    host.write("CTRL", Ctrl.START)
    host.run(20)
    assert host.counters() == counters
    assert (host.read("STATUS"), host.read("ERROR")) == (Status.ERROR, error)
    host.soft_reset()
    host.start(*FIRST)
    host.run(50)
    before = host.counters()
    host.write("CTRL", Ctrl.START)
    assert host.counters()[0] > before[0], "a run under way is counted from its own start"
    host.finish(expected(*FIRST))


def test_a_soft_reset_goes_before_a_start_in_the_same_write(host):
    host.start(*FIRST)
    host.finish(expected(*FIRST))
    counters = host.counters()
    host.write("CTRL", Ctrl.START | Ctrl.SOFT_RESET)
    host.run(20)
    assert host.read("STATUS") == 0
    assert host.counters() == counters


def test_settings_that_are_written_during_a_run_are_for_the_next(host):
    host.start(*FIRST)
    host.run(30)
    for name in ("MEM_BASE_LO", "MEM_SIZE_LO", "INSN_BASE_LO", "INSN_COUNT"):
        host.write(name, 0)
    host.write("WATCHDOG", 1)
    host.write("AXI_ATTRIBUTES", COHERENT)
    host.finish(expected(*FIRST))
    host.configure(SECOND[0])
    host.write("WATCHDOG", 1)
    host.attach(SECOND[1])
    host.write("CTRL", Ctrl.START)
    assert host.run(MAX_CYCLES)
    assert host.read("ERROR") & 0xFF == ErrorCode.WATCHDOG
    host.run(500, clear=True)
    host.soft_reset()
    host.start(*SECOND)
    host.finish(expected(*SECOND))


@pytest.mark.parametrize(
    ("base", "size", "insn", "count"),
    [
        (MEMORY_BASE, 4096, 0xFF_FFFF_F000, 128),
        (MEMORY_BASE, 2**39 - 4096, 0xFF_FFFF_F000, 128),
        (MEMORY_BASE, 4096, 0, 129),
        (MEMORY_BASE, 4096, 4096, 1),
        (MEMORY_BASE, 0, 0, 1),
        (MEMORY_BASE, 8192, 4096, 2**32 - 1),
        (2**40 - 4096, 8192, 0, 1),
        (2**40 - 4096, 2**39 - 4096, 0, 1),
    ],
)
def test_places_that_no_run_can_have_are_an_error_at_the_start(host, base, size, insn, count):
    for name, value in (("MEM_BASE", base), ("MEM_SIZE", size), ("INSN_BASE", insn)):
        host.write(f"{name}_LO", value & 0xFFFF_FFFF)
        host.write(f"{name}_HI", value >> 32)
    host.write("INSN_COUNT", count)
    host.write("IRQ_ENABLE", 0b11)
    host.attach(FIRST[1])
    host.write("CTRL", Ctrl.START)
    assert host.run(20), "no interrupt at once"
    assert host.read("ERROR") == ErrorCode.SETTINGS | ErrorUnit.FETCH << 8
    assert host.read("ERROR_INSN") == 0
    host.write("SNAPSHOT", 1)
    bursts = COUNTER_BASE + 8 * [name for name, _ in COUNTERS].index("read_bursts")
    assert host.at(bursts) == 0, "it asked for something"
    host.run(500, clear=True)
    host.soft_reset()
    host.start(*FIRST)
    host.finish(expected(*FIRST))


# -- watchdog -------------------------------------------------------------------------------


def outcome(program: Program, memory: MemoryModel, watchdog: int) -> ErrorCode:
    """How a run with a watchdog ends; the result of a run that ends well is checked."""
    device = VerilatorDevice(TINY, memory, watchdog_cycles=watchdog)
    image = device_contract.data_image(program)
    try:
        result = device.run(program, image, max_cycles=MAX_CYCLES)
    except DeviceStatusError as error:
        return error.code
    finally:
        device.close()
    assert np.array_equal(result.memory, expected(program, image))
    assert result.counters.cycles > device_contract.LONG_CYCLES, (
        "the instruction must outlast the watchdog"
    )
    return ErrorCode.NONE


@pytest.mark.parametrize("name", device_contract.LONG)
def test_a_long_instruction_is_no_hang(name):
    steps = device_contract.legal_steps(TINY)
    opcode, values = steps[name]
    steps[name] = (opcode, {**values, **device_contract.LONG[name]})
    assert outcome(device_contract.build(TINY, *steps.values()), IDEAL, SHORT) is ErrorCode.NONE


def test_data_that_trickle_out_of_one_burst_are_no_hang():
    steps = device_contract.legal_steps(TINY)
    opcode, values = steps["store"]
    many = {"x_size": 16 * TINY.axi_bytes // TINY.out_tile_bytes}
    for name in ("alu", "requant"):  # compute what is stored
        steps[name] = (steps[name][0], {**steps[name][1], "iter_outer": many["x_size"]})
    steps["requant"][1]["dst_outer"] = 1
    steps["store"] = (opcode, {**values, **many})
    program = device_contract.build(TINY, *steps.values())
    assert outcome(program, TRICKLE, SHORT) is ErrorCode.NONE
    stuck = replace(TRICKLE, write_bytes_per_cycle=TINY.axi_bytes / (2 * SHORT))
    assert outcome(program, stuck, SHORT) is ErrorCode.WATCHDOG


def test_the_watchdog_counts_from_the_address_of_a_burst_to_its_first_data():
    program = device_contract.build(TINY, *device_contract.legal_steps(TINY).values())
    latency = DISTANT.read_latency
    assert outcome(program, DISTANT, latency - 1) is ErrorCode.WATCHDOG
    assert outcome(program, DISTANT, latency + 1) is ErrorCode.NONE


def test_a_token_that_no_counter_can_hold_names_the_instruction_that_pushed_it():
    """65,536 tokens that nobody takes: the last of them overflows the counter of 16 bits."""
    for tokens in (65_535, 65_536):
        program = device_contract.tokens_that_nobody_takes(TINY, tokens)
        device = VerilatorDevice(TINY, IDEAL)
        if tokens == 65_535:
            assert device.run(program, program.image()).counters["vector_instructions"] == tokens
        else:
            with pytest.raises(DeviceStatusError) as caught:
                device.run(program, program.image())
            found = caught.value.code, caught.value.unit, caught.value.instruction
            assert found == (ErrorCode.TOKEN_OVERFLOW, ErrorUnit.VECTOR, tokens - 1)
        device.close()


@pytest.mark.parametrize("number", range(len(device_contract.PADS_ALONE)))
def test_padding_without_data_reads_nothing_so_that_its_offset_may_be_anything(number):
    steps = device_contract.legal_steps(TINY)
    steps["inp"] = (steps["inp"][0], {**steps["inp"][1], **device_contract.PADS_ALONE[number]})
    program = device_contract.build(TINY, *steps.values())
    image = device_contract.data_image(program)
    device = VerilatorDevice(TINY, IDEAL)
    assert np.array_equal(device.run(program, image).memory, expected(program, image))
    device.close()
