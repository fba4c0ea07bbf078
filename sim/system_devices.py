# SPDX-License-Identifier: Apache-2.0
"""Simulated systems by name: what runs programs on several cores on this machine."""

from __future__ import annotations

from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.system_config import SystemConfig
from tilewright.sim.multicore.device import VerilatorSystem

SYSTEM_DEVICES: Final = (Fidelity.RTL, Fidelity.TIMING)
"""Names of the simulated systems."""

WITH_DATA: Final = (Fidelity.RTL,)
"""Those whose memories hold results; the others count cycles alone."""


def open_system(name: str, system: SystemConfig, memory: MemoryModel) -> VerilatorSystem:
    """Open a simulated system; whoever opens it closes it.

    Args:
        name: one of `SYSTEM_DEVICES`.
        system: it is built when the cache does not hold it.
        memory: DRAM timing of each memory port.

    Raises:
        ConfigError: no such system.
        BuildError: it cannot be built.
        ToolError: a tool is missing.
    """
    if name in SYSTEM_DEVICES:
        return VerilatorSystem(system, memory, fidelity=Fidelity(name))
    raise ConfigError(
        "no simulated system of that name",
        field="device",
        value=name,
        remedy=choices(name, SYSTEM_DEVICES),
    )
