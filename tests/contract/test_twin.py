# SPDX-License-Identifier: Apache-2.0
"""The twin counts what the RTL counts: every counter, on random configurations and memories.

A fresh sample in every run; a failure names the first instruction that takes or retires in another
cycle. TILEWRIGHT_SLOW_CASES=100 makes 5,000 (configuration, memory, program) triples.
"""

from dataclasses import replace

import numpy as np
import pytest
from support.programs.drawing import any_built
from support.programs.rtl import any_memory
from support.randomness import generator, sample, where

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError
from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Opcode, Unit
from tilewright.host.machine.program import Program
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.twin.device import COUNTER_NAMES, Refusal, Twin, TwinDevice
from tilewright.sim.twin.first_difference import first_difference
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.sim.verilator.device import VerilatorDevice

INSN_BYTES = 32
TINY = load_hwconfig("tiny-4x4")
IDEAL = load_memory("ideal")


def check(device: VerilatorDevice, twin: Twin, program: Program, image: np.ndarray) -> None:
    """Equal counters, or the first instruction that differs."""
    expected = device.run(program, image, max_cycles=10_000_000).counters.values
    actual = twin.counters(program).values
    if actual != expected:
        wrong = {n: (expected[n], actual[n]) for n in expected if expected[n] != actual[n]}
        place = first_difference(device, twin, program, image)
        facts = where(hw=device.hw.parameters(), memory=device.memory, rtl_and_twin=wrong)
        pytest.fail(f"{place}; {facts}")


def check_random(hw: HwConfig, rng: np.random.Generator, memories: int, programs: int) -> None:
    """Random programs on random memories, the first of them `ideal`."""
    for number in range(memories):
        memory = any_memory(rng) if number else IDEAL
        device, twin = VerilatorDevice(hw, memory), Twin(hw, memory)
        for _ in range(programs):
            program, image = random_program(hw, rng, instructions=int(rng.integers(3, 90)))
            check(device, twin, program, image)
        device.close()
        twin.close()


def test_random_programs_on_the_smallest_array() -> None:
    check_random(TINY, generator("twin tiny"), 6, 8)


@pytest.mark.parametrize("option", [1, 2])
def test_random_programs_where_weights_of_4_bits_are_unpacked(option: int) -> None:
    check_random(TINY.with_(int4_weights=option), generator(f"twin int4 {option}"), 5, 8)


def test_random_programs_where_acc_has_two_banks() -> None:
    check_random(TINY.with_(acc_bank_count=2), generator("twin two banks"), 5, 8)


@pytest.mark.parametrize("number", sample(1, 27))
def test_random_programs_on_any_configuration(number: int) -> None:
    rng = generator(f"twin {number}")
    check_random(any_built(number, rng), rng, *((4, 10) if number == 0 else (10, 20)))


@pytest.mark.parametrize("memory", ["ideal", "pynq-z2"])
def test_lowered_layers_on_the_board_configuration(memory: str) -> None:
    hw, rng = load_hwconfig("pynq-16x16"), generator(f"twin layers {memory}")
    timing = load_memory(memory)
    device, twin = VerilatorDevice(hw, timing), Twin(hw, timing)
    layers = [
        conv2d("3x3", 14, 64, 64, 3, 1, 1),
        conv2d("1x1", 28, 128, 64, 1, 0, 2),
        conv2d("residual", 14, 32, 64, 3, 1, 1, residual=True),
    ]
    for layer in layers:
        schedules = [default_schedule(hw, layer)]
        while len(schedules) < 4:
            tile = {
                "tile_h": int(rng.integers(1, layer.out_height + 1)),
                "tile_w": int(rng.integers(1, layer.out_width + 1)),
                "tile_ci": int(rng.integers(1, 4)),
                "tile_co": int(rng.integers(1, 5)),
                "h_threading": int(rng.integers(1, 3)),
                "oc_threading": int(rng.integers(1, 3)),
            }
            if legal(hw, layer, Schedule(**tile)).ok:
                schedules.append(Schedule(**tile))
        for schedule in schedules:
            program = lower(hw, layer, schedule).program
            check(device, twin, program, program.image())
        batch = twin.batch(NativeLowering(hw, layer), encode_schedules(schedules))
        alone = [twin.counters(lower(hw, layer, s).program).values for s in schedules]
        assert [dict(zip(COUNTER_NAMES, row, strict=True)) for row in batch.counters] == alone
    device.close()


def test_a_batch_names_the_rule_of_what_is_not_legal_and_the_limit_of_what_is_slow() -> None:
    layer = conv2d("3x3", 14, 64, 64, 3, 1, 1)
    twin, lowering = Twin(TINY, IDEAL), NativeLowering(TINY, layer)
    small, huge = (Schedule(tile_h=tile, tile_w=2, tile_ci=1, tile_co=1) for tile in (2, 99))
    batch = twin.batch(lowering, encode_schedules([small, huge]))
    assert batch.rules[0] == 0 != batch.rules[1]
    assert batch.cycles[0] == twin.counters(lower(TINY, layer, small).program).cycles
    assert batch.cycles[1] == 0
    slow = twin.batch(lowering, encode_schedules([small]), max_cycles=int(batch.cycles[0]) - 1)
    assert slow.refusals[0] == Refusal.CYCLE_LIMIT
    assert slow.cycles[0] == 0


