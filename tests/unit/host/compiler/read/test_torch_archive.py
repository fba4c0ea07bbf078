# SPDX-License-Identifier: Apache-2.0
"""`.pt2` files are data: whatever PyTorch would run of them is refused or left out."""

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks.onnx_results import assert_same_results

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.torch_archive import plain_archive
from tilewright.host.compiler.read.torch_export import export_file

torch = pytest.importorskip("torch")


class Trap:
    """Runs code when it is unpickled: makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


class Block(torch.nn.Module):  # type: ignore[misc]  # untyped base
    """As ResNet's: two convolutions with batch normalisation and a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(channels)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.register_buffer("gain", torch.full((1,), 0.5))

    def forward(self, x: Any) -> Any:
        y = self.second(torch.relu(self.norm(self.first(x))))
        return torch.relu(x + y * self.gain + torch.tensor(0.25))


def exported(module: Any, *shape: int, **options: Any) -> bytes:
    output = io.BytesIO()
    program = torch.export.export(module.eval(), (torch.randn(*shape),), **options)
    torch.export.save(program, output)
    return output.getvalue()


def residual_network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
        Block(8), Block(8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    )  # fmt: skip


class Tokens(torch.nn.Module):  # type: ignore[misc]  # untyped base
    """Attention, a part without gradients, results in a dictionary and a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(4, 4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            z = self.dense(x)
        y = self.attention(z, z, z)[0]
        return {"a": y, "b": (z, torch.einsum("bij,bkj->bik", z, y))}


@pytest.fixture(scope="module")
def archive() -> bytes:
    torch.manual_seed(0)
    return exported(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), 1, 4)


def rewritten(
    data: bytes, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive whose members, by name without the root folder, were changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        root = old.namelist()[0].partition("/")[0]
        members = {name.partition("/")[2]: old.read(name) for name in old.namelist()}
    change(members)
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", compression) as new:
        for name, content in members.items():
            new.writestr(f"{root}/{name}", content)
    return output.getvalue()


def edited(name: str, change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    """Changes a member that is JSON."""

    def apply(members: dict[str, bytes]) -> None:
        content = json.loads(members[name])
        change(content)
        members[name] = json.dumps(content).encode()

    return apply


def graph(change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    return edited("models/model.json", lambda m: change(m["graph_module"]["graph"]))


def torch_saved(value: Any) -> bytes:
    output = io.BytesIO()
    torch.save(value, output)
    return output.getvalue()


def first_payload(change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    return edited(
        "data/weights/model_weights_config.json", lambda c: change(next(iter(c["config"].values())))
    )


def pickled_weight(members: dict[str, bytes], marker: Path) -> None:
    first_payload(lambda p: p.update(use_pickle=True))(members)
    members["data/weights/weight_0"] = torch_saved(Trap(marker))


def opaque_constant(members: dict[str, bytes], marker: Path) -> None:
    payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}
    edited(
        "data/constants/model_constants_config.json",
        lambda c: c["config"].update(x={**payload, "tensor_meta": None}),
    )(members)
    members["data/constants/opaque_obj_0"] = pickle.dumps(Trap(marker))


def script(marker: Path) -> str:
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def os_call(members: dict[str, bytes], marker: Path) -> None:
    def change(program: Any) -> None:
        node = program["nodes"][-1]
        node["target"] = "torch.serialization.os.system"
        node["inputs"] = [{"name": "x", "arg": {"as_string": f"touch {marker}"}, "kind": 1}]

    graph(change)(members)


def symbolic_size(members: dict[str, bytes], marker: Path) -> None:
    def change(program: Any) -> None:
        meta = next(iter(program["tensor_values"].values()))
        meta["sizes"][0] = {"as_expr": {"expr_str": script(marker), "hint": {"as_int": 1}}}

    graph(change)(members)


def guard(members: dict[str, bytes], marker: Path) -> None:
    edited("models/model.json", lambda m: m.update(guards_code=[f"{script(marker)} is None"]))(
        members
    )


def node_name(members: dict[str, bytes], marker: Path) -> None:
    text = json.dumps(f"relu=0;{script(marker)};relu")[1:-1]
    program = members["models/model.json"].decode()
    program = program.replace('"name": "relu"', f'"name": "{text}"')
    members["models/model.json"] = program.replace('"relu": {', f'"{text}": {{').encode()


def tree(members: dict[str, bytes], marker: Path) -> None:
    """A default dictionary whose factory PyTorch imports; the module makes the marker."""
    (marker.parent / "trap_module.py").write_text(f"{script(marker)}\nfactory = list\n")
    context = {"default_factory_module": "trap_module", "default_factory_name": "factory"}
    spec = {
        "type": "collections.defaultdict",
        "context": {**context, "dict_context": []},
        "children_spec": [],
    }
    edited(
        "models/model.json",
        lambda m: m["graph_module"]["module_call_graph"][0]["signature"].update(
            out_spec=json.dumps([1, spec])
        ),
    )(members)


def from_file(members: dict[str, bytes], marker: Path) -> None:
    def change(program: Any) -> None:
        node = program["nodes"][-1]
        node["target"] = "torch.ops.aten.from_file.default"
        node["inputs"] = [{"name": "filename", "arg": {"as_string": "x"}, "kind": 1}]

    graph(change)(members)


Attack = Callable[[dict[str, bytes], Path], None]
DROPPED: dict[str, Attack] = {
    "sample inputs": lambda m, p: m.update(
        {"data/sample_inputs/model.pt": torch_saved(((Trap(p),), {}))}
    ),
    "guards": guard,
    "extra file": lambda m, p: m.update({"extra/x.pkl": pickle.dumps(Trap(p))}),
    "compiled library": lambda m, p: m.update({"data/aotinductor/model/x.so": b"\x7fELF"}),
}
REFUSED: dict[str, tuple[Attack, str]] = {
    "pickled weight": (pickled_weight, "a tensor that is a pickle"),
    "opaque constant": (opaque_constant, "opaque_obj_0"),
    "legacy weights": (
        lambda m, p: m.update({"data/weights/model.pt": torch_saved({"x": Trap(p)})}),
        "its weights are a pickle",
    ),
    "legacy constants": (
        lambda m, p: m.update({"data/constants/model.pt": torch_saved({"x": Trap(p)})}),
        "its constants are a pickle",
    ),
    "operator outside ATen": (os_call, "torch.serialization.os.system"),
    "operator on files": (from_file, "torch.ops.aten.from_file"),
    "symbolic size": (symbolic_size, "__import__"),
    "node name": (node_name, "relu=0"),
    "tree of containers": (tree, "collections.defaultdict"),
    "two programs": (lambda m, p: m.update({"models/b.json": b"{}"}), "one program"),
    "unknown field": (graph(lambda g: g.update(hook="x")), "unknown field 'hook'"),
}  # fmt: skip
FIRES = ["sample inputs", "guards", "pickled weight", "opaque constant", "legacy weights",
         "symbolic size", "tree of containers"]  # fmt: skip


def attack_file(name: str, archive: bytes, marker: Path) -> Path:
    attack = DROPPED[name] if name in DROPPED else REFUSED[name][0]
    path = marker.with_name("model.pt2")
    apply: Any = attack
    if name == "unknown field":
        path.write_bytes(rewritten(archive, apply))
    else:
        path.write_bytes(rewritten(archive, lambda members: apply(members, marker)))
    return path


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_run_code_is_refused(archive, tmp_path, monkeypatch, name) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = attack_file(name, archive, tmp_path / "marker")
    with pytest.raises(WorkloadError, match=r"model\.pt2: must hold nothing but ATen") as caught:
        export_file(path)
    assert REFUSED[name][1] in caught.value.rule
    assert "--trust-model" in caught.value.remedy
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", DROPPED)
def test_what_a_network_does_not_need_is_left_out(archive, tmp_path, name) -> None:
    assert export_file(attack_file(name, archive, tmp_path / "marker")).graph.node
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", FIRES)
def test_the_attacks_are_real(archive, tmp_path, monkeypatch, name) -> None:
    """PyTorch's own reader runs them, as a trusted file may."""
    monkeypatch.syspath_prepend(tmp_path)
    path = attack_file(name, archive, tmp_path / "marker")
    try:
        export_file(path, trusted=True)
    except Exception as error:  # whatever PyTorch says after it ran the code
        print(error)  # noqa: T201  (output)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("kind", ["pickle", "torch.save", "script", "2.7", "compressed", "empty"])
