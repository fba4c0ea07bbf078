# SPDX-License-Identifier: Apache-2.0
"""The simulation top around the accelerator, and where generated code keeps the clock's past."""

import re

import pytest

from tilewright.host.common.errors import BuildError
from tilewright.sim.verilator.build import TOP, read_manifest
from tilewright.sim.verilator.registered_top import clock_edge, clock_history, registered_top

SMALL = """module top #(
    parameter int unsigned Width = 8,  // bits
    parameter logic [31:0] Hash = 32'd0
) (
    input  logic             aclk,
    input  logic [Width-1:0] m_axi_rdata,
    output logic             m_axi_rready
);
endmodule
"""


def test_the_wrapper_registers_what_the_dram_drives_and_nothing_else():
    text = registered_top(["package other; endpackage", SMALL], "top")
    assert "m_axi_rdata_q <= m_axi_rdata;" in text
    assert ".m_axi_rdata(m_axi_rdata_q)" in text
    assert ".m_axi_rready(m_axi_rready)" in text
    assert ".aclk(aclk)" in text
    assert ".Width(Width)" in text
    assert ".Hash(Hash)" in text
    assert text.count("<=") == 1


def test_the_wrapper_connects_every_port_and_parameter_of_the_accelerator():
    source = next(path for path in read_manifest() if path.stem == TOP).read_text()
    header = source[source.index(f"module {TOP}") : source.index(");\n")]
    declared = re.findall(r"(?:input|output)\s+logic[^,/]*?(\w+)\s*(?:,|\n|$)", header)
    text = registered_top([source], TOP)
    connected = re.findall(r"\.(\w+)\(", text)
    assert len(declared) > 40
    assert set(declared) <= set(connected)
    assert len(connected) == len(set(connected))
    assert {"Batch", "AxiDataBits", "ConfigHash", "DataPath"} <= set(connected)


@pytest.mark.parametrize("text", ["", "module top; endmodule", SMALL.replace("m_axi_r", "x_r")])
def test_a_top_of_another_form_has_no_wrapper(text):
    assert registered_top([text], "top") == ""


def test_the_past_of_the_clock_is_found_and_must_be_one(tmp_path):
    code = "if (x & (~ (IData)(vlSelfRef.__Vtrigprevexpr___TOP__aclk__{})))"
    (tmp_path / "Vtop___024root__0.cpp").write_text(code.format(1))
    assert clock_history(tmp_path) == "__Vtrigprevexpr___TOP__aclk__1"
    (tmp_path / "Vtop___024root__1.cpp").write_text(code.format(2))
    with pytest.raises(BuildError, match="one clock"):
        clock_history(tmp_path)
    with pytest.raises(BuildError, match="none"):
        clock_history(tmp_path / "empty")


EDGE = """bool Vtop___024root___eval_nba(Vtop___024root* vlSelf) {
    if (any) {
        if ((1ULL & vlSelfRef.__VnbaTriggered[0U])) { work(); }
    }
    return (any);
}
"""


def test_the_work_of_an_edge_is_called_only_where_nothing_else_triggers_work(tmp_path):
    header, code = tmp_path / "Vtop___024root.h", tmp_path / "Vtop___024root__0.cpp"
    header.write_text("VlUnpacked<QData/*63:0*/, 1> __VnbaTriggered;\n")
    code.write_text(EDGE)
    assert clock_edge(tmp_path) == "Vtop___024root___eval_nba"
    second = "        if ((2ULL & vlSelfRef.__VnbaTriggered[0U])) { more(); }\n    }\n"
    code.write_text(EDGE.replace("    }\n", second, 1))
    assert clock_edge(tmp_path) == ""
    code.write_text(EDGE.replace("1ULL &", "3ULL &"))
    assert clock_edge(tmp_path) == ""
    code.write_text("")
    assert clock_edge(tmp_path) == ""
    code.write_text(EDGE)
    header.write_text("VlUnpacked<QData/*63:0*/, 2> __VnbaTriggered;\n")
    assert clock_edge(tmp_path) == ""
