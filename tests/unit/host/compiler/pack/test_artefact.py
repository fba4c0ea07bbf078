# SPDX-License-Identifier: Apache-2.0
"""`.tw` files: what is saved is what is loaded, and damage is one clear error."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import pytest
from support.networks.qgraphs import draw_cnn
from support.networks.region_runs import layer_of, region_of
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng, generator

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.divide.model_edges import operator_edges
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.lower_executable import make_executable
from tilewright.host.compiler.pack.annotated import save_annotated
from tilewright.host.compiler.pack.artefact import FORMAT, CompiledNetwork, Placed, load, save
from tilewright.host.compiler.pack.latency import (
    Latency,
    region_seconds,
)
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.tasks import network_table
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice


@pytest.fixture(scope="module")
def made():
    rng = generator("artefact")
    hw = load_hwconfig("tiny-4x4")
    graph, inputs = draw_cnn(rng, 4)
    layers = layer_graph(fuse(graph), hw)
    region = make_executable(graph, layers, hw, lambda w: default_schedule(hw, w))
    network = CompiledNetwork(
        name="drawn",
        hw=hw,
        host="{}",
        regions=(region,),
        inputs=(Argument(name="x", shape=(1, 3, 8, 8), dtype="float32"),),
        outputs=(Argument(name="y", shape=(1, 5), dtype="float32"),),
        placements=(Placed(name="s", kind="Softmax", where="cpu", reason="not int8"),),
        conditions={"board": "pynq-z2"},
    )
    return network, [inputs[name] for name in graph.inputs]


def test_a_loaded_network_gives_the_same_bits(made, tmp_path):
    network, arguments = made
    path = tmp_path / "net.tw"
    save(network, path)
    again = load(path)
    assert again.hw == network.hw
    assert (again.inputs, again.outputs) == (network.inputs, network.outputs)
    assert again.placements == network.placements
    assert again.conditions == network.conditions
    assert [p.program for p in again.programs] == [p.program for p in network.programs]
    assert [p.layers for p in again.programs] == [p.layers for p in network.programs]
    device = ReferenceDevice(network.hw)
    before, _ = network.regions[0].run(device, arguments)
    after, _ = again.regions[0].run(device, arguments)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(a, b)
    assert not list(tmp_path.glob(".*")), "no temporary file stays"


def test_tasks_are_distinct_and_counted(made):
    table = network_table(made[0])
    layers = [layer for p in made[0].programs for layer in p.layers]
    fixed = sum(not layer.workload.kind.weighs for layer in layers)
    assert sum(w.count for w in table.workloads) + fixed == len(layers)
    assert any("Softmax: not int8" in text for text in table.cpu_operators)


def rewritten(data, change):
    """An archive with a changed manifest."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
            new.writestr(name, content)
    return out.getvalue()


def _program(manifest):
    return manifest["regions"][0]["steps"][0]["program"]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("hw"),
        lambda m: m["hw"].update(block_in=5),
        lambda m: m.update(regions=None),
        lambda m: m["regions"][0].pop("steps"),
        lambda m: _program(m)["regions"]["insn"].update(nbytes=3),
        lambda m: _program(m).update(memory_bytes=1),
        lambda m: _program(m)["inputs"][0].update(offset=1 << 40),
        lambda m: _program(m)["layers"][0]["workload"].update(channels_in=0),
        lambda m: _program(m)["layers"][0]["schedule"].update(tile_h="x"),
        lambda m: m["regions"][0]["tensors"][0].update(scale=0),
        lambda m: m["regions"][0].update(views=["nothing"]),
        lambda m: m["regions"][0].update(views=m["regions"][0]["inputs"]),
    ],
)
def test_a_damaged_manifest_is_one_error(made, tmp_path, change):
    path = tmp_path / "net.tw"
    save(made[0], path)
    path.write_bytes(rewritten(path.read_bytes(), change))
    with pytest.raises(ProgramError, match=r"net\.tw: must be a compiled network"):
        load(path)


def test_other_files_are_refused(made, tmp_path):
    path = tmp_path / "net.tw"
    with pytest.raises(ProgramError, match="cannot be read"):
        load(path)
    path.write_bytes(b"not an archive")
    with pytest.raises(ProgramError, match="must be a compiled network"):
        load(path)
    path.unlink()
    save(made[0], path)
    path.write_bytes(rewritten(path.read_bytes(), lambda m: m.update(format=99)))
    with pytest.raises(ProgramError, match=f"must have format {FORMAT}, not 99; compile"):
        load(path)


