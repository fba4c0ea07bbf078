# SPDX-License-Identifier: Apache-2.0
"""`VerilatorDevice`: the whole RTL, simulated in this process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.board import MemoryModel
from tilewright.host.device import Bytes, Counters, RunResult
from tilewright.host.errors import ConfigError, DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.hwconfig import ISA_VERSION, HwConfig
from tilewright.host.program import Program
from tilewright.host.registers import (
    COUNTER_BASE,
    COUNTERS,
    DEVICE_ID,
    REGISTERS,
    UNIT_NAMES,
    Ctrl,
    ErrorCode,
    ErrorUnit,
    Status,
    WaitState,
)
from tilewright.sim.build import build_model
from tilewright.sim.fidelity import Fidelity, geometry
from tilewright.sim.library import AxiResponseCode, Simulation, SimulationError, StopReason
from tilewright.sim.status import DeviceStatusError

MEMORY_BASE: Final = 0x1000_0000
"""Physical address of the program's memory: not 0, so that a lost MEM_BASE shows."""

DEFAULT_WATCHDOG_CYCLES: Final = 1_000_000
DEFAULT_MAX_CYCLES: Final = 1_000_000_000

_SLICE_CYCLES: Final = 2_000_000
"""Cycles between returns to Python, where Ctrl-C is noticed."""

_RESET_POLLS: Final = 1000
_INTERRUPTS: Final = 0b11
_ADDRESS: Final = {register.name: register.offset for register in REGISTERS}
_WORD: Final = 0xFFFF_FFFF


