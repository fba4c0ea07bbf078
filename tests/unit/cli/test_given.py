# SPDX-License-Identifier: Apache-2.0
"""Options that would do nothing beside the others are refused, and nothing is written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command_line import call
from support.randomness import generator
from support.small_models import Model
from typer.testing import CliRunner

from tilewright.cli import compile as command
from tilewright.cli.commands import app
from tilewright.host.compiler import pipeline
from tilewright.host.compiler.pack import artefact

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
NOISE = ("--random-calibration", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Models: float, quantised and compiled; an image's numbers; a job table."""
    path = tmp_path_factory.mktemp("given")
    (path / "digits.onnx").write_bytes((DIGITS / "digits.onnx").read_bytes())
    np.save(path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    model = Model(generator("quantised"))
    x = model.quantised(model.input(1, 4, 4, 4), 0.05, 0)
    weights = model.quantised(model.constant(np.ones((4, 4, 1, 1), np.float32)), 0.01, 0)
    onnx.save(model.proto(model.quantised(model.add("Conv", x, weights), 0.05, 0)), path / "q.onnx")
    (path / "jobs.csv").write_text("row,lat_core0,reqbw_core0\na,10,1\n")
    done = call(
        "compile", str(path / "digits.onnx"), *NOISE, "--hw", "tiny-4x4", "--search", "0", "-o",
        str(path / "digits.tw"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


def refused(words: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"error: {told}"), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("digits.onnx", *NOISE, "--percentile", "97"),
            "--percentile: is for calibration method percentile, not 'mse'; add --calibration",
        ),
        (("digits.onnx", *NOISE, "--mean", "0.5"), "--mean: scales images alone, not '1 random"),
        (("digits.onnx", "--calibration", "x.npy", "--std", "2"), "--std: scales images alone"),
        (("q.onnx", "--mean", "0.5"), "--mean: scales the images of --calibration; add"),
        (("q.onnx", *NOISE), "--random-calibration: is for a float model; this one is quantised"),
        (("q.onnx", "--calibration", "x.npy"), "--calibration: is for a float model"),
        (("q.onnx", "--asymmetric"), "--asymmetric: is for a float model"),
        (("q.onnx", "--no-equalisation"), "--no-equalisation: is for a float model"),
        (("q.onnx", "--calibration-method", "mse"), "--calibration-method: is for a float"),
        (("digits.onnx", *NOISE, "--trust-model"), "--trust-model: is for .pt2 files, not"),
    ],
)
def test_compile(folder: Path, monkeypatch, words: tuple[str, ...], told: str) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was compiled first")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(pipeline, "compile_network", never)
    refused(("compile", *words, "-o", "none.tw"), told)
    assert not Path("none.tw").exists()


