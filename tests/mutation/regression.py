# SPDX-License-Identifier: Apache-2.0
"""A regression of one built model, in this process, as stages from cheap to dear.

Every stage takes a `Model` and raises `AssertionError` or `DeviceError` when the RTL is wrong.
The tests run the stages on the RTL as it is, the mutation check on faulty copies of it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from mutation import models
from support.programs.bus_faults import index_of_failure
from support.programs.rtl import IDEAL, MAX_CYCLES, RESET, ROUGH, STORED, Host

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import Instruction, Opcode
from tilewright.host.machine.registers import (
    COUNTER_BASE,
    COUNTERS,
    Ctrl,
    ErrorCode,
    Status,
    WaitState,
)
from tilewright.host.machine.status import DeviceStatusError
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.verilator.device import MEMORY_BASE
from tilewright.sim.verilator.library import AxiResponseCode
from tilewright.testing.device_contract import (
    ERRORS,
    LONG,
    PADS_ALONE,
    Step,
    build,
    data_image,
    legal_steps,
    tokens_that_nobody_takes,
)


def data(model: models.Model) -> None:
    """Fixed and fresh random programs leave the memory image of the reference."""
    fresh = tuple(model.seed + number for number in range(2))
    for memory in models.MEMORIES:
        device = model.device(memory)
        for case in (*models.fixed_cases(model.hw), *models.random_cases(model.hw, fresh)):
            case.check(device)
        device.close()


def timing(model: models.Model) -> None:
    """Every counter of the fixed programs has the recorded value, to the cycle."""
    known = json.loads(models.PINNED.read_text(encoding="utf-8"))
    for key, counters in measure_pinned(model):
        pinned = known[key]
        names = [name for name in counters if counters[name] != pinned.get(name)]
        shown = ", ".join(f"{n} {counters[n]} instead of {pinned.get(n)}" for n in names[:4])
        assert not names, f"{key}: {shown}"


def measure_pinned(model: models.Model) -> Iterator[tuple[str, dict[str, int]]]:
    """(label, counters) of every pinned run."""
    for memory in models.MEMORIES:
        device = model.device(memory)
        for case in (*models.fixed_cases(model.hw), models.contract_case(model.hw, "")):
            digest = case.program.instructions[:-32]
            label = f"{model.hw.name}, {memory.name}, {case.name}, {len(digest) // 32} instructions"
            result = device.run(case.program, case.image, max_cycles=MAX_CYCLES)
            yield label, dict(result.counters.values)
        device.close()


def patience(model: models.Model) -> None:
    """The smallest watchdog limit that each program survives is the recorded one, to the cycle.

    It is the longest silence of the run. An event that no longer counts as progress prolongs it.
    """
    pinned = json.loads(models.PINNED.read_text(encoding="utf-8"))
    for key, measured in measure_patience(model):
        assert measured == pinned[key], f"{key}: {measured} instead of {pinned[key]}"


def measure_patience(model: models.Model) -> Iterator[tuple[str, dict[str, int]]]:
    """(label, smallest watchdog limit) of every pinned run."""
    first, second = models.fixed_cases(model.hw)[:2]
    small = models.contract_case(model.hw, "")
    runs = [(memory, case) for memory in (ROUGH, models.DISTANT_WRITES) for case in (first, second)]
    runs += [(memory, small) for memory in (models.SLOW_WRITES, *models.RELUCTANT)]
    for memory, case in runs:
        label = f"{model.hw.name}, {memory.name}, {case.name}, smallest watchdog"
        yield label, {"watchdog_cycles": _smallest_watchdog(model, memory, case)}


def _smallest_watchdog(model: models.Model, memory: MemoryModel, case: models.Case) -> int:
    survives = functools.partial(_survives, model, memory, case)
    below, enough = 0, 1
    while not survives(enough):
        assert enough < models.WATCHDOG_CYCLES, f"{case.name} hangs"
        below, enough = enough, 2 * enough
    while enough - below > 1:
        middle = (below + enough) // 2
        below, enough = (below, middle) if survives(middle) else (middle, enough)
    return enough


def _survives(
    model: models.Model, memory: MemoryModel, case: models.Case, watchdog_cycles: int
) -> bool:
    device = model.device(memory, watchdog_cycles)
    try:
        device.run(case.program, case.image, max_cycles=MAX_CYCLES)
    except DeviceStatusError as error:
        if error.code is not ErrorCode.WATCHDOG:
            raise
        return False
    finally:
        device.close()
    return True


def faults(model: models.Model) -> None:
    """Illegal instructions end with the code, unit and index of the reference."""
    device = model.device(IDEAL)
    _pads_first(model).check(device)  # before anything else has run
    legal = models.contract_case(model.hw, "")
    for name in ERRORS:
        models.contract_case(model.hw, name).check(device)
    for change in PADS_ALONE:
        steps = legal_steps(model.hw)
        steps["inp"] = (steps["inp"][0], {**steps["inp"][1], **change})
        program = build(model.hw, *steps.values())
        models.judged(f"pads alone {change}", model.hw, program, data_image(program)).check(device)
    legal.check(device)
    device.close()


def _pads_first(model: models.Model) -> models.Case:
    """Padding without data as the first LOAD of all."""
    steps = legal_steps(model.hw)
    opcode, values = steps.pop("inp")
    first = (opcode, {**values, **PADS_ALONE[0]})
    program = build(model.hw, first, *steps.values())
    return models.judged("pads first", model.hw, program, data_image(program))


def ends(model: models.Model) -> None:
    """FINISH waits for the unit that is still at work, whatever it is."""
    device = model.device(IDEAL)
    steps = legal_steps(model.hw)
    for count in range(1, len(steps) + 1):
        name = list(steps)[count - 1]
        program = build(model.hw, *list(steps.values())[:count])
        models.judged(f"ends with {name}", model.hw, program, data_image(program)).check(device)
    device.close()


def late_errors(model: models.Model) -> None:
    """The last answer of a program, when it is a refusal, is an error and not also its end."""
    host = model.host(IDEAL)
    case = models.contract_case(model.hw, "")
    host.simulation.set_fault(MEMORY_BASE, case.program.memory_bytes, on_reads=False)
    host.start(case.program, case.image)
    assert host.run(MAX_CYCLES), "no interrupt after a refused write"
    for _ in range(4):  # accesses give the accelerator time
        assert host.read("STATUS") & ~Status.BUSY == Status.ERROR
        assert host.read("IRQ_STATUS") == 0b10
    host.close()


def overflow(model: models.Model) -> None:
    """One token more than a counter holds is an error of the instruction that pushed it."""
    device = model.device(IDEAL)
    device.run(program := tokens_that_nobody_takes(model.hw, 65_535), program.image())
    with models.expect(ErrorCode.TOKEN_OVERFLOW) as error:
        device.run(program := tokens_that_nobody_takes(model.hw, 65_536), program.image())
    assert error.value.instruction == 65_535, error.value
    device.close()


def bus_errors(model: models.Model) -> None:
    """Bus errors name port and unit, wherever they strike; the next run is unharmed."""
    case = models.fixed_cases(model.hw)[0]
    for memory in models.MEMORIES:
        device = model.device(memory)
        wanted = device.run(case.program, case.image).counters
        for response in AxiResponseCode:
            for region, code, unit, opcode in _BUS_ERRORS:
                place = case.program.regions[region]
                bad = range(place.offset, place.offset + place.nbytes)
                write = code is ErrorCode.AXI_WRITE
                device.inject_fault(
                    place.offset,
                    place.nbytes,
                    response=response,
                    on_reads=not write,
                    on_writes=write,
                )
                with models.expect(code) as error:
                    device.run(case.program, case.image, max_cycles=MAX_CYCLES)
                wrong = index_of_failure(case.program, model.hw, bad, opcode)
                assert (error.value.unit.name, error.value.instruction) == (unit, wrong), (
                    error.value
                )
                device.inject_fault(0, 0)
                assert device.run(case.program, case.image).counters == wanted
        device.close()


_BUS_ERRORS: Final = (
    ("insn", ErrorCode.AXI_READ, "FETCH", None),
    ("data", ErrorCode.AXI_READ, "LOAD", Opcode.LOAD),
    ("result", ErrorCode.AXI_WRITE, "STORE", Opcode.STORE),
)


def tokens(model: models.Model) -> None:
    """The watchdog names who waits for whom, for every pair of units."""
    device = model.device(IDEAL)
    steps = legal_steps(model.hw)
    for consumer, name in enumerate(("inp", "gemm", "alu", "store")):
        for producer in range(4):
            if producer == consumer:
                continue
            opcode, values = steps[name]
            alone: Step = (opcode, {**values, "pop": 1 << producer, "push": 0})
            program = build(model.hw, alone)
            with models.expect(ErrorCode.WATCHDOG) as error:
                device.run(program, data_image(program), max_cycles=MAX_CYCLES)
            states = [WaitState.IDLE] * 4
            states[consumer] = WaitState(WaitState.TOKEN_LOAD + producer)
            assert list(error.value.wait_states) == states, error.value
    models.contract_case(model.hw, "").check(device)
    device.close()


def streams(model: models.Model) -> None:
    """Illegal opcodes, a missing FINISH, FINISH alone, and a burst at the end of memory."""
    device = model.device(ROUGH)
    hw = model.hw
    steps = legal_steps(hw)
    for opcode in (0, 6, 15):
        program = build(hw, steps["inp"], steps["wgt"])
        image = data_image(program)
        image[program.regions["insn"].offset + 32] = opcode
        with models.expect(ErrorCode.ILLEGAL_OPCODE) as error:
            device.run(program, image, max_cycles=MAX_CYCLES)
        assert error.value.instruction == 1, error.value
    program = build(hw, steps["inp"], finish=False)
    with models.expect(ErrorCode.NO_FINISH) as error:
        device.run(program, data_image(program), max_cycles=MAX_CYCLES)
    assert error.value.instruction == 1, error.value
    program = build(hw)
    models.judged("FINISH alone", hw, program, data_image(program)).check(device)
    opcode_of, values = steps["wgt"]
    end = program.memory_bytes - hw.wgt_tile_bytes
    last = build(hw, (opcode_of, {**values, "dram_offset": end}))
    models.judged("last tile", hw, last, data_image(last)).check(device)
    beyond = build(hw, (opcode_of, {**values, "dram_offset": end + hw.axi_bytes}))
    models.judged("beyond memory", hw, beyond, data_image(beyond)).check(device)
    device.close()


def broken_programs(model: models.Model) -> None:
    """One field of a random program set to an edge value: errors are those of the reference."""
    device = model.device(ROUGH)
    for case in _broken(model.hw, 16):
        case.check(device)
    device.close()


@functools.cache
def _broken(hw: HwConfig, count: int) -> tuple[models.Case, ...]:
    rng = np.random.default_rng(11)
    cases: list[models.Case] = []
    while len(cases) < count:
        program, image = random_program(hw, rng, instructions=8, tail=False)
        data = program.instructions
        stream = [Instruction.decode(data[i : i + 32]) for i in range(0, len(data), 32)]
        index = int(rng.integers(len(stream) - 1))
        chosen = stream[index]
        names = [n for n in sorted(chosen.values) if n not in ("pop", "push", "imm")]
        field = names[int(rng.integers(len(names)))]
        value = int(rng.choice([0, 7, 1023, 2**16 - 1, 2**18 - 1, chosen.values[field] + 1]))
        try:
            encoded = Instruction(chosen.opcode, {**chosen.values, field: value}).encode()
        except TilewrightError:  # the value does not fit the field
            continue
        changed = data[: 32 * index] + encoded + data[32 * index + 32 :]
        other, copy = replace(program, instructions=changed), image.copy()
        other.write(copy, "insn", np.frombuffer(changed, dtype=np.uint8))
        try:
            case = models.judged(f"{chosen.opcode.name} {field} {value}", hw, other, copy)
        except TilewrightError:  # it reads what nobody wrote: no error, no defined result
            continue
        if case.error is not None:
            cases.append(replace(case, loose=True))
    return tuple(cases)


def long_work(model: models.Model) -> None:
    """An instruction that outlasts the watchdog and moves no data is no hang."""
    device = model.device(IDEAL, models.SHORT_WATCHDOG)
    for name, change in LONG.items():
        steps = legal_steps(model.hw)
        steps[name] = (steps[name][0], {**steps[name][1], **change})
        program = build(model.hw, *steps.values())
        models.judged(f"long {name}", model.hw, program, data_image(program)).check(device)
    device.close()


def resets(model: models.Model) -> None:
    """A reset at any moment leaves nothing behind: the next run is exact, to the cycle."""
    case = models.fixed_cases(model.hw)[1]
    for memory in models.MEMORIES:
        host = model.host(memory)
        wanted = _counters_of(host, case)
        for number, cycles in enumerate((*range(1, 60, 7), *range(60, 1500, 97))):
            host.start(case.program, case.image)
            if host.run(cycles):
                break
            kind = "soft" if number % 3 else "hard"
            if kind == "soft":
                host.soft_reset()
            else:
                host.simulation.reset()
                _expect_reset(host)
            counters = _counters_of(host, case)
            assert counters == wanted, f"counters after a {kind} reset in cycle {cycles}"
        host.close()


def _counters_of(host: Host, case: models.Case) -> Sequence[int]:
    """Counters of a whole run whose memory is right."""
    assert case.result is not None
    host.start(case.program, case.image)
    host.finish(case.result.memory, case.name)
    return host.counters()


def _expect_reset(host: Host) -> None:
    """What every register reads after a hardware reset."""
    for name, value in (*RESET.items(), *((name, 0) for name in _CLEAR)):
        assert host.read(name) == value, f"{name} after a reset"


_CLEAR: Final = (
    "CTRL",
    "SNAPSHOT",
    "STATUS",
    "ERROR",
    "ERROR_INSN",
    "WAIT_STATE",
    "IRQ_STATUS",
)


def registers(model: models.Model) -> None:
    """Reset values, read-back, status bits, interrupts, snapshots, start as specified."""
    host = model.host(IDEAL)
    case = models.fixed_cases(model.hw)[2]
    assert case.result is not None
    program, image, expected = case.program, case.image, case.result.memory
    _expect_reset(host)
    for name, mask in STORED.items():
        for value in (0xA5C33C5A, 0x5A3CC3A5, 0, mask):
            host.write(name, value)
            assert host.read(name) == value & mask, name
    host.simulation.reset()
    _expect_reset(host)
    assert host.at(0x050) == 0
    assert host.at(COUNTER_BASE + 8 * len(COUNTERS)) == 0
    assert host.at(0xFFC) == 0
    host.start(program, image, interrupts=0)
    settings = [host.read(name) for name in STORED]
    assert host.read("STATUS") == Status.BUSY
    host.write("CTRL", Ctrl.START)  # ignored while busy
    assert not host.run(MAX_CYCLES // 4), "interrupt although none is enabled"
    assert host.read("STATUS") == Status.DONE
    assert host.read("IRQ_STATUS") == 0b01
    host.write("IRQ_STATUS", 0b10)
    assert host.read("IRQ_STATUS") == 0b01
    host.write("IRQ_ENABLE", 0b10)
    assert not host.run(3), "interrupt of another kind"
    host.write("IRQ_ENABLE", 0b01)
    assert host.run(3), "no interrupt"
    host.write("IRQ_STATUS", 0b01)
    assert not host.run(3), "interrupt not cleared"
    host.write("SNAPSHOT", 0)
    first = host.counters(snapshot=False)
    assert host.counters() == first, "counters move after the end"
    for index in (len(COUNTERS), 64, 2 * 64 + 1):  # behind the last one, and where an index wraps
        assert host.at(COUNTER_BASE + 8 * index) == 0, f"counter {index} does not exist"
    host.start(program, image)
    assert host.counters(snapshot=False) == first, "a snapshot changes without a write"
    host.finish(expected)
    assert host.counters() == first, "a second run differs"
    spoiled = models.contract_case(model.hw, "gemm-no-uop")
    host.start(spoiled.program, spoiled.image)
    assert host.run(MAX_CYCLES), "no interrupt after an error"
    assert host.read("IRQ_STATUS") == 0b10
    assert not host.run(500, clear=True)  # the bus drains
    assert host.read("STATUS") == Status.ERROR
    error, counted = host.read("ERROR"), host.counters()
    host.write("CTRL", Ctrl.START)  # ignored until the reset
    assert not host.run(500, clear=True)
    assert (host.read("STATUS"), host.read("ERROR")) == (Status.ERROR, error)
    assert host.counters() == counted, "a start that is ignored counts anew"
    host.soft_reset()
    assert host.read("ERROR") == host.read("ERROR_INSN") == host.read("WAIT_STATE") == 0
    host.start(program, image, interrupts=0)
    host.run(100)
    host.soft_reset()
    assert [host.read(name) for name in STORED] == settings, "a soft reset keeps the settings"
    host.write("IRQ_ENABLE", 0b11)
    host.attach(image)
    host.write("CTRL", Ctrl.START)
    host.finish(expected)
    host.close()
