# SPDX-License-Identifier: Apache-2.0
"""What a compilation tells of what it was given."""

from pathlib import Path

import numpy as np
from support.command_line import call
from support.randomness import generator
from support.small_models import Model

from tilewright.cli import compile as command
from tilewright.host.compiler import pipeline
from tilewright.host.machine.hwconfig import load_hwconfig

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
NOISE = ("--random-calibration", "1")


def test_an_operator_that_only_makes_constants_is_explained_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "require_named", lambda *_: None)
    words = ("--hw", "tiny-4x4", "--search", "0", "--explain", "Shape", "-o")
    done = call("compile", str(DIGITS), *NOISE, *words, str(tmp_path / "made.tw"))
    assert done.exit_code == 0, done.output
    assert "Shape only makes constants: nothing of it is left to run" in done.stdout


def test_a_quantised_model_is_not_said_to_be_calibrated() -> None:
    model = Model(generator("quantised"))
    x = model.quantised(model.input(1, 4, 4, 4), 0.05, 0)
    weights = model.quantised(model.constant(np.ones((4, 4, 1, 1), np.float32)), 0.01, 0)
    compilation = pipeline.compile_model(
        model.proto(model.quantised(model.add("Conv", x, weights), 0.05, 0)),
        load_hwconfig("tiny-4x4"),
        command.read_board("pynq-z2"),
        calibration=pipeline.Calibration(random_samples=2),
    )
    assert compilation.network.conditions["calibration"] == "0 random inputs"
