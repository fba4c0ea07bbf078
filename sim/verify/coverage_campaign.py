# SPDX-License-Identifier: Apache-2.0
"""The runs whose coverage is measured: random programs, faults, deadlocks, resets, registers.

Every run is checked: a program that ends must give the reference's memory, one that fails must
give the status that its kind of fault demands. `Observer` sees each outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.names import counted
from tilewright.host.machine import registers
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import OPCODE_MASK, UNIT_OF, Unit
from tilewright.host.machine.program import Program
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes, Counters
from tilewright.sim.programs.directed import FAULTS, Step, changed
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import MAX_TOKENS, ReferenceDevice
from tilewright.sim.verify.coverage_programs import (
    directed,
    legal_steps,
    rare_programs,
    slow_units,
)
from tilewright.sim.verilator.device import MEMORY_BASE, VerilatorDevice
from tilewright.sim.verilator.library import AxiResponseCode, Simulation

_WATCHDOG: Final = 4000
_LIMIT: Final = 2_000_000
_REGISTER: Final = {register.name: register.offset for register in registers.REGISTERS}
_QUEUE: Final = 16
"""Instructions that a unit's queue holds."""

_MOMENTS: Final = (25, 300, 900, 1400)
"""Cycles in which LOAD, GEMM, VECTOR and STORE of `slow_units` work, on the smallest array."""

STEADY: Final = MemoryModel(
    name="steady",
    read_latency=16,
    write_latency=8,
    read_bytes_per_cycle=64,
    write_bytes_per_cycle=64,
)

DISTANT: Final = replace(STEADY, name="distant", read_latency=200, write_latency=200)
"""Keeps everything in flight that may be in flight."""

CLOGGED: Final = replace(STEADY, name="clogged", read_latency=1, write_bytes_per_cycle=1)
"""Instructions arrive faster than results leave."""


class Observer(Protocol):
    """What functional coverage sees of a run."""

    def program(self, hw: HwConfig, program: Program, memory: Bytes) -> None:
        """A program that the device ran to its end."""

    def counters(self, counters: Mapping[str, int]) -> None:
        """What the counters said at the end of a run."""

    def status(self, error: DeviceStatusError, response: AxiResponseCode | None) -> None:
        """An error status, and the bus response that caused it, if one did."""

    def reset(self, counters: Mapping[str, int], planned: Mapping[str, int]) -> None:
        """A soft reset in mid-run: counters before it, instructions of the program by unit."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A model to run on."""

    hw: HwConfig
    library: Path


def random_memory(rng: np.random.Generator) -> MemoryModel:
    """Timing between a fast and a crawling DRAM, with and without withheld handshakes."""
    return MemoryModel(
        name="random",
        read_latency=int(rng.choice([1, 3, 16, 60])),
        write_latency=int(rng.choice([1, 5, 40])),
        read_bytes_per_cycle=float(rng.choice([3, 8, 64])),
        write_bytes_per_cycle=float(rng.choice([2, 8, 64])),
        shared_bytes_per_cycle=float(rng.choice([0, 0, 9])),
        max_reads=int(rng.choice([1, 3, 16])),
        max_writes=int(rng.choice([1, 2, 16])),
        stall_percent=int(rng.choice([0, 0, 20, 60])),
        stall_seed=int(rng.integers(1, 2**31)),
    )


def run_random(
    target: Target, rng: np.random.Generator, observer: Observer, *, programs: int
) -> None:
    """Random programs, a new memory for every few of them."""
    done = 0
    while done < programs:
        with closing(
            VerilatorDevice(target.hw, random_memory(rng), library=target.library)
        ) as device:
            for _ in range(min(4, programs - done)):
                run_checked(device, *random_program(target.hw, rng), observer)
                done += 1


def run_rare(target: Target, observer: Observer) -> None:
    """Legal programs for what random ones meet seldom."""
    with closing(VerilatorDevice(target.hw, DISTANT, library=target.library)) as device:
        for steps in rare_programs(target.hw):
            run_checked(device, *directed(target.hw, steps), observer)


