# SPDX-License-Identifier: Apache-2.0
"""`tilewright compile` and `run` as a user types them."""

import json
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from e2e.command import TIMEOUT_S, environment, tilewright
from PIL import Image
from support.boards.bitstreams import write_manifest
from support.documents.json_members import wrong_in
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.machine.board import BOARD_DIR
from tilewright.host.machine.hwconfig import load_hwconfig

SHAPE = (1, 3, 12, 12)


def small_model(rng, *, dynamic=False):
    """Convolutions with a residual, pooling, a dense layer and a softmax."""
    model, same = Model(rng), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = model.input(*(["n", 3, "h", "w"] if dynamic else SHAPE))
    y = model.add("Conv", x, model.weights(8, 3, 3, 3), model.weights(8), **same)
    first = model.add("Relu", y)
    y = model.add("Conv", first, model.weights(8, 8, 3, 3), model.weights(8), **same)
    y = model.add("Relu", model.add("Add", y, first))
    y = model.add("Flatten", model.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    y = model.add("Gemm", y, model.weights(5, 8 * 6 * 6), model.weights(5), transB=1)
    model.add("Softmax", y, axis=1)
    model.nodes[-1].name, model.nodes[-1].output[0] = "softmax", "y"
    return model.proto("y")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks")
    rng = generator("small network")
    onnx.save(small_model(rng), path / "small.onnx")
    np.save(path / "samples.npy", rng.normal(size=(8, *SHAPE[1:])).astype(np.float32))
    np.save(path / "input.npy", rng.normal(size=SHAPE).astype(np.float32))
    return path


def test_names_of_files_are_neither_markup_nor_control_characters(folder):
    (folder / "[").mkdir()
    for words in (
        ("compile", "small.onnx", "--calibration", "samples.npy", "--hw", "tiny-4x4", "--search",
         "0", "-o", "[/x]\x1b[2J.tw"),
        ("run", "[/x]\x1b[2J.tw", "--input", "input.npy", "--device", "reference", "-o",
         "[/x]\x1b[2J.npz"),
    ):  # fmt: skip
        done = tilewright(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert r"saved [/x]\x1b[2J." in done.stdout
        assert "\x1b" not in done.stdout + done.stderr


def test_a_model_runs_bit_exact_on_the_rtl_and_close_to_float(folder):
    compiled = tilewright(
        "compile", "small.onnx", "--calibration", "samples.npy", "--hw", "tiny-4x4", "--json",
        "compile.json", cwd=folder,
    )  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    assert "8 of 9 operators on the accelerator in 1 region" in compiled.stdout, compiled.stdout
    assert "saved small.tw" in compiled.stdout
    assert "end to end: " in compiled.stdout
    assert "; bottleneck: " in compiled.stdout
    run = tilewright(
        "run", "small.tw", "--input", "input.npy", "--device", "dpi", "-o", "out.npz", "--json",
        "run.json", cwd=folder,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "outputs: bit-exact to the reference" in run.stdout
    session = onnxruntime.InferenceSession(
        str(folder / "small.onnx"), providers=["CPUExecutionProvider"]
    )
    expected = session.run(None, {"x": np.load(folder / "input.npy")})[0]
    found = np.load(folder / "out.npz")["y"]
    assert found.shape == expected.shape
    logits, wanted = (np.log(y) - np.log(y).mean() for y in (found, expected))
    assert np.abs(logits - wanted).max() < 0.3 * np.ptp(wanted)  # 0.13 in 150 drawn networks
    cycles = tilewright(
        "run", "small.tw", "--device", "twin", "--cycles-only", "--json", "twin.json", cwd=folder
    )
    assert cycles.returncode == 0, cycles.stderr
    stated = next(part for part in run.stdout.split(": ") if "cycles on the accelerator" in part)
    assert stated.split(" cycles")[0] in cycles.stdout  # the twin counts the cycles of the RTL
    for name in ("compile", "run", "twin"):
        assert wrong_in(json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))) == []


def test_an_operator_is_explained_by_name_or_kind_with_what_it_costs(folder):
    words = ("compile", "small.onnx", "--calibration", "samples.npy", "--hw", "tiny-4x4",
             "--search", "0", "-o", "explained.tw")  # fmt: skip
    done = tilewright(*words, "--explain", "softmax", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (
        "(Softmax) runs on the CPU: it needs row_unit: 1, which pynq-16x16-rows has" in done.stdout
    )
    assert "staying behind costs 0." in done.stdout
    done = tilewright(
        *words, "--explain", "all", "--html", "net.html", "--annotated", "net.onnx", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "region 0" in done.stdout
    assert "<svg" in (folder / "net.html").read_text(encoding="utf-8")
    told = [node.doc_string for node in onnx.load(folder / "net.onnx").graph.node]
    assert any(text.startswith("runs on: accelerator, region 0") for text in told)
    done = tilewright(*words, "--explain", "Softmin", cwd=folder)
    assert done.returncode == 2
    assert "error: --explain: must be the name or kind of an operator" in done.stderr
    assert "Softmax" in done.stderr


def test_an_image_is_scaled_and_cropped_to_the_input(folder):
    pixels = generator("image").integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    done = tilewright(
        "compile", "small.onnx", "--calibration", "photo.png", "--hw", "tiny-4x4", "--search", "0",
        "-o", "photo.tw", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = tilewright("run", "photo.tw", "--input", "photo.png", "--device", "reference", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert "y: float32 [1, 5]" in run.stdout


def test_the_tasks_of_a_compiled_network_can_be_tuned_and_used(folder):
    for command in (
        ("compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
         "-o", "untuned.tw"),
        ("tune", "untuned.tw", "--fidelity", "twin", "--screen", "none", "--budget", "24",
         "--mode", "shared", "--runs", "runs"),
    ):  # fmt: skip
        done = tilewright(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
    config = next((folder / "runs").glob("*.yaml"))
    tuned = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", str(config), "--store",
        "runs/studies.sqlite", "-o", "tuned.tw", cwd=folder,
    )  # fmt: skip
    assert tuned.returncode == 0, tuned.stderr
    assert " store" in next(line for line in tuned.stdout.splitlines() if "schedules:" in line)


WITHOUT_HEAVY = """
import sys
from tilewright.cli import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert ended.code == 2, ended.code
loaded = {"numpy", "onnx", "sqlalchemy", "torch", "tvm"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.parametrize(
    "command",
    [
        ("compile", "absent.onnx", "--random-calibration", "1"),
        ("compile", "small.onnx", "--calibration", "absent"),
        ("run", "absent.tw", "--random"),
        ("run", "small.onnx", "--input", "absent.npy"),
    ],
)
def test_a_file_that_is_missing_is_told_before_anything_heavy_is_loaded(folder, command):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HEAVY, *command], capture_output=True, text=True,
        check=False, cwd=folder, env=environment(), timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cannot be read (No such file or directory)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_layers_of_a_models_compiled_graph_can_be_tuned_at_once(folder):
    done = tilewright(
        "tune", "small.onnx", "--hw", "tiny-4x4", "--fidelity", "twin", "--screen",
        "none", "--budget", "8", "--runs", "at-once", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 x max pooling: on the accelerator, not tuned" in " ".join(done.stdout.split())
    assert "1 x Softmax" in " ".join(done.stdout.split())


def test_open_sizes_are_given_as_a_shape(folder):
    onnx.save(small_model(generator("dynamic"), dynamic=True), folder / "open.onnx")
    done = tilewright(
        "compile", "open.onnx", "--random-calibration", "1", "--shape", "x=1,3,12,12", "--hw",
        "tiny-4x4", "--search", "0", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_program_that_the_board_cannot_hold_is_refused(folder):
    board = yaml.safe_load((BOARD_DIR / "pynq-z2.yaml").read_text())
    board["cpu"]["contiguous_bytes"] = 10_000
    (folder / "small.yaml").write_text(yaml.safe_dump(board))
    done = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        "--board", "small.yaml", "-o", "refused.tw", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 2
    error = done.stderr.strip().splitlines()[-1]
    assert "must fit the contiguous memory of small (at most 10000)" in error
    assert not (folder / "refused.tw").exists()


def test_a_network_for_a_board_of_ones_own_runs_with_it(folder):
    board = yaml.safe_load((BOARD_DIR / "pynq-z2.yaml").read_text()) | {"clock_mhz": 50}
    (folder / "mine.yaml").write_text(yaml.safe_dump(board))
    made = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        "--board", "mine.yaml", "-o", "mine.tw", cwd=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    run = ("run", "mine.tw", "--device", "twin", "--cycles-only")
    refused = tilewright(*run, cwd=folder)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: --board: "), refused.stderr
    assert "'mine'; give the YAML file of that board" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    done = tilewright(*run, "--board", "mine.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "memory mine: " in done.stdout
    assert "ms at an estimated 50 MHz" in done.stdout


def test_the_clock_of_a_bitstream_replaces_the_planned_one(folder):
    write_manifest(folder / "tilewright.yaml", load_hwconfig("tiny-4x4"), clock_mhz=80)
    made = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        "--board", "tilewright.yaml", "-o", "slow.tw", cwd=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "ms at 80 MHz, reached by a bitstream" in made.stdout
    done = tilewright("run", "slow.tw", "--device", "twin", "--cycles-only", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "ms at 80 MHz, reached by a bitstream" in done.stdout


def test_the_board_that_a_compiled_network_names_is_never_opened_as_a_path(folder):
    made = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        "-o", "honest.tw", cwd=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (folder / "path.yaml").write_text("private: text\n")
    with (
        zipfile.ZipFile(folder / "honest.tw") as honest,
        zipfile.ZipFile(folder / "path.tw", "w") as hostile,
    ):
        for entry in honest.infolist():
            hostile.writestr(entry, honest.read(entry).replace(b'"pynq-z2"', b'"path.yaml"'))
    done = tilewright("run", "path.tw", "--device", "twin", "--cycles-only", cwd=folder)
    assert done.returncode == 2
    assert "compiled for a board that is not built in, not 'path.yaml'" in done.stderr
    assert "private" not in done.stderr


def test_an_output_that_is_no_file_is_one_line_and_stays_what_it_is(folder):
    """A pipe stands for every device file: replacing ``/dev/full`` broke other programs."""
    made = tilewright(
        "compile", "small.onnx", "--random-calibration", "1", "--hw", "tiny-4x4", "--search", "0",
        "-o", "target.tw", cwd=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    network = load(folder / "target.tw")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        content = reader.submit(pipe.read_bytes)
        save(network, pipe)
        (folder / "piped.tw").write_bytes(content.result(timeout=60))
    assert load(folder / "piped.tw").conditions == network.conditions
    assert pipe.is_fifo()
    for target in (folder, Path()):
        with pytest.raises(ProgramError, match="the compiled network cannot be written"):
            save(network, target)
    run = ("run", "target.tw", "--random", "--device", "reference", "-o")
    for target, text in ((".", "cannot be written ("), ("/dev/full", "the outputs cannot be ")):
        done = tilewright(*run, target, cwd=folder)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: --output: {text}")
        assert len(done.stderr.splitlines()) == 1
    assert Path("/dev/full").is_char_device()
    done = tilewright(*run, "named", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "saved named" in done.stdout
    assert list(np.load(folder / "named")) == ["y"]
