# SPDX-License-Identifier: Apache-2.0
"""The accelerator as a module of LiteX, elaborated by Verilator."""

import sys

import pytest

from tilewright.host.common.errors import ToolError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.synth.litex_core import litex_core
from tilewright.sim.verilator.build import read_manifest, run_verilator

TINY = load_hwconfig("tiny-4x4")
QUIET = ("-Wno-lint", "-Wno-style")
"""What lint says about Verilog that a tool wrote is of no use."""


class Platform:
    def __init__(self):
        self.sources = []

    def add_source(self, path, language):
        assert language == "systemverilog"
        self.sources.append(path)


def test_without_litex_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "litex.gen", None)
    with pytest.raises(ToolError, match="pip install litex"):
        litex_core(TINY)


@pytest.mark.parametrize("bits", [64, 128])
def test_verilator_elaborates_it_in_a_system(tmp_path, bits):
    reason = "LiteX is not installed: pip install litex==2024.12 migen==0.10.0"
    pytest.importorskip("litex", reason=reason)
    from litex.soc.interconnect import axi  # noqa: PLC0415  (optional)
    from migen import ClockDomain, Module  # noqa: PLC0415  (optional)
    from migen.fhdl.verilog import convert  # noqa: PLC0415  (optional)

    hw = TINY.with_(name=f"bus-{bits}", axi_data_bits=bits)
    platform = Platform()
    core = litex_core(hw, platform)
    assert platform.sources == [str(path) for path in read_manifest()]
    system = Module()
    system.clock_domains.cd_sys = ClockDomain("sys")
    system.submodules.core = core
    host = axi.AXILiteInterface(data_width=32, address_width=12)
    memory = axi.AXIInterface(data_width=bits, address_width=40, id_width=1)
    system.comb += [*host.connect(core.bus), *core.dma.connect(memory)]
    ios = {system.cd_sys.clk, system.cd_sys.rst, core.irq}
    for bus in (host, memory):
        for channel in (bus.aw, bus.w, bus.b, bus.ar, bus.r):
            ios |= set(channel.flatten())
    text = str(convert(system, ios, name="system"))
    assert f"32'h{hw.config_hash:08x}" in text
    generated = tmp_path / "system.v"
    generated.write_text(text)
    files = [*platform.sources, str(generated)]
    run_verilator(["--lint-only", *QUIET, "--top-module", "system", *files])
