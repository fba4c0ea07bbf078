# SPDX-License-Identifier: Apache-2.0
"""End-to-end latency, and that every operator of a model is accounted for."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from support.randomness import fresh_rng
from support.small_models import Model, imported

from tilewright.host.common.errors import ProgramError
from tilewright.host.compiler.divide.model_edges import CONVERSIONS, operator_edges
from tilewright.host.compiler.pack.annotated import save_annotated
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pack.latency import Latency, behind_seconds, latency, mac_share
from tilewright.host.compiler.pipeline import compile_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

HW = load_hwconfig("tiny-4x4")
BOARD = load_board("pynq-z2")


@pytest.fixture(scope="module")
def network():
    """Convolution, a sigmoid, layer normalisation, softmax, an error function, a dense layer."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 6, 6), model.weights(8, 4, 3, 3))
    y = model.add("Sigmoid", x)
    y = model.add("LayerNormalization", y, model.constant(np.ones(4, np.float32)))
    y = model.add("Softmax", y, axis=1)
    y = model.add("Flatten", model.add("Erf", y))
    return imported(model.proto(model.add("Gemm", y, model.weights(128, 3), model.weights(3))))


def test_every_operator_of_a_model_is_placed_once(network) -> None:
    compiled = compile_network(network, HW, BOARD, offload_all=True).network
    expected = [n.name for n in network.qdq.graph.node if n.op_type not in CONVERSIONS]
    assert [placed.name for placed in compiled.placements] == expected
    kinds = {p.kind for p in compiled.placements if p.where == "cpu"}
    assert {"LayerNormalization", "Softmax", "Sigmoid"} <= kinds


def test_work_is_counted_from_shapes(network) -> None:
    placed = {p.kind: p for p in compile_network(network, HW, BOARD).network.placements}
    assert placed["Conv"].macs == 8 * 16 * 4 * 9
    assert placed["Gemm"].macs == 128 * 3
    assert placed["Sigmoid"].macs == placed["LayerNormalization"].macs == 0
    # dequantised and Sigmoid, or Erf, Flatten and quantised: one pass, shared by its operators
    assert placed["Sigmoid"].bytes == (128 + 4 * 128) // 2
    assert placed["Erf"].bytes == placed["Flatten"].bytes == (4 * 128 + 128) // 3
    assert placed["LayerNormalization"].bytes == 2 * 4 * 128


def test_the_parts_add_up(network, tmp_path) -> None:
    compiled = compile_network(network, HW, BOARD, offload_all=True).network
    assert mac_share(compiled) == 1
    found = latency(compiled, BOARD, cycles=1000)
    assert found.accelerator == pytest.approx(1e-5)
    calls = len(compiled.regions) * BOARD.cpu.call_seconds
    moved = 144 + 2 * 128  # int8 elements into and out of both regions, that are packed
    seen = 4  # bytes of the block whose first 3 the caller gets where they lie
    erf = 128 * 5 - 2 * (128 * 5 // 3)
    converted = 144 * 5 + 128 * 5 // 2 + erf + 3 * 5
    assert compiled.conversion_bytes == converted
    rate = BOARD.cpu.bytes_per_second
    assert found.crossings == pytest.approx(calls + (2 * moved + seen + converted) / rate)
    assert found.total == pytest.approx(found.accelerator + found.crossings + found.cpu)
    path = tmp_path / "net.tw"
    save(compiled, path)
    assert latency(load(path), BOARD, cycles=1000) == found
    fast = replace(BOARD, cpu=replace(BOARD.cpu, bytes_per_second=1e12, call_seconds=0))
    assert latency(compiled, fast, cycles=1000).bottleneck == "accelerator"


def test_what_an_operator_costs_behind_is_its_work_and_the_tensors_that_cross_for_it(
    network,
) -> None:
    compiled = compile_network(network, HW, BOARD, offload_all=True).network
    placed = {p.kind: p for p in compiled.placements}
    first, last = placed["Sigmoid"], placed["Erf"]
    assert first.crossing_bytes == 128  # behind the convolution
    assert placed["LayerNormalization"].crossing_bytes == last.crossing_bytes == 0
    assert placed["Flatten"].crossing_bytes == 128  # in front of the dense layer
    work = first.bytes + 2 * 128 + 5 * 128
    assert behind_seconds(first, BOARD.cpu) == pytest.approx(work / BOARD.cpu.bytes_per_second)


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
