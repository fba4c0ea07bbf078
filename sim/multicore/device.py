# SPDX-License-Identifier: Apache-2.0
"""`VerilatorSystem`: runs programs on the RTL of a system, which Verilator simulates here."""

from __future__ import annotations

from pathlib import Path

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.system_config import SystemConfig
from tilewright.sim.multicore.simulated import SimulatedSystem
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.library import Simulation


class VerilatorSystem(SimulatedSystem[Simulation]):
    """A `SystemDevice` that runs the verilated RTL of a system.

    Args:
        system: it is built when the cache does not hold it.
        memory: DRAM timing of each port.
        fidelity: what is simulated. ``timing`` counts cycles alone: a run returns the memory images
            that it was given.
        library: simulate this library instead of building one.
        initial_seed: registers and memories hold random bits of this seed before the reset, as on
            a device; 0: zeros.

    Raises:
        BuildError: the model cannot be built.
        ToolError: a tool is missing.
        DeviceError: the model is not the system that is described.
    """

    def __init__(
        self,
        system: SystemConfig,
        memory: MemoryModel,
        *,
        fidelity: Fidelity = Fidelity.RTL,
        library: Path | None = None,
        initial_seed: int = 0,
    ) -> None:
        self._library = library or build_model(system, fidelity=fidelity)
        self._initial_seed = initial_seed
        super().__init__(system, memory, fidelity)

    def _create(self) -> Simulation:
        return Simulation(
            self._library,
            max_burst_beats=max(core.hw.axi_burst_beats for core in self._system.cores),
            memory=self._memory,
            initial_seed=self._initial_seed,
        )
