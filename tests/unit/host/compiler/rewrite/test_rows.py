# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation are found in many forms, and nothing that is close to them."""

from typing import Any

import numpy as np
import pytest
from support.networks.detector_models import Detector
from support.networks.onnx_results import after_rewrites, rewritten
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.compiler.read.edit import array_of
from tilewright.host.compiler.read.import_options import QuantiseOptions

SHAPE = (3, 4, 8)
ROWS = QuantiseOptions(row_functions=True)


class Form:
    """A written out form along one axis of a tensor.

    Args:
        model: under construction.
        shape, axis: of the data.
        keep: reductions keep the axis; otherwise a change of shape brings it back.
    """

    def __init__(self, model: Model, shape: tuple[int, ...], axis: int, *, keep: bool) -> None:
        self.model, self.shape, self.axis, self.keep = model, shape, axis, keep

    def number(self, value: float) -> str:
        return self.model.constant(np.float32(value))

    def reduced(self, kind: str, value: str) -> str:
        axes, keep = [self.axis], int(self.keep)
        if kind == "ReduceSum":
            return self.model.add(kind, value, np.array(axes), keepdims=keep)
        return self.model.add(kind, value, axes=axes, keepdims=keep)

    def spread(self, value: str) -> str:
        if self.keep:
            return value
        kept = [1 if i == self.axis % len(self.shape) else n for i, n in enumerate(self.shape)]
        return self.model.add("Reshape", value, np.array(kept))

    def mean(self, value: str, how: str, size: int | None = None) -> str:
        size = size or self.shape[self.axis]
        if how == "mean":
            return self.reduced("ReduceMean", value)
        total = self.reduced("ReduceSum", value)
        if how == "quotient":
            return self.model.add("Div", total, self.number(size))
        return self.model.add("Mul", self.number(1 / size), total)

    def variance(
        self, x: str, found: dict[str, str], how: str, bound: str, mean: tuple[str, int | None]
    ) -> str:
        add = self.model.add
        if how == "powers":
            square = add("Pow", found["difference"], self.number(2))
        else:
            factor = x if how == "squares" else found["difference"]
            square = add("Mul", factor, factor)
        spread = self.mean(square, *mean)
        if how == "squares":
            spread = add("Sub", spread, add("Mul", found["mean"], found["mean"]))
        if bound == "max":
            spread = add("Max", self.number(0), spread)
        elif bound == "relu":
            spread = add("Relu", spread)
        return self.spread(spread)

    def root(self, value: str, how: str) -> str:
        """What differences are multiplied by, or divided by."""
        if how == "power":
            return self.model.add("Pow", value, self.number(-0.5))
        found = self.model.add("Sqrt", value)
        if how == "reciprocal":
            return self.model.add("Reciprocal", found)
        return self.model.add("Div", self.number(1), found) if how == "one over" else found

    def per_place(self, size: int | None = None) -> str:
        """A constant with a number for each place along the axis."""
        wide = [1] * len(self.shape)
        wide[self.axis] = size or self.shape[self.axis]
        numbers = 1 + self.model.rng.uniform(size=wide)
        return self.model.constant(numbers.astype(np.float32))


def normalised(
    model: Model, x: str, shape: tuple[int, ...], *, axis: int = -1, keep: bool = True,
    mean: str = "mean", variance: str = "differences", bound: str = "", root: str = "quotient",
    order: str = "root first", offsets: bool = True, epsilon: float = 1e-3,
    size: int | None = None, other_axis: int | None = None,
) -> dict[str, str]:  # fmt: skip
    """A layer normalisation; values by what they are."""
    form, add = Form(model, shape, axis, keep=keep), model.add
    found: dict[str, str] = {"mean": form.mean(x, mean, size)}
    found["difference"] = add("Sub", x, form.spread(found["mean"]))
    inner = form if other_axis is None else Form(model, shape, other_axis, keep=keep)
    found["variance"] = spread = inner.variance(x, found, variance, bound, (mean, size))
    if epsilon:
        spread = add("Add", spread, form.number(epsilon))
    inverse = form.root(spread, root)
    by = "Div" if root == "quotient" else "Mul"
    gamma = form.per_place()
    if order == "shared":
        factor = add("Mul", inverse, gamma)
        rest = add("Sub", form.per_place(), add("Mul", found["mean"], factor))
        found["result"] = add("Add", add("Mul", x, factor), rest)
        return found
    if order == "none":
        y = add(by, found["difference"], inverse)
    elif order == "root first":
        y = add("Mul", add(by, found["difference"], inverse), gamma)
    elif order == "factor first":
        y = add(by, add("Mul", gamma, found["difference"]), inverse)
    else:  # JAX
        y = add("Mul", found["difference"], add("Mul", inverse, gamma))
    found["result"] = add("Add", form.per_place(), y) if offsets else y
    return found