class VerilatorDevice:
    """A `Device` that runs the verilated RTL.

    Equal programs and memory images give equal counters, whatever ran before.

    Args:
        hw: configuration; it is built when the cache does not hold it.
        memory: DRAM timing.
        waves: FST file that records everything until `close`; slow.
        exact_mac: simulate the MAC array as a device gets it, not its equivalent fast form.
        fidelity: what is simulated. ``timing`` counts cycles alone: a run returns the memory
            image that it was given.
        watchdog_cycles: cycles without progress until the accelerator gives up; 0: never.
        library: simulate this library instead of building one.

    Raises:
        BuildError: the model cannot be built.
        ToolError: a tool is missing.
        DeviceError: the model is not the accelerator that ``hw`` describes.
    """

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        waves: Path | None = None,
        exact_mac: bool = False,
        fidelity: Fidelity = Fidelity.RTL,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
        library: Path | None = None,
    ) -> None:
        if not 0 <= watchdog_cycles <= _WORD:
            raise ConfigError(
                "must be from 0 to 2^32 - 1", field="watchdog_cycles", value=watchdog_cycles
            )
        self._hw = hw
        self._memory = memory
        self._watchdog_cycles = watchdog_cycles
        self._fidelity = fidelity
        self._library = library or build_model(
            hw, waves=waves is not None, exact_mac=exact_mac, fidelity=fidelity
        )
        self._simulation: Simulation | None = self._create()
        try:
            self._check_identity()
            if waves is not None:
                self._open_waves(waves)
        except BaseException:
            self.close()
            raise

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        return self._hw

    @property
    def fidelity(self) -> Fidelity:
        """What is simulated."""
        return self._fidelity

    @property
    def memory(self) -> MemoryModel:
        """The DRAM timing."""
        return self._memory

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH (see `Device.run`).

        After any error the device is reset and can run again.

        Raises:
            ProgramError: the program was built for another configuration, or sizes differ.
            DeviceStatusError: the accelerator stopped with an error status.
            SimulationError: the design broke an AXI rule or an assertion fired.
            DeviceTimeoutError: ``max_cycles`` (default `DEFAULT_MAX_CYCLES`) went by.
        """
        simulation = self._open_simulation()
        program.check(self._hw)
        if memory.dtype != np.uint8 or memory.shape != (program.memory_bytes,):
            raise ProgramError(
                f"memory must be a uint8 array of {program.memory_bytes} bytes",
                field="memory",
                value=f"{memory.dtype}{list(memory.shape)}",
                remedy="start from Program.image()",
            )
        if max_cycles < 0:
            raise ProgramError("must not be negative", field="max_cycles", value=max_cycles)
        limit = max_cycles or DEFAULT_MAX_CYCLES
        image = self._image_of(memory)
        started = time.perf_counter()
        try:
            simulation.attach(image, MEMORY_BASE)
            self._start(simulation, program)
            self._wait(simulation, limit)
            counters = self._finish(simulation)
        except DeviceStatusError:
            self._soft_reset(simulation)
            raise
        except SimulationError:
            self._restart()
            raise
        except BaseException:  # a time-out, or Ctrl-C between two slices
            self._hard_reset(simulation)
            raise
        finally:
            if self._simulation is simulation:
                simulation.detach()
        return RunResult(
            memory=image, counters=counters, host_seconds=time.perf_counter() - started
        )

    def counters_after(self, program: Program, memory: Bytes, cycles: int) -> Counters:
        """Counters a few clock cycles after the first ``cycles`` of a run, which is then given up.

        Their ``cycles`` says when exactly the snapshot was taken.
        """
        simulation = self._open_simulation()
        program.check(self._hw)
        image: Bytes = np.array(memory, dtype=np.uint8, order="C", copy=True)
        try:
            simulation.attach(image, MEMORY_BASE)
            self._start(simulation, program)
            simulation.run(max(1, cycles))
            return self._snapshot(simulation)
        finally:
            self._hard_reset(simulation)
            simulation.detach()

    def _image_of(self, memory: Bytes) -> Bytes:
        """The bytes that a run works on; without data, no beat that it writes has a strobe."""
        if not self._fidelity.computes and memory.flags.c_contiguous and memory.flags.writeable:
            return memory
        return np.array(memory, dtype=np.uint8, order="C", copy=True)

    def close(self) -> None:
        """Release the simulation and complete the wave file. Idempotent."""
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    def inject_fault(
        self,
        offset: int,
        size: int,
        *,
        response: AxiResponseCode = AxiResponseCode.SLVERR,
        on_reads: bool = True,
        on_writes: bool = True,
    ) -> None:
        """Answer a range of the program's memory with a bus error until size 0 ends it."""
        self._open_simulation().set_fault(
            MEMORY_BASE + offset, size, response=response, on_reads=on_reads, on_writes=on_writes
        )

    @property
    def total_cycles(self) -> int:
        """Clock cycles simulated, register accesses included."""
        return self._open_simulation().total_cycles

    def _create(self) -> Simulation:
        return Simulation(
            self._library,
            max_burst_beats=self._hw.axi_burst_beats,
            memory=self._memory,
            sizes=geometry(self._hw) if self._fidelity.general else None,
        )

    def _open_simulation(self) -> Simulation:
        if self._simulation is None:
            raise DeviceError("the device is closed", field="device", remedy="create a new one")
        return self._simulation

    def _open_waves(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DeviceError(
                "the wave file must be writable", field="waves", value=str(path)
            ) from error
        self._open_simulation().open_waves(path)

    def _check_identity(self) -> None:
        simulation = self._open_simulation()
        for name, expected in (
            ("ID", DEVICE_ID),
            ("ISA", ISA_VERSION),
            ("CONFIG_HASH", self._hw.config_hash),
        ):
            value = simulation.read(_ADDRESS[name])
            if value != expected:
                raise DeviceError(
                    f"register {name} must read {expected:#010x}",
                    field=self._hw.name,
                    value=f"{value:#010x}",
                    remedy="use the hardware configuration that the device was built for",
                )

    def _start(self, simulation: Simulation, program: Program) -> None:
        def write64(name: str, value: int) -> None:
            simulation.write(_ADDRESS[f"{name}_LO"], value & _WORD)
            simulation.write(_ADDRESS[f"{name}_HI"], value >> 32)

        write64("INSN_BASE", program.regions["insn"].offset)
        write64("MEM_BASE", MEMORY_BASE)
        write64("MEM_SIZE", program.memory_bytes)
        simulation.write(_ADDRESS["INSN_COUNT"], program.instruction_count)
        simulation.write(_ADDRESS["WATCHDOG"], self._watchdog_cycles)
        simulation.write(_ADDRESS["IRQ_STATUS"], _INTERRUPTS)
        simulation.write(_ADDRESS["IRQ_ENABLE"], _INTERRUPTS)
        simulation.write(_ADDRESS["CTRL"], Ctrl.START)

    def _wait(self, simulation: Simulation, limit: int) -> None:
        used = 0
        while used < limit:
            outcome = simulation.run(min(_SLICE_CYCLES, limit - used))
            if outcome.reason is StopReason.INTERRUPT:
                return
            used += outcome.cycles
        raise DeviceTimeoutError(
            f"the program must finish within {limit} cycles",
            field="max_cycles",
            remedy="raise the limit or look at the program",
        )

    def _finish(self, simulation: Simulation) -> Counters:
        """Acknowledge the interrupt; raise the error status or read the counters."""
        simulation.write(_ADDRESS["IRQ_STATUS"], _INTERRUPTS)
        status = Status(simulation.read(_ADDRESS["STATUS"]))
        if status & Status.ERROR:
            raise self._status_error(simulation)
        if not status & Status.DONE:
            raise DeviceError(
                "the interrupt must mean done or error", field="STATUS", value=int(status)
            )
        return self._snapshot(simulation)

    @staticmethod
    def _snapshot(simulation: Simulation) -> Counters:
        simulation.write(_ADDRESS["SNAPSHOT"], 1)
        values = {}
        for index, (name, _) in enumerate(COUNTERS):
            address = COUNTER_BASE + 8 * index
            values[name] = simulation.read(address) | simulation.read(address + 4) << 32
        return Counters(values=values)

    def _status_error(self, simulation: Simulation) -> DeviceError:
        error = simulation.read(_ADDRESS["ERROR"])
        instruction = simulation.read(_ADDRESS["ERROR_INSN"])
        waits = simulation.read(_ADDRESS["WAIT_STATE"])
        try:
            return DeviceStatusError(
                code=ErrorCode(error & 0xFF),
                unit=ErrorUnit(error >> 8 & 0xF),
                instruction=instruction,
                wait_states=tuple(
                    WaitState(waits >> 4 * unit & 0xF) for unit in range(len(UNIT_NAMES))
                ),
            )
        except ValueError as unknown:
            return DeviceError(
                f"the error registers must hold known codes ({unknown})",
                field="ERROR, WAIT_STATE",
                value=f"{error:#x}, {waits:#x}",
            )

    def _soft_reset(self, simulation: Simulation) -> None:
        """Soft reset; the hardware reset when it does not end or the design fails in it."""
        try:
            simulation.write(_ADDRESS["CTRL"], Ctrl.SOFT_RESET)
            for _ in range(_RESET_POLLS):
                status = Status(simulation.read(_ADDRESS["STATUS"]))
                if not status & (Status.RESETTING | Status.BUSY | Status.ERROR):
                    return
        except SimulationError:
            self._restart()
        else:
            self._hard_reset(simulation)

    def _hard_reset(self, simulation: Simulation) -> None:
        try:
            simulation.reset()
        except SimulationError:
            self._restart()

    def _restart(self) -> None:
        """Replace a simulation that cannot go on (a wave file ends here)."""
        if self._simulation is not None:
            self._simulation.close()
        self._simulation = self._create()
