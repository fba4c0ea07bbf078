# SPDX-License-Identifier: Apache-2.0
"""A small ViT, GPT and BERT: one region from the first to the last operator, and its bits."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.networks.attention_masks import FORMS, some_mask
from support.networks.qdq_runs import assert_near, quantised_names, run_all
from support.networks.small_transformers import small_bert, small_gpt, small_vit
from support.randomness import often

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
from tilewright.sim.reference.device import ReferenceDevice
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
    assert np.abs(found - tensors[qdq.graph.output[0].name]).max() < 0.05 * np.abs(real).max()
    assert_near(found, real, 0.15)


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
    assert region.views == {result}
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


def as_input(mask: np.ndarray, form: str) -> np.ndarray:
    """int64 masks (N, T), or with ``given`` what is added to scores, float32 (N, 1, 1, T)."""
    added = np.where(mask > 0, 0, -1e4).astype(np.float32)
    return added[:, None, None] if form == "given" else mask


@pytest.mark.parametrize("form", often("masks of transformers", [*FORMS, "given"], 2))
def test_a_transformer_with_a_mask_is_one_region_and_what_is_masked_changes_nothing(
    form: str,
) -> None:
    rng = np.random.default_rng(11)
    model, board = small_bert(np.random.default_rng(5), form=form), load_board("pynq-z2")
    samples = {
        "attention_mask": as_input(np.concatenate([some_mask(rng, 13) for _ in range(4)]), form),
        "x": rng.normal(size=(4, 13, 16)).astype(np.float32),
    }
    compilation = compile_model(
        model, ROWED, board, calibration=Calibration(arrays=samples), offload_all=True
    )
    left = {p.kind for p in compilation.network.placements if p.where != "accelerator"}
    assert left <= {"Cast", "Equal", "Less", "Mul", "Reshape", "Sub", "Unsqueeze", "Where"}
    (graph,) = compilation.layers
    (result,) = graph.outputs
    output, qdq = graph.tensors[result], compilation.imported.qdq
    names = quantised_names(qdq)
    with closing(open_simulated("dpi", ROWED, board.memory)) as device:
        for index in range(3):
            mask = np.ones((1, 13), np.int64) if index == 0 else some_mask(rng, 13)
            data = rng.normal(size=(1, 13, 16)).astype(np.float32)
            other = np.where(mask[:, :, None] > 0, data, rng.normal(size=data.shape))
            found = []
            for x in (data, other.astype(np.float32)):
                inputs = {"attention_mask": as_input(mask, form), "x": x}
                tensors = run_all(qdq, inputs)
                rounded = {
                    name: to_normal_form(tensors[names.get(name, name)], graph.tensors[name].shape)
                    for name in graph.inputs
                }
                expected = evaluate(graph, rounded)[result]
                run = run_network(compilation.network, device, inputs, trusted=True)
                found.append(next(iter(run.outputs.values())))
                with NetworkRunner(
                    compilation.network, ReferenceDevice(ROWED), NumpyHost
                ) as runner:
                    on_board = next(iter(runner.run(inputs).outputs.values()))
                assert np.array_equal(on_board, found[-1])
                steps = np.rint(found[-1] / output.scale) + output.zero_point
                tokens = expected.reshape(output.shape[1], -1).T
                assert np.array_equal(steps.reshape(tokens.shape), tokens)
            seen = mask[0] > 0
            assert np.array_equal(found[0][:, seen], found[1][:, seen])
            real = run_all(model, {"attention_mask": as_input(mask, form), "x": data})
            real = real[model.graph.output[0].name][:, seen]
            assert_near(found[0][:, seen], real, 0.15)