FORMS: dict[str, dict[str, Any]] = {
    "PyTorch": {"variance": "powers"},
    "no offsets": {"offsets": False},
    "no factors": {"order": "none", "offsets": False},
    "sums": {"mean": "quotient", "keep": False},
    "factor first": {"order": "factor first", "mean": "product"},
    "reciprocal": {"root": "reciprocal"},
    "power": {"root": "power", "variance": "powers"},
    "one over the root": {"root": "one over", "order": "factor first"},
    "JAX": {"variance": "squares", "bound": "max", "root": "reciprocal", "order": "jax",
            "mean": "product", "keep": False},
    "JAX, with ReLU": {"variance": "squares", "bound": "relu", "root": "reciprocal",
                       "order": "jax", "mean": "product"},
    "squares without bound": {"variance": "squares"},
    "TensorFlow": {"order": "shared", "root": "reciprocal", "variance": "squares"},
    "TensorFlow, differences": {"order": "shared", "root": "power"},
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("opset", [13, 17])
def test_a_layer_normalisation_is_one_operator(name, opset) -> None:
    model = Model(fresh_rng(), opset=opset)
    y = normalised(model, model.input(*SHAPE), SHAPE, **FORMS[name])["result"]
    assert rewritten(model.proto(y), ROWS) == ["LayerNormalization"]


NEARLY: dict[str, dict[str, Any]] = {
    "another axis of several images": {"axis": 1},
    "two axes": {"other_axis": 1},
    "one number fewer": {"mean": "product", "size": 7},
    "one number more": {"mean": "quotient", "size": 9, "variance": "squares"},
    "no epsilon": {"epsilon": 0},
    "epsilon below 0": {"epsilon": -1e-3},
}


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_a_layer_normalisation_stays(name) -> None:
    shape = (2, 8, 8)
    model = Model(fresh_rng())
    y = normalised(model, model.input(*shape), shape, **NEARLY[name])["result"]
    assert "LayerNormalization" not in rewritten(model.proto(y), ROWS)


@pytest.mark.parametrize(("kind", "place"), [("Mul", 0), ("Add", 1)])
def test_numbers_for_other_places_stay_behind(kind, place) -> None:
    model = Model(fresh_rng())
    y = normalised(model, model.input(*SHAPE), SHAPE, order="none", offsets=False)["result"]
    y = model.add(kind, y, model.weights(4, 8 if place else 1))
    assert rewritten(model.proto(y), ROWS) == ["LayerNormalization", kind]


# -- softmax ---------------------------------------------------------------------------------------
def softmax(
    model: Model, x: str, shape: tuple[int, ...], *, axis: int = -1, keep: bool = True,
    bound: float | None = None, inverse: bool = False, sum_axis: int | None = None,
    most: str = "ReduceMax",
) -> dict[str, str]:  # fmt: skip
    form, add = Form(model, shape, axis, keep=keep), model.add
    top = form.reduced(most, x)
    if bound is not None:
        top = add("Max", form.number(bound), top)
    power = add("Exp", add("Sub", x, form.spread(top)))
    below = form if sum_axis is None else Form(model, shape, sum_axis, keep=keep)
    total = below.spread(below.reduced("ReduceSum", power))
    y = add("Mul", add("Reciprocal", total), power) if inverse else add("Div", power, total)
    return {"power": power, "result": y}


@pytest.mark.parametrize(
    "more", [{"sum_axis": 1}, {"bound": 0.0}, {"most": "ReduceMin"}, {"bound": -1.0}]
)
def test_what_is_nearly_a_softmax_stays(more) -> None:
    shape = (2, 8, 8)
    model = Model(fresh_rng())
    y = softmax(model, model.input(*shape), shape, **more)["result"]
    assert "Softmax" not in rewritten(model.proto(y), ROWS)


def test_powers_that_something_else_reads_stay() -> None:
    model = Model(fresh_rng())
    found = softmax(model, model.input(*SHAPE), SHAPE)
    proto = model.proto(found["result"], model.add("Relu", found["power"]))
    assert "Softmax" not in rewritten(proto, ROWS)


# -- expectations of a softmax --------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_an_expectation_is_a_convolution_in_groups(outputs, bias) -> None:
    model = Detector(fresh_rng())
    turned = model.add("Transpose", model.input(2, 4, 6, 7), perm=[0, 2, 1, 3])
    parts = [model.weights(outputs, 6, 1, 1), *([model.weights(outputs)] if bias else [])]
    y = model.add("Conv", model.add("Softmax", turned, axis=1), *parts)
    proto = model.proto(model.add("Neg", y))
    kinds = rewritten(proto, ROWS)
    back = ["Reshape"] if outputs == 1 else ["Reshape", "Transpose"]
    assert kinds == ["Softmax", "Reshape", "Conv", *back, "Neg"]
    (layer,) = [node for node in after_rewrites(proto, ROWS).graph if node.op_type == "Conv"]
    weights = array_of(layer.inputs[1])
    assert weights is not None
    assert weights.shape == (4 * outputs, 6, 1, 1)
    np.testing.assert_allclose(weights.max(axis=1), -weights.min(axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("perm", "attributes"),
    [([0, 1, 2, 3], {}), ([0, 2, 1, 3], {"strides": [1, 2]}), ([0, 2, 1, 3], {"pads": [1] * 4})],
)
def test_other_convolutions_of_a_softmax_stay(perm, attributes) -> None:
    model = Detector(fresh_rng())
    y = model.add("Softmax", model.add("Transpose", model.input(1, 6, 6, 7), perm=perm), axis=1)
    y = model.add("Conv", y, model.weights(2, 6, 1, 1), **attributes)
    assert "Reshape" not in rewritten(model.proto(model.add("Neg", y)), ROWS)
