# SPDX-License-Identifier: Apache-2.0
"""Synthesis with Yosys, and its moves into DSP slices."""

import importlib.metadata
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from support.randomness import often

from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.common.places import ROOT
from tilewright.host.machine.area import estimate
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_config import load_system
from tilewright.sim.synth import synthesis
from tilewright.sim.synth.design import accelerator, load_design, rtl_digest, system_design
from tilewright.sim.synth.dsp_packing import check_packing, packing_commands
from tilewright.sim.synth.record import load_results
from tilewright.sim.synth.synthesis import (
    ECP5_DEVICES,
    MemoryUse,
    SynthesisReport,
    describe,
    describe_ecp5,
    family_of,
    synthesis_commands,
    synthesise,
)
from tilewright.sim.tools.yosys import copy_sources, read_command, run_yosys
from tilewright.sim.verilator.build import MANIFEST, TOP, read_manifest


def report(**changes):
    values = {
        "config": "custom", "family": "xc7", "tool": "pyosys 0.70", "lut": 34_000, "lutram": 911,
        "ff": 13_600, "ramb36": 123, "ramb18": 15, "dsp": 210, "seconds": 1.0,
        "memories": (MemoryUse(name="u_wgt.mem", ramb36=64),),
    }  # fmt: skip
    return SynthesisReport(**{**values, **changes})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def counted(cache, monkeypatch):
    """Replace the run of Yosys by one that writes a small result and counts its calls."""
    runs = []

    def run(commands, work):
        runs.append(commands)
        (work / "stat.json").write_text(
            '{"design": {"num_cells_by_type": {"LUT6": 10, "LUT2": 3, "INV": 2, "CARRY4": 9, '
            '"RAM32M": 2, "SRL16E": 1, "FDRE": 7, "FDSE": 1, "RAMB36E1": 3, "RAMB18E1": 1, '
            '"DSP48E1": 4, "BUFG": 1}}}'
        )
        for index in range(len(synthesis._MEMORY_LUTS) + 4):
            (work / f"{index}.cells").write_text("")
        (work / "0.cells").write_text("".join(f"top/u_wgt.mem.0.{i}\n" for i in range(3)))
        (work / "2.cells").write_text("top/gen[1].u_inp.mem.0.0\n")
        (work / "4.cells").write_text("top/u_q.mem.0.0\ntop/u_q.mem.0.1\n")

    monkeypatch.setattr(synthesis, "run_yosys", run)
    monkeypatch.setattr(synthesis, "check_packing", lambda work: None)
    return runs


def test_counts_on_ecp5_include_carry_cells_and_both_ports_of_small_memories(cache, monkeypatch):
    def run(commands, work):
        assert commands[1] == "synth_ecp5 -top tilewright_top"
        (work / "stat.json").write_text(
            '{"design": {"num_cells_by_type": {"LUT4": 100, "CCU2C": 10, "TRELLIS_DPR16X4": 3, '
            '"PFUMX": 9, "TRELLIS_FF": 50, "DP16KD": 2, "MULT18X18D": 4, "LUT6": 1000}}}'
        )
        (work / "0.cells").write_text("top/u_wgt.mem.0.0\ntop/u_wgt.mem.0.1\n")
        (work / "1.cells").write_text("top/u_q.mem.0.0\n")

    monkeypatch.setattr(synthesis, "run_yosys", run)
    found = synthesise(accelerator(HwConfig()), family="ecp5")
    assert (found.lut, found.lutram, found.ff) == (100 + 20 + 18, 18, 50)
    assert (found.ramb36, found.ramb18, found.dsp) == (0, 2, 4)
    assert found.memories == (
        MemoryUse(name="u_wgt.mem", ramb18=2),
        MemoryUse(name="u_q.mem", lutram=6),
    )


def test_describes_an_ecp5_by_its_own_resources():
    used = report(family="ecp5", lut=24_288, ff=9, ramb36=0, ramb18=56, dsp=28)
    text, ok = describe_ecp5(used, ECP5_DEVICES["25k"])
    assert ok
    assert "DP16KD            56         56   100.0%" in text
    assert "custom fits LFE5U-25F" in text
    text, ok = describe_ecp5(replace(used, dsp=29), ECP5_DEVICES["25k"])
    assert not ok
    assert "MULT18            29         28   103.6%  too many" in text


def test_a_system_is_read_with_all_its_cores_and_their_mac_styles(counted):
    system = load_system("big-little")
    report = synthesise(system_design(system))
    read = counted[-1][0]
    assert read.startswith("read_slang --top tilewright_system ")
    assert read.endswith("tw_shared_page.sv tilewright_system.sv")
    assert " -G " not in read
    flow = "synth_xilinx -family xc7 -noiopad -flatten -top tilewright_system"
    assert f"{flow} -run coarse:" in counted[-1]
    assert report.config == "big-little"
    synthesise(system_design(replace(system, window=system.window + 1)))
    assert len(counted) == 2


