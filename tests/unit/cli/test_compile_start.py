# SPDX-License-Identifier: Apache-2.0
"""The first cycle count of a network: what its path loads, and in which order it works.

No clock is read: what made the path slow was what it imported, and what stood before the count.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.cli import compile as command
from tilewright.cli.common import progress as shown
from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler import pipeline
from tilewright.host.compiler.pack import artefact
from tilewright.host.compiler.quantise import prepare_process
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.hwconfig import load_hwconfig

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
WORDS = ("compile", str(DIGITS), "--hw", "tiny-4x4", "--random-calibration", "1", "--search", "0")
PARENT = """
import json, subprocess, sys
from tilewright.cli.common import progress
seen = {}

class Watched(subprocess.Popen):
    def __init__(self, words, *rest, **options):
        if "tilewright.host.compiler.quantise.prepare_process" in words:
            seen["child"] = sorted(sys.modules)
        super().__init__(words, *rest, **options)

subprocess.Popen = Watched
real = progress.progress

def watched(*words, **options):
    seen.setdefault("progress", sorted(sys.modules))
    return real(*words, **options)

progress.progress = watched
sys.argv = ["tilewright", *json.loads(sys.argv[1])]
from tilewright.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
seen["end"] = sorted(sys.modules)
print("\\n" + json.dumps(seen))
"""
CHILD = """
import json, sys
from pathlib import Path
from tilewright.host.compiler.quantise import prepare_process
from tilewright.host.compiler.read import model_file
seen, real = {}, model_file.read_model

def watched(*words):
    seen["read"] = sorted(sys.modules)
    return real(*words)

model_file.read_model = watched
prepare_process.main(Path(sys.argv[1]))
seen["end"] = sorted(sys.modules)
print(json.dumps(seen))
"""


def modules(script: str, *words: str) -> dict[str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    return {when: set(names) for when, names in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.fixture(scope="module")
def parent(tmp_path_factory) -> dict[str, set[str]]:
    """Modules of the process that compiles: by progress, the child's start, and its end."""
    output = tmp_path_factory.mktemp("start") / "digits.tw"
    return modules(PARENT, json.dumps([*WORDS, "-o", str(output)]))


def test_progress_and_the_child_begin_before_anything_heavy_is_loaded(parent) -> None:
    heavy = {
        *("numpy", "onnx", "onnx_ir", "onnxruntime", "sqlalchemy", "sympy", "torch", "tvm"),
        *("tilewright.host.compiler.pipeline", "tilewright.tuner.study.schedule_lookup"),
    }
    assert not heavy - {"numpy"} & parent["child"]
    assert not heavy & parent["progress"]


def test_the_process_that_compiles_loads_what_it_needs_alone(parent) -> None:
    assert "tvm" in parent["end"]
    unused = {
        *("networkx", "onnx_ir", "onnxruntime", "pandas", "sqlalchemy", "sympy", "torch"),
        "tilewright.host.compiler.quantise.prepare",
    }
    assert not unused & parent["end"]


def test_the_process_that_reads_loads_what_it_needs_alone(tmp_path, monkeypatch) -> None:
    found = {}

    class Stopped(Exception):  # noqa: N818  (no error)
        pass

    def run_here(words, **_: object):
        monkeypatch.undo()
        found.update(modules(CHILD, words[-1]))
        raise Stopped

    monkeypatch.setattr(prepare_process.subprocess, "Popen", run_here)
    with (
        pytest.raises(Stopped),
        prepare_process.reading(DIGITS, Calibration(random_samples=1), ImportOptions()),
    ):
        pass
    assert not {"networkx", "pandas", "sqlalchemy", "sympy", "torch", "tvm"} & found["end"]
    assert "onnxruntime" in found["end"]
    assert not {"onnx_ir", "onnxruntime"} & found["read"], "a damaged file is told of at once"


def test_the_file_is_written_where_the_twin_fails(tmp_path, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise ProgramError("the twin cannot", field="memory")

    monkeypatch.setattr("tilewright.sim.twin.network_timing.time_network", fails)
    path = tmp_path / "digits.tw"
    assert call(*WORDS, "-o", str(path)).exit_code == 2
    assert artefact.load(path).name == "digits"


def test_progress_is_shown_within_the_first_second() -> None:
    assert command.progress is shown.progress
    assert shown.PATIENCE_SECONDS <= 0.5


# -- what a compilation tells of what it was given ------------------------------------------------

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
