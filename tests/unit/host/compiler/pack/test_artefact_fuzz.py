# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile `.tw` files end in one error or run; none crashes or takes memory."""

import base64
import json
import os
import resource
import signal
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.networks.small_models import Model, imported
from support.networks.tw_mutations import archive_of, edited, members_of, mutated
from support.randomness import SLOW_SHARE, fresh_rng, often

from tilewright.host.common.errors import (
    DeviceError,
    DeviceTimeoutError,
    ProgramError,
    TilewrightError,
    WorkloadError,
)
from tilewright.host.compiler.pack import relax_saved
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.compiler.run.numpy_host import NumpyHost
from tilewright.host.compiler.run.relax_host import HostModule, HostProgram
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.compiler.tasks import network_table
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin import network_timing
from tilewright.sim.twin.network_timing import time_layers

MEMORY_BYTES = 4 << 30
CPU_SECONDS = 20
RAN, REFUSED, OTHER, ENDLESS = 0, 1, 2, -signal.SIGXCPU


def positions_network():
    """Operators whose data choose positions, between regions."""
    model = Model(np.random.default_rng(0))
    x = model.input(1, 8, 6)
    y = model.add("Gather", x, [1, 3, 5], axis=1)
    z = model.add("GatherElements", x, np.zeros((1, 8, 6), np.int64), axis=1)
    y = model.add("ScatterElements", y, np.zeros((1, 3, 6), np.int64), y, axis=1)
    y = model.add("MatMul", y, model.weights(6, 6))
    w = model.add("Gather", x, model.add("ArgMax", y, axis=1, keepdims=0), axis=1)
    nd = model.add("GatherND", x, [[0, 1], [0, 7]])
    return model.proto(model.add("Softmax", model.add("Sigmoid", y)), z, w, nd)


def image_network():
    model = Model(np.random.default_rng(0))
    y = model.add("Conv", model.input(1, 3, 8, 8), model.weights(4, 3, 3, 3), pads=[1] * 4)
    y = model.add("HardSwish", y)
    y = model.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = model.add("Gemm", model.add("Flatten", y), model.weights(64, 5), model.weights(5))
    return model.proto(model.add("Softmax", y))


def onnx_network():
    """Parts that ONNX Runtime computes, one with a body."""
    model = Model(np.random.default_rng(0))
    y = model.add("Conv", model.input(1, 3, 4, 4), model.weights(4, 3, 1, 1))
    y = model.add("Einsum", y, model.weights(4, 4), equation="bchw,cc->bchw")
    body = helper.make_graph(
        [helper.make_node("Mul", ["state", "state"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, ()),
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, (1, 4, 4, 4)),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, (1, 4, 4, 4)),
        ],
    )
    mean = model.add("ReduceMean", y, keepdims=0)
    rounds = model.add("Cast", model.add("Clip", mean), to=TensorProto.INT64)
    return model.proto(model.add("Loop", rounds, "", y, body=body))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[bytes]:
    """Networks as they are saved."""
    folder = tmp_path_factory.mktemp("files")
    hw, board = load_hwconfig("tiny-4x4"), load_board("pynq-z2")
    found = []
    for index, model in enumerate((positions_network(), image_network(), onnx_network())):
        network = compile_network(imported(model), hw, board, offload_all=True).network
        assert network.regions
        save(network, folder / f"{index}.tw")
        found.append((folder / f"{index}.tw").read_bytes())
    return found


def use(path, data: bytes) -> None:
    """What the commands do with a file, without their limits: all in this process."""
    path.write_bytes(data)
    network = load(path)
    network_table(network)
    board = load_board("pynq-z2")
    for program in network.programs:
        time_layers(program, board.memory)
    inputs = {port.name: np.zeros(port.shape, port.dtype) for port in network.inputs}
    with open_network(network, ReferenceDevice(network.hw), trusted=True) as runner:
        found = runner.run(inputs).outputs
    assert set(found) == {port.name for port in network.outputs}


