# SPDX-License-Identifier: Apache-2.0
"""Scores that calibration data do not hold have steps, too."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.numpy_helper import to_array
from support.networks.attention_masks import some_mask
from support.networks.onnx_results import results
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.networks.small_transformers import small_bert
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import import_network
from tilewright.host.compiler.quantise.masks import mask_inputs
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions
from tilewright.host.network.row_functions import mask_scale

SHAPE = (1, 3, 6, 6)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_ranges_of_scores_are_those_of_the_function(asymmetric) -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(*SHAPE), model.weights(4, 3, 1, 1))
    score = model.add("Sigmoid", y)
    small = {"x": np.full(SHAPE, 0.01, np.float32)}
    options = QuantiseOptions(asymmetric=asymmetric, activation_tables=True, int8_ends=True)
    network = import_network(
        model.proto(score),
        calibration=Calibration(arrays=small),
        options=ImportOptions(quantise=options),
    )
    constants = {tensor.name: to_array(tensor) for tensor in network.qdq.graph.initializer}
    steps = {
        node.input[0].removesuffix("_rows"): float(constants[node.input[1]])
        for node in network.qdq.graph.node
        if node.op_type == "QuantizeLinear"
    }
    whole = 255 if asymmetric else 127
    assert steps[y] == pytest.approx((16 if asymmetric else 8) / whole)
    assert 1 / whole in [pytest.approx(step) for step in steps.values()]


def last_layer(model: Model, weight: float) -> str:
    """A layer whose results are all three times the weight for data of 1."""
    return model.add("Conv", model.input(*SHAPE), np.full((4, 3, 1, 1), weight))


def run_on_ones(model: Model, *outputs: str) -> list[np.ndarray]:
    """The first output of a quantised model, and of the model, for data of 1."""
    proto, data = model.proto(*outputs), {"x": np.ones(SHAPE, np.float32)}
    options = QuantiseOptions(activation_tables=True)
    network = import_network(
        proto, calibration=Calibration(arrays=data), options=ImportOptions(quantise=options)
    )
    return [results(each, data)[0] for each in (network.qdq, proto)]


@pytest.mark.parametrize("end", ["gate", "logits"])
def test_what_something_else_reads_is_not_clipped_to_scores(end) -> None:
    model = Model(fresh_rng())
    y = last_layer(model, np.float32(20))
    score = model.add("Sigmoid", y)
    outputs = [y, score] if end == "logits" else [model.add("Mul", y, score)]
    found, expected = run_on_ones(model, *outputs)
    np.testing.assert_allclose(expected, 60)
    np.testing.assert_allclose(found, expected, atol=1)


def test_a_flat_hard_sigmoid_has_a_wide_range() -> None:
    model = Model(fresh_rng())
    y = model.add("HardSigmoid", last_layer(model, np.float32(20 / 3)), alpha=0.02, beta=0.5)
    found, expected = run_on_ones(model, y)
    np.testing.assert_allclose(expected, 0.9, atol=1e-6)
    np.testing.assert_allclose(found, expected, atol=0.02)


# -- A mask is rounded once, at a scale that serves all layers ------------------------------------


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


# -- ranges of what tables look up are judged by the tables' results ------------------------------


def rounded(values: np.ndarray, range_: tuple[float, float], asymmetric: bool) -> np.ndarray:
    lowest, highest = range_
    step = (highest - lowest) / (255 if asymmetric else 254)
    return np.clip(np.rint(values / step), np.rint(lowest / step), np.rint(highest / step)) * step
