# SPDX-License-Identifier: Apache-2.0
"""Every example runs as it stands, and type-checks as a user's own script would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run(script: str, folder: Path, *words: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *words],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_layer_measured_under_two_schedules_is_bit_exact(tmp_path: Path) -> None:
    assert run("measure_layer.py", tmp_path).count("bit-exact: True") == 2


def test_a_loop_of_ones_own_beats_the_untuned_schedule(tmp_path: Path) -> None:
    printed = run("ask_tell.py", tmp_path)
    untuned, best = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) cycles", printed))
    assert best < untuned
    assert "best of 32 " in printed
    assert "bit-exact: True" in printed


def test_a_tuner_of_ones_own_makes_a_study_that_is_answered_from_its_store(tmp_path: Path) -> None:
    printed = run("own_tuner.py", tmp_path)
    for layer in ("C4", "C10"):
        best, untuned = re.findall(rf"{layer}: ([\d,]+) cycles; untuned ([\d,]+)", printed)[0]
        assert int(best.replace(",", "")) < int(untuned.replace(",", ""))
    assert (tmp_path / printed.split("report ")[1].strip()).is_file()
    assert run("own_tuner.py", tmp_path) == printed


def test_a_network_looks_at_a_folder_in_a_loop(tmp_path: Path) -> None:
    words = ("detector.tw", str(EXAMPLES / "detector" / "images"), "--draw", "seen")
    network = EXAMPLES / "detector" / "detector.onnx"
    tw.compile(network, hw="edge-8x8", calibration=2, search=0, output=tmp_path / "detector.tw")
    printed = run("picture_loop.py", tmp_path, *words, "--frames", "2")
    assert len(re.findall(r"^\d.jpg: .*; [\d.]+ frames per second", printed, re.M)) == 2
    assert len(list((tmp_path / "seen").glob("*.png"))) == 2


def test_every_example_is_run_here() -> None:
    known = Path(__file__).read_text(encoding="utf-8")
    assert all(f'run("{path.name}"' in known for path in EXAMPLES.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_an_example_type_checks_strictly(script: str) -> None:
    words = [sys.executable, "-m", "mypy", "--strict", f"examples/{script}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_the_type_checker_sees_the_public_names(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "import tilewright as tw\n"
        "cycles: str = tw.simulate(tw.dense('fc', 1, 8, 8)).cycles\n"
        "tw.simulat\n"
    )
    words = [sys.executable, "-m", "mypy", "--strict", str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert 'has type "int", variable has type "str"' in done.stdout
    assert 'Module has no attribute "simulat"' in done.stdout
