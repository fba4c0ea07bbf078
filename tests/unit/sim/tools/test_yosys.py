# SPDX-License-Identifier: Apache-2.0
"""How Yosys is called on the RTL, and what is said when it refuses or is missing."""

import importlib.util
from types import SimpleNamespace

import pytest

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.tools import yosys
from tilewright.sim.tools.yosys import cxxrtl_runtime, read_command, run_yosys
from tilewright.sim.verilator.build import TOP, read_manifest

TINY = load_hwconfig("tiny-4x4")


def test_the_read_command_names_every_file_without_its_folder_and_every_parameter():
    words = read_command(TINY, TOP, read_manifest(), "--keep-hierarchy").split()
    assert words[:4] == ["read_slang", "--keep-hierarchy", "--top", TOP]
    assert "AxiDataBits=64" in words
    assert f"ConfigHash=32'h{TINY.config_hash:08x}" in words
    assert words[-len(read_manifest()) :] == [path.name for path in read_manifest()]


def test_passes_run_in_the_working_folder(tmp_path):
    (tmp_path / "and2.v").write_text(
        "module and2(input a, b, output y);\n  assign y = a & b;\nendmodule\n"
    )
    run_yosys(["read_verilog and2.v", "synth -top and2", "tee -o stat.json stat -json"], tmp_path)
    assert '"$_AND_"' in (tmp_path / "stat.json").read_text()


def test_a_killed_yosys_is_told_from_a_refusal(tmp_path, monkeypatch):
    ends = "import os, signal; print('error[4:0]'); os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(yosys, "_CHILD", ends)
    with pytest.raises(BuildError, match="killed before its end, not 'SIGKILL'"):
        run_yosys([], tmp_path)


def test_a_refusal_shows_the_line_of_the_error(tmp_path):
    (tmp_path / "bad.v").write_text("module bad;\n  assign = 1;\nendmodule\n")
    with pytest.raises(BuildError, match=r"Yosys refuses the RTL:\n.*bad\.v:2: ERROR"):
        run_yosys(["read_verilog bad.v"], tmp_path)


def test_an_installation_without_the_cxxrtl_headers_says_so(tmp_path, monkeypatch):
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    with pytest.raises(ToolError, match="must ship the CXXRTL headers"):
        cxxrtl_runtime()