def test_a_limit_that_a_schedule_keeps_never_refuses_it() -> None:
    """What a run moves and multiplies refuses it before it runs; never one that fits."""
    rng = generator("limits")
    narrow = replace(IDEAL, read_bytes_per_cycle=0.5)
    memories = [IDEAL, narrow, replace(narrow, shared_bytes_per_cycle=0.4)]
    tight = 0.0
    for memory in memories:
        for layer in (conv2d("3x3", 14, 64, 64, 3, 1, 1), conv2d("1x1", 7, 128, 32, 1, 0, 1)):
            twin, lowering = Twin(TINY, memory), NativeLowering(TINY, layer)
            tiles = rng.integers(1, 15, size=(40, 4))
            points = encode_schedules(
                Schedule(tile_h=h, tile_w=w, tile_ci=ci, tile_co=co)
                for h, w, ci, co in tiles.tolist()
            )
            points = points[lowering.rules(points) == 0]
            free = twin.batch(lowering, points)
            for point, cycles in zip(points, free.cycles, strict=True):
                assert twin.batch(lowering, point[None], max_cycles=int(cycles)).cycles[0] == cycles
            read_cycles = free.counters[:, COUNTER_NAMES.index("bytes_read")] / min(
                TINY.axi_bytes, memory.read_bytes_per_cycle
            )
            tight = max(tight, float((read_cycles / free.cycles).max()))
    assert tight > 0.9  # some are so near to their limit that a bound one tenth higher would refuse


def test_the_twin_device_returns_the_memory_image_too() -> None:
    program, image = random_program(TINY, generator("twin device"), instructions=30)
    rtl, twin = VerilatorDevice(TINY, IDEAL), TwinDevice(TINY, IDEAL)
    expected, actual = rtl.run(program, image), twin.run(program, image)
    assert np.array_equal(actual.memory, expected.memory)
    assert actual.counters == expected.counters
    rtl.close()
    twin.close()


def test_the_divergence_names_the_first_instruction_that_differs() -> None:
    """A twin of another configuration must be told apart, at the right instruction."""
    program, image = random_program(TINY, generator("first difference"), instructions=60)
    device = VerilatorDevice(TINY, IDEAL)
    assert "no instruction" in first_difference(device, Twin(TINY, IDEAL), program, image)
    slower = replace(IDEAL, read_latency=IDEAL.read_latency + 1)
    text = first_difference(device, Twin(TINY, slower), program, image)
    assert program.executed()
    assert text.startswith("instruction 0 ")
    device.close()


def _opcodes(program: Program) -> list[Opcode]:
    return [Opcode(byte & 0xF) for byte in program.instructions[::INSN_BYTES]]


def test_the_timeline_is_in_order_within_each_unit() -> None:
    program, _ = random_program(TINY, generator("twin timeline"), instructions=60, tail=False)
    counters, events = Twin(TINY, IDEAL).timeline(program)
    units = {Opcode.LOAD: Unit.LOAD, Opcode.GEMM: Unit.GEMM, Opcode.VECTOR: Unit.VECTOR}
    units[Opcode.STORE] = Unit.STORE
    opcodes = _opcodes(program)
    for opcode in units:
        mine = events[[i for i, o in enumerate(opcodes) if o is opcode]]
        assert (np.diff(mine[:, 0].astype(np.int64)) > 0).all()
        assert (np.diff(mine[:, 1].astype(np.int64)) >= 0).all()
        assert (mine[:, 1] > mine[:, 0]).all()
    assert events.max() < counters.cycles


def test_refuses_what_it_does_not_cover() -> None:
    with pytest.raises(ConfigError, match="stall"):
        Twin(TINY, replace(IDEAL, stall_percent=20))
    program, _ = random_program(TINY, generator("twin refusal"), instructions=20, tail=False)
    twin = Twin(TINY, IDEAL)
    with pytest.raises(DeviceTimeoutError, match="max_cycles"):
        twin.counters(program, max_cycles=10)
    stream = bytearray(program.instructions)
    endless = replace(program, instructions=bytes(stream[:-INSN_BYTES]))
    with pytest.raises(DeviceError, match="FINISH"):
        twin.counters(endless)
    stream[0] |= 0xF0  # the first instruction waits for every unit's token
    with pytest.raises(DeviceError, match="never comes"):
        twin.counters(replace(program, instructions=bytes(stream)))
    stream[0] = 0x0F
    with pytest.raises(DeviceError, match="instruction 0: the opcode"):
        twin.counters(replace(program, instructions=bytes(stream)))
    twin.close()
    with pytest.raises(DeviceError, match="closed"):
        twin.counters(program)
