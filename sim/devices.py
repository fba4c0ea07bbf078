# SPDX-License-Identifier: Apache-2.0
"""Simulated devices and systems by name: what runs programs on this machine."""

from __future__ import annotations

from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.device import Device
from tilewright.sim.multicore.device import SimulatedSystem
from tilewright.sim.verilator.build import SYSTEM_FIDELITIES as FIDELITIES

REFERENCE: Final = "reference"
"""The NumPy model of the instruction set: data, and no time."""

CXXRTL: Final = "cxxrtl"
"""The RTL in a second, independent simulator."""

VERILATED: Final = (Fidelity.RTL, Fidelity.DPI, Fidelity.TIMING)

DEVICES: Final = (*VERILATED, Fidelity.TWIN, REFERENCE, CXXRTL)
"""Names of the simulated devices."""


def open_simulated(name: str, hw: HwConfig, memory: MemoryModel) -> Device:
    """Open a simulated device; whoever opens it closes it."""
    if name in VERILATED:
        from tilewright.sim.verilator.device import VerilatorDevice  # noqa: PLC0415  (one of many)

        return VerilatorDevice(hw, memory, fidelity=Fidelity(name))
    if name == Fidelity.TWIN:
        from tilewright.sim.twin.agreement import require_agreement  # noqa: PLC0415  (one of many)
        from tilewright.sim.twin.device import TwinDevice  # noqa: PLC0415  (one of many)

        require_agreement(hw, memory)
        return TwinDevice(hw, memory)
    if name == REFERENCE:
        from tilewright.sim.reference.device import ReferenceDevice  # noqa: PLC0415  (one of many)

        return ReferenceDevice(hw)
    if name == CXXRTL:
        from tilewright.sim.verilator.cxxrtl import CxxrtlDevice  # noqa: PLC0415  (one of many)

        return CxxrtlDevice(hw, memory)
    raise ConfigError(
        "no simulated device of that name",
        field="device",
        value=name,
        remedy=choices(name, DEVICES),
    )


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
