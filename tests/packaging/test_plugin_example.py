# SPDX-License-Identifier: Apache-2.0
"""The example plug-in is installed from its folder, without a network, and used by name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.warm_python import WARM

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the example, built from a copy, so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source)
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--no-build-isolation", "--disable-pip-version-check", "--target", str(target),
         str(source)],
        check=True, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return target


def run(*words, site, cwd):
    paths = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, **WARM, "PYTHONPATH": paths}, timeout=900,
    )  # fmt: skip


def test_the_commands_list_the_plug_ins_with_their_distribution(installed, tmp_path):
    tuners = run("tilewright.cli", "tuners", site=installed, cwd=tmp_path)
    (line,) = [row for row in tuners.stdout.splitlines() if row.startswith("best-neighbour")]
    assert "grey-box" in line
    assert "tilewright-example 1.0" in line
    assert "costliest" in run("tilewright.cli", "allocators", site=installed, cwd=tmp_path).stdout


def test_a_study_uses_tuner_allocator_and_board_of_the_plug_in(installed, tmp_path):
    done = run(
        "tilewright.cli", "tune", "vta-resnet18", "--layers", "C10", "--hw", "tiny-4x4",
        "--board", str(installed / "tilewright_example" / "zybo-z7-10.yaml"),
        "--tuner", "best-neighbour", "--allocator", "costliest", "--fidelity", "twin",
        "--budget", "12", "--name", "mine", "--workers", "1",
        site=installed, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "tuner best-neighbour, allocator costliest" in done.stdout
    assert (tmp_path / "runs" / "mine.html").exists()
    assert (tmp_path / "runs" / "mine.yaml").exists()


def test_the_plug_in_passes_the_contract_suites(installed, tmp_path):
    done = run(
        "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(EXAMPLE / "tests"),
        site=installed, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_a_module_that_cannot_be_imported_breaks_no_other_command(installed, tmp_path):
    broken = tmp_path / "site"
    shutil.copytree(installed, broken)
    (broken / "tilewright_example" / "best_neighbour.py").write_text("import gone\n")
    listed = run("tilewright.cli", "tuners", site=broken, cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "BROKEN: tuner best-neighbour: its module cannot be imported" in " ".join(
        listed.stdout.split()
    )
    used = run(
        "tilewright.cli", "tune", "resnet18", "--tuner", "best-neighbour", site=broken, cwd=tmp_path
    )
    assert used.returncode == 2
    (line,) = used.stderr.splitlines()
    assert "No module named 'gone'" in line
    assert "plug-in of tilewright-example 1.0, tilewright_example.best_neighbour" in line
