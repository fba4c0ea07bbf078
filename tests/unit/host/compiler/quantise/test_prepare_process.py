# SPDX-License-Identifier: Apache-2.0
"""Files are read in a process of their own; whatever happens there ends in one error here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.quantise import prepare_process
from tilewright.host.compiler.quantise.prepare import prepare
from tilewright.host.compiler.quantise.prepare_process import reading
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import (
    ImportLimits,
    ImportOptions,
    QuantiseOptions,
)
from tilewright.host.compiler.read.model_file import read_model
from tilewright.host.compiler.read.remedies import GIVE_CALIBRATION
from tilewright.host.network.onnx_layers import load_onnx


@pytest.fixture
def model_path(tmp_path) -> Path:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 6, 6), model.weights(4, 3, 3, 3), model.weights(4))
    path = tmp_path / "model.onnx"
    onnx.save(model.proto(model.add("Relu", y)), path)
    return path


def in_child(path, calibration, limits=ImportLimits(seconds=120)):  # noqa: B008  (immutable)
    with reading(path, calibration, ImportOptions(limits=limits)) as begun:
        return begun.finish()


@pytest.mark.parametrize("kind", ["arrays", "path", "random"])
def test_the_child_prepares_the_same_model(model_path, tmp_path, kind) -> None:
    data = fresh_rng().normal(size=(3, 3, 6, 6)).astype(np.float32)
    np.save(tmp_path / "data.npy", data)
    calibration = {
        "arrays": Calibration(arrays={"x": data}, mean=(0.1, 0.2, 0.3)),
        "path": Calibration(path=tmp_path / "data.npy"),
        "random": Calibration(random_samples=2, seed=3),
    }[kind]
    found = in_child(model_path, calibration)
    model = read_model(model_path, {})
    expected = prepare(model, model_path, calibration, QuantiseOptions())
    assert found.model == expected.model
    assert not found.was_quantised
    assert set(found.seconds) == set(expected.seconds)


def test_errors_of_the_child_arrive_whole(model_path, tmp_path) -> None:
    with pytest.raises(WorkloadError) as caught:
        in_child(model_path, None)
    assert caught.value.rule == "a float model needs calibration data"
    assert caught.value.field == str(model_path)
    assert caught.value.remedy == GIVE_CALIBRATION
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(WorkloadError, match=r"empty\.onnx: must be an ONNX model"):
        in_child(tmp_path / "empty.onnx", None)


@pytest.mark.parametrize(("damaged", "calls"), [(True, 0), (False, 1)])
def test_only_a_file_that_could_be_read_is_worth_loading_more(model_path, damaged, calls) -> None:
    if damaged:
        model_path.write_bytes(model_path.read_bytes()[:100])
    called: list[bool] = []
    options = ImportOptions(limits=ImportLimits(seconds=120))
    with (
        pytest.raises(WorkloadError, match="must be an ONNX model" if damaged else "calibration"),
        reading(model_path, None, options) as begun,
    ):
        begun.finish(lambda: called.append(True))
    assert len(called) == calls


def test_a_batch_of_zero_is_refused(model_path) -> None:
    model = onnx.load(model_path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    onnx.save(model, model_path)
    with pytest.raises(WorkloadError, match="must not have a batch of 0"):
        read_model(model_path, {})
    with pytest.raises(WorkloadError, match="must not have a batch of 0"):
        load_onnx(model_path)


def test_a_child_that_takes_too_long_is_stopped(model_path) -> None:
    with pytest.raises(WorkloadError, match=r"must be readable in 0.01 s"):
        in_child(model_path, Calibration(random_samples=1), ImportLimits(seconds=0.01))


def test_a_child_without_memory_is_an_error(model_path) -> None:
    # Less than what the process holds when the limit is set: how much the libraries then ask for
    # depends on the machine's number of cores.
    with pytest.raises(WorkloadError):
        in_child(model_path, Calibration(random_samples=1), ImportLimits(memory_bytes=2**26))


def test_a_child_that_crashes_is_an_error(model_path, monkeypatch) -> None:
    real = subprocess.Popen

    def crashing(command, **options):
        script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        return real([command[0], "-c", script], **options)

    monkeypatch.setattr(prepare_process.subprocess, "Popen", crashing)
    with pytest.raises(WorkloadError, match=r"without a crash \(killed by SIGSEGV\)"):
        in_child(model_path, Calibration(random_samples=1))


def test_the_process_that_waits_loads_nothing_that_only_the_reader_needs() -> None:
    program = (
        "import sys, tilewright.host.compiler.quantise.prepare_process\n"
        "assert not {'onnx', 'onnx_ir', 'onnxruntime', 'torch', 'tvm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
