# SPDX-License-Identifier: Apache-2.0
"""Constants, joins and slices of sequences as units of a region, compared with ONNX Runtime."""

import numpy as np
import pytest
from support.randomness import fresh_rng
from support.small_models import Model, accelerated, operators

from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QAdd, QConv, QSelect, QStack
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")


def sequence(model: Model, tokens: int = 7) -> str:
    """Five features of some tokens, out of a dense layer."""
    return model.add("MatMul", model.input(1, tokens, 3), model.weights(3, 5))


def agrees(model: Model, result: str):
    """The operators of the model's one region, whose program has the bits of its layers."""
    parts = accelerated(model.proto(model.add("MatMul", result, model.weights(5, 6))))
    (region,) = parts.regions
    graph = layer_graph(fuse(region), TINY)
    rng = fresh_rng()
    data = {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    program = lower_region(graph, TINY, lambda workload: default_schedule(TINY, workload))
    run = ReferenceDevice(TINY).run(program.program, program.image(data))
    expected = evaluate(graph, data)
    for name, found in program.read_outputs(run.memory).items():
        assert np.array_equal(found, expected[name])
    return operators(parts)


def test_positions_are_added_on_the_accelerator() -> None:
    model = Model(fresh_rng())
    positions = model.constant(model.rng.normal(size=(7, 5)).astype(np.float32))
    found = agrees(model, model.add("Add", positions, sequence(model)))
    assert any(isinstance(operator, QAdd) for operator in found)


@pytest.mark.parametrize("last", [False, True])
def test_a_constant_token_is_joined_to_a_sequence(last) -> None:
    model = Model(fresh_rng())
    token = model.constant(model.rng.normal(size=(1, 1, 5)).astype(np.float32))
    parts = [token, sequence(model)]
    found = agrees(model, model.add("Concat", *(parts[::-1] if last else parts), axis=1))
    assert any(isinstance(operator, QStack) for operator in found)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 1, 1), (6, 7, 1), (1, 7, 1), (2, 5, 1), (0, 7, 2), (1, 6, 3)]
)
def test_some_tokens_are_a_convolution(start, end, step) -> None:
    model = Model(fresh_rng())
    bounds = [model.constant(np.array([n], np.int64)) for n in (start, end, 1, step)]
    found = agrees(model, model.add("Slice", sequence(model), *bounds))
    assert sum(isinstance(operator, QConv) for operator in found) == 3


def test_some_features_are_where_they_lie() -> None:
    model = Model(fresh_rng())
    x = model.add("MatMul", model.input(1, 7, 3), model.weights(3, 9))
    bounds = [model.constant(np.array([n], np.int64)) for n in (2, 7, 2)]
    found = agrees(model, model.add("Slice", x, *bounds))
    assert any(isinstance(operator, QSelect) for operator in found)


@pytest.mark.parametrize(("start", "end", "step"), [(0, 2, 1), (1, 6, 2), (5, -7, -1)])
def test_some_channels_of_an_image_without_rows_are_where_they_lie(start, end, step) -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 3, 5, 4), model.weights(6, 3, 1, 1))
    x = model.add("Reshape", x, model.constant(np.array([1, 6, 20])))
    bounds = [model.constant(np.array([n], np.int64)) for n in (start, end, 1, step)]
    x = model.add("Slice", x, *bounds)
    expected = tuple(range(6)[start:end:step])
    x = model.add("Reshape", x, model.constant(np.array([1, len(expected), 5, 4])))
    x = model.add("Conv", x, model.weights(2, len(expected), 1, 1))
    parts = accelerated(model.proto(x))
    (region,) = parts.regions
    (chosen,) = [each for each in region.operators if isinstance(each, QSelect)]
    assert chosen.channels == expected


def test_tokens_in_reverse_are_none_that_are_left_out() -> None:
    model = Model(fresh_rng())
    bounds = [model.constant(np.array([n], np.int64)) for n in (6, -8, 1, -1)]
    x = model.add("Slice", sequence(model), *bounds)
    parts = accelerated(model.proto(model.add("MatMul", x, model.weights(5, 6))))
    assert not any(isinstance(operator, QSelect) for operator in operators(parts))