def test_a_repeat_costs_nothing_and_any_change_is_synthesised_anew(counted, tmp_path):
    hw = HwConfig()
    first = synthesise(accelerator(hw))
    assert synthesise(accelerator(hw)) == first
    assert synthesise(accelerator(hw.with_(name="other"))) == replace(first, config="other")
    assert len(counted) == 1
    synthesise(accelerator(hw.with_(vector_lanes=8)))
    synthesise(accelerator(hw), family="xcup")
    assert len(counted) == 3
    sources = [path.resolve() for path in read_manifest()]
    edited = tmp_path / "tw_fifo.sv"
    edited.write_text(next(p for p in sources if p.name == edited.name).read_text() + "// x\n")
    manifest = tmp_path / "rtl.f"
    manifest.write_text("".join(f"{edited if p.name == edited.name else p}\n" for p in sources))
    synthesise(accelerator(hw, manifest))
    assert len(counted) == 4
    assert rtl_digest(manifest) != rtl_digest(MANIFEST)


def test_a_netlist_that_may_be_wrong_is_neither_reported_nor_stored(counted, cache, monkeypatch):
    def refuse(work):
        raise BuildError("must change nothing", field="xilinx_dsp")

    monkeypatch.setattr(synthesis, "check_packing", refuse)
    with pytest.raises(BuildError, match="xilinx_dsp"):
        synthesise(accelerator(HwConfig()))
    assert not list((cache / "synthesis").glob("*.json"))


def test_a_damaged_result_is_made_again(counted, cache):
    first = synthesise(accelerator(HwConfig()))
    (stored,) = (cache / "synthesis").glob("*.json")
    stored.write_text(stored.read_text()[:40])
    assert asdict(synthesise(accelerator(HwConfig()))) == {
        **asdict(first),
        "seconds": pytest.approx(0, abs=9),
    }
    assert len(counted) == 2


def test_refuses_an_unknown_family():
    with pytest.raises(ConfigError, match="must be one of xc7, xcup, ecp5, not 'ice40'"):
        synthesise(accelerator(HwConfig()), family="ice40")


def test_says_how_to_get_a_missing_yosys(monkeypatch, cache):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ToolError, match=r"pip install pyosys"):
        synthesise(accelerator(HwConfig()))


def test_family_follows_the_part():
    assert family_of(load_board("pynq-z2")) == "xc7"
    assert family_of(load_board("zcu104")) == "xcup"
    with pytest.raises(ConfigError, match="must be a 7-series"):
        family_of(replace(load_board("pynq-z2"), part="LFE5U-85F"))


def test_two_halves_share_a_block():
    assert report(ramb36=2, ramb18=0).bram36 == 2
    assert report(ramb36=2, ramb18=1).bram36 == 3
    assert report(ramb36=2, ramb18=2).bram36 == 3


def test_describes_what_is_used_of_what():
    text, ok = describe(report(), accelerator(HwConfig()), load_board("pynq-z2"))
    assert ok
    assert "LUT           34,000     53,200    63.9%" in text
    assert "u_wgt.mem" in text
    assert "custom fits pynq-z2" in text


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"lut": 53_201}, "LUT           53,201     53,200   100.0%  too many"),
        ({"ramb18": 36}, "BRAM36           141        140   100.7%  too many"),
        ({"dsp": 221}, "DSP              221        220   100.5%  too many"),
    ],
)
def test_says_which_resource_is_exceeded(changes, line):
    text, ok = describe(report(**changes), accelerator(HwConfig()), load_board("pynq-z2"))
    assert not ok
    assert line in text
    assert "custom does not fit pynq-z2" in text


def test_a_bus_wider_than_the_port_does_not_fit():
    hw = HwConfig(axi_data_bits=128)
    text, ok = describe(report(), accelerator(hw), load_board("pynq-z2"))
    assert not ok
    assert "axi_data_bits 128 exceeds the port's 64" in text


def test_a_name_or_a_file_is_a_configuration_or_a_system(tmp_path):
    assert load_design("tiny-4x4") == accelerator(load_hwconfig("tiny-4x4"))
    assert load_design("dual-tiny") == system_design(load_system("dual-tiny"))
    own = tmp_path / "mine.yaml"
    own.write_text("cores: [tiny-4x4, edge-8x8]\n")
    assert [hw.name for hw in load_design(str(own)).cores] == ["tiny-4x4", "edge-8x8"]
    own.write_text(HwConfig(name="mine", vector_lanes=8).to_yaml())
    assert load_design(str(own)).cores[0].vector_lanes == 8
    with pytest.raises(ConfigError, match=r"no configuration or system of that name.*dual-tiny"):
        load_design("dual-tyni")


