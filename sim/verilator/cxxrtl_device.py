# SPDX-License-Identifier: Apache-2.0
"""`CxxrtlDevice`: the whole RTL in a second simulator, to check the first one."""

from __future__ import annotations

from pathlib import Path

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.verilator.cxxrtl_build import build_cxxrtl
from tilewright.sim.verilator.device import DEFAULT_WATCHDOG_CYCLES, VerilatorDevice


class CxxrtlDevice(VerilatorDevice):
    """A `Device` that runs the RTL as Yosys and CXXRTL understand it.

    Results, error statuses and counters equal those of `VerilatorDevice`, which drives its library
    through the same interface. It is some 40 times slower and records no waves.
    """

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
        library: Path | None = None,
    ) -> None:
        super().__init__(
            hw,
            memory,
            watchdog_cycles=watchdog_cycles,
            library=library or build_cxxrtl(hw),
        )
