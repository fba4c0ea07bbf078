# SPDX-License-Identifier: Apache-2.0
"""The CPU part in a process of its own: the same results; limits, crashes and lies are errors."""

import io
import json
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, imported, noise
from support.randomness import fresh_rng

from tilewright.host.common.errors import DeviceError, ProgramError, WorkloadError
from tilewright.host.compiler.pipeline import partition
from tilewright.host.compiler.run import host_process
from tilewright.host.compiler.run.host_channel import ChannelError, receive, send
from tilewright.host.compiler.run.host_process import HostLimits, HostProcess
from tilewright.host.compiler.run.relax_host import HostProgram


@pytest.fixture(scope="module")
def network():
    model = Model(np.random.default_rng(0))
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    y = model.add("Conv", model.add("Sigmoid", y), model.weights(4, 4, 1, 1))
    return imported(model.proto(y))


@pytest.fixture(scope="module")
def parts(network):
    found = partition(network)
    assert len(found.regions) == 2
    return found


@pytest.fixture(scope="module")
def process(parts):
    with HostProcess(parts.host.to_json()) as child:
        yield child


def test_it_computes_what_the_program_computes(network, parts, process) -> None:
    inputs, regions = noise(network, fresh_rng()), FloatRegions(parts.regions)
    expected = HostProgram(module=parts.host).run(inputs, regions)
    for _ in range(2):
        found = process.run(inputs, regions)
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    assert process.times.cpu > 0


def test_errors_of_a_region_pass_through_and_the_process_stays_usable(
    network, parts, process
) -> None:
    inputs = noise(network, fresh_rng())

    def failing(number, arrays):
        raise ProgramError("must not fail", field=f"region {number}")

    with pytest.raises(ProgramError, match="region 0: must not fail"):
        process.run(inputs, failing)
    assert process.run(inputs, FloatRegions(parts.regions))


def test_inputs_that_do_not_fit_are_refused(network, parts, process) -> None:
    with pytest.raises(WorkloadError, match=r"must be one of \['x'\]"):
        process.run({"y": noise(network, fresh_rng())["x"]}, FloatRegions(parts.regions))
    assert process.run(noise(network, fresh_rng()), FloatRegions(parts.regions))


def test_a_process_without_memory_is_one_error(parts) -> None:
    with pytest.raises((DeviceError, WorkloadError)):
        HostProcess(parts.host.to_json(), HostLimits(memory_bytes=1 << 27))


def test_a_process_that_takes_too_long_is_one_error(parts) -> None:
    with pytest.raises(DeviceError, match=r"without a crash, in 0.01 s.*it took too long"):
        HostProcess(parts.host.to_json(), HostLimits(seconds=0.01))


@pytest.mark.slow
def test_a_loop_without_an_end_is_one_error() -> None:
    model = Model(np.random.default_rng(0))
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["more"]), helper.make_node("Sin", ["y"], ["z"])],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, ()),
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 4, 4)),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 4, 4, 4)),
        ],
    )
    rounds = model.add("Cast", model.input(name="rounds"), to=TensorProto.INT64)
    found = partition(imported(model.proto(model.add("Loop", rounds, "", y, body=body))))
    with HostProcess(found.host.to_json(), HostLimits(seconds=20)) as process:
        inputs = {"x": np.ones((1, 3, 4, 4), np.float32), "rounds": np.array(3, np.float32)}
        assert process.run(inputs, FloatRegions(found.regions))
        inputs["rounds"] = np.array(1e18, np.float32)
        with pytest.raises(DeviceError, match=r"without a crash, in 20 s.*it took too long"):
            process.run(inputs, FloatRegions(found.regions))


_SAYS = "import sys; sys.stdout.buffer.write({!r}); sys.stdout.flush(); sys.stdin.read()"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("import sys; sys.exit('out of paper')", "out of paper"),
        (_SAYS.format(b"\xff" * 64), "header that is too long"),
        (_SAYS.format(b"\2" + bytes(7) + b"{}"), "something else than a message"),
    ],
)  # fmt: skip
def test_a_process_that_crashes_or_lies_is_one_error(parts, monkeypatch, script, message) -> None:
    real = subprocess.Popen
    monkeypatch.setattr(
        host_process.subprocess,
        "Popen",
        lambda command, **options: real([command[0], "-c", script], **options),
    )
    with pytest.raises(DeviceError, match=message) as caught:
        HostProcess(parts.host.to_json())
    assert "--trust-model" in caught.value.remedy


def test_messages_arrive_whole() -> None:
    arrays = [np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((), np.float32), np.zeros((0, 2))]
    stream = io.BytesIO()
    send(stream, {"region": 3}, arrays)
    stream.seek(0)
    header, found = receive(stream)
    assert header["region"] == 3
    for ours, theirs in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize(
    "arrays",
    [
        [{"dtype": "O", "shape": [1]}],
        [{"dtype": "int8", "shape": [1 << 40]}],
        [{"dtype": "int8", "shape": [-1]}],
        [{"dtype": "no type", "shape": [1]}],
        None,
    ],
)
def test_messages_that_lie_are_errors(arrays) -> None:
    text = json.dumps({"arrays": arrays}).encode()
    with pytest.raises(ChannelError):
        receive(io.BytesIO(len(text).to_bytes(8, "little") + text + bytes(64)))


def test_a_process_that_nobody_holds_ends(parts) -> None:
    process = HostProcess(parts.host.to_json())
    child = process._child
    assert child.poll() is None
    del process
    assert child.returncode is not None
