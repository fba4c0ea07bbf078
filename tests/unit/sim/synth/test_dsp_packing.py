# SPDX-License-Identifier: Apache-2.0
"""Moves of Yosys into DSP slices: what it gets wrong, what is refused, and that the RTL has none.

The cases are the code of docs/results/yosys-xilinx-dsp.md.
"""

import json
import re
from pathlib import Path

import pytest
from support.randomness import often

from tilewright.host.common.errors import BuildError
from tilewright.host.common.places import ROOT
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.synth.dsp_packing import check_packing, packing_commands
from tilewright.sim.synth.synthesis import synthesis_commands
from tilewright.sim.tools.yosys import copy_sources, read_command, run_yosys
from tilewright.sim.verilator.build import TOP, read_manifest

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
    "read by others": "a register became ADREG at case.v:10",
    "reset lost": "a register became ADREG at case.v:10",
    "wraps": "a sum that may wrap became the pre-adder at case.v:6",
    "reset to 50": "a register with a reset to another value than 0 became ffM at case.v:6",
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
