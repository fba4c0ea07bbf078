# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore MODEL --pipeline`: stages on the RTL, bit-exact, and what is refused."""

import json

import numpy as np
import onnx
import pytest
from support.command_line import call, refusal
from support.networks.small_models import Model

pytestmark = pytest.mark.usefixtures("told_members")


def residual(rng):
    """Convolutions with a shortcut across the middle."""
    model = Model(rng)
    first = model.add("Conv", model.input(1, 4, 8, 8), model.weights(8, 4, 3, 3), pads=[1, 1, 1, 1])
    first = model.add("Relu", first)
    y = model.add("Conv", first, model.weights(8, 8, 3, 3), pads=[1, 1, 1, 1])
    y = model.add("Conv", model.add("Relu", y), model.weights(8, 8, 3, 3), pads=[1, 1, 1, 1])
    y = model.add("Relu", model.add("Add", y, first))
    return model.proto(model.add("Conv", y, model.weights(4, 8, 1, 1)))


def divided(rng):
    """Two convolutions with an operator of the CPU between them."""
    model = Model(rng)
    y = model.add("Conv", model.input(1, 4, 8, 8), model.weights(8, 4, 3, 3))
    return model.proto(model.add("Conv", model.add("Sin", y), model.weights(8, 8, 3, 3)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(2)
    onnx.save(residual(rng), path / "residual.onnx")
    onnx.save(divided(rng), path / "divided.onnx")
    (path / "made.tw").write_text("not read")
    return path


WORDS = ("--pipeline", "--system", "dual-tiny", "--random-calibration", "1", "--search", "0")


def test_a_network_runs_in_two_stages_bit_exact(folder):
    result = call(
        "multicore", str(folder / "residual.onnx"), *WORDS, "--frames", "2", "--one", "edge-8x8",
        "--json", "-",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    rows, summary = found["rows"], found["summary"]
    assert sorted(row["core"] for row in rows) == [0, 1]
    assert summary["wrong_bytes"] == summary["wrong_elements"] == 0
    tiny = summary["whole"]["tiny-4x4"]["cycles"]
    assert tiny / 2 <= summary["tick_cycles"] < tiny
    assert 0.9 * tiny < sum(row["alone_cycles"] for row in rows) < 1.1 * tiny
    assert summary["whole"]["edge-8x8"]["cycles"] < tiny
    shape = 8 * 8 * 8  # of every tensor between two stages
    assert summary["moved_bytes"] % (2 * shape) == 0 < summary["moved_bytes"]
    assert summary["overlapped_frames_per_s"] >= summary["frames_per_s"]
    assert "equal to the reference's" in result.stderr


def test_the_order_of_cores_can_be_given(folder):
    result = call(
        "multicore", str(folder / "residual.onnx"), *WORDS, "--device", "twin", "--cores", "1,0",
        "--frames", "2", "--json", "-",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["core"] for row in found["rows"]] == [1, 0]
    assert found["summary"]["wrong_bytes"] is None
    assert found["summary"]["wrong_elements"] is None


GIVEN = " ".join(WORDS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("made.tw --pipeline --system dual-tiny", "takes one model, .onnx, .tflite or .pt2"),
        ("residual.onnx --pipeline", "--system: must be given for --pipeline"),
        ("residual.onnx --pipeline --system dual-tiny", "needs calibration data"),
        (f"no.onnx {GIVEN}", "MODEL: cannot be read"),
        (f"divided.onnx {GIVEN}", "2 regions; on the CPU: Sin"),
        (f"residual.onnx {GIVEN} --cores 0,0", "--cores: must be different cores"),
        (f"residual.onnx {GIVEN} --frames 2,2", "--frames: must be 1 whole number of at"),
        (f"residual.onnx {GIVEN} --frames 0", "--frames: must be 1 whole number of at"),
        (f"residual.onnx {GIVEN} --one edge-8x9", "--one: no configuration of that name"),
        (f"residual.onnx {GIVEN} --platform S2", "--platform: is not of --pipeline"),
        ("residual.onnx --system dual-tiny --search 2", "--search: needs --pipeline"),
    ],
)
def test_what_cannot_be_is_one_line(folder, monkeypatch, words, told):
    monkeypatch.chdir(folder)
    assert told in refusal("multicore", *words.split())
