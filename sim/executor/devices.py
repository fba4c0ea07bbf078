# SPDX-License-Identifier: Apache-2.0
"""Simulated devices that a worker keeps open from job to job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.rtl_variant import rtl_manifest

_P = ParamSpec("_P")
_T = TypeVar("_T")

KEPT_DEVICES: Final = 8
"""Simulated devices that a worker keeps open; the least recently used one is closed first."""


def run_on_device(
    hw: HwConfig,
    memory: MemoryModel,
    function: Callable[Concatenate[VerilatorDevice, _P], _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Call ``function(device, ...)`` with this process's device for ``hw`` and ``memory``.

    The device stays open for later jobs (at most `KEPT_DEVICES`).
    """
    return function(_DEVICES.get(hw, memory), *args, **kwargs)


def run_on_fidelity(
    fidelity: Fidelity,
    hw: HwConfig,
    memory: MemoryModel,
    function: Callable[Concatenate[VerilatorDevice, _P], _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """`run_on_device` with another fidelity than ``rtl``."""
    return function(_DEVICES.get(hw, memory, fidelity), *args, **kwargs)


class DeviceCache:
    """Simulated devices by configuration, memory, fidelity and RTL, least recently used first."""

    def __init__(self, capacity: int = KEPT_DEVICES) -> None:
        self._capacity = capacity
        self._devices: OrderedDict[tuple[int, MemoryModel, Fidelity, Path], VerilatorDevice] = (
            OrderedDict()
        )

    def get(
        self, hw: HwConfig, memory: MemoryModel, fidelity: Fidelity = Fidelity.RTL
    ) -> VerilatorDevice:
        """The device, created if there is none; its AXI ports carry no assertions (speed)."""
        key = (hw.config_hash, memory, fidelity, rtl_manifest())
        device = self._devices.get(key)
        if device is None:
            library = build_model(hw, jobs=1, checks=False, fidelity=fidelity)
            device = VerilatorDevice(hw, memory, fidelity=fidelity, library=library)
            self._devices[key] = device
            if len(self._devices) > self._capacity:
                self._devices.popitem(last=False)[1].close()
        self._devices.move_to_end(key)
        return device

    def close(self) -> None:
        """Close every device."""
        while self._devices:
            self._devices.popitem()[1].close()


_DEVICES: Final = DeviceCache()
