# SPDX-License-Identifier: Apache-2.0
"""A small ViT and a small GPT: one region from the first to the last operator, and its bits."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from support.qdq_runs import quantised_names, run_all
from support.small_transformers import small_gpt, small_vit

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import to_normal_form
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.devices import open_simulated

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