def outcome(path, data: bytes) -> int:
    """`use` in a fork of this process with limits; a signal's number if it ends it, negative."""
    pid = os.fork()
    if not pid:
        code = OTHER
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * resource.getpagesize() + MEMORY_BYTES  # other tests' memory is here too
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            use(path, data)
            code = RAN
        except TilewrightError as error:
            os.write(2, f"{error}\n".encode())
            code = REFUSED
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def has_loop(data: bytes) -> bool:
    """Whether data choose how often a part of a readable file repeats something."""
    host = json.loads(members_of(data)["host.json"])
    parts = (value["onnx"] for value in host["module"]["values"] if "onnx" in value)
    return any(b"Loop" in base64.b64decode(part) for part in parts)


def fuzz(count: int, files: list[bytes], folder) -> Counter[int]:
    rng = fresh_rng()
    found: Counter[int] = Counter()
    for number in range(count):
        data = mutated(files[rng.integers(len(files))], rng)
        code = outcome(folder / "net.tw", data)
        found[code] += 1
        if code == ENDLESS and has_loop(data):
            continue  # so many rounds as a number says; `HostProcess` ends them
        if code not in (RAN, REFUSED):
            (folder / f"bad{number}.tw").write_bytes(data)
            name = signal.Signals(-code).name if code < 0 else "another exception"
            pytest.fail(f"{name}: {folder / f'bad{number}.tw'}")
    return found


def test_undamaged_files_run(files, tmp_path) -> None:
    for data in files:
        assert outcome(tmp_path / "net.tw", data) == RAN


def test_damaged_files_end_in_one_error_or_run(files, tmp_path) -> None:
    assert fuzz(20, files, tmp_path)[REFUSED] > 2


def test_outputs_of_another_cpu_part_are_refused(files, tmp_path) -> None:
    (tmp_path / "net.tw").write_bytes(files[0])
    network = load(tmp_path / "net.tw")
    first, *others = network.outputs
    renamed = replace(network, outputs=(replace(first, name="another"), *others))
    with pytest.raises(ProgramError, match="outputs of the CPU's part must be those"):
        open_network(renamed, ReferenceDevice(network.hw), trusted=True)


@pytest.mark.parametrize("port", ["inputs", "outputs"])
def test_elements_of_an_unknown_type_are_refused(files, tmp_path, port) -> None:
    def change(manifest) -> None:
        manifest[port][0]["dtype"] = "float32x"

    (tmp_path / "net.tw").write_bytes(edited(files[0], "manifest.json", change))
    with pytest.raises(ProgramError, match="'float32x' where a type of elements is expected"):
        load(tmp_path / "net.tw")


@pytest.mark.slow
def test_many_damaged_files_end_in_one_error_or_run(files, tmp_path) -> None:
    found = fuzz(max(600, int(3000 * SLOW_SHARE)), files, tmp_path)
    assert min(found[RAN], found[REFUSED]) > 100


# -- positions outside a tensor --------------------------------------------------------------------


def outputs_of(data: bytes, path, inputs) -> dict[str, np.ndarray]:
    path.write_bytes(data)
    network = load(path)
    with open_network(network, ReferenceDevice(network.hw), trusted=True) as runner:
        return dict(runner.run(inputs).outputs)


@pytest.mark.parametrize("wanted", often("positions", [10**6, 8, -9, 2**40, -(2**62)], 2))
def test_positions_outside_a_tensor_stay_inside(files, tmp_path, wanted) -> None:
    """They came from the file as constants; what they pick is an element of the tensor."""

    def change(host) -> None:
        for value in host["module"]["values"]:
            if value.get("dtype") == "int64" and value.get("shape"):
                count = int(np.prod(value["shape"]))
                data = np.full(count, wanted, np.int64).tobytes()
                value["constant"] = base64.b64encode(data).decode()

    x = fresh_rng().normal(size=(1, 8, 6)).astype(np.float32)
    found = outputs_of(edited(files[0], "host.json", change), tmp_path / "net.tw", {"x": x})
    for name in list(found)[1:]:
        assert np.isin(found[name], x).all(), name


