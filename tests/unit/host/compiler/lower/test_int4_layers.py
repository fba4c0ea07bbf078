# SPDX-License-Identifier: Apache-2.0
"""Networks with weights of 4 bits: half the bytes, and the bits of the integer definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.qdq_runs import quantised_names, run_all

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.pack.artefact import load, save
from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
NARROW = TINY.with_(int4_weights=1)
SCALED = TINY.with_(int4_weights=2, block_out=16, wgt_bytes=16384)
DIGITS = onnx.load(Path(__file__).resolve().parents[5] / "examples" / "digits" / "digits.onnx")


def compiled(hw: HwConfig, layers: str) -> Compilation:
    return compile_model(
        DIGITS,
        hw,
        load_board("pynq-z2"),
        calibration=Calibration(random_samples=4),
        options=ImportOptions(
            quantise=QuantiseOptions(int4_weights=layers)  # type: ignore[arg-type]  # a test's list
        ),
        offload_all=True,
    )


def weight_bytes(done: Compilation) -> int:
    steps = [step for region in done.network.regions for step in region.steps]
    return sum(step.program.program.regions["weights"].nbytes for step in steps)


@pytest.mark.parametrize("hw", [NARROW, SCALED], ids=["plain", "with scales"])
@pytest.mark.parametrize("layers", ["dense", "all"])
def test_a_network_runs_with_its_bits_and_reads_fewer_bytes(
    layers: str, hw: HwConfig, tmp_path: Path
) -> None:
    done, plain = compiled(hw, layers), compiled(hw, "none")
    narrow = {
        layer.workload.name: layer.workload.weight_bits
        for graph in done.layers
        for layer in graph.layers
        if layer.workload.kind.weighs
    }
    assert 4 in narrow.values()
    # The first convolution folds its columns, where groups are others.
    assert (8 in narrow.values()) == (layers == "dense" or hw is SCALED)
    if hw is SCALED:
        largest = max(np.abs(layer.weights).max() for layer in done.layers[0].layers
                      if layer.workload.weight_bits == 4)  # fmt: skip
        assert largest > 8
    assert weight_bytes(done) < weight_bytes(plain)
    (graph,) = done.layers
    data = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)
    (name,) = (value.name for value in DIGITS.graph.input)
    qdq = done.imported.qdq
    rounded = run_all(qdq, {name: data})[quantised_names(qdq)[name]]
    expected = evaluate(graph, {graph.inputs[0]: rounded})[graph.outputs[0]]
    save(done.network, tmp_path / "digits.tw")
    network = load(tmp_path / "digits.tw")
    run = run_network(network, ReferenceDevice(hw), {name: data}, trusted=True)
    (found,) = run.outputs.values()
    tensor = graph.tensors[graph.outputs[0]]
    steps = np.rint(found / tensor.scale) + tensor.zero_point
    assert np.array_equal(steps.reshape(-1), expected.reshape(-1))


def test_hardware_that_does_not_unpack_them_refuses_them() -> None:
    with pytest.raises(WorkloadError, match="keeps weights with 8 bits") as caught:
        compiled(TINY, "dense")
    assert "int4_weights: 1" in caught.value.remedy
