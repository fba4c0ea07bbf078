# SPDX-License-Identifier: Apache-2.0
"""The build of the twin's library: what its key depends on, damage, and the text of failures."""

import ctypes
from pathlib import Path

import pytest

from tilewright.host.common.errors import BuildError
from tilewright.sim.twin import build as twin_build
from tilewright.sim.twin.build import build_twin, twin_inputs
from tilewright.sim.twin.library import load_twin


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A library of two files; `build_twin` puts it into a cache of its own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "twin"
    folder.mkdir()
    (folder / "number.h").write_text("#define NUMBER 7\n")
    (folder / "number.cpp").write_text('#include "number.h"\n' + exported("NUMBER"))
    memory = tmp_path / "memory_model.cpp"
    memory.write_text("int memory_model() { return 0; }\n")
    monkeypatch.setattr(twin_build, "SOURCE_DIRS", (folder,))
    monkeypatch.setattr(twin_build, "_MEMORY_MODEL", memory)
    return folder


def exported(value):
    head = 'extern "C" __attribute__((visibility("default"))) unsigned tw_lowering_version()'
    return f"{head} {{ return {value}; }}\n"


def version(path):
    return ctypes.CDLL(str(path)).tw_lowering_version()


def test_compiles_every_file_of_the_folders_and_the_memory_model():
    names = [path.name for path in twin_inputs() if path.suffix == ".cpp"]
    assert {"lowering.cpp", "emit.cpp", "pipeline.cpp", "memory_model.cpp"} <= set(names)
    folders = [list(folder.rglob("*.cpp")) for folder in twin_build.SOURCE_DIRS]
    assert all(folders)
    assert len(names) == 1 + sum(map(len, folders))
    assert len({Path(name).stem for name in names}) == len(names), "an object has a file's name"


def test_builds_once(sources):
    path = build_twin()
    stamp = path.stat().st_mtime_ns
    assert version(path) == 7
    assert build_twin() == path
    assert path.stat().st_mtime_ns == stamp


def test_a_changed_header_is_another_library(sources):
    first = build_twin()
    (sources / "number.h").write_text("#define NUMBER 8\n")
    second = build_twin()
    assert first != second
    assert (version(first), version(second)) == (7, 8)


def test_a_truncated_library_is_built_again(sources):
    path = build_twin()
    path.write_bytes(path.read_bytes()[:100])
    assert version(build_twin()) == 7


def test_tells_what_the_compiler_says(sources):
    (sources / "number.cpp").write_text("int broken(;\n")
    with pytest.raises(BuildError, match=r"the C\+\+ compiler fails:\n.*number\.cpp:1"):
        build_twin()


def test_warnings_are_errors(sources):
    (sources / "number.cpp").write_text("int f(int unused) { return 0; }\n")
    with pytest.raises(BuildError, match="unused"):
        build_twin()


def test_refuses_a_library_of_another_version(sources):
    with pytest.raises(BuildError, match="must have version") as error:
        load_twin(build_twin())
    assert error.value.value == 7


def test_refuses_a_file_that_is_no_library(tmp_path):
    (tmp_path / "lib.so").write_text("text")
    with pytest.raises(BuildError, match="cannot be loaded"):
        load_twin(tmp_path / "lib.so")
