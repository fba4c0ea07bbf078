# SPDX-License-Identifier: Apache-2.0
"""The door of the front end: files, modules, options and errors."""

import importlib
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
import torch
from support.networks.onnx_mutations import mutated
from support.networks.onnx_results import assert_same_results
from support.networks.qdq_runs import assert_near
from support.networks.qgraph_floats import FloatRegions
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng
from torch import nn

from tilewright.host.common.errors import DeviceError, ToolError, WorkloadError
from tilewright.host.compiler.divide.relax_import import to_relax
from tilewright.host.compiler.divide.relax_partition import divide
from tilewright.host.compiler.lower.qgraph import QConv
from tilewright.host.compiler.pipeline import (
    ImportedNetwork,
    compile_network,
    import_network,
    partition,
)
from tilewright.host.compiler.quantise import prepare_process
from tilewright.host.compiler.quantise.prepare import prepare
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.read.model_ends import arguments_of
from tilewright.host.compiler.read.model_file import read_model
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.compiler.tasks import load_network, network_table
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig


def small_module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    ).eval()


def images(count: int) -> np.ndarray:
    return fresh_rng().normal(size=(count, 3, 8, 8)).astype(np.float32)


def assert_close_to(module: nn.Module, network: ImportedNetwork, data: np.ndarray) -> None:
    """The int8 network, run as a whole, approximates the float module."""
    parts = partition(network)
    assert len(parts.regions) == 1
    (argument,) = network.inputs
    run = HostProgram(module=parts.host).run({argument.name: data}, FloatRegions(parts.regions))
    with torch.no_grad():
        expected = module(torch.from_numpy(data)).numpy()
    found = next(iter(run.values()))
    assert_near(found, expected, 0.1)


def test_a_module_of_pytorch() -> None:
    module, data = small_module(), images(4)
    module.train()
    said: list[str] = []
    network = import_network(
        module, calibration=Calibration(arrays={"input": data}), progress=said.append
    )
    assert [text.split()[0] for text in said] == ["reading", "importing"]
    assert module.training
    assert network.name == "Sequential"
    assert {"export", "quantise", "import into Relax", "total"} <= set(network.seconds)
    assert_close_to(module.eval(), network, data[:1])


@pytest.mark.slow
def test_int8_ends_leave_nothing_to_convert_and_the_same_result() -> None:
    data, results = images(4), []
    for ends in (False, True):
        network = import_network(
            small_module(),
            calibration=Calibration(arrays={"input": data}),
            options=ImportOptions(quantise=QuantiseOptions(int8_ends=ends)),
        )
        parts = partition(network)
        given = next(Calibration(arrays={"input": data}).batches(network.inputs))
        run = HostProgram(module=parts.host).run(given, FloatRegions(parts.regions))
        (port,) = network.outputs
        assert (port.is_quantised, parts.conversions.bytes == 0) == (ends, ends)
        results.append(port.dequantise(run[port.name]) if ends else run[port.name])
    np.testing.assert_array_equal(*results)


def test_a_file_of_torch_export(tmp_path) -> None:
    module, data = small_module(), images(3)
    path = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(module, (torch.from_numpy(data[:1]),)), path)
    network = import_network(path, calibration=Calibration(arrays={"input": data}))
    assert network.name == "small"
    assert_close_to(module, network, data[:1])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(WorkloadError, match=r"small.pt2: must be a file of torch.export.save"):
        import_network(path, calibration=Calibration(arrays={"input": data}))


@pytest.mark.slow
def test_an_exported_program() -> None:
    module, data = small_module(), images(2)
    program = torch.export.export(module, (torch.from_numpy(data[:1]),))
    network = import_network(
        program, calibration=Calibration(random_samples=8), options=ImportOptions(name="exported")
    )
    assert network.name == "exported"
    assert len(partition(network).regions) == 1


def test_missing_calibration_is_said_before_anything_is_loaded(tmp_path, monkeypatch) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    onnx.save(model.proto(y), tmp_path / "float.onnx")
    torch.export.save(
        torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),)), tmp_path / "float.pt2"
    )

    def read(*_: object, **options: object) -> None:
        raise AssertionError("the file is read in full")

    monkeypatch.setattr(prepare_process.subprocess, "Popen", read)
    for name in ("float.onnx", "float.pt2"):
        with pytest.raises(WorkloadError, match=rf"{name}: a float model needs calibration data"):
            import_network(tmp_path / name)


def test_a_quantised_file_passes_through_without_calibration(tmp_path) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    first = import_network(model.proto(y), calibration=Calibration(random_samples=2))
    path = tmp_path / "quantised.onnx"
    onnx.save(first.qdq, path)
    again = import_network(path)
    assert again.was_quantised
    inputs = {"x": fresh_rng().normal(size=(1, 3, 4, 4)).astype(np.float32)}
    assert_same_results(first.qdq, again.qdq, inputs)


