# SPDX-License-Identifier: Apache-2.0
"""What options of quantisation change, and that they change nothing in a quantised model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.networks.small_models import Model
from support.randomness import fresh_rng

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
from tilewright.host.compiler.read.model_file import normalised, read_model
from tilewright.host.compiler.read.remedies import GIVE_CALIBRATION

PLAIN = QuantiseOptions(method="minmax", equalisation=False, bias_correction=False)


def prepared(model: onnx.ModelProto, options: QuantiseOptions) -> tuple[bytes, bool]:
    origin = Path("net.onnx")
    found = prepare(normalised(model, origin, {}), origin, Calibration(random_samples=3), options)
    return found.model.SerializeToString(), found.was_quantised


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("kind", ["HardSigmoid", "LeakyRelu", "Min", "Mul", "Pad"])
def test_numbers_that_int8_cannot_hold_are_refused(kind, rounds, bad) -> None:
    """In a float model calibration may find them first."""
    model = Model(fresh_rng())
    x = model.input(1, 4, 6, 6)
    x = model.quantised(x, 0.02) if rounds else model.add("Conv", x, model.weights(4, 4, 1, 1))
    constants = [model.constant(np.float32(bad))]
    stated = {}
    if kind == "Pad":
        constants.insert(0, model.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    elif kind in ("HardSigmoid", "LeakyRelu"):
        constants, stated = [], {"alpha": bad}
    y = model.add(kind, x, *constants, **stated)
    y = model.quantised(y, 0.03) if rounds else model.add("Conv", y, model.weights(4, 4, 1, 1))
    if bad == np.inf and (kind == "Min" or (kind == "Pad" and rounds)):
        prepared(model.proto(y), PLAIN)  # it is never the least, or the end of int8 stands for it
        return
    with pytest.raises(WorkloadError, match="must be finite"):
        prepared(model.proto(y), PLAIN)


@pytest.mark.parametrize("percentile", [50, 0, -1, 100.5, float("nan")])
def test_a_percentile_without_sense_is_refused(percentile) -> None:
    with pytest.raises(WorkloadError, match=r"percentile: must be more than 50 and at most 100"):
        QuantiseOptions(method="percentile", percentile=percentile)


@pytest.mark.parametrize(
    ("kind", "name"), [("HardSigmoid", "alpha"), ("Shrink", "lambd"), ("Elu", "alpha")]
)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_attribute_that_is_no_number_is_refused_on_the_cpu_too(kind, name, bad) -> None:
    """The network computed 1.0 of HardSigmoid(alpha=nan), where ONNX Runtime has NaN."""
    model = Model(fresh_rng())
    x = model.input(1, 3, 8, 8)
    y = model.add("Conv", x, model.weights(4, 3, 1, 1))
    proto = model.proto(y, model.add(kind, x, **{name: float(bad)}))
    with pytest.raises(WorkloadError, match="must be finite"):
        prepared(proto, PLAIN)


@pytest.mark.parametrize(
    ("low", "high"),
    [(np.inf, np.inf), (-np.inf, -np.inf), (0, np.nan), (np.nan, 6), (np.inf, None)],
)
@pytest.mark.parametrize("behind", [True, False])
def test_bounds_that_leave_no_finite_number_are_refused(low, high, behind) -> None:
    """On the CPU a wrong finite number came of them."""
    model = Model(fresh_rng())
    x = model.input(1, 3, 8, 8)
    y = model.add("Conv", x, model.weights(4, 3, 1, 1))
    ends = [model.constant(np.float32(end)) for end in (low, high) if end is not None]
    clipped = model.add("Clip", y if behind else x, *ends)
    with pytest.raises(WorkloadError, match="finite"):
        prepared(model.proto(y, clipped), PLAIN)


# -- files are read in a process of their own -----------------------------------------------------


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
    expected = prepare(read_model(model_path, {}), model_path, calibration, QuantiseOptions())
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
