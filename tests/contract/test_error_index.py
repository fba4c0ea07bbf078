# SPDX-License-Identifier: Apache-2.0
"""ERROR_INSN names the instruction that failed, whatever else is under way at that moment."""

from dataclasses import replace

import numpy as np
import pytest
from mutation.models import HALVES, ODD, WIDE
from support.programs.bus_faults import beats_of, decode, index_of_failure
from support.programs.corner_programs import DATA, loads, stores, stream
from support.programs.rtl import IDEAL, MAX_CYCLES, ROUGH, Host
from support.randomness import fresh_rng, often

from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Memory, Opcode, Unit
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import ErrorCode, ErrorUnit
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing.device_contract import build, data_image, legal_steps

TINY = load_hwconfig("tiny-4x4")
LATE = replace(IDEAL, name="late", read_latency=200, write_latency=200, max_reads=16, max_writes=16)
"""Every burst that may be in flight is, before the first answer comes."""
MEMORIES = (IDEAL, LATE, ROUGH)

Found = tuple[ErrorCode, ErrorUnit, int]


@pytest.fixture(params=[TINY, ODD, WIDE, HALVES], ids=lambda hw: hw.name)
def hw(request) -> HwConfig:
    return request.param


@pytest.fixture(params=MEMORIES, ids=lambda memory: memory.name)
def device(request, hw):
    opened = VerilatorDevice(hw, request.param)
    yield opened
    opened.close()


def failure(device: VerilatorDevice, program: Program) -> Found:
    """How a program that must fail ends."""
    with pytest.raises(DeviceStatusError) as caught:
        device.run(program, data_image(program), max_cycles=40 * MAX_CYCLES)
    return caught.value.code, caught.value.unit, caught.value.instruction


@pytest.mark.parametrize("count", often("loads", [2, 3, 5, 9], 1))
def test_a_wrong_answer_names_the_load_that_asked_for_it(device, hw, count):
    program = build(hw, *loads(hw, count))
    for index, (_, values) in enumerate(loads(hw, count)):
        for beat in (0, 1, 2):
            start = values["dram_offset"] + beat * hw.axi_bytes
            bad = range(start, start + 1)
            device.inject_fault(bad.start, 1)
            expected = index_of_failure(program, hw, bad, Opcode.LOAD)
            assert expected <= index + 1, "each LOAD has its own beats"
            assert failure(device, program) == (ErrorCode.AXI_READ, ErrorUnit.LOAD, expected)
    device.inject_fault(0, 0)
    device.run(program, data_image(program))


def test_a_wrong_answer_names_the_load_while_beats_of_it_are_held_back(device, hw):
    """Diagonals smaller than a beat wait in a queue: the arriving beat is of a later LOAD."""
    diagonal = min(hw.block_in, hw.block_out)
    tiles = 4 * hw.axi_bytes // diagonal
    values = {"memory": Memory.WGT, "x_size": tiles, "y_size": 1, "z_size": 1, "diagonal": 1}
    size = tiles * diagonal
    steps = [
        (Opcode.LOAD, {**values, "dram_offset": DATA + 4096 + k * size}) for k in range(5)
    ] + loads(hw, 2)
    steps[5:] = [(o, {**v, "dram_offset": v["dram_offset"] + 8192}) for o, v in steps[5:]]
    program = build(hw, *steps)
    for index, (_, v) in enumerate(steps):
        device.inject_fault(v["dram_offset"] + 2 * hw.axi_bytes, 1)
        assert failure(device, program) == (ErrorCode.AXI_READ, ErrorUnit.LOAD, index)


@pytest.mark.parametrize("bursts", [1, 3])
def test_a_wrong_answer_names_the_store_whichever_of_its_bursts_it_is_for(device, hw, bursts):
    steps = stores(hw, 4, bursts)
    program = build(hw, *steps)
    first = len(steps) - 4
    for number in range(4):
        values = steps[first + number][1]
        for row in range(bursts):
            pitch = values["y_stride"] * hw.out_tile_bytes
            device.inject_fault(values["dram_offset"] + row * pitch, 1, on_reads=False)
            expected = (ErrorCode.AXI_WRITE, ErrorUnit.STORE, first + number)
            assert failure(device, program) == expected, f"burst {row}"
    device.inject_fault(0, 0)
    device.run(program, data_image(program))