def run_checked(
    device: VerilatorDevice, program: Program, memory: Bytes, observer: Observer
) -> Counters:
    """Run a program that must end with the reference's memory."""
    result = device.run(program, memory, max_cycles=_LIMIT)
    expected = ReferenceDevice(device.hw).run(program, memory)
    differs = np.flatnonzero(result.memory != expected.memory)
    if differs.size:
        raise DeviceError(
            f"memory differs from the reference in {counted(differs.size, 'byte')}, the first at "
            f"{int(differs[0]):#x}",
            field=device.hw.name,
            remedy="repeat the run with the same seed",
        )
    observer.program(device.hw, program, memory)
    observer.counters(result.counters.values)
    return result.counters


def run_faults(target: Target, rng: np.random.Generator, observer: Observer) -> None:
    """Every kind of error status; the device must run a program after each."""
    with closing(
        VerilatorDevice(target.hw, STEADY, library=target.library, watchdog_cycles=_WATCHDOG)
    ) as device:
        for name, change, code in FAULTS.values():
            steps = legal_steps(target.hw)
            steps[name] = changed(steps[name], **change(target.hw))
            _expect(device, *directed(target.hw, list(steps.values())), observer, code)
        _overruns(device, observer)
        _fault_during_bank_wait(device, observer)
        _stream_faults(device, observer)
        _deadlocks(device, observer)
        _bus_faults(device, rng, observer)
        run_checked(device, *random_program(target.hw, rng), observer)


def _overruns(device: VerilatorDevice, observer: Observer) -> None:
    """Indices that saturate: of an operand that is not used, and of a GEMM that is refused."""
    most = (1 << 18) - 1
    steps = legal_steps(device.hw)
    steps["alu"] = changed(steps["alu"], opd_base=most, opd_inner=most, iter_inner=16)
    run_checked(device, *directed(device.hw, list(steps.values())), observer)
    far = {"inp_base": most, "inp_outer": most, "iter_outer": (1 << 16) - 1}
    steps["gemm"] = changed(steps["gemm"], **far)
    program, memory = directed(device.hw, list(steps.values()))
    program.read(memory, "uop")[:] = 0xFF
    _expect(device, program, memory, observer, registers.ErrorCode.SRAM_RANGE)


def _fault_during_bank_wait(device: VerilatorDevice, observer: Observer) -> None:
    """VECTOR walks out of ACC while a GEMM waits for a bank that it holds."""
    steps = legal_steps(device.hw)
    walk = changed(steps["alu"], pop=0, acc_banks=15, iter_outer=device.hw.acc_depth + 1)
    waiting = changed(steps["gemm"], pop=0, push=0)
    program = [steps["uop"], changed(walk, dst_outer=1, src_outer=1), waiting]
    _expect(device, *directed(device.hw, program), observer, registers.ErrorCode.SRAM_RANGE)


def _stream_faults(device: VerilatorDevice, observer: Observer) -> None:
    """Illegal opcodes and a missing FINISH."""
    steps = list(legal_steps(device.hw).values())
    for opcode in (0, 6, 15):
        program, memory = directed(device.hw, steps)
        memory[program.regions["insn"].offset + 32] = opcode
        _expect(device, program, memory, observer, registers.ErrorCode.ILLEGAL_OPCODE)
    _expect(
        device, *directed(device.hw, steps, finish=False), observer, registers.ErrorCode.NO_FINISH
    )


def _deadlocks(device: VerilatorDevice, observer: Observer) -> None:
    """Each unit waits for a token of each other one that never comes."""
    steps = legal_steps(device.hw)
    for name in ("inp", "gemm", "alu", "store"):
        own = UNIT_OF[steps[name][0]]
        for source in Unit:
            if source == own:
                continue
            waiting = changed(steps[name], pop=1 << source, push=0)
            _expect(device, *directed(device.hw, [waiting]), observer, registers.ErrorCode.WATCHDOG)


