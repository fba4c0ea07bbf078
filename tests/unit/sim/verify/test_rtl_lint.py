# SPDX-License-Identifier: Apache-2.0
"""The RTL lint is clean at named configurations and fails when there is something to say."""

import re

import pytest
from support.randomness import fresh_rng, often

from tilewright.host.common.places import ROOT
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore, load_system
from tilewright.sim.verify import rtl_lint
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator.build import read_manifest
from tilewright.sim.verilator.elaboration import sources

TINY = load_hwconfig("tiny-4x4")
RTL = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "rtl").rglob("*.sv"))}


def test_no_assignment_pattern_without_a_type_stands_in_a_conditional():
    """Its type is that of the other operand, and Vivado's front end may refuse it."""
    for path, text in RTL.items():
        assert not re.search(r"\?\s*'\{|\?[^;?]*:\s*'\{", text), path


def test_synchronisers_are_marked():
    """A register that shifts itself up by a bit, and says so to the tools that place it."""
    found = [
        (path.name, name)
        for path, text in RTL.items()
        for name in re.findall(r"(\w+) +<= \{\1\[0\], ", text)
    ]
    assert {name for _, name in found} >= {"sync_q", "button_q", "reset_q"}
    for path, text in RTL.items():
        for name in (each for file, each in found if file == path.name):
            assert re.search(rf'\(\* ASYNC_REG = "TRUE" \*\) logic \[1:0\] {name};', text), path


def test_files_that_comments_of_the_rtl_name_exist():
    place = re.compile(r"\b(?:rtl|host|sim|tests|docs|constraints)/[\w/.-]+\.\w+")
    named = [(path, name) for path, text in RTL.items() for name in place.findall(text)]
    assert len(named) > 5
    for path, name in named:
        assert (ROOT / name.rstrip(".")).exists(), f"{path.name}: {name}"


@pytest.mark.slow  # `make lint` does the same
def test_the_smallest_named_configuration_is_clean():
    assert rtl_lint.lint(TINY) == ""
    assert rtl_lint.lint_slang(TINY) == ""


@pytest.mark.slow  # see above
def test_a_system_is_clean():
    system = load_system("dual-tiny")
    assert rtl_lint.lint(system) == ""
    assert rtl_lint.lint_slang(system) == ""


@pytest.mark.slow
def test_a_system_of_any_cores_is_clean():
    """One core alone on its port, and ports of other widths."""
    hw = any_hwconfig(fresh_rng())
    cores = (SystemCore(hw=hw), SystemCore(hw=TINY, port=1), SystemCore(hw=TINY, port=1))
    for system in (
        SystemConfig(cores=cores, memory_ports=2),
        SystemConfig(cores=cores[:1], queue_depth=2),
    ):
        assert rtl_lint.lint(system) + rtl_lint.lint_slang(system) == "", hw.parameters()


def test_any_legal_configuration_is_clean():
    hw = any_hwconfig(fresh_rng())
    assert rtl_lint.lint(hw) + rtl_lint.lint_slang(hw) == "", hw.parameters()


@pytest.mark.parametrize("fidelity", often("two cores", [Fidelity.RTL, Fidelity.TIMING], 1))
def test_cores_of_different_parameters_stand_in_one_design(monkeypatch, fidelity):
    """As hardware, and where one build serves every configuration."""
    core = [path for path in read_manifest() if path.parent.name != "system"]
    listed = [*sources(core, fidelity), ROOT / "tests" / "rtl" / "hdl" / "two_cores.sv"]
    monkeypatch.setattr(rtl_lint, "read_manifest", lambda: listed)
    monkeypatch.setattr(rtl_lint, "PARAMETERS", ())
    monkeypatch.setattr(rtl_lint, "TOP", "two_cores")
    assert rtl_lint.lint(TINY) == ""


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("wire [8:0] wide = 9'd300; assign x = wide;", "width-trunc"),
        ("initial if (1'b0) assign x = 1; wire [1:0] y = x[5:4];", "error"),
        ("always_comb begin x = 0; if (x = 4'd1) x = 2; end", "error"),
    ],
)
def test_a_complaint_of_slang_is_returned_with_its_place(monkeypatch, tmp_path, body, rule):
    source = tmp_path / "bad.sv"
    source.write_text(f"module tilewright_top (output logic [3:0] x);\n  {body}\nendmodule\n")
    monkeypatch.setattr(rtl_lint, "read_manifest", lambda: [source])
    monkeypatch.setattr("tilewright.sim.tools.yosys.PARAMETERS", ())
    monkeypatch.setattr("tilewright.sim.tools.yosys.rtl_parameters", lambda hw: {})
    found = rtl_lint.lint_slang(TINY)
    assert rule in found.lower()
    assert "bad.sv:2" in found


def test_a_complaint_of_verilator_is_returned(monkeypatch, tmp_path):
    source = tmp_path / "bad.sv"
    source.write_text(
        "module tilewright_top (output logic [3:0] x);\n  assign x = 9'd3;\nendmodule\n"
    )
    monkeypatch.setattr(rtl_lint, "read_manifest", lambda: [source])
    monkeypatch.setattr(rtl_lint, "PARAMETERS", ())
    assert "WIDTHTRUNC" in rtl_lint.lint(TINY)
