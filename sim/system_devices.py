# SPDX-License-Identifier: Apache-2.0
"""Simulated systems by name: what runs programs on several cores on this machine."""

from __future__ import annotations

from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.system_config import SystemConfig
from tilewright.sim.multicore.device import SimulatedSystem
from tilewright.sim.verilator.build import SYSTEM_FIDELITIES as FIDELITIES

SYSTEM_DEVICES: Final = (*FIDELITIES, Fidelity.TWIN)
"""Names of the simulated systems."""

WITH_DATA: Final = (Fidelity.RTL,)
"""Those whose memories hold results; the others count cycles alone."""


def open_system(name: str, system: SystemConfig, memory: MemoryModel) -> SimulatedSystem[Any]:
    """Open a simulated system; whoever opens it closes it."""
    if name in FIDELITIES:
        from tilewright.sim.multicore.device import VerilatorSystem  # noqa: PLC0415  (one of many)

        return VerilatorSystem(system, memory, fidelity=Fidelity(name))
    if name == Fidelity.TWIN:
        from tilewright.sim.twin.system_device import TwinSystem  # noqa: PLC0415  (one of many)

        return TwinSystem(system, memory, outputs=False)
    raise ConfigError(
        "no simulated system of that name",
        field="device",
        value=name,
        remedy=choices(name, SYSTEM_DEVICES),
    )
