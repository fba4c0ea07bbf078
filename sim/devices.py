# SPDX-License-Identifier: Apache-2.0
"""Simulated devices by name: what runs a program on this machine."""

from __future__ import annotations

from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.device import Device

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
        from tilewright.sim.verilator.cxxrtl_device import CxxrtlDevice  # noqa: PLC0415  (one of many)

        return CxxrtlDevice(hw, memory)
    raise ConfigError(
        "no simulated device of that name",
        field="device",
        value=name,
        remedy=choices(name, DEVICES),
    )
