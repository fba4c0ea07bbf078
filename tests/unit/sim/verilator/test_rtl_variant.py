# SPDX-License-Identifier: Apache-2.0
"""RTL of users, and the registered top around it."""

import os
import re
import shutil
from pathlib import Path

import pytest
from support.command_line import call, refusal

import tilewright as tw
from tilewright.host.common.errors import BuildError, ConfigError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.synth.design import accelerator, rtl_digest
from tilewright.sim.twin.agreement import TwinDisagreesError, require_agreement
from tilewright.sim.twin.device import AGREED, Twin
from tilewright.sim.verilator import build
from tilewright.sim.verilator.build import TOP
from tilewright.sim.verilator.registered_top import clock_edge, clock_history, registered_top
from tilewright.sim.verilator.rtl_variant import STOCK, read_manifest, rtl_variant, variant_digest
from tilewright.testing import RtlContract
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.oracle import rtl_identity

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits" / "digits.onnx"
TINY = load_hwconfig("tiny-4x4")
IDEAL = load_memory("ideal")

SHORT_QUEUE = (".Depth  (16)", ".Depth  (2)")
SHORT_COUNT = ("logic [4:0] unused_count", "logic [1:0] unused_count")
"""Two instructions wait for each unit, not sixteen: the same results in other cycles."""


@pytest.fixture
def variant(tmp_path, monkeypatch):
    """A copy of the RTL, and a function that edits a file of it."""
    monkeypatch.delenv(AGREED, raising=False)
    folder = tmp_path / "mine"
    shutil.copytree(STOCK.parent, folder)

    def edit(before: str, after: str, name: str = "tw_core.sv") -> None:
        path = folder / "core" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, before
        path.write_text(text.replace(before, after), encoding="utf-8")

    yield folder / STOCK.name, edit
    os.environ.pop(AGREED, None)


def recipe_key() -> str:
    return build._recipe(TINY, waves=False, checks=False, manifest=None).key


def test_build_cache_and_store_tell_a_variant_from_our_rtl_and_from_its_next_edit(variant) -> None:
    manifest, edit = variant
    keys, identities = [recipe_key()], [rtl_identity(), identity_of("twin")]
    for text in ("// first edit\n", "// second edit\n"):
        edit("module tw_core", f"{text}module tw_core")
        with rtl_variant(manifest):
            assert variant_digest()
            keys.append(recipe_key())
            digest = variant_digest()
        with rtl_variant(manifest):
            assert variant_digest() == digest
        edit(text, "")
    assert len(set(keys)) == 3
    edit("module tw_core", "// third edit\nmodule tw_core")
    with rtl_variant(manifest):
        identities += [rtl_identity(), identity_of("twin")]
    assert len(set(identities)) == 4
    assert variant_digest() == ""
    assert (recipe_key(), rtl_identity()) == (keys[0], identities[0])


def test_an_unread_variant_is_refused_and_leaves_no_trace(tmp_path) -> None:
    for text, wrong in (("top.sv\n", "must name an existing RTL file"), ("", "must name the RTL")):
        (tmp_path / "mine.f").write_text(text)
        with pytest.raises(BuildError, match=wrong), rtl_variant(tmp_path / "mine.f"):
            pass
    assert read_manifest() == read_manifest(STOCK)


def test_the_twin_is_refused_for_a_variant_that_nobody_compared(variant) -> None:
    with rtl_variant(variant[0]), pytest.raises(ConfigError, match="was not compared with this"):
        Twin(TINY, IDEAL)
    Twin(TINY, IDEAL)


@pytest.mark.slow
def test_the_twin_is_accepted_for_a_variant_that_counts_alike(variant) -> None:
    manifest, edit = variant
    edit("module tw_core", "// the same hardware\nmodule tw_core")
    with rtl_variant(manifest):
        require_agreement(TINY, IDEAL)
        Twin(TINY, IDEAL)
        edit("// the same hardware", "// edited since")
        with pytest.raises(ConfigError, match="was not compared with this"):
            Twin(TINY, IDEAL)


def test_the_twin_is_refused_for_a_variant_with_other_timing(variant) -> None:
    manifest, edit = variant
    edit(*SHORT_QUEUE)
    edit(*SHORT_COUNT)
    with rtl_variant(manifest):
        with pytest.raises(TwinDisagreesError, match=r"on the RTL, .* on the twin; instruction"):
            require_agreement(TINY, IDEAL)
        with pytest.raises(ConfigError, match="was not compared with this"):
            Twin(TINY, IDEAL)