def test_views_are_saved_and_older_files_have_none(tmp_path):
    hw, board = load_hwconfig("tiny-4x4"), load_board("pynq-z2")
    slow = replace(board, cpu=replace(board.cpu, bytes_per_second=1e5))
    head = layer_of(generator("head"), ("x",), "y", 6, 4)
    shapes = {"x": (1, 4, 3, 5), "y": (1, 6, 3, 5)}
    graph = region_of((head,), shapes, any_strides=frozenset("y"))
    layers = layer_graph(graph, hw)
    region = make_executable(graph, layers, hw, lambda w: default_schedule(hw, w), slow)
    network = CompiledNetwork(
        name="heads", hw=hw, host="{}", regions=(region,), inputs=(), outputs=(), placements=()
    )
    data = generator("data").integers(-128, 128, shapes["x"]).astype(np.int8)
    save(network, tmp_path / "new.tw")
    older = rewritten((tmp_path / "new.tw").read_bytes(), lambda m: m["regions"][0].pop("views"))
    (tmp_path / "older.tw").write_bytes(older)
    expected = evaluate(layers, {"x": data})["y"]
    for name, seen in (("new", {"y"}), ("older", set())):
        again = load(tmp_path / f"{name}.tw").regions[0]
        assert again.views == seen
        (found,), (ran,) = again.run(ReferenceDevice(hw), [data])
        assert np.array_equal(found, expected)
        assert np.shares_memory(found, ran.memory) == bool(seen)
        assert found.flags.c_contiguous != bool(seen)
    saved = 2 * expected.size - 8 * 15  # pixels have room for 8 channels
    spent = [
        region_seconds(load(tmp_path / f"{n}.tw").regions[0], slow.cpu) for n in ("older", "new")
    ]
    assert spent[0] - spent[1] == pytest.approx(saved / slow.cpu.bytes_per_second)


# -- end-to-end latency, and that every operator of a model is accounted for ----------------------

HW = load_hwconfig("tiny-4x4")
BOARD = load_board("pynq-z2")


@pytest.fixture(scope="module")
def network():
    """Convolution, a sigmoid, layer normalisation, softmax, an error function, a dense layer."""
    model = Model(fresh_rng())
    y = model.add("Sigmoid", model.add("Conv", model.input(1, 4, 6, 6), model.weights(8, 4, 3, 3)))
    y = model.add("LayerNormalization", y, np.ones(4, np.float32))
    y = model.add("Softmax", y, axis=1)
    y = model.add("Flatten", model.add("Erf", y))
    return imported(model.proto(model.add("Gemm", y, model.weights(128, 3), model.weights(3))))


def test_an_operator_is_linked_to_what_it_reads_through_quantisation(network) -> None:
    kinds = {n.name: n.op_type for n in network.qdq.graph.node}
    found = [(kinds[a], kinds[b]) for a, b in operator_edges(network.qdq)]
    chain = ["Conv", "Sigmoid", "LayerNormalization", "Softmax", "Erf", "Flatten"]
    assert found == list(zip(chain, [*chain[1:], "Gemm"], strict=True))


def test_an_annotated_model_says_where_every_operator_runs(network, tmp_path) -> None:
    compiled = compile_network(network, HW, BOARD, offload_all=True).network
    save_annotated(network.qdq, compiled, BOARD, tmp_path / "told.onnx")
    model = onnx.load(tmp_path / "told.onnx")
    onnx.checker.check_model(model)
    told = {
        node.op_type: {p.key: p.value for p in node.metadata_props} for node in model.graph.node
    }
    assert told["Conv"]["tilewright.runs on"] == "accelerator, region 0"
    assert told["Gemm"]["tilewright.runs on"] == "accelerator, region 1"
    assert (
        told["Sigmoid"]["tilewright.reason"]
        == "it needs activation_table: 1, which pynq-16x16-rows has"
    )
    (node,) = (n for n in model.graph.node if n.op_type == "Sigmoid")
    assert node.doc_string.startswith("runs on: CPU; reason: ")
    with pytest.raises(ProgramError, match="annotated model cannot be written"):
        save_annotated(network.qdq, compiled, BOARD, tmp_path)


def test_the_bottleneck_is_the_longest_part() -> None:
    assert Latency(accelerator=1, crossings=2, cpu=3).bottleneck == "cpu"
    assert Latency(accelerator=1, crossings=2, cpu=1).cpu_share == 0.75
    assert Latency(accelerator=0, crossings=0, cpu=0).cpu_share == 0
