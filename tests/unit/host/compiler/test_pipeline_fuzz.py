# SPDX-License-Identifier: Apache-2.0
"""Damaged models end in one error or run; nothing hangs, nothing else is raised."""

import time

import numpy as np
import onnx
import pytest
from support.onnx_mutations import mutated
from support.randomness import fresh_rng
from support.small_models import Model, imported

from tilewright.host.common.errors import DeviceError, WorkloadError
from tilewright.host.compiler.divide.relax_import import to_relax
from tilewright.host.compiler.divide.relax_partition import divide
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.quantise.prepare import prepare
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.compiler.read.model_ends import arguments_of
from tilewright.host.compiler.read.model_file import read_model
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram

SECONDS_EACH = 60.0


def image_network() -> onnx.ModelProto:
    model = Model(np.random.default_rng(0))
    x = model.input(1, 3, 8, 8)
    y = model.add("Relu", model.add("Conv", x, model.weights(4, 3, 3, 3), pads=[1, 1, 1, 1]))
    z = model.add("Conv", y, model.weights(4, 1, 3, 3), group=4, pads=[1, 1, 1, 1])
    y = model.add("Concat", model.add("Add", y, z), z, axis=1)
    y = model.add("MaxPool", model.add("HardSwish", y), kernel_shape=[2, 2], strides=[2, 2])
    y = model.add("Gemm", model.add("Flatten", y), model.weights(128, 5), model.weights(5))
    return model.proto(model.add("Softmax", y))


def token_network() -> onnx.ModelProto:
    model = Model(np.random.default_rng(0))
    x = model.input(1, 4, 6)
    a, b = (model.add("MatMul", x, model.weights(6, 6)) for _ in range(2))
    a = model.add("Reshape", a, model.constant(np.array([1, 4, 2, 3])))
    b = model.add("Reshape", b, model.constant(np.array([1, 4, 2, 3])))
    a = model.add("Transpose", a, perm=[0, 2, 1, 3])
    y = model.add("MatMul", a, model.add("Transpose", b, perm=[0, 2, 3, 1]))
    y = model.add("Softmax", model.add("Div", y, model.constant(np.float32(1.7))))
    y = model.add("Transpose", model.add("MatMul", y, a), perm=[0, 2, 1, 3])
    return model.proto(model.add("Reshape", y, model.constant(np.array([1, 4, 6]))))


def sources() -> list[onnx.ModelProto]:
    """Float models and quantised ones, which nothing rewrites before TVM sees them."""
    floats = [image_network(), token_network()]
    return [*floats, *(imported(model).qdq for model in floats)]


def survives(data: bytes, path) -> bool:
    """Import, divide, compile and run a damaged model in this process; whether it was usable."""
    path.write_bytes(data)
    try:
        model = read_model(path, {})
        prepared = prepare(model, path, Calibration(random_samples=1), QuantiseOptions())
        relax = to_relax(prepared.model)
        division = divide(relax)
        inputs, outputs = arguments_of(prepared.model)
        host = HostModule(module=division.host, inputs=inputs, outputs=outputs)
        graphs = [region.graph for region in division.regions]

        def zeros(number, arrays):
            graph = graphs[number]
            shapes = [graph.model_shapes.get(n, graph.tensors[n].shape) for n in graph.outputs]
            return [np.zeros(shape, np.int8) for shape in shapes]

        data = {a.name: np.zeros(a.shape, a.dtype) for a in inputs}
        assert set(HostProgram(module=host).run(data, zeros)) == {a.name for a in outputs}
    except (DeviceError, WorkloadError):
        return False
    return True


def fuzz(count: int, path) -> int:
    rng = fresh_rng()
    models = sources()
    usable = 0
    for _ in range(count):
        started = time.monotonic()
        usable += survives(mutated(models[rng.integers(len(models))], rng), path)
        assert time.monotonic() - started < SECONDS_EACH
    return usable


def test_the_undamaged_models_are_usable(tmp_path) -> None:
    for model in sources():
        assert survives(model.SerializeToString(), tmp_path / "model.onnx")


def test_damaged_models_end_in_one_error(tmp_path) -> None:
    fuzz(25, tmp_path / "model.onnx")


@pytest.mark.slow
def test_many_damaged_models_end_in_one_error(tmp_path) -> None:
    assert fuzz(2000, tmp_path / "model.onnx") > 20


@pytest.mark.slow
def test_long_chains_of_operators_take_seconds(tmp_path) -> None:
    model = Model(np.random.default_rng(0))
    x = model.input(1, 4)
    for _ in range(400):
        x = model.quantised(model.add("Relu", x), 0.1)
        x = model.add("Sigmoid", x)
    started = time.monotonic()
    parts = partition(import_network(model.proto(x)))
    assert time.monotonic() - started < 60
    assert len(parts.placements) == 800
