# SPDX-License-Identifier: Apache-2.0
"""The wheel holds everything that runs, nothing else, and works from where it is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tilewright.host.machine.codegen import OUTPUTS
from tilewright.sim.verilator.build import HARNESS_DIR, read_manifest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_FOLDERS = ("host", "sim", "tuner", "constraints", "rtl")


def run(*words, cwd, **changes):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, **changes},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """As `make release` builds it, from a copy of all that git tracks."""
    source = tmp_path_factory.mktemp("source")
    for name in run("git", "ls-files", "-z", cwd=ROOT).rstrip("\0").split("\0"):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    target = tmp_path_factory.mktemp("wheel")
    recipe = run("make", "-n", "release", "VENV=.none", cwd=source)
    (build,) = re.findall(r"-m (build --no-isolation) --outdir dist \.", recipe)
    run(sys.executable, "-m", *build.split(), "--outdir", target, ".", cwd=source)
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
        "--disable-pip-version-check", "--target", target, wheel, cwd=target,
    )  # fmt: skip
    return target


def wanted():
    """Every file of the package folders that is not a leftover."""
    junk = {"__pycache__", "build", "sim_build"}
    for folder in PACKAGE_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not junk & set(path.parts):
                yield f"tilewright/{path.relative_to(ROOT).as_posix()}"


def test_holds_every_file_of_the_package_folders(names):
    assert set(wanted()) - names == set()


def test_holds_what_a_build_reads(names):
    needed = {f"tilewright/rtl/{p.relative_to(ROOT / 'rtl')}" for p in read_manifest()}
    needed |= {
        "tilewright/sim/harness/" + p.relative_to(HARNESS_DIR).as_posix()
        for p in HARNESS_DIR.rglob("*.[ch]*")
    }
    needed |= {f"tilewright/{name}" for name in OUTPUTS if not name.startswith("docs")}
    needed |= {
        "tilewright/rtl/tilewright.f", "tilewright/py.typed", "tilewright/sim/verilator/lint.vlt",
        "tilewright/sim/harness/compat/lz4/lz4.h", "tilewright/sim/harness/compat/zlib/zlib.h",
        "tilewright/constraints/configs/pynq-16x16.yaml", "tilewright/cli/tune.py",
        "tilewright/tuner/report/drawing/page.css", "tilewright/tuner/report/drawing/page.js",
        "tilewright/constraints/boards/pynq-z2.yaml", "tilewright/constraints/memory/ideal.yaml",
    }  # fmt: skip
    assert needed - names == set()


def test_holds_neither_tests_nor_leftovers(names):
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tilewright"}
    assert not [name for name in names if "test" in Path(name).name or "__pycache__" in name]
    inside = {name.split("/")[1] for name in names}
    assert {"host", "sim", "tuner", "cli", "rtl", "constraints"} <= inside
    assert not inside & {"tests", "docs", "bench", "build", "examples"}


def test_has_the_licence_and_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = [n for n in archive.namelist() if n.endswith("entry_points.txt")]
        assert "tilewright = tilewright.cli:main" in archive.read(entry).decode()
        assert any(n.endswith("/LICENSE") for n in archive.namelist())


def test_works_where_it_is_installed(installed):
    script = (
        "import json, tilewright\n"
        "from tilewright.host.machine.board import named_boards\n"
        "from tilewright.host.machine.hwconfig import load_hwconfig, named_configs\n"
        "from tilewright.sim.verilator.build import HARNESS_DIR, MANIFEST, read_manifest\n"
        "print(json.dumps([tilewright.__file__, str(MANIFEST), len(read_manifest()),\n"
        "    named_configs(), named_boards(), len(list(HARNESS_DIR.glob('*.cpp'))),\n"
        "    load_hwconfig('pynq-16x16').config_hash]))\n"
    )
    output = run(
        sys.executable, "-P", "-c", script, cwd=installed.parent, PYTHONPATH=str(installed)
    )
    file, manifest, sources, configs, boards, harness, config_hash = json.loads(output)
    assert Path(file).is_relative_to(installed)
    assert Path(manifest).is_relative_to(installed)
    assert sources == len(read_manifest())
    assert configs == sorted(p.stem for p in (ROOT / "constraints" / "configs").glob("*.yaml"))
    assert boards == sorted(p.stem for p in (ROOT / "constraints" / "boards").glob("*.yaml"))
    assert harness == len(list(HARNESS_DIR.glob("*.cpp")))
    assert config_hash > 0


def test_the_installed_command_runs_a_layer_on_the_reference(installed):
    output = run(
        sys.executable, "-P", "-m", "tilewright.cli", "sim", "C10", "--device", "reference",
        cwd=installed.parent, PYTHONPATH=str(installed),
    )  # fmt: skip
    assert "bit-exact, 25,088 int8 elements" in output


@pytest.mark.slow
def test_the_installed_command_builds_and_runs_the_rtl(installed, tmp_path):
    output = run(
        sys.executable, "-P", "-m", "tilewright.cli", "sim", "FC", "--network", "resnet18",
        "--hw", "tiny-4x4", cwd=tmp_path,
        PYTHONPATH=str(installed), TILEWRIGHT_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert "bit-exact" in output


def test_a_benchmark_says_that_it_needs_a_clone(installed):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tilewright.cli", "bench", "simspeed", "--quick"],
        cwd=installed.parent, env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "clone" in done.stderr