def _bus_faults(device: VerilatorDevice, rng: np.random.Generator, observer: Observer) -> None:
    """Bus errors of both kinds on instruction, operand and result accesses of random programs."""
    for response in AxiResponseCode:
        for region, code in (
            ("insn", registers.ErrorCode.AXI_READ),
            ("uop", registers.ErrorCode.AXI_READ),
            ("result", registers.ErrorCode.AXI_WRITE),
        ):
            program, memory = random_program(device.hw, rng)
            place = program.regions[region]
            writes = code == registers.ErrorCode.AXI_WRITE
            device.inject_fault(
                place.offset,
                place.nbytes,
                response=response,
                on_reads=not writes,
                on_writes=writes,
            )
            _expect(device, program, memory, observer, code, response)
            device.inject_fault(0, 0)


def _expect(
    device: VerilatorDevice,
    program: Program,
    memory: Bytes,
    observer: Observer,
    code: registers.ErrorCode,
    response: AxiResponseCode | None = None,
) -> None:
    """Run a program that must end with this error code."""
    try:
        device.run(program, memory, max_cycles=_LIMIT)
    except DeviceStatusError as error:
        if error.code != code:
            raise
        observer.status(error, response)
    else:
        raise DeviceError(
            f"the program must end with {code.name}", field=device.hw.name, value="no error"
        )


# -- full queues, token overflow --------------------------------------------------------------


def run_queues(target: Target, observer: Observer) -> None:
    """Fill the queue of each unit behind an instruction that waits for a long GEMM."""
    for memory in (DISTANT, CLOGGED):
        with closing(VerilatorDevice(target.hw, memory, library=target.library)) as device:
            _fill_queues(device, observer)


def _fill_queues(device: VerilatorDevice, observer: Observer) -> None:
    steps = legal_steps(device.hw)
    prologue = [steps[name] for name in ("uop", "inp", "wgt", "acc", "param", "res")]
    for name in ("inp", "gemm", "requant", "store"):
        unit = UNIT_OF[steps[name][0]]
        follower = changed(steps[name], pop=0, push=0)
        first = changed(follower, pop=1 << Unit.GEMM)
        push = 0 if unit == Unit.GEMM else 1 << unit
        program = [*prologue, _long_gemm(steps, push)]
        if unit == Unit.GEMM:
            first = follower
        elif unit == Unit.STORE:  # what is stored must have been computed
            program = [*prologue, _long_gemm(steps, 1 << Unit.VECTOR)]
            program.append(changed(steps["requant"], pop=1 << Unit.GEMM))
            first = steps["store"]
        program += [first, *[follower] * (2 * _QUEUE)]
        run_checked(device, *directed(device.hw, program), observer)


def _long_gemm(steps: Mapping[str, Step], push: int) -> Step:
    return changed(steps["gemm"], iter_outer=600, push=push)


def run_overflow(target: Target, unit: Unit, observer: Observer) -> None:
    """Push one token more than a counter holds."""
    name = ("inp", "gemm", "alu", "store")[unit]
    other = Unit.GEMM if unit != Unit.GEMM else Unit.VECTOR
    pushing = changed(legal_steps(target.hw)[name], pop=0, push=1 << other)
    with closing(VerilatorDevice(target.hw, STEADY, library=target.library)) as device:
        program, memory = directed(target.hw, [pushing] * (MAX_TOKENS + 1))
        _expect(device, program, memory, observer, registers.ErrorCode.TOKEN_OVERFLOW)


# -- registers and resets ---------------------------------------------------------------------


def run_registers(target: Target, rng: np.random.Generator) -> None:
    """Every register is written and read back; counters past the last one read 0."""
    held = {register.name: register.kept for register in registers.REGISTERS if register.kept}
    with closing(_open(target, STEADY)) as simulation:
        for name, mask in held.items():
            for value in (mask, 0, int(rng.integers(2**32)) & mask):
                simulation.write(_REGISTER[name], value)
                if (read := simulation.read(_REGISTER[name])) != value:
                    raise DeviceError(f"must read {value:#x}", field=name, value=f"{read:#x}")
        for register in registers.REGISTERS:
            simulation.read(register.offset)
            simulation.write(register.offset & 0xFFC, 0)
        end = registers.COUNTER_BASE + 8 * len(registers.COUNTERS)
        for address in (end, end + 4, 0x0FC, 0xFFC):
            simulation.write(address, 2**32 - 1)
            if simulation.read(address):
                raise DeviceError("must read 0", field=f"register {address:#x}")