@pytest.mark.slow
def test_the_recorded_row_of_tiny_4x4_is_still_true():
    pytest.importorskip("pyosys")
    row = next(r for r in load_results().rows if r.hw.name == "tiny-4x4")
    assert row.named, "the configuration has changed: record it again"
    found = synthesise(accelerator(load_hwconfig("tiny-4x4")))
    assert (found.ramb36, found.ramb18, found.dsp) == (row.ramb36, row.ramb18, row.dsp)
    assert found.lut == pytest.approx(row.lut, rel=0.03)
    assert found.ff == pytest.approx(row.ff, rel=0.03)
    assert found.bram36 == estimate(row.hw).bram36
    by_name = {memory.name: memory for memory in found.memories}
    assert by_name["u_core.u_wgt.gen_wide.mem"].ramb36 == 2
    assert by_name["u_core.u_acc.gen_bank[3].mem"].lutram == 176


# -- Moves of Yosys into DSP slices: what it gets wrong, what is refused, and that the RTL has
PAGE = (ROOT / "docs" / "results" / "yosys-xilinx-dsp.md").read_text(encoding="utf-8")
PROOF = re.findall(r"```yosys\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()
CASES = dict(
    zip(
        ("read by others", "reset lost", "wraps", "reset to 50"),
        re.findall(r"```verilog\n(.*?)```", PAGE, re.DOTALL),
        strict=True,
    )
)
REFUSED = {
    "read by others": "a register became ADREG at case.v:3",
    "reset lost": "a register became ADREG at case.v:3",
    "wraps": "a sum that may wrap became the pre-adder at case.v:2",
    "reset to 50": "a register with a reset to another value than 0 became ffM at case.v:2",
}


def pack(source: str, work: Path, family: str = "xc7") -> None:
    (work / "case.v").write_text(source)
    flow = f"synth_xilinx -family {family} -noiopad -flatten -top top"
    run_yosys(["read_verilog case.v", *packing_commands(flow)], work)
    check_packing(work)


@pytest.mark.parametrize("case", often("yosys at hand", CASES, 1))
def test_the_yosys_at_hand_still_gets_the_case_wrong(case: str, tmp_path: Path) -> None:
    (tmp_path / "case.v").write_text(CASES[case])
    try:
        run_yosys(PROOF, tmp_path)
    except BuildError as error:
        pytest.fail(
            f"this Yosys is right ({error}): say so in docs/results/yosys-xilinx-dsp.md, and drop "
            "its rule in sim/synth/dsp_packing.py once no older Yosys is supported"
        )


@pytest.mark.parametrize("case", CASES)
def test_refuses_what_yosys_gets_wrong_and_names_its_line(case: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=REFUSED[case]):
        pack(CASES[case], tmp_path)


@pytest.mark.parametrize("case", often("ultrascale", CASES, 1))
def test_nothing_is_moved_into_the_slices_of_ultrascale(case: str, tmp_path: Path) -> None:
    pack(CASES[case], tmp_path, "xcup")
    slices = json.loads((tmp_path / "packing-slices.json").read_text(encoding="utf-8"))
    cells = [cell for module in slices["modules"].values() for cell in module["cells"].values()]
    assert "DSP48E2" in {cell["type"] for cell in cells}


KEPT = {
    "read by others": ("reg signed [8:0] s", "(* keep *) reg signed [8:0] s"),
    "reset lost": ("reg signed [8:0] s", "(* keep *) reg signed [8:0] s"),
    "wraps": ("wire signed [7:0] s", "wire signed [8:0] s"),
    "reset to 50": ("p <= 50", "p <= 0"),
}


@pytest.mark.parametrize("case", often("way round", CASES, 1))
def test_accepts_the_way_round_that_the_page_gives(case: str, tmp_path: Path) -> None:
    assert KEPT[case][0] in CASES[case]
    pack(CASES[case].replace(*KEPT[case]), tmp_path)


def pack_rtl(work: Path, **changes: int) -> None:
    hw = load_hwconfig("tiny-4x4").with_(**changes)
    commands = synthesis_commands("xc7", TOP)
    run_yosys([read_command(hw, TOP, read_manifest()), *commands[:-1]], work)
    check_packing(work)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [0, 1])
def test_nothing_wrong_is_moved_into_the_slices_of_the_rtl(packed: int, tmp_path: Path) -> None:
    copy_sources(read_manifest(), tmp_path)
    pack_rtl(tmp_path, mac_packed=packed, mac_pipeline=2 + packed)


@pytest.mark.slow
def test_the_rtl_without_its_kept_register_is_refused(tmp_path: Path) -> None:
    copy_sources(read_manifest(), tmp_path)
    load = tmp_path / "tw_load.sv"
    text = load.read_text(encoding="utf-8")
    assert text.count("(* keep *)") == 1
    load.write_text(text.replace("(* keep *)", ""), encoding="utf-8")
    with pytest.raises(BuildError, match=r"a register became ADREG at tw_load\.sv"):
        pack_rtl(tmp_path)
