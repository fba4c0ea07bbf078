# SPDX-License-Identifier: Apache-2.0
"""What `make setup` would do: locked packages alone, their size said first."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def planned(tmp_path, *words):
    """The commands of an environment that does not exist yet, none of them run."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", *words, f"VENV={tmp_path / 'new'}",
         f"PYTHON={sys.executable}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.replace("\\\n", " ").splitlines()


@pytest.mark.parametrize("target", ["setup", "test", "lint", "smoke", "lock", "release"])
def test_nothing_is_installed_that_no_lock_holds(tmp_path, target):
    installs = [line for line in planned(tmp_path, target) if "pip install" in line]
    assert installs
    for line in installs:
        own_source = line.endswith("--no-deps --no-build-isolation -e .")
        assert own_source or "--require-hashes" in line, line
        # What is built takes its backend from the environment, never the newest from an index.
        assert "--no-build-isolation" in line or "--only-binary :all:" in line, line


def test_size_and_time_are_said_before_anything_is_installed(tmp_path):
    lines = planned(tmp_path, "test")
    first = next(number for number, line in enumerate(lines) if "pip install" in line)
    assert any("GB" in line and "minute" in line for line in lines[:first])
    assert sum("GB" in line for line in lines) >= 3, "run time, development, PyTorch with CUDA"


def test_the_run_time_environment_needs_no_pytorch(tmp_path):
    assert not any("torch" in line for line in planned(tmp_path, "smoke"))


def torch_lines(tmp_path, *words):
    return [line for line in planned(tmp_path, "setup", *words) if "torch-cpu.txt" in line]


def test_an_index_for_pytorch_is_used_for_it_alone(tmp_path):
    index = "https://example.org/cpu"
    (line,) = torch_lines(tmp_path, f"TORCH_INDEX={index}")
    assert f"--index-url {index} " in line
    assert "torch.txt" not in line, "no other build in its place"
    lines = planned(tmp_path, "setup", f"TORCH_INDEX={index}")
    assert [each for each in lines if index in each] == [line]


def test_a_folder_of_wheels_serves_as_well(tmp_path):
    (line,) = torch_lines(tmp_path, f"TORCH_INDEX={tmp_path}")
    assert f"--no-index --find-links {tmp_path} " in line


def test_without_a_choice_both_builds_will_do(tmp_path):
    lines = "\n".join(planned(tmp_path, "setup"))
    assert lines.index("torch-cpu.txt") < lines.index("requirements/torch.txt")
    assert "TORCH_INDEX" in lines


STUB = """#!/bin/sh
echo "$*" >> "{log}"
case "$*" in *torch-cpu.txt*) echo "{says}" >&2; exit 1;; esac
"""


@pytest.mark.parametrize(
    ("says", "goes_on"),
    [
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", True),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", False),
    ],
)
def test_a_changed_pytorch_is_an_error_and_a_missing_one_is_not(tmp_path, says, goes_on):
    """An environment whose Python only writes down what it was told to do."""
    ready, log = tmp_path / "env" / ".run-ready", tmp_path / "calls"
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STUB.format(log=log, says=says))
    python.chmod(0o755)
    ready.touch()
    done = subprocess.run(
        ["make", "setup", f"VENV={tmp_path / 'env'}", f"PYTHON={sys.executable}", "-o", str(ready)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = log.read_text()
    assert (done.returncode == 0) == goes_on
    assert ("requirements/torch.txt" in calls) == goes_on
    assert ("requirements/dev.txt" in calls) == goes_on
    assert ("DO NOT MATCH" in done.stderr) != goes_on
