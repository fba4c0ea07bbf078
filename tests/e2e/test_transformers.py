# SPDX-License-Identifier: Apache-2.0
"""A small ViT and a small GPT: one region from the first to the last operator, and its bits."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.qdq_runs import quantised_names, run_all
from support.small_transformers import small_gpt, small_vit

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import from_normal_form, to_normal_form
from tilewright.host.compiler.pack.artefact import load
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.network_runner import NetworkRunner
from tilewright.host.compiler.run.numpy_host import NumpyHost
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.devices import open_simulated
from tilewright.sim.twin.network_timing import time_network

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)
MODELS = {
    "ViT": (small_vit, (1, 3, 16, 16)),
    "GPT": (small_gpt, (1, 13, 16)),
}


@pytest.mark.parametrize("asymmetric", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", MODELS)
def test_a_transformer_is_one_region_with_its_bits(name: str, asymmetric: bool) -> None:
    maker, shape = MODELS[name]
    model, board = maker(np.random.default_rng(5)), load_board("pynq-z2")
    compilation = compile_model(
        model,
        ROWED,
        board,
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(asymmetric=asymmetric)),
        offload_all=True,
    )
    assert {p.where for p in compilation.network.placements} == {"accelerator"}
    (graph,) = compilation.layers
    (source,), (result,) = graph.inputs, graph.outputs
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    qdq = compilation.imported.qdq
    tensors = run_all(qdq, {"x": data})
    rounded = tensors[quantised_names(qdq)["x"]]
    expected = evaluate(graph, {source: to_normal_form(rounded, graph.tensors[source].shape)})
    with closing(open_simulated("dpi", ROWED, board.memory)) as device:
        run = run_network(compilation.network, device, {"x": data}, trusted=True)
    (found,) = run.outputs.values()
    output = graph.tensors[result]
    steps = np.rint(found / output.scale) + output.zero_point
    tokens = expected[result].reshape(output.shape[1], -1).T
    assert np.array_equal(steps.reshape(tokens.shape), tokens)
    real = run_all(model, {"x": data})[model.graph.output[0].name]
    quantised = tensors[qdq.graph.output[0].name]
    assert np.abs(found - quantised).max() < 0.05 * np.abs(real).max()
    assert np.abs(found - real).max() < 0.15 * np.abs(real).max()


def test_int8_logits_leave_in_the_models_order(tmp_path: Path) -> None:
    """From a saved file, on the RTL's control; the CPU part is that of a board, too."""
    model, board = small_gpt(np.random.default_rng(5)), load_board("pynq-z2")
    compilation = compile_model(
        model,
        ROWED,
        board,
        calibration=Calibration(random_samples=4),
        options=ImportOptions(quantise=QuantiseOptions(int8_ends=True)),
        offload_all=True,
        output=tmp_path / "gpt.tw",
    )
    (graph,) = compilation.layers
    (source,), (result,) = graph.inputs, graph.outputs
    network = load(tmp_path / "gpt.tw")
    (region,) = network.regions
    assert region.leaves_in_order(result)
    data = np.random.default_rng(0).integers(-128, 128, (1, 13, 16)).astype(np.int8)
    expected = evaluate(graph, {source: to_normal_form(data, graph.tensors[source].shape)})
    inputs = {network.inputs[0].name: data}
    with closing(open_simulated("dpi", ROWED, board.memory)) as device:
        run = run_network(network, device, inputs, trusted=True)
        with NetworkRunner(network, device, NumpyHost) as runner:
            again = runner.run(inputs)
    for each in (run, again):
        (found,) = each.outputs.values()
        assert np.array_equal(found, from_normal_form(expected[result], (1, 13, 24)))
        assert each.cycles == time_network(network, board.memory).cycles