def test_positions_that_are_computed_stay_inside(files, tmp_path) -> None:
    """The position comes from argmax, a thousand times too large: take clips it."""

    def change(host) -> None:
        values = host["module"]["values"]
        first = len(host["inputs"])
        argmax = next(i for i, v in enumerate(values) if v.get("call") == "relax.argmax")
        taker = next(v for v in reversed(values) if v.get("call") == "relax.take")
        thousand = base64.b64encode(np.int64(1000).tobytes()).decode()
        extra = [
            {"constant": thousand, "dtype": "int64", "shape": []},
            {
                "call": "relax.add",
                "arguments": [first + argmax, first + len(values)],
                "attributes": {},
                "name": "far",
            },
        ]
        at = values.index(taker)
        shifted = json.loads(json.dumps(values))
        for value in shifted[at:]:
            value["arguments"] = [
                n + len(extra) if n >= first + at else n for n in value.get("arguments", [])
            ]
            if "tuple" in value:
                value["tuple"] = [n + len(extra) if n >= first + at else n for n in value["tuple"]]
        extra[1]["arguments"][1] = first + at
        shifted[at]["arguments"][1] = first + at + 1
        shifted[at]["attributes"]["mode"] = "fast"
        host["module"]["values"] = shifted[:at] + extra + shifted[at:]
        result = host["module"]["result"]
        host["module"]["result"] = result + len(extra) if result >= first + at else result

    x = fresh_rng().normal(size=(1, 8, 6)).astype(np.float32)
    found = outputs_of(edited(files[0], "host.json", change), tmp_path / "net.tw", {"x": x})
    assert all(np.isfinite(array).all() for array in found.values())


# -- graphs, operators, sizes ----------------------------------------------------------------------


def read_host(files, change) -> HostModule:
    data = members_of(edited(files[1], "host.json", change))
    return HostModule.from_json(data["host.json"].decode())


def last_call(host):
    return next(v for v in reversed(host["module"]["values"]) if "call" in v)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: last_call(h)["arguments"].__setitem__(0, 10**5), "is not known yet"),
        (lambda h: last_call(h)["arguments"].__setitem__(0, -1), "is not known yet"),
        (lambda h: last_call(h).update(arguments=[len(h["module"]["values"])]), "not known yet"),
        (lambda h: last_call(h).update(call="relax.call_packed"), "known operators"),
        (lambda h: last_call(h).update(call="relax.vision.roi_align"), "known operators"),
        (lambda h: last_call(h).update(call="relax.call_dps_packed"), "known operators"),
        (lambda h: last_call(h)["attributes"].update(extra=1), "attributes of nn.softmax"),
        (lambda h: h["module"]["values"].append({"code": "x"}), "unknown kind"),
        (lambda h: h["module"].update(values=[{"tuple": [0]}] * 300_000), "at most"),
        (lambda h: h["inputs"][0].update(shape=[1, 2**20, 2**10, 2**10]), "bytes"),
        (lambda h: h["inputs"][0].update(dtype="object"), "must not be object"),
        (lambda h: h["outputs"][0].update(shape=[1, 6]), "results are not those"),
    ],
)
def test_modules_that_break_a_rule_are_refused(files, change, message) -> None:
    with pytest.raises(WorkloadError, match=message):
        read_host(files, change)


BROKEN_PARTS = {
    "a file": "must have its constants inside",
    "a function": "must be one graph",
    "other operators": "must have operators of standard ONNX",
    "other ends": "has other inputs than its call",
    "deep bodies": "must have bodies at most",
}


def break_part(model: onnx.ModelProto, by: str) -> None:
    graph = model.graph
    match by:
        case "a file":
            tensor = graph.initializer[0]
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="/etc/passwd")
        case "a function":
            model.functions.add(name="f", domain="d")
        case "other operators":
            graph.node[0].domain = "com.microsoft"
        case "other ends":
            graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
        case _:
            for _ in range(20):
                inner = onnx.GraphProto()
                inner.CopyFrom(graph)
                node = graph.node.add(op_type="If")
                branch = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
                branch.g.CopyFrom(inner)
                graph = branch.g
                graph.ClearField("node")


@pytest.mark.parametrize("by", BROKEN_PARTS)
def test_parts_of_onnx_that_break_a_rule_are_refused(files, by) -> None:
    def changed(host) -> None:
        part = next(v for v in host["module"]["values"] if v.get("operators") == ["Einsum"])
        model = onnx.ModelProto.FromString(base64.b64decode(part["onnx"]))
        break_part(model, by)
        part["onnx"] = base64.b64encode(model.SerializeToString()).decode()

    data = members_of(edited(files[2], "host.json", changed))
    with pytest.raises(WorkloadError, match=BROKEN_PARTS[by]):
        HostModule.from_json(data["host.json"].decode())


