# SPDX-License-Identifier: Apache-2.0
"""`Simulated`: what devices of one core and of a system share over their simulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.runtime.driver import RegisterPort
from tilewright.sim.verilator.library import RunOutcome, SimulationError

MEMORY_BASE: Final = 0x1000_0000
"""Physical address of a run's memory: not 0, so that a lost MEM_BASE shows."""

DEFAULT_MAX_CYCLES: Final = 1_000_000_000

SLICE_CYCLES: Final = 2_000_000
"""Cycles between returns to Python, where Ctrl-C and other ends of a run are noticed."""


class AnySimulation(RegisterPort, Protocol):
    """What a device needs of a simulation (see `sim.verilator.library.Simulation`)."""

    @property
    def total_cycles(self) -> int:
        """Clock cycles since construction."""
        ...

    def run(self, max_cycles: int, /) -> RunOutcome:
        """Clock until the interrupt rises or the limit is reached."""
        ...

    def set_timing(self, memory: MemoryModel, /) -> None:
        """Replace the DRAM timing while the design is idle."""
        ...

    def attach(self, image: npt.NDArray[np.uint8], base: int, /) -> None:
        """Map a contiguous uint8 array at a physical address."""
        ...

    def detach(self) -> None:
        """Unmap the memory."""
        ...

    def reset(self) -> None:
        """Assert the hardware reset."""
        ...

    def close(self) -> None:
        """Destroy the simulation. Idempotent."""
        ...


Kind = TypeVar("Kind", bound=AnySimulation)


class Simulated(ABC, Generic[Kind]):
    """A simulation that is opened once, and replaced when it cannot go on.

    Args:
        memory: DRAM timing.
        fidelity: how it is simulated.

    Raises:
        DeviceError: the simulation is not the hardware that is described.
    """

    def __init__(self, memory: MemoryModel, fidelity: Fidelity) -> None:
        self._memory = memory
        self._fidelity = fidelity
        self._simulation: Kind | None = self._create()
        try:
            self._check_identity()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _create(self) -> Kind:
        """A simulation out of reset."""

    @abstractmethod
    def _check_identity(self) -> None:
        """Refuse a simulation of other hardware."""

    @property
    def fidelity(self) -> Fidelity:
        """What is simulated."""
        return self._fidelity

    @property
    def memory(self) -> MemoryModel:
        """The DRAM timing of each port."""
        return self._memory

    @property
    def simulation(self) -> Kind:
        """The simulation itself, for what the protocol does not cover.

        Raises:
            DeviceError: the device is closed.
        """
        if self._simulation is None:
            raise DeviceError("the device is closed", field="device", remedy="create a new one")
        return self._simulation

    def close(self) -> None:
        """Release the simulation. Idempotent."""
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    @contextmanager
    def _attached(self, image: npt.NDArray[np.uint8]) -> Iterator[Kind]:
        """The simulation with the memory of a run, in a state to run again after any error."""
        simulation = self.simulation
        try:
            simulation.set_timing(self._memory)  # no beat of an earlier run still occupies it
            simulation.attach(image, MEMORY_BASE)
            yield simulation
        except BaseException as error:
            self._recover(simulation, error)
            raise
        finally:
            if self._simulation is simulation:
                simulation.detach()

    def _recover(self, simulation: Kind, error: BaseException) -> None:
        """Make it ready again after an error: its own, a time-out, or Ctrl-C between two slices."""
        if isinstance(error, SimulationError):
            self._restart()
        else:
            self._hard_reset(simulation)

    def _hard_reset(self, simulation: Kind) -> None:
        try:
            simulation.reset()
        except SimulationError:
            self._restart()

    def _restart(self) -> None:
        """Replace a simulation that cannot go on (a wave file ends here)."""
        if self._simulation is not None:
            self._simulation.close()
        self._simulation = self._create()