@pytest.mark.slow
def test_the_contract_of_devices_runs_on_a_variant(variant) -> None:
    manifest, edit = variant
    edit(*SHORT_QUEUE)
    edit(*SHORT_COUNT)
    contract = type("Mine", (RtlContract,), {"manifest": manifest})()
    device = contract.make_device(TINY)
    contract.test_legal_steps_run(device)
    contract.test_reports_a_missing_finish(device)
    contract.assert_works(device, 3)
    device.close()


def test_a_layer_runs_on_a_variant_and_a_study_refuses_the_twin_for_it(variant, tmp_path) -> None:
    manifest, edit = variant
    edit(*SHORT_QUEUE)
    edit(*SHORT_COUNT)
    words = ["C10", "--hw", "tiny-4x4", "--rtl", str(manifest)]
    refused = call(
        "tune", "vta-resnet18", "--layers", *words[:3], "--rtl", str(manifest), "--budget", "2",
        "--runs", str(tmp_path),
    )  # fmt: skip
    assert refused.exit_code == 2, refused.output
    assert "the twin counts otherwise than this RTL" in refused.stderr
    assert not os.environ.get("TILEWRIGHT_RTL"), "the command leaves nothing behind"
    assert call("sim", *words, "--device", "twin").exit_code == 2


BROKEN_ARRAY = ("assign wgt = wgt_i;", "assign wgt = ~wgt_i;", "tw_mac.sv")
"""A MAC array that inverts every weight."""


def test_a_fault_of_the_mac_array_is_noticed_by_every_command_that_measures(
    variant, tmp_path
) -> None:
    """What is simulated is the array that a device gets: there is no other one to be right."""
    manifest, edit = variant
    edit(*BROKEN_ARRAY)
    on_it = ["--hw", "tiny-4x4", "--rtl", str(manifest)]
    ran = call("sim", "C10", *on_it)
    assert ran.exit_code != 0
    assert "bit-exact" not in ran.stdout
    tuned = call(
        "tune", "vta-resnet18", "--layers", "C10", *on_it, "--screen", "none", "--budget", "2",
        "--runs", str(tmp_path),
    )  # fmt: skip
    assert tuned.exit_code != 0, tuned.output
    compared = call(
        "compare-rtl", "ours", str(manifest), "--network", "vta-resnet18", "--layers", "C10",
        "--hw", "tiny-4x4", "--no-synthesis",
    )  # fmt: skip
    assert compared.exit_code == 1, compared.output
    assert re.search(r"^A ours: [\d,]+ cycles; every output bit-exact", compared.output, re.M)
    assert re.search(r"^B .*mine.*: NOT RIGHT", compared.output, re.M)
    network = tmp_path / "digits.tw"
    tw.compile(DIGITS, hw="tiny-4x4", calibration=1, search=0, output=network)
    wrong = call("run", str(network), "--random", "--rtl", str(manifest))
    assert re.search(r"WRONG RESULT: .*; mend the RTL of .*mine", wrong.output)
    for device, more in (("reference", "--random"), ("twin", "--cycles-only")):
        words = ("run", str(network), more, "--device", device, "--rtl", str(manifest))
        assert "--rtl: is" in refusal(*words), device
    contract = type("Mine", (RtlContract,), {"manifest": manifest})()
    device = contract.make_device(TINY)
    with pytest.raises(AssertionError):
        contract.assert_works(device, 3)
    device.close()


def test_the_reference_refuses_a_variant_because_it_runs_no_rtl(variant) -> None:
    done = call("sim", "C10", "--hw", "tiny-4x4", "--device", "reference", "--rtl", str(variant[0]))
    assert done.exit_code == 2, done.output
    assert "--rtl: the reference runs no RTL" in done.output


def test_netlists_are_those_of_the_variant(variant) -> None:
    """Synthesis, timing and bitstreams name the sources that `--rtl` names."""
    manifest, edit = variant
    ours = accelerator(TINY).rtl, rtl_digest()
    edit("module tw_core", "// an edit\nmodule tw_core")
    with rtl_variant(manifest):
        assert accelerator(TINY).rtl == rtl_digest() != ours[0]
        assert accelerator(TINY).sources == tuple(read_manifest(manifest))
    assert (accelerator(TINY).rtl, rtl_digest()) == ours


# -- The simulation top around the accelerator, and where generated code keeps the clock's past
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
    connected = re.findall(r"\.(\w+)\(", registered_top([source], TOP))
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