def test_ways_to_calibrate(capfd) -> None:
    """A single outlier widens the range of all elements, but hardly that of percentiles."""
    data = fresh_rng().normal(size=(64, 3, 24, 24)).astype(np.float32)
    models = [Model(fresh_rng()), Model(fresh_rng())]
    capfd.readouterr()  # the seeds
    data[0, 0, 0, 0] = 60
    scales = {}
    for method, model in zip(("minmax", "percentile"), models, strict=True):
        y = model.add("Conv", model.input(1, 3, 24, 24), model.weights(4, 3, 1, 1))
        options = ImportOptions(quantise=QuantiseOptions(method=method, per_channel=False))
        network = import_network(
            model.proto(y), calibration=Calibration(arrays={"x": data}), options=options
        )
        (region,) = partition(network).regions
        (operator,) = region.operators
        assert isinstance(operator, QConv)
        assert len(set(operator.weight_scales)) == 1
        scales[method] = region.tensors[region.inputs[0]].scale
    assert scales["minmax"] == pytest.approx(60 / 127, rel=0.01)
    assert scales["percentile"] < 20 / 127
    assert not capfd.readouterr().out


def test_operators_that_nobody_knows_are_refused_by_name(tmp_path) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    onnx.save(model.proto(model.add("Mish2", y)), tmp_path / "model.onnx")
    with pytest.raises(WorkloadError, match="must be an operator of standard ONNX, not 'Mish2'"):
        import_network(tmp_path / "model.onnx", calibration=Calibration(random_samples=1))


def test_a_model_in_memory_stays_as_it_is_and_imports_again() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    proto = onnx.shape_inference.infer_shapes(model.proto(model.add("Relu", y)))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    assert proto.graph.output[0].type.tensor_type.HasField("shape")
    before = proto.SerializeToString(deterministic=True)
    first, again = (
        import_network(proto, calibration=Calibration(random_samples=1)) for _ in range(2)
    )
    assert proto.SerializeToString(deterministic=True) == before
    assert first.qdq == again.qdq


def test_wrong_sources_and_options_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"must be a path, an nn\.Module or an ExportedProgram"):
        import_network(3, calibration=Calibration(random_samples=1))
    with pytest.raises(WorkloadError, match=r"an nn\.Module needs example inputs"):
        import_network(small_module(), calibration=Calibration(random_samples=1))
    with pytest.raises(WorkloadError, match=r"input_shapes.x: must be positive sizes"):
        ImportOptions(input_shapes={"x": (1, 0)})


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"packages onnx-ir.*pip install 'tilewright\[network\]'"):
        import_network("model.onnx")


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = (
        "import sys; import tilewright.host.compiler.pipeline;"
        "import tilewright.host.compiler.lower.qgraph;"
        "heavy = {'tvm', 'torch', 'onnxruntime', 'onnx_ir', 'onnxscript', 'PIL', 'networkx'};"
        "sys.exit(str(sorted(heavy & set(sys.modules))) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


# -- what is tuned of a model is what is compiled of it -------------------------------------------


def over_time(model: Model) -> str:
    """Convolutions over one axis and a dense layer."""
    y = model.add("Relu", model.add("Conv", model.input(1, 8, 12), model.weights(16, 8, 3)))
    y = model.add("Conv", y, model.weights(16, 1, 3), group=16, pads=[1, 1])
    y = model.add("Flatten", model.add("Sigmoid", y))
    return model.add("Gemm", y, model.weights(160, 5))


def channels_last(model: Model) -> str:
    """Dense layers of four axes behind a convolution."""
    y = model.add("Conv", model.input(1, 8, 4, 5), model.weights(16, 8, 1, 1))
    y = model.add("MatMul", model.add("Transpose", y, perm=[0, 2, 3, 1]), model.weights(16, 32))
    return model.add("MatMul", model.add("Erf", y), model.weights(32, 16))


@pytest.mark.parametrize("build", [over_time, channels_last])
def test_tune_and_compile_agree_on_the_layers_of_a_model(build, tmp_path) -> None:
    model = Model(fresh_rng())
    proto = model.proto(build(model))
    onnx.save(proto, tmp_path / "net.onnx")
    tuned = load_network(tmp_path / "net.onnx")
    network = compile_network(
        imported(proto), load_hwconfig("tiny-4x4"), load_board("pynq-z2"), offload_all=True
    ).network
    compiled = network_table(network)
    macs = sorted(w.macs for w in tuned.workloads for _ in range(w.count))
    assert sorted(w.macs for w in compiled.workloads for _ in range(w.count)) == macs
    assert len(macs) == 3
    kinds = {p.kind for p in network.placements if p.where == "cpu"}
    for table in (tuned, compiled):  # neither drops an operator in silence
        listed = {line.split(" x ", 1)[1].split(":", 1)[0] for line in table.cpu_operators}
        assert kinds - {"Reshape", "Transpose"} <= listed


# -- damaged models end in one error or run; nothing hangs, nothing else is raised ----------------

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
    a = model.add("Reshape", a, [1, 4, 2, 3])
    b = model.add("Reshape", b, [1, 4, 2, 3])
    a = model.add("Transpose", a, perm=[0, 2, 1, 3])
    y = model.add("MatMul", a, model.add("Transpose", b, perm=[0, 2, 3, 1]))
    y = model.add("Softmax", model.add("Div", y, np.float32(1.7)))
    y = model.add("Transpose", model.add("MatMul", y, a), perm=[0, 2, 1, 3])
    return model.proto(model.add("Reshape", y, [1, 4, 6]))


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
        (division,) = divide(to_relax(prepared.model))
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
