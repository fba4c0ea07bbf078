# SPDX-License-Identifier: Apache-2.0
"""The build cache: keys, damage, concurrent and killed builders, and the text of failures."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.host.common.errors import BuildError, ToolError
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.sim.tools import toolchain
from tilewright.sim.verilator import build


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def manifest(tmp_path):
    """A manifest of one file; builds of it fail in Verilator, keys of it are real."""
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "top.sv").write_text("module tilewright_top; endmodule\n")
    path = tmp_path / "rtl" / "top.f"
    path.write_text("// comment\n\ntop.sv  # another\n")
    return path


def key(hw=None, *, waves=False, manifest=build.MANIFEST):
    return build._recipe(hw or HwConfig(), waves=waves, manifest=manifest).key


def test_manifest_paths_are_relative_to_it(manifest):
    assert build.read_manifest(manifest) == [manifest.parent / "top.sv"]


def test_the_manifests_list_every_file_of_the_accelerator_and_of_systems_once():
    listed = [*build.read_manifest(), *build.read_manifest(build.MANIFEST.with_name("system.f"))]
    assert len(set(listed)) == len(listed)
    files = set(build.MANIFEST.parent.rglob("*.sv"))
    around = set((build.MANIFEST.parent / "boards").rglob("*.sv"))  # what a board adds
    assert set(listed) == files - around


@pytest.mark.parametrize("line", ["missing.sv", "+incdir+x", "-f other.f", "."])
def test_refuses_a_manifest_line_that_is_no_file(manifest, line):
    manifest.write_text(f"top.sv\n{line}\n")
    with pytest.raises(BuildError, match=r"top\.f:2: a manifest line must name"):
        build.read_manifest(manifest)


def test_refuses_a_missing_manifest(tmp_path):
    with pytest.raises(BuildError, match="cannot be read"):
        build.read_manifest(tmp_path / "none.f")


def test_the_key_ignores_the_label_and_the_place(manifest, tmp_path):
    assert key(HwConfig(name="a")) == key(HwConfig(name="b"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in manifest.parent.iterdir():
        (elsewhere / file.name).write_bytes(file.read_bytes())
    assert key(manifest=manifest) == key(manifest=elsewhere / "top.f")


def test_the_key_follows_everything_that_changes_the_model(manifest, monkeypatch):
    hw = HwConfig()
    seen = [key(manifest=manifest)]

    def differs(**arguments):
        seen.append(key(**({"manifest": manifest} | arguments)))
        assert len(set(seen)) == len(seen)

    differs(waves=True)
    differs(hw=hw.with_(axi_burst_beats=8))
    differs(hw=hw.with_(mac_packed=0))  # the same plain MACs, but another CONFIG_HASH
    (manifest.parent / "top.sv").write_text("module tilewright_top; /* edited */ endmodule\n")
    differs()
    (manifest.parent / "shared.svh").write_text("`define X 1\n")
    differs()
    monkeypatch.setattr(build, "_FAST", "-O3")
    differs()
    instructions = manifest.parent / "instructions.h"
    instructions.write_text("// another layout\n")
    monkeypatch.setattr(build, "_INSTRUCTIONS", instructions)  # which the data path reads
    differs()
    monkeypatch.setattr(build, "_harness_texts", lambda: ["another harness"])
    differs()


def test_elaborates_what_a_device_gets(manifest):
    """Nothing but the parameters of the bitstream: no form of any unit is for simulation."""
    hw = HwConfig(mac_packed=1, mac_lut_columns=3)
    found = build._recipe(hw, waves=False, manifest=manifest).parameters
    expected = {p.rtl_name: str(getattr(hw, p.name)) for p in PARAMETERS}
    assert found == {**expected, "ConfigHash": f"32'h{hw.config_hash:08x}"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("syntax error", r"tilewright_top\.sv:\d+.*syntax error"),
        ("", "UNUSEDPARAM.*BlockIn"),
        ('if (Batch > 0) begin : gen_x\n$error("Batch: rule"); end', "Batch: rule"),
    ],
)
def test_a_refusal_of_verilator_shows_its_first_errors(cache, manifest, body, expected):
    names = [*(p.rtl_name for p in PARAMETERS), "ConfigHash"]
    header = ", ".join(f"parameter int unsigned {name} = 1" for name in names)
    text = f"module tilewright_top #({header});\n{body}\nendmodule\n"
    (manifest.parent / "tilewright_top.sv").write_text(text)
    manifest.write_text("tilewright_top.sv\n")
    with pytest.raises(BuildError, match=expected):
        build.build_model(HwConfig(), manifest=manifest, checks=False)
    assert list((cache / "work").iterdir()) == []
    assert not (cache / "models").exists()


def test_a_compiler_failure_shows_its_first_errors(cache, monkeypatch):
    monkeypatch.setattr(build, "_FAST", "--no-such-option")
    with pytest.raises(BuildError, match=r"(?s)C\+\+ compiler fails.*no-such-option") as error:
        build.build_memory_model()
    assert "\n" in str(error.value)
    assert list((cache / "work").iterdir()) == []


def test_a_missing_tool_is_named(cache, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    toolchain.forget_tools()
    try:
        with pytest.raises(ToolError, match="no-such-compiler"):
            build.build_memory_model()
    finally:
        toolchain.forget_tools()


def test_a_cache_that_cannot_be_written_names_its_variable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BuildError, match="TILEWRIGHT_CACHE"):
        build.build_memory_model()


def test_builds_once_and_repairs_damage(cache):
    first = build.build_memory_model()
    stamp = first.stat().st_mtime_ns
    assert build.build_memory_model() == first
    assert first.stat().st_mtime_ns == stamp
    whole = first.read_bytes()
    first.write_bytes(whole[:100])  # a truncated library must not be loaded
    assert build.build_memory_model() == first
    assert len(first.read_bytes()) == len(whole)
    (first.parent / "build.json").unlink()
    assert build.build_memory_model() == first
    recorded = json.loads((first.parent / "build.json").read_text())["sha256"]
    assert recorded == {first.name: hashlib.sha256(whole).hexdigest()}


def test_a_cache_path_with_spaces_works(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "with some spaces"))
    assert build.build_memory_model().is_file()


COUNTING_COMPILER = """#!/bin/sh
[ "$1" = --version ] && exec g++ --version
echo run >> "{log}"
sleep {seconds}
exec g++ "$@"
"""


def compiler(folder: Path, *, seconds: float) -> tuple[dict[str, str], Path]:
    """An environment whose compiler is slow and writes down each run."""
    log, path = folder / "runs", folder / "slow-g++"
    path.write_text(COUNTING_COMPILER.format(log=log, seconds=seconds))
    path.chmod(0o755)
    return {**os.environ, "CXX": str(path)}, log


BUILD = "from tilewright.sim.verilator.build import build_memory_model as b; print(b())"


def start(environment) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILD],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_concurrent_builders_of_one_key_wait_for_one_build(cache, tmp_path):
    environment, log = compiler(tmp_path, seconds=0.7)
    builders = [start(environment) for _ in range(2)]
    outputs = {builder.communicate(timeout=60)[0].strip() for builder in builders}
    assert len(outputs) == 1
    assert Path(outputs.pop()).is_file()
    assert log.read_text().count("run") == 1


def test_a_killed_builder_leaves_no_result_and_the_next_one_cleans_up(cache, tmp_path):
    environment, log = compiler(tmp_path, seconds=30)
    victim = start(environment)
    wait_for(log)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    assert len(list((cache / "work").iterdir())) == 1
    assert not (cache / "models").exists()
    compiler(tmp_path, seconds=0)
    assert Path(start(environment).communicate(timeout=60)[0].strip()).is_file()
    assert list((cache / "work").iterdir()) == []


@pytest.mark.parametrize("folder", ["lz4", "zlib"])
def test_compression_stand_ins_write_valid_streams(tmp_path, folder):
    """Decoded by zlib itself, and for LZ4 by the block format's own rules."""
    programs = {
        "lz4": "#include <lz4.h>\n#include <cstdio>\n#include <vector>\nint main() {"
        " std::vector<char> in; for (int c; (c = getchar()) != EOF;) in.push_back(char(c));"
        " std::vector<char> out(LZ4_compressBound(int(in.size())));"
        " int n = LZ4_compress_default(in.data(), out.data(), int(in.size()), int(out.size()));"
        " fwrite(out.data(), 1, size_t(n), stdout); }",
        "zlib": "#include <zlib.h>\n#include <cstdio>\n#include <vector>\nint main() {"
        " std::vector<Bytef> in; for (int c; (c = getchar()) != EOF;) in.push_back(Bytef(c));"
        " uLongf n = compressBound(in.size()); std::vector<Bytef> out(n);"
        " if (compress2(out.data(), &n, in.data(), in.size(), 9) != Z_OK) return 1;"
        " fwrite(out.data(), 1, n, stdout); }",
    }
    source, program = tmp_path / "p.cpp", tmp_path / "p"
    source.write_text(programs[folder])
    include = build.HARNESS_DIR / "compat" / folder
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    for size in (0, 1, 14, 15, 16, 269, 270, 271, 65534, 65535, 65536, 200_000):
        data = bytes(i * 7 % 251 for i in range(size))
        packed = subprocess.run([program], input=data, capture_output=True, check=True).stdout
        assert unpack(folder, packed) == data


def unpack(kind: str, packed: bytes) -> bytes:
    if kind == "zlib":
        import zlib  # noqa: PLC0415 - only this case needs it

        return zlib.decompress(packed)
    length, position = packed[0] >> 4, 1
    assert packed[0] & 15 == 0
    if length == 15:
        while True:
            length += packed[position]
            position += 1
            if packed[position - 1] != 255:
                break
    assert len(packed) == position + length
    return packed[position:]
