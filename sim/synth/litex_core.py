# SPDX-License-Identifier: Apache-2.0
"""The accelerator as a module of LiteX: an AXI4-Lite slave, an AXI4 master and an interrupt.

In a LiteX SoC::

    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.synth.litex_core import litex_core

    core = litex_core(load_hwconfig("tiny-4x4"), platform)
    self.submodules.tilewright = core
    self.bus.add_slave("tilewright", core.bus, SoCRegion(origin=0x9000_0000, size=4096))
    self.dma_bus.add_master("tilewright", core.dma)
"""

from __future__ import annotations

import re
from typing import Any, Final

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.core_wrapper import Port, top_ports
from tilewright.sim.tools.build_cache import source_text
from tilewright.sim.tools.yosys import rtl_parameters
from tilewright.sim.verilator.build import TOP, read_manifest

_CHANNEL: Final = re.compile(r"(s_axil|m_axi)_(aw|ar|w|r|b)(\w+)")
_INSTALL: Final = "pip install litex==2024.12 migen==0.10.0 (part of tilewright[dev])"


def litex_core(hw: HwConfig, platform: Any = None) -> Any:
    """The accelerator of a configuration in the clock domain ``sys``."""
    try:
        from litex.gen import LiteXModule  # noqa: PLC0415  (an optional package)
        from litex.soc.interconnect.axi import (  # noqa: PLC0415  (the same)
            AXIInterface,
            AXILiteInterface,
        )
        from migen import ClockSignal, Instance, ResetSignal, Signal  # noqa: PLC0415  (the same)
    except ImportError as error:
        raise ToolError(
            f"LiteX is not installed ({error})", field="litex", remedy=_INSTALL
        ) from error
    files = read_manifest()
    parameters = rtl_parameters(hw)
    core = LiteXModule()
    core.bus = AXILiteInterface(data_width=32, address_width=12)
    core.dma = AXIInterface(data_width=hw.axi_data_bits, address_width=40, id_width=1)
    core.irq = Signal()
    single = {"aclk": ClockSignal(), "aresetn": ~ResetSignal(), "irq": core.irq}
    buses = {"s_axil": core.bus, "m_axi": core.dma}
    wires: dict[str, Any] = {f"p_{name}": Instance.PreformattedParam(value)
                             for name, value in parameters.items()}  # fmt: skip
    for port in top_ports(source_text(files[-1]), parameters):
        signal = single.get(port.pin)
        wires[f"{port.direction[0]}_{port.name}"] = (
            _of_bus(port, buses) if signal is None else signal
        )
    core.specials += Instance(TOP, **wires)
    if platform is not None:
        for path in files:
            platform.add_source(str(path), language="systemverilog")
    return core


def _of_bus(port: Port, buses: dict[str, Any]) -> Any:
    """The signal of a bus's channel that a port is."""
    found = _CHANNEL.fullmatch(port.name)
    signal = None
    if found is not None:
        signal = getattr(getattr(buses[found[1]], found[2]), found[3], None)
    if signal is None or len(signal) != port.width:
        raise BuildError("the port must be a signal of an AXI bus", field=TOP, value=port.name)
    return signal