def test_parts_of_onnx_are_named_where_numpy_runs_the_cpu(files) -> None:
    with pytest.raises(WorkloadError, match=r"Einsum \(.*Loop \("):
        NumpyHost(members_of(files[2])["host.json"].decode())


def test_strides_of_zero_are_refused_before_tvm_divides_by_them(files) -> None:
    def change(host) -> None:
        (pool,) = (v for v in host["module"]["values"] if v.get("call") == "relax.nn.max_pool2d")
        pool["attributes"]["strides"] = [0, 0]

    if b"max_pool2d" not in members_of(files[1])["host.json"]:
        pytest.skip("the pool is on the accelerator")
    with pytest.raises(WorkloadError, match=r"strides of nn\.max_pool2d must not be 0"):
        read_host(files, change)


def test_graphs_may_be_long_but_not_deep(monkeypatch) -> None:
    """Values refer to earlier ones by number: ten thousand in a row are read without recursion."""
    values = [
        {"call": "relax.nn.relu", "arguments": [i], "attributes": {}, "name": ""}
        for i in range(3000)
    ]
    port = {"name": "x", "shape": [2], "dtype": "float32"}
    text = json.dumps(
        {
            "format": 2,
            "inputs": [port],
            "outputs": [port],
            "module": {"values": values, "result": len(values)},
        }
    )
    assert HostModule.from_json(text).inputs[0].name == "x"
    monkeypatch.setattr(relax_saved, "MAX_ALL_BYTES", 4000)
    with pytest.raises(WorkloadError, match="bytes"):
        HostModule.from_json(text)


def test_archives_that_swell_are_refused_before_they_are_read(files, tmp_path, monkeypatch) -> None:
    members = members_of(files[1])
    path = tmp_path / "net.tw"
    path.write_bytes(archive_of({**members, "0/weights": bytes(1 << 26)}))
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("a member is read"))
    with pytest.raises(ProgramError, match="must not swell to"):
        load(path)


@pytest.mark.parametrize("name", ["0/weights", "0/insn", "0/uop"])
def test_members_of_another_size_are_refused(files, tmp_path, name) -> None:
    members = members_of(files[1])
    path = tmp_path / "net.tw"
    for content in (members[name] + bytes(32), members[name][:-32]):
        path.write_bytes(archive_of({**members, name: content}))
        with pytest.raises(ProgramError, match=r"net\.tw: must be a compiled network"):
            load(path)


def test_instructions_outside_the_program_are_errors_of_the_device(files, tmp_path) -> None:
    """Addresses are the hardware's to check: no device reads beyond the program's memory."""
    members = members_of(files[1])
    path = tmp_path / "net.tw"
    for offset in (8, 12, 16):
        insn = bytearray(members["0/insn"])
        for start in range(0, len(insn), 32):
            insn[start + offset : start + offset + 4] = b"\xff" * 4
        path.write_bytes(archive_of({**members, "0/insn": bytes(insn)}))
        network = load(path)
        inputs = {port.name: np.zeros(port.shape, port.dtype) for port in network.inputs}
        runner = open_network(network, ReferenceDevice(network.hw), trusted=True)
        with pytest.raises(TilewrightError):
            runner.run(inputs)


def test_host_programs_of_old_files_are_refused(files) -> None:
    with pytest.raises(WorkloadError, match="must be a saved CPU part of a network"):
        read_host(files, lambda host: host.update(format=1))
    assert HostProgram(module=read_host(files, lambda host: None))
    assert issubclass(DeviceError, TilewrightError)


def test_a_program_that_runs_for_hours_is_stopped(files, tmp_path, monkeypatch) -> None:
    path = tmp_path / "net.tw"
    path.write_bytes(files[1])
    (program, *_) = load(path).programs
    memory = load_board("pynq-z2").memory
    assert time_layers(program, memory)
    monkeypatch.setattr(network_timing, "MAX_CYCLES", 50)
    with pytest.raises(DeviceTimeoutError, match="within 50 cycles"):
        time_layers(program, memory)
