# SPDX-License-Identifier: Apache-2.0
"""A BERT from PyTorch with an attention mask: one region, and masked tokens change nothing."""

import numpy as np
import pytest
import torch
from support.attention_masks import some_mask
from support.qdq_runs import quantised_names, run_all
from support.randomness import often
from support.torch_bert import FORMS, TOKENS, WORDS, Bert

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import to_normal_form
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


@pytest.mark.parametrize("form", often("forms of masks", FORMS, 1))
def test_a_bert_from_pytorch_is_one_region_and_masked_tokens_change_nothing(form: str) -> None:
    rng = np.random.default_rng(2)
    torch.manual_seed(4)
    module = Bert(form).eval()
    samples = {
        "input_ids": rng.integers(0, WORDS, (6, TOKENS)),
        "attention_mask": np.concatenate([some_mask(rng, TOKENS) for _ in range(6)]),
    }
    compilation = compile_model(
        module,
        ROWED,
        load_board("pynq-z2"),
        calibration=Calibration(arrays=samples),
        offload_all=True,
    )
    (graph,) = compilation.layers
    masked = [layer for layer in graph.layers if layer.mask is not None]
    assert len(masked) == 4  # two layers of two heads
    assert len({layer.mask for layer in masked}) == 1
    left = {p.kind for p in compilation.network.placements if p.where != "accelerator"}
    assert not left & {"MatMul", "Softmax"}
    assert sum(layer.workload.kind is Kind.ROWS for layer in graph.layers) >= 4 + 4
    qdq, device = compilation.imported.qdq, ReferenceDevice(ROWED)
    names, (result,) = quantised_names(qdq), graph.outputs
    output = graph.tensors[result]
    for _ in range(2):
        mask, words = some_mask(rng, TOKENS), rng.integers(0, WORDS, (1, TOKENS))
        others = np.where(mask > 0, words, (words + 1) % WORDS)
        found = []
        for ids in (words, others):
            inputs = {"input_ids": ids, "attention_mask": mask}
            tensors = run_all(qdq, inputs)
            rounded = {
                name: to_normal_form(tensors[names.get(name, name)], graph.tensors[name].shape)
                for name in graph.inputs
            }
            expected = evaluate(graph, rounded)[result].reshape(output.shape[1], -1).T
            run = run_network(compilation.network, device, inputs, trusted=True)
            found.append(next(iter(run.outputs.values())))
            steps = np.rint(found[-1] / output.scale) + output.zero_point
            assert np.array_equal(steps.reshape(expected.shape), expected)
        seen = mask[0] > 0
        assert np.array_equal(found[0][:, seen], found[1][:, seen])
        assert not np.array_equal(found[0], found[1])
        with torch.no_grad():
            real = module(torch.from_numpy(words), torch.from_numpy(mask)).numpy()[:, seen]
        assert np.abs(found[0][:, seen] - real).max() < 0.15 * np.abs(real).max()
