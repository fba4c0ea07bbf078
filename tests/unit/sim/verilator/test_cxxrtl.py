# SPDX-License-Identifier: Apache-2.0
"""What a CXXRTL build does before the compiler: its cache key, its tools and its errors."""

import pytest

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.tools import yosys
from tilewright.sim.verilator import cxxrtl
from tilewright.sim.verilator.build import MANIFEST, read_manifest
from tilewright.sim.verilator.cxxrtl import build_cxxrtl

TINY = load_hwconfig("tiny-4x4")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(monkeypatch):
    """Replaces Yosys and the compiler; returns the log of builds."""
    built = []

    def compile_nothing(work, runtime, output, jobs):
        built.append(work.name.partition(".")[0])
        output.write_bytes(b"library")

    monkeypatch.setattr(cxxrtl, "_generate", lambda commands, sources, work: None)
    monkeypatch.setattr(cxxrtl, "_compile", compile_nothing)
    return built


@pytest.fixture
def rtl(tmp_path):
    """A copy of the RTL; returns its manifest."""
    folder = tmp_path / "rtl"
    for source in read_manifest():
        copy = folder / source.relative_to(MANIFEST.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    manifest = folder / MANIFEST.name
    manifest.write_bytes(MANIFEST.read_bytes())
    return manifest


def test_an_equal_build_is_taken_from_the_cache(quick):
    assert build_cxxrtl(TINY) == build_cxxrtl(TINY.with_(name="other name"))
    assert len(quick) == 1


def test_a_truncated_library_is_built_again(quick):
    build_cxxrtl(TINY).write_bytes(b"lib")
    assert build_cxxrtl(TINY).read_bytes() == b"library"
    assert len(quick) == 2


def test_the_key_follows_everything_that_changes_the_model(quick, rtl, monkeypatch):
    build_cxxrtl(TINY, manifest=rtl)
    build_cxxrtl(TINY.with_(axi_data_bits=128), manifest=rtl)
    (rtl.parent / "core" / "tw_fifo.sv").write_text("// another FIFO\n")
    build_cxxrtl(TINY, manifest=rtl)
    monkeypatch.setattr(cxxrtl, "_MODEL_FLAGS", ("-O3",))
    build_cxxrtl(TINY, manifest=rtl)
    assert len(set(quick)) == len(quick) == 4


def test_an_error_of_yosys_is_shown(rtl, cache):
    (rtl.parent / "core" / "tw_fifo.sv").write_text("module tw_fifo (input logic a;\nendmodule\n")
    with pytest.raises(BuildError, match=r"(?s)Yosys refuses the RTL.*tw_fifo\.sv:1"):
        build_cxxrtl(TINY, manifest=rtl)
    assert not list((cache / "work").iterdir()), "nothing is left behind"


def test_missing_pyosys_is_named(monkeypatch):
    monkeypatch.setattr(yosys, "_PACKAGE", "no_such_yosys")
    with pytest.raises(ToolError, match="pip install pyosys"):
        build_cxxrtl(TINY)
