# SPDX-License-Identifier: Apache-2.0
"""What tests of the simulated RTL share: a memory with back-pressure, a host at register level."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTER_BASE, COUNTERS, REGISTERS, Ctrl, Status
from tilewright.host.runtime.device import Bytes
from tilewright.sim.verilator.device import MEMORY_BASE
from tilewright.sim.verilator.library import Simulation, StopReason

IDEAL: Final = load_memory("ideal")
ROUGH: Final = MemoryModel(
    name="rough",
    read_latency=37,
    write_latency=11,
    read_bytes_per_cycle=5.5,
    write_bytes_per_cycle=3,
    shared_bytes_per_cycle=6,
    max_reads=3,
    max_writes=2,
    stall_percent=30,
    stall_seed=5,
)
"""Back-pressure on every channel, and bursts that wait for each other."""


def any_memory(rng: np.random.Generator, *, stalls: bool = False) -> MemoryModel:
    """Any timing: slow, fast, narrow, shared, shallow; stalling, too, which the twin refuses."""
    return MemoryModel(
        name="random",
        read_latency=int(rng.integers(1, 80)),
        write_latency=int(rng.integers(1, 60)),
        read_bytes_per_cycle=float(rng.choice([0.5, 1.5, 4, 8, 64])),
        write_bytes_per_cycle=float(rng.choice([0.5, 1.5, 4, 8, 64])),
        shared_bytes_per_cycle=float(rng.choice([0, 0, 1, 6, 12, 15.75])),
        max_reads=int(rng.integers(1, 17)),
        max_writes=int(rng.integers(1, 17)),
        stall_percent=int(rng.choice([0, 0, 20, 70])) if stalls else 0,
        stall_seed=int(rng.integers(1, 2**32)),
    )


STORED: Final = {register.name: register.kept for register in REGISTERS if register.kept}
"""Registers that keep what is written, with the bits that they have."""

RESET: Final = {register.name: register.reset for register in REGISTERS if register.kept}
"""What the same registers have after a hardware reset."""

MAX_CYCLES: Final = 100_000
"""A program of these tests needs less than a tenth of it."""

_ADDRESS: Final = {register.name: register.offset for register in REGISTERS}


class Host:
    """Drives a simulation by its registers, without the checks of `VerilatorDevice`."""

    def __init__(
        self,
        library: Path,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        watchdog_cycles: int = 3000,
        initial_seed: int = 0,
    ) -> None:
        self.simulation = Simulation(
            library,
            max_burst_beats=hw.axi_burst_beats,
            memory=memory,
            initial_seed=initial_seed,
        )
        self._watchdog_cycles = watchdog_cycles
        self._image: Bytes = np.zeros(0, dtype=np.uint8)

    def read(self, name: str) -> int:
        """A register."""
        return self.at(_ADDRESS[name])

    def at(self, address: int) -> int:
        """The word at an address."""
        return self.simulation.read(address)

    def write(self, name: str, value: int) -> None:
        """Write a register."""
        self.simulation.write(_ADDRESS[name], value)

    def attach(self, image: Bytes) -> None:
        """Make a copy of an image the device's memory."""
        self._image = image.copy()
        self.simulation.attach(self._image, MEMORY_BASE)

    def configure(self, program: Program, *, interrupts: int = 0b11) -> None:
        """Write every register that a run needs, but for the start."""
        for name, value in (
            ("INSN_BASE", program.regions["insn"].offset),
            ("MEM_BASE", MEMORY_BASE),
            ("MEM_SIZE", program.memory_bytes),
        ):
            self.write(f"{name}_LO", value & 0xFFFF_FFFF)
            self.write(f"{name}_HI", value >> 32)
        self.write("INSN_COUNT", program.instruction_count)
        self.write("WATCHDOG", self._watchdog_cycles)
        self.write("IRQ_STATUS", 0b11)
        self.write("IRQ_ENABLE", interrupts)

    def start(self, program: Program, image: Bytes, *, interrupts: int = 0b11) -> None:
        """Write all registers, attach the program's memory and start."""
        self.configure(program, interrupts=interrupts)
        self.attach(image)  # the memory's stalls begin anew here: equal runs take equal cycles
        self.write("CTRL", Ctrl.START)

    def run(self, cycles: int, *, clear: bool = False) -> bool:
        """Clock; whether the interrupt came."""
        if clear:
            self.write("IRQ_STATUS", 0b11)
        return self.simulation.run(cycles).reason is StopReason.INTERRUPT

    def finish(self, expected: Bytes, what: str = "") -> None:
        """Clock to the end of a run and compare the memory."""
        assert self.run(MAX_CYCLES), f"no interrupt {what}"
        assert self.read("STATUS") == Status.DONE, f"{self.read('ERROR'):#x} {what}"
        self.write("IRQ_STATUS", 0b11)
        assert np.array_equal(self._image, expected), what

    def counters(self, *, snapshot: bool = True) -> Sequence[int]:
        """Every word of the counters."""
        if snapshot:
            self.write("SNAPSHOT", 1)
        return [self.at(COUNTER_BASE + 4 * word) for word in range(2 * len(COUNTERS))]

    def soft_reset(self) -> None:
        """Soft reset; it has ended on return."""
        self.write("CTRL", Ctrl.SOFT_RESET)
        for _ in range(1000):
            status = self.read("STATUS")
            if not status & Status.RESETTING:
                assert status == 0, f"status {status} after a reset"
                return
        raise AssertionError("the reset does not end")

    def close(self) -> None:
        """End the simulation."""
        self.simulation.close()
