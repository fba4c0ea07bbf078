# SPDX-License-Identifier: Apache-2.0
"""Ranges of what tables look up are judged by the tables' results."""

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.randomness import fresh_rng
from support.small_models import Model

from tilewright.host.compiler.quantise.activation_ranges import find_ranges
from tilewright.host.compiler.quantise.table_functions import table_functions
from tilewright.host.compiler.read.import_options import QuantiseOptions

VALUES = np.linspace(-9, 9, 1001)


def hard_swish(model: Model, x: str) -> str:
    return model.add("HardSwish", x)


def hard_swish_in_parts(model: Model, x: str) -> str:
    y = model.add("Add", x, model.constant(np.float32(3)))
    y = model.add("Clip", y, model.constant(np.float32(0)), model.constant(np.float32(6)))
    y = model.add("Mul", x, y)
    return model.add("Div", y, model.constant(np.full((1, 1, 1), 6, np.float32)))


def silu(model: Model, x: str) -> str:
    return model.add("Mul", model.add("Sigmoid", x), x)


def leaky(model: Model, x: str) -> str:
    return model.add("PRelu", x, model.constant(np.full((1, 1, 1), 0.1, np.float32)))


MEANINGS: dict[Callable[[Model, str], str], Callable[[np.ndarray], np.ndarray]] = {
    hard_swish: lambda x: x * np.clip(x + 3, 0, 6) / 6,
    hard_swish_in_parts: lambda x: x * np.clip(x + 3, 0, 6) / 6,
    silu: lambda x: x / (1 + np.exp(-x)),
    leaky: lambda x: np.where(x < 0, 0.1 * x, x),
}


def built(
    activation: Callable[[Model, str], str], *, also_read: bool = False
) -> tuple[onnx.ModelProto, str, set[str]]:
    """A model, the tensor in front of its activation, and the operators of the activation."""
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 64, 64), model.weights(4, 4, 1, 1))
    first = len(model.nodes)
    y = activation(model, x)
    tables = {node.name for node in model.nodes[first:]}
    outputs = [model.add("Conv", y, model.weights(4, 4, 1, 1))]
    if also_read:
        outputs.append(model.add("Conv", x, model.weights(4, 4, 1, 1)))
    return model.proto(*outputs), x, tables


@pytest.mark.parametrize("activation", MEANINGS)
def test_a_chain_of_operators_is_one_function(activation) -> None:
    proto, x, tables = built(activation)
    found = table_functions(ir.from_proto(proto), tables, {x})
    np.testing.assert_allclose(found[x](VALUES), [MEANINGS[activation](VALUES)], atol=1e-5)


def test_what_others_read_too_is_judged_by_itself() -> None:
    proto, x, tables = built(silu, also_read=True)
    assert table_functions(ir.from_proto(proto), tables, {x}) == {}


def test_a_table_that_is_read_in_between_has_two_results() -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 4, 64, 64), model.weights(4, 4, 1, 1))
    gate = model.add("Sigmoid", x)
    y = model.add("Mul", x, gate)
    proto = model.proto(*(model.add("Conv", z, model.weights(4, 4, 1, 1)) for z in (gate, y)))
    found = table_functions(ir.from_proto(proto), {gate, y}, {x})
    gates = 1 / (1 + np.exp(-VALUES))
    np.testing.assert_allclose(found[x](VALUES), [gates, VALUES * gates], atol=1e-5)


def rounded(values: np.ndarray, range_: tuple[float, float], asymmetric: bool) -> np.ndarray:
    lowest, highest = range_
    step = (highest - lowest) / (255 if asymmetric else 254)
    steps = np.clip(np.rint(values / step), np.rint(lowest / step), np.rint(highest / step))
    return steps * step


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("activation", MEANINGS)
def test_the_result_errs_less_than_with_the_best_range_of_the_input(activation, asymmetric) -> None:
    proto, x, tables = built(activation)
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32)[..., None, None], "c0")
    )
    rng = fresh_rng()
    data = (rng.normal(size=(1, 4, 64, 64)) * 3 - rng.uniform(0, 4)).astype(np.float32)
    options = QuantiseOptions(asymmetric=asymmetric, activation_tables=True)
    functions = table_functions(ir.from_proto(proto), tables, {x})
    batches = [{"x": data}]
    meaning, errors = MEANINGS[activation], []
    for known in ({}, functions):
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        range_ = find_ranges(copy, {x}, (), batches, options, known)[x]
        found = meaning(rounded(data.astype(float), range_, asymmetric))
        errors.append(float(((found - meaning(data.astype(float))) ** 2).mean()))
    step = meaning(data.astype(float)).std() / 127
    assert errors[1] <= 1.1 * errors[0] + 1e-3 * step**2


def test_what_a_hard_swish_does_not_tell_apart_takes_no_steps() -> None:
    proto, x, tables = built(hard_swish)
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32)[..., None, None], "c0")
    )
    data = fresh_rng().uniform(-20, 2, (1, 4, 64, 64)).astype(np.float32)
    functions = table_functions(ir.from_proto(proto), tables, {x})
    range_ = find_ranges(proto, {x}, (), [{"x": data}], QuantiseOptions(), functions)[x]
    assert 1.9 <= range_[1] < 3.6
