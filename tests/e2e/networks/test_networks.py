# SPDX-License-Identifier: Apache-2.0
"""The networks of `examples/networks`: imported, divided, and compared with ONNX Runtime."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.networks.qdq_runs import operator_errors, quantised_names, region_errors, run_all
from support.networks.qgraph_floats import FloatRegions
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.qgraph import QConcat, QMatmul, QPool
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.compiler.run.relax_host import HostProgram

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

from networks import NETWORKS, build, digits

_TIES = {QPool: 0.2, QConcat: 0.05}
"""Shares of one step where many sums, or two grids of nearly simple ratio, end half-way."""


def divided(name: str, rng: np.random.Generator):
    shape = NETWORKS[name].input_shape
    data = rng.normal(size=(2, *shape[1:])).astype(np.float32)
    network = import_network(build(name), calibration=Calibration(arrays={"x": data}))
    parts = partition(network)
    tensors = run_all(network.qdq, {network.inputs[0].name: data[:1]})
    names = quantised_names(network.qdq)
    for region in parts.regions:
        errors = operator_errors(region, tensors, names)
        assert len(errors) >= 0.9 * len(region.operators) - 1
        for operator in region.operators:
            if operator.name in errors:
                assert np.abs(errors[operator.name]).max() <= 1, operator.name
                ties = _TIES.get(type(operator), 0.01)
                assert (errors[operator.name] != 0).mean() <= ties, operator.name
        # rounding of ties may grow from layer to layer
        for output, found in region_errors(region, tensors, names).items():
            assert np.abs(found).mean() <= 2, output
    return parts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "alexnet",
            "keyword",
            "mobilenet-v2",
            "resnet18",
            "resnet34",
            "squeezenet",
            "vgg16",
        )
    ],
)
def test_image_classifiers_are_one_region_from_the_first_convolution_to_the_last_layer(
    name,
) -> None:
    parts = divided(name, fresh_rng())
    (region,) = parts.regions
    assert len(region.inputs) == len(region.outputs) == 1
    assert {p.kind for p in parts.placements if p.place == "cpu"} <= {"Flatten", "Reshape"}


@pytest.mark.slow
def test_the_transformer_leaves_softmax_and_gelu_to_the_cpu() -> None:
    parts = divided("transformer", fresh_rng())
    on_cpu = {p.kind for p in parts.placements if p.place == "cpu"}
    assert {"Softmax", "Gelu"} <= on_cpu <= {"Softmax", "Gelu", "LayerNormalization"}
    operators = [o for region in parts.regions for o in region.operators]
    assert sum(isinstance(o, QMatmul) for o in operators) == 4
    assert len(parts.regions) == 8


def test_a_trained_classifier_stays_as_good_in_int8() -> None:
    data = digits.load_digits()
    classifier = digits.train(data)
    accuracy = digits.accuracy(classifier, data)
    assert accuracy > 0.95
    batch, count = 50, 150
    network = import_network(
        classifier,
        calibration=Calibration(arrays={"x": data.train_images[:500]}),
        options=ImportOptions(example_inputs=[data.train_images[:batch]]),
    )
    parts = partition(network)
    program, regions = HostProgram(module=parts.host), FloatRegions(parts.regions)
    assert len(parts.regions) == 1
    found = []
    for first in range(0, count, batch):
        images = data.test_images[first : first + batch]
        (logits,) = program.run({network.inputs[0].name: images}, regions).values()
        found.append(logits.argmax(1))
    assert float((np.concatenate(found) == data.test_labels[:count]).mean()) > accuracy - 0.04