def test_a_wrong_answer_names_the_instruction_that_its_beat_holds(device, hw):
    steps = loads(hw, 29)
    program = build(hw, *steps)
    place = program.regions["insn"].offset
    for index in (0, 1, 3, 4, 7, 15, 16, 24, 27, 28, 29):
        for beat in range(0, 32, hw.axi_bytes):
            device.inject_fault(place + 32 * index + beat, 1)
            expected = index - index % max(1, hw.axi_bytes // 32)  # the first of a wide beat
            found = failure(device, program)
            assert found == (ErrorCode.AXI_READ, ErrorUnit.FETCH, expected), index
            device.inject_fault(0, 0)
    device.run(program, data_image(program))


def test_a_region_outside_the_memory_names_its_instruction(device, hw):
    for position in (0, 1, 4, 8):
        steps = loads(hw, 9)
        opcode, values = steps[position]
        steps[position] = (opcode, {**values, "dram_offset": 1 << 30})
        found = failure(device, build(hw, *steps))
        assert found == (ErrorCode.DRAM_RANGE, ErrorUnit.LOAD, position)
    for position in range(4):
        steps = stores(hw, 4)
        index = len(steps) - 4 + position
        opcode, values = steps[index]
        steps[index] = (opcode, {**values, "dram_offset": 1 << 30})
        found = failure(device, build(hw, *steps))
        assert found == (ErrorCode.DRAM_RANGE, ErrorUnit.STORE, index)


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.name)
def test_a_program_that_leaves_the_memory_is_refused_as_a_whole(hw, memory):
    """The image ends with its last page, the instructions do not: INSN_COUNT asks for more."""
    program = build(hw, *loads(hw, 127), finish=False)  # one page is 128 instructions
    filler = program.instructions[:32]
    image = data_image(program)
    place = program.regions["insn"].offset
    image[place : place + 4096] = np.frombuffer(filler * 128, dtype=np.uint8)
    longer = replace(program, instructions=filler * 200)
    host = Host(build_model(hw), hw, memory)
    host.start(longer, image)
    assert host.run(MAX_CYCLES)
    assert host.read("ERROR") == ErrorCode.SETTINGS | ErrorUnit.FETCH << 8
    assert host.read("ERROR_INSN") == 0
    host.close()


@pytest.mark.parametrize("unit", list(Unit), ids=lambda unit: unit.name.lower())
def test_a_token_too_many_names_the_instruction_that_pushed_it(unit):
    """Whatever the unit has taken since: its queue is full of instructions behind that one."""
    name = ("inp", "gemm", "alu", "store")[unit]
    head = [step for key, step in legal_steps(TINY).items() if key in ("uop", "inp", "wgt")]
    if unit is Unit.STORE:
        head = list(legal_steps(TINY).values())[:-1]
    wait = {"push": 1 << unit} if unit is not Unit.LOAD else {}
    head[-1] = (head[-1][0], {**head[-1][1], **wait}) if unit is Unit.GEMM else head[-1]
    opcode, values = legal_steps(TINY)[name]
    other = Unit.GEMM if unit is not Unit.GEMM else Unit.VECTOR
    plain = {**values, "pop": 0, "push": 1 << other}
    program = stream(TINY, head, (opcode, plain), 65_536 + 40, [])
    device = VerilatorDevice(TINY, IDEAL)
    expected = len(head) + 65_535
    assert failure(device, program) == (ErrorCode.TOKEN_OVERFLOW, ErrorUnit(unit), expected)
    device.close()


def test_an_index_above_65535_is_told_in_full():
    """Neither 16 bits nor a wrap of the queue's index: 70,000 instructions, then a bad one."""
    opcode, values = legal_steps(TINY)["alu"]
    plain = (opcode, {**values, "pop": 0})
    broken = (opcode, {**values, "pop": 0, "op": 15})
    device = VerilatorDevice(TINY, IDEAL)
    program = stream(TINY, [], plain, 70_000, [broken, plain])
    assert failure(device, program) == (ErrorCode.ILLEGAL_FIELD, ErrorUnit.VECTOR, 70_000)
    device.inject_fault(program.regions["insn"].offset + 32 * 69_999, 1)
    assert failure(device, program) == (ErrorCode.AXI_READ, ErrorUnit.FETCH, 69_999)
    device.close()


def test_random_faults_of_the_bus_name_the_instruction_of_the_model(device, hw):
    rng = fresh_rng()
    steps = [*loads(hw, 4), *stores(hw, 4), *loads(hw, 5)]
    program = build(hw, *steps)
    moved = [beat for i in decode(program) for beat in beats_of(i, hw)]
    fetched = program.regions["insn"].offset
    end = fetched + len(program.instructions)  # behind it fetch reads to the end of a burst
    tried = 0
    for _ in range(40):
        beat = int(rng.choice(moved)) if rng.random() < 0.8 else int(rng.integers(fetched, end))
        start = beat + int(rng.integers(-300, hw.axi_bytes))
        bad = range(start, min(end, start + int(rng.integers(1, 600))))
        if not bad:
            continue
        expected = {}
        for unit, opcode in (
            (ErrorUnit.FETCH, None),
            (ErrorUnit.LOAD, Opcode.LOAD),
            (ErrorUnit.STORE, Opcode.STORE),
        ):
            try:
                expected[unit] = index_of_failure(program, hw, bad, opcode)
            except ValueError:
                continue
        device.inject_fault(bad.start, len(bad))
        if not expected:
            device.run(program, data_image(program), max_cycles=MAX_CYCLES)
            continue
        code, unit, index = failure(device, program)
        assert code in (ErrorCode.AXI_READ, ErrorCode.AXI_WRITE)
        assert index == expected[unit], f"{unit.name} {index}, not {expected}, {bad}"
        tried += 1
    assert tried > 4
