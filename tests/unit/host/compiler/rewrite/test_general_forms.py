# SPDX-License-Identifier: Apache-2.0
"""Norms, quotients and choices of float models: the same numbers, and one region around them."""

from collections.abc import Callable

import numpy as np
import pytest
from support.networks.compiled_runs import compiled_on_its_data
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import output_of
from support.networks.small_models import Model
from support.randomness import generator

from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.machine.hwconfig import load_hwconfig

HW = load_hwconfig("pynq-16x16-rows")
SHAPE = (1, 12, 6, 5)


def axes_of(rng: np.random.Generator) -> list[int]:
    return sorted(int(axis) for axis in 1 + rng.permutation(3)[: int(rng.integers(1, 4))])


def quotient(model: Model, x: str, y: str) -> str:
    return model.add("Div", x, model.add("Add", model.add("Abs", y), np.float32(0.7)))


def chosen(model: Model, x: str, y: str) -> str:
    kind = str(model.rng.choice(["Greater", "Less"]))
    return model.add("Where", model.add(kind, x, y), x, model.add("Mul", y, np.float32(0.5)))


def chosen_by_a_constant(model: Model, x: str, y: str) -> str:
    mask = model.rng.random(SHAPE[2:]) < 0.5
    other = y if model.rng.random() < 0.5 else model.constant(np.float32(0.25))
    return model.add("Where", model.constant(mask), x, other)


def extreme_of_three(model: Model, x: str, y: str) -> str:
    return model.add(str(model.rng.choice(["Max", "Min"])), x, y, np.float32(0.1))


def norm(model: Model, x: str, y: str) -> str:
    kind = str(model.rng.choice(["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMin"]))
    length = model.add(kind, x, axes=axes_of(model.rng), keepdims=1)
    return model.add("Add", y, length)


def divided_by_its_length(model: Model, x: str, _y: str) -> str:
    length = model.add("ReduceL2", x, axes=axes_of(model.rng), keepdims=1)
    return model.add("Div", x, model.add("Max", length, np.float32(0.1)))


def instances(model: Model, x: str, _y: str) -> str:
    numbers = model.weights(SHAPE[1]), model.weights(SHAPE[1])
    return model.add("InstanceNormalization", x, *numbers, epsilon=0.01)


def groups(model: Model, x: str, _y: str) -> str:
    count = int(model.rng.choice([1, 2, 3, 6]))
    ones = [model.constant(np.full(count, n, np.float32)) for n in (1, 0)]
    rows = model.add("Reshape", x, np.array([1, count, -1]))
    rows = model.add("InstanceNormalization", rows, *ones)
    back = model.add("Reshape", rows, np.array(SHAPE))
    return model.add("Mul", back, model.constant(np.ones((SHAPE[1], 1, 1), np.float32) * 1.5))


def root_mean_square(model: Model, x: str, _y: str) -> str:
    squares = model.add("Pow", x, np.float32(2))
    mean = model.add("ReduceMean", squares, axes=[int(model.rng.integers(1, 4))], keepdims=1)
    root = model.add("Sqrt", model.add("Add", mean, np.float32(0.1)))
    return model.add("Mul", x, model.add("Div", np.float32(1), root))


def softmax_between_branches(model: Model, x: str, y: str) -> str:
    parts = [model.add("Unsqueeze", each, np.array([1])) for each in (x, y)]
    joined = model.add("Concat", *parts, axis=1)
    shares = model.add("Softmax", joined, axis=1)
    both = model.add("Mul", joined, shares)
    return model.add("ReduceSum", both, np.array([1]), keepdims=0)


FORMS: dict[str, Callable[[Model, str, str], str]] = {
    each.__name__: each
    for each in (
        quotient, chosen, chosen_by_a_constant, extreme_of_three, norm, divided_by_its_length,
        instances, groups, root_mean_square, softmax_between_branches,
    )
}  # fmt: skip


def network(rng: np.random.Generator, form: Callable[[Model, str, str], str]) -> Model:
    """A form of two convolutions' results, in front of a third one, which is the output."""
    model = Model(rng)
    image = model.input(1, 3, *SHAPE[2:])
    x, y = (model.add("Conv", image, model.weights(SHAPE[1], 3, 1, 1)) for _ in range(2))
    model.add("Conv", form(model, x, y), model.weights(4, SHAPE[1], 1, 1))
    return model


@pytest.mark.parametrize("form", FORMS)
def test_the_same_numbers_in_operators_that_have_units(form) -> None:
    model = network(generator(f"forms {form}"), FORMS[form])
    kinds = rewritten(
        model.proto(model.nodes[-1].output[0]), QuantiseOptions(activation_tables=True)
    )
    assert not {"InstanceNormalization", "ReduceL2", "Where"} & set(kinds)
    assert "Div" not in kinds or form == "root_mean_square"  # a table of one tensor


@pytest.mark.parametrize("form", FORMS)
def test_one_region_that_is_near_the_float_model(form) -> None:
    rng = generator(f"regions {form}")
    model = network(rng, FORMS[form])
    proto = model.proto(model.nodes[-1].output[0])
    data = rng.normal(size=(8, 3, *SHAPE[2:])).astype(np.float32)
    compilation, found, expected = compiled_on_its_data(proto, data, HW)
    (rounded,) = output_of([compilation.imported.qdq], {"x": data[:1]})
    largest = np.abs(expected).max()
    # A choice between elements that are one step apart may fall the other way.
    assert np.quantile(np.abs(found - rounded), 0.95) <= 0.04 * largest
    # The reciprocal of a length has 127 steps, of which the shortest rows lack most.
    assert np.abs(found - expected).mean() <= 0.2 * largest