@pytest.mark.parametrize("asked", [("Softmin",), ("Conv", "no such")])
def test_an_operator_to_explain_is_looked_for_before_anything_is_compiled(
    folder: Path, monkeypatch, asked: tuple[str, ...]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was compiled first")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(pipeline, "compile_network", never)
    explain = [word for each in asked for word in ("--explain", each)]
    refused(
        ("compile", "digits.onnx", *NOISE, *explain, "-o", "none.tw"),
        "--explain: must be the name or kind of an operator of the model, or all, not "
        f"'{asked[-1]}'; ",
    )
    assert not Path("none.tw").exists()


def test_an_operator_that_only_makes_constants_is_explained_as_such(folder: Path, monkeypatch):
    monkeypatch.setattr(command, "require_named", lambda *_: None)
    words = ("--hw", "tiny-4x4", "--search", "0", "--explain", "Shape", "-o")
    done = call("compile", str(folder / "digits.onnx"), *NOISE, *words, str(folder / "made.tw"))
    assert done.exit_code == 0, done.output
    assert "Shape only makes constants: nothing of it is left to run" in done.stdout


def test_a_quantised_model_is_not_said_to_be_calibrated(folder: Path) -> None:
    compilation = pipeline.compile_model(
        folder / "q.onnx",
        artefact.load(folder / "digits.tw").hw,
        command.read_board("pynq-z2"),
        calibration=pipeline.Calibration(random_samples=2),
    )
    assert compilation.network.conditions["calibration"] == "0 random inputs"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--input", "x.npy", "--mean", "0.5"), "--mean: scales images alone, not 'x.npy'"),
        (("--random", "--std", "2"), "--std: scales images alone, not '1 random input'"),
        (("--input", "x.npy", "--seed", "0"), "--seed: is of --random; leave it out"),
        (
            ("--device", "twin", "--cycles-only", "--random"),
            "--random: is for a run with data, not --cycles-only; leave it out",
        ),
        (("--device", "twin", "--cycles-only", "--no-check"), "--no-check: is for a run with data"),
        (("--device", "twin", "--cycles-only", "-o", "o.npz"), "--output: is for a run with data"),
        (("--device", "twin", "--cycles-only", "--plain"), "--plain: is for a run with data"),
        (("--random", "--wait", "0"), "--wait: needs a board; add --device board"),
        (
            ("--random", "--device", "reference", "--memory", "ideal"),
            "--memory: needs a device with time, not the reference; leave it out",
        ),
        (("--random", "--device", "reference", "--check"), "--check: compares with the reference"),
        (
            ("--random", "--device", "board", "--agent", "127.0.0.1:1", "--memory", "ideal"),
            "--memory: is for a simulation; a board has a memory of its own; leave it out",
        ),
        (
            ("--random", "--device", "board", "--agent", "127.0.0.1:1", "--ip", "x"),
            "--ip: is of --bitstream",
        ),
    ],
)
def test_run(folder: Path, monkeypatch, words: tuple[str, ...], told: str) -> None:
    monkeypatch.chdir(folder)
    refused(("run", "digits.tw", *words), told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("sim", "C11", "--memory", "ideal", "--board", "pynq-z2"),
            "--board: names the memory where --memory is 'board', not 'ideal'; leave one of both",
        ),
        (("exhaust", "C11", "--memory", "ideal", "--board", "pynq-z2"), "--board: names the"),
        (("export-table", "C11", "--memory", "ideal", "--board", "pynq-z2"), "--board: names the"),
        (("sim", "C11", "--device", "reference", "--memory", "ideal"), "--memory: needs a device"),
        (("board", "run", "b.zip", "--simulated", "--bitstream", "b.bit"), "--bitstream: is for a"),
        (
            ("multicore", "jobs.csv", "--bandwidth", "1", "--size", "3"),
            "--size: makes the jobs of a task; a table states them; leave it out",
        ),
        (("multicore", "jobs.csv", "--bandwidth", "1", "--platform", "S2"), "--platform: makes"),
        (
            ("multicore", "jobs.csv", "--bandwidth", "1", "--method", "exact", "--budget", "9"),
            "--budget: is for methods that sample, not exact",
        ),
        (
            ("multicore", "digits.tw", "--system", "dual-tiny", "--window", "99"),
            "--window: is that of budgets, and no core has one; add --budgets",
        ),
        (
            ("multicore", "q.onnx", "--pipeline", "--system", "dual-tiny", *NOISE),
            "--random-calibration: is for a float model; this one is quantised already",
        ),
        (
            ("tune", "resnet18", "--hw", "tiny-4x4", "--base", "pynq-16x32"),
            "--base: is where a search of configurations starts; hw is the only one",
        ),
        (
            ("tune", "q.onnx", "--compiled", "--trust-model"),
            "--trust-model: is for .pt2 files, not 'q.onnx'",
        ),
    ],
)
def test_other_commands(folder: Path, monkeypatch, words: tuple[str, ...], told: str) -> None:
    monkeypatch.chdir(folder)
    refused(words, told)
