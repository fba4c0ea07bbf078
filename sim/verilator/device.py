# SPDX-License-Identifier: Apache-2.0
"""`VerilatorDevice`: runs programs on the whole RTL, which Verilator simulates in this process."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError
from tilewright.host.common.whole_file import MARK, refuse_foreign
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.geometry import geometry_of
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes, Counters, RunResult
from tilewright.host.runtime.driver import (
    DEFAULT_WATCHDOG_CYCLES,
    MAX_WATCHDOG_CYCLES,
    Driver,
    check_run,
)
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.elaboration import GENERAL
from tilewright.sim.verilator.library import (
    AxiResponseCode,
    Simulation,
    SimulationError,
    StopReason,
)
from tilewright.sim.verilator.simulated import (
    DEFAULT_MAX_CYCLES,
    MEMORY_BASE,
    SLICE_CYCLES,
    Simulated,
)

__all__ = ["DEFAULT_MAX_CYCLES", "DEFAULT_WATCHDOG_CYCLES", "MEMORY_BASE", "VerilatorDevice"]

_RESET_POLLS: Final = 1000
_FST_SKIP: Final = b"\xff"
"""Type of a block without meaning (GTKWave, ``FST_BL_SKIP`` of fstapi.h); its length follows."""


class VerilatorDevice(Simulated[Simulation]):
    """A `Device` that runs the verilated RTL.

    Equal programs and memory images give equal counters, whatever ran before.
    """

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        waves: Path | None = None,
        fidelity: Fidelity = Fidelity.RTL,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
        max_seconds: float = 0,
        library: Path | None = None,
        initial_seed: int = 0,
    ) -> None:
        if not 0 <= watchdog_cycles <= MAX_WATCHDOG_CYCLES:
            raise ConfigError(
                "must be from 0 to 2^32 - 1", field="watchdog_cycles", value=watchdog_cycles
            )
        self._hw = hw
        self._watchdog_cycles = watchdog_cycles
        self._max_seconds = max_seconds
        self._initial_seed = initial_seed
        self._given_up = threading.Event()
        self._library = library or build_model(hw, waves=waves is not None, fidelity=fidelity)
        self._waves: Path | None = None
        self._sizes = geometry_of(hw) if fidelity in GENERAL else None
        super().__init__(memory, fidelity)
        if waves is not None:
            try:
                self._open_waves(waves)
            except BaseException:
                self.close()
                raise

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        return self._hw

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH (see `Device.run`).

        After any error the device is reset and can run again.
        """
        check_run(self._hw, program, memory, max_cycles)
        limit = max_cycles or DEFAULT_MAX_CYCLES
        image = self._image_of(memory)
        self._given_up.clear()
        started = time.perf_counter()
        with self._attached(image) as simulation:
            driver = Driver(simulation)
            driver.start(program, MEMORY_BASE, watchdog_cycles=self._watchdog_cycles)
            self._wait(simulation, limit)
            counters = driver.finish()
        return RunResult(
            memory=image, counters=counters, host_seconds=time.perf_counter() - started
        )

    def counters_after(self, program: Program, memory: Bytes, cycles: int) -> Counters:
        """Counters a few clock cycles after the first ``cycles`` of a run, which is then given up.

        Their ``cycles`` says when exactly the snapshot was taken.
        """
        simulation = self.simulation
        program.check(self._hw)
        image: Bytes = np.array(memory, dtype=np.uint8, order="C", copy=True)
        with self._attached(image):
            driver = Driver(simulation)
            driver.start(program, MEMORY_BASE, watchdog_cycles=self._watchdog_cycles)
            simulation.run(max(1, cycles))
            counters = driver.snapshot()
            self._hard_reset(simulation)
        return counters

    def _image_of(self, memory: Bytes) -> Bytes:
        """The bytes that a run works on; without data, no beat that it writes has a strobe."""
        if not self._fidelity.computes and memory.flags.c_contiguous and memory.flags.writeable:
            return memory
        return np.array(memory, dtype=np.uint8, order="C", copy=True)

    def close(self) -> None:
        """Release the simulation and complete the wave file. Idempotent."""
        opened = self._simulation is not None
        super().close()
        if opened and self._waves is not None:
            _mark_waves(self._waves)

    def give_up(self) -> None:
        """End the run that is under way in another thread, if any, at its next slice."""
        self._given_up.set()

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
        self.simulation.set_fault(
            MEMORY_BASE + offset, size, response=response, on_reads=on_reads, on_writes=on_writes
        )

    @property
    def total_cycles(self) -> int:
        """Clock cycles simulated, register accesses included."""
        return self.simulation.total_cycles

    def _create(self) -> Simulation:
        return Simulation(
            self._library,
            max_burst_beats=self._hw.axi_burst_beats,
            memory=self._memory,
            sizes=self._sizes,
            initial_seed=self._initial_seed,
        )

    def _check_identity(self) -> None:
        Driver(self.simulation).check_identity(self._hw)

    def _open_waves(self, path: Path) -> None:
        require_writable(path)
        self.simulation.open_waves(path)
        self._waves = path

    def _wait(self, simulation: Simulation, limit: int) -> None:
        used = 0
        deadline = time.monotonic() + (self._max_seconds or float("inf"))
        while used < limit:
            outcome = simulation.run(min(SLICE_CYCLES, limit - used))
            if outcome.reason is StopReason.INTERRUPT:
                return
            used += outcome.cycles
            if self._given_up.is_set():
                raise DeviceError("the run was given up", field="device")
            if time.monotonic() > deadline:
                raise DeviceTimeoutError(
                    f"the program must finish within {self._max_seconds:g} seconds",
                    field="max_seconds",
                    remedy="raise the limit or look at the program",
                )
        raise DeviceTimeoutError(
            f"the program must finish within {limit} cycles",
            field="max_cycles",
            remedy="raise the limit or look at the program",
        )

    def _recover(self, simulation: Simulation, error: BaseException) -> None:
        if isinstance(error, DeviceStatusError):
            self._soft_reset(simulation)
        else:
            super()._recover(simulation, error)

    def _soft_reset(self, simulation: Simulation) -> None:
        """Soft reset; the hardware reset when it does not end or the design fails in it."""
        driver = Driver(simulation)
        try:
            driver.request_reset()
            for _ in range(_RESET_POLLS):
                if driver.was_reset():
                    return
        except SimulationError:
            self._restart()
        else:
            self._hard_reset(simulation)


def _mark_waves(path: Path) -> None:
    """Add a block that readers of FST skip, with the mark of what a later run may replace."""
    if path.is_file():
        block = MARK.encode()
        with path.open("ab") as file:
            file.write(_FST_SKIP + (8 + len(block)).to_bytes(8, "big") + block)


def require_writable(path: Path) -> None:
    """Make the folder of a wave file, and try to write the file."""
    try:
        refuse_foreign(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise DeviceError(
            f"the wave file must be writable ({getattr(error, 'strerror', None) or error})",
            field="waves",
            value=str(path),
            remedy="name a file in a folder of your own",
        ) from error
