# SPDX-License-Identifier: Apache-2.0
"""Pointwise functions as tables: what ONNX Runtime computes of every int8 value."""

import numpy as np
import pytest
from support.qdq_runs import quantised_names, run_all
from support.small_models import Model

from tilewright.host.compiler.lower.qgraph import QRescale
from tilewright.host.compiler.pipeline import import_network, partition

OPSET = 20  # the first with Gelu


def _silu(model, x):
    return model.add("Mul", x, model.add("Sigmoid", x))


def _silu_rounded_in_between(model, x):
    gate = model.quantised(model.add("Sigmoid", x), 1 / 255, -128)
    return model.add("Mul", x, gate)


def _gelu_by_erf(model, x):
    numbers = [model.constant(np.float32(v)) for v in (2**0.5, 1, 0.5)]
    shifted = model.add("Add", model.add("Erf", model.add("Div", x, numbers[0])), numbers[1])
    return model.add("Mul", model.add("Mul", x, shifted), numbers[2])


def _plain(kind, **attributes):
    return lambda model, x: model.add(kind, x, **attributes)


def _prelu(model, x):
    return model.add("PRelu", x, model.constant(np.float32([0.2])))


def _snake(model, x):
    wave = model.add("Sin", x)
    return model.add("Add", x, model.add("Mul", wave, wave))


CURVES = {
    "ceil": _plain("Ceil"),
    "cos": _plain("Cos"),
    "floor": _plain("Floor"),
    "sign": _plain("Sign"),
    "snake": _snake,
    "sigmoid": _plain("Sigmoid"),
    "hard-sigmoid": _plain("HardSigmoid", alpha=1 / 6),
    "hard-swish": _plain("HardSwish"),
    "tanh": _plain("Tanh"),
    "gelu": _plain("Gelu"),
    "gelu-tanh": _plain("Gelu", approximate="tanh"),
    "gelu-erf": _gelu_by_erf,
    "leaky-relu": _plain("LeakyRelu", alpha=0.1),
    "prelu": _prelu,
    "elu": _plain("Elu", alpha=0.7),
    "selu": _plain("Selu"),
    "mish": _plain("Mish"),
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "silu": _silu,
    "silu-rounded": _silu_rounded_in_between,
}


def every_step(curve, scale=0.0507, zero_point=-13):
    """A quantised model of a curve, and an input that has every int8 value."""
    model = Model(np.random.default_rng(0), opset=OPSET)
    x = model.quantised(model.input(1, 4, 8, 8), scale, zero_point)
    result = model.quantised(curve(model, x), 0.0393, 5)
    steps = np.arange(-128, 128).reshape(1, 4, 8, 8)
    return model.proto(result), ((steps - zero_point) * scale).astype(np.float32)


@pytest.mark.parametrize("name", CURVES)
def test_every_entry_is_what_onnx_runtime_computes(name):
    proto, data = every_step(CURVES[name])
    network = import_network(proto)
    (region,) = partition(network, tables=True).regions
    (operator,) = region.operators
    assert isinstance(operator, QRescale)
    tensors = run_all(network.qdq, {"x": data})
    names = quantised_names(network.qdq)
    steps = tensors[names["x"]].reshape(-1)
    assert np.array_equal(np.sort(steps), np.arange(-128, 128))
    found = operator.lookup.entries[steps.astype(int) + 128]
    (output,) = region.outputs
    expected = tensors[names.get(output, output)].reshape(-1)
    errors = found.astype(int) - expected.astype(int)
    # Single precision may round a tie, and a step in between, the other way.
    assert np.abs(errors).max() <= 1
    assert np.count_nonzero(errors) <= 2, np.flatnonzero(errors)


def test_without_a_table_the_function_stays_on_the_cpu():
    proto, _ = every_step(CURVES["silu"])
    assert not partition(import_network(proto)).regions


WHY = [
    "two tensors",
    "no value",
    "broadcast",
    "16 bits in between",
    "scales in between",
]


@pytest.mark.parametrize("why", WHY)
def test_what_is_no_table_stays_on_the_cpu(why):
    model = Model(np.random.default_rng(0), opset=21)
    x = model.quantised(model.input(1, 4, 8, 8), 0.05)
    if why == "two tensors":
        y = model.quantised(model.input(1, 4, 8, 8, name="y"), 0.05)
        result = model.add("Mul", model.add("Sigmoid", x), y)
    elif why == "no value":
        result = model.add("Sqrt", x)
    elif why == "16 bits in between":
        gate = model.quantised(model.add("Sigmoid", x), 1 / 32767, 0, np.int16)
        result = model.add("Mul", x, gate)
    elif why == "scales in between":
        numbers = [model.constant(np.full(4, 1 / 127, "f")), model.constant(np.zeros(4, np.int8))]
        gate = model.add("QuantizeLinear", model.add("Tanh", x), *numbers)
        result = model.add("Mul", x, model.add("DequantizeLinear", gate, *numbers))
    else:
        result = model.add("Tanh", model.add("Mul", x, model.constant(np.ones((2, 1, 1, 1), "f"))))
    proto = model.proto(model.quantised(result, 0.04))
    assert not partition(import_network(proto), tables=True).regions