def run_resets(target: Target, rng: np.random.Generator, observer: Observer, *, runs: int) -> None:
    """Soft resets at random moments and in each unit's work; the next program must be right."""
    for _ in range(runs):
        memory, (program, image) = random_memory(rng), random_program(target.hw, rng)
        _reset_in(target, memory, program, image, int(rng.integers(50, 2500)), rng, observer)
    program, image = directed(target.hw, slow_units(target.hw))
    for cycles in _MOMENTS:
        _reset_in(target, CLOGGED, program, image.copy(), cycles, rng, observer)


def _reset_in(
    target: Target,
    memory: MemoryModel,
    program: Program,
    image: Bytes,
    cycles: int,
    rng: np.random.Generator,
    observer: Observer,
) -> None:
    """Run for some cycles, reset, run another program and check it."""
    with closing(_open(target, memory)) as simulation:
        simulation.attach(image, MEMORY_BASE)
        _start(simulation, program)
        simulation.run(cycles)
        simulation.write(_REGISTER["SNAPSHOT"], 1)
        observer.reset(_read_counters(simulation), _planned(program))
        simulation.write(_REGISTER["CTRL"], registers.Ctrl.SOFT_RESET)
        _await_reset(simulation)
        again, data = random_program(target.hw, rng, instructions=12)
        expected = ReferenceDevice(target.hw).run(again, data).memory
        simulation.attach(data, MEMORY_BASE)
        _start(simulation, again)
        simulation.run(_LIMIT)
        if not np.array_equal(data, expected):
            raise DeviceError("a program after a soft reset must be right", field=target.hw.name)


def run_outside_memory(target: Target, observer: Observer) -> None:
    """A program that lies beyond MEM_SIZE."""
    program, image = directed(target.hw, [])
    with closing(_open(target, STEADY)) as simulation:
        simulation.attach(image, MEMORY_BASE)
        _start(simulation, program, memory_bytes=4096)
        simulation.run(_LIMIT)
        error = simulation.read(_REGISTER["ERROR"])
        status = DeviceStatusError(
            code=registers.ErrorCode(error & 0xFF),
            unit=registers.ErrorUnit(error >> 8 & 0xF),
            instruction=simulation.read(_REGISTER["ERROR_INSN"]),
        )
    if (status.unit, status.code) != (registers.ErrorUnit.FETCH, registers.ErrorCode.SETTINGS):
        raise status
    observer.status(status, None)


def _open(target: Target, memory: MemoryModel) -> Simulation:
    return Simulation(target.library, max_burst_beats=target.hw.axi_burst_beats, memory=memory)


def _start(simulation: Simulation, program: Program, *, memory_bytes: int = 0) -> None:
    for name, value in (
        ("INSN_BASE_LO", program.regions["insn"].offset),
        ("MEM_BASE_LO", MEMORY_BASE),
        ("MEM_SIZE_LO", memory_bytes or program.memory_bytes),
        ("INSN_COUNT", program.instruction_count),
        ("IRQ_STATUS", 3),
        ("IRQ_ENABLE", 3),
        ("CTRL", registers.Ctrl.START),
    ):
        simulation.write(_REGISTER[name], int(value))


def _await_reset(simulation: Simulation) -> None:
    for _ in range(2000):
        status = registers.Status(simulation.read(_REGISTER["STATUS"]))
        if not status & (registers.Status.RESETTING | registers.Status.BUSY):
            return
    raise DeviceError("a soft reset must end", field="STATUS", value=str(status))


def _read_counters(simulation: Simulation) -> dict[str, int]:
    return {
        name: simulation.read(registers.COUNTER_BASE + 8 * n)
        | simulation.read(registers.COUNTER_BASE + 8 * n + 4) << 32
        for n, (name, _) in enumerate(registers.COUNTERS)
    }


def _planned(program: Program) -> dict[str, int]:
    """Instructions of a program by unit."""
    opcodes = [encoded[0] & OPCODE_MASK for encoded in program.executed()]
    return {name: opcodes.count(unit + 1) for unit, name in enumerate(registers.UNIT_NAMES)}
