# SPDX-License-Identifier: Apache-2.0
"""A mask is rounded once, at a scale that serves all layers."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.attention_masks import some_mask
from support.qdq_runs import run_all
from support.small_transformers import small_bert

from tilewright.host.compiler.pipeline import import_network
from tilewright.host.compiler.quantise.masks import mask_inputs
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.network.row_functions import mask_scale


def imported(form: str, *, asymmetric: bool = False) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    samples = {
        "attention_mask": np.concatenate([some_mask(rng, 13) for _ in range(3)]),
        "x": rng.normal(size=(3, 13, 16)).astype(np.float32),
    }
    options = QuantiseOptions(row_functions=True, asymmetric=asymmetric)
    return import_network(
        small_bert(rng, form=form),
        calibration=Calibration(arrays=samples),
        options=ImportOptions(quantise=options),
    ).qdq


@pytest.mark.parametrize("form", ["added", "causal condition"])
@pytest.mark.parametrize("asymmetric", [False, True], ids=["int8", "uint8"])
def test_all_layers_share_one_mask_at_the_greatest_scale_that_one_needs(
    form: str, asymmetric: bool
) -> None:
    qdq = imported(form, asymmetric=asymmetric)
    nodes = {name: node for node in qdq.graph.node for name in node.output}
    constants = {t.name: numpy_helper.to_array(t) for t in qdq.graph.initializer}
    sources, needed, scales = set(), [], set()
    for node in qdq.graph.node:
        if node.op_type != "Softmax":
            continue
        scores, real = (nodes[name] for name in nodes[node.input[0]].input)
        if form == "causal condition":
            assert scores.op_type == "Add"
            scores = next(nodes[name] for name in scores.input if name in nodes)
        needed.append(mask_scale(float(constants[scores.input[1]])))
        assert real.op_type == "DequantizeLinear"
        assert constants[real.input[2]] == 0
        sources.add(real.input[0])
        scales.add(float(constants[real.input[1]]))
    assert len(needed) == 2
    assert len(sources) == 1
    assert scales == {float(np.float32(max(needed)))}
    mask = np.array([[1, 1, 0] * 4 + [1]])
    tensors = run_all(qdq, {"attention_mask": mask, "x": np.zeros((1, 13, 16), np.float32)})
    (source,) = sources
    assert tensors[source].reshape(-1).tolist() == [0 if seen else -128 for seen in mask[0]]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([[0, -1e4, 0], [0, 0, 0]], {"mask"}),
        ([[0, 0, 0], [0, 0, -3e38]], {"mask"}),
        ([[0, 0, 0], [0, 0, 0]], set()),  # nothing says that it is one
        ([[0, -1e4, 0], [0, -3, 0]], set()),
        ([[0, -1e4, 0], [0, 1, 0]], set()),
    ],
)
def test_a_float_input_is_a_mask_where_all_its_data_are(values, found) -> None:
    inputs = [
        Argument(name="x", shape=(1, 3, 4), dtype="float32"),
        Argument(name="mask", shape=(1, 1, 3), dtype="float32"),
    ]
    mask = np.array(values, np.float32)[:, None]
    data = {"x": np.zeros((2, 3, 4), np.float32), "mask": mask}
    assert mask_inputs(Calibration(arrays=data), inputs) == found
    assert mask_inputs(Calibration(random_samples=2), inputs) == set()
