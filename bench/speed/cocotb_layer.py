# SPDX-License-Identifier: Apache-2.0
"""A layer on the top as cocotb drives it: AXI slaves in Python. Run by `simspeed`, not by hand.

TILEWRIGHT_LAYER names a folder with `image.bin` and `layer.json` (insn_base, insn_count); the test
adds `result.json`: cycles of the clock and CPU seconds between start and interrupt.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, MemoryRegion

from tilewright.host.machine.registers import REGISTERS, Ctrl

PERIOD_NS = 10
MEMORY_BASE = 0x1000_0000
_OFFSET = {register.name: register.offset for register in REGISTERS}


@cocotb.test()
async def layer(dut: Any) -> None:
    """Run the layer once."""
    folder = Path(os.environ["TILEWRIGHT_LAYER"])
    settings = json.loads((folder / "layer.json").read_text(encoding="utf-8"))
    image = (folder / "image.bin").read_bytes()
    memory = MemoryRegion(MEMORY_BASE + len(image))
    await memory.write(MEMORY_BASE, image)
    AxiSlave(
        AxiBus.from_prefix(dut, "m_axi"), dut.aclk, dut.aresetn, memory, reset_active_level=False
    )
    registers = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, dut.aresetn, reset_active_level=False
    )
    dut.aresetn.value = 0
    Clock(dut.aclk, PERIOD_NS, unit="ns", impl="gpi").start()
    for _ in range(5):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    for name, value in (
        ("INSN_BASE_LO", settings["insn_base"]),
        ("MEM_BASE_LO", MEMORY_BASE),
        ("MEM_SIZE_LO", len(image)),
        ("INSN_COUNT", settings["insn_count"]),
        ("IRQ_ENABLE", 3),
    ):
        await registers.write_dword(_OFFSET[name], value)
    begin, started = time.process_time(), get_sim_time("ns")
    await registers.write_dword(_OFFSET["CTRL"], Ctrl.START)
    await RisingEdge(dut.irq_o)
    seconds = time.process_time() - begin
    status = await registers.read_dword(_OFFSET["IRQ_STATUS"])
    assert status == 1, f"interrupt {status}: the run failed"
    cycles = round((get_sim_time("ns") - started) / PERIOD_NS)
    result = {"cycles": cycles, "seconds": seconds}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