def test_other_layouts_are_refused(archive, tmp_path, kind) -> None:
    path, marker = tmp_path / "model.pt2", tmp_path / "marker"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Trap(marker)))
    elif kind == "torch.save":
        torch.save(Trap(marker), path)
    elif kind == "script":
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    elif kind == "2.7":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("version", "8.1")
            file.writestr("serialized_exported_program.json", "{}")
            for name in ("state_dict", "constants", "example_inputs"):
                file.writestr(f"serialized_{name}.pt", torch_saved(Trap(marker)))
    elif kind == "compressed":
        path.write_bytes(rewritten(archive, lambda m: None, zipfile.ZIP_DEFLATED))
    else:
        path.write_bytes(b"")
    rule = "must be a file of torch.export.save" if kind == "empty" else "must hold nothing but"
    with pytest.raises(WorkloadError, match=rule):
        export_file(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "kind",
    [
        "static",
        pytest.param("dynamic batch", marks=pytest.mark.slow),
        pytest.param("tokens", marks=pytest.mark.slow),
    ],
)
def test_genuine_files_give_the_model_that_pytorch_reads(tmp_path, kind) -> None:
    path = tmp_path / "model.pt2"
    if kind == "tokens":
        shape, data = (1, 3, 4), exported(Tokens(), 1, 3, 4)
    elif kind == "static":
        shape, data = (1, 3, 32, 32), exported(residual_network(), 1, 3, 32, 32)
    else:
        batch = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
        shape, data = (2, 3, 32, 32), exported(residual_network(), 2, 3, 32, 32, **batch)
    path.write_bytes(data)
    found, expected = export_file(path), export_file(path, trusted=True)
    assert [n.op_type for n in found.graph.node] == [n.op_type for n in expected.graph.node]
    feed = {found.graph.input[0].name: np.random.default_rng(0).normal(size=shape).astype("f")}
    assert_same_results(expected, found, feed)


@pytest.mark.parametrize("number", range(12))
def test_damage_is_one_error(archive, tmp_path, number) -> None:
    rng = np.random.default_rng(number)
    path = tmp_path / "model.pt2"
    data = bytearray(archive)
    for _ in range(int(rng.integers(1, 8))):
        data[rng.integers(len(data))] = rng.integers(256)
    path.write_bytes(bytes(data[: rng.integers(1, len(data) + 1)] if number % 2 else data))
    with contextlib.suppress(WorkloadError):
        assert plain_archive(path, path).getvalue()
