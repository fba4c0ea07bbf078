# SPDX-License-Identifier: Apache-2.0
"""Einsum and products of many axes are batches of matrices; NumPy and ONNX Runtime agree."""

import numpy as np
import pytest
from support.networks.onnx_results import rewritten
from support.networks.small_models import Model, imported, operators
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.qgraph import QMatmul
from tilewright.host.compiler.pipeline import partition

LETTERS = "abcdefg"


def drawn_equation(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """Two or three operands whose axes are shared, summed and kept by chance."""
    sizes = {letter: int(rng.integers(1, 5)) for letter in LETTERS}
    terms = [
        "".join(rng.permutation(list(LETTERS))[: rng.integers(1, 5)])
        for _ in range(rng.integers(1, 4))
    ]
    seen = sorted(set("".join(terms)))
    kept = "".join(rng.permutation(seen)[: rng.integers(0, len(seen) + 1)])
    shapes = [tuple(sizes[letter] for letter in term) for term in terms]
    stated = f"->{kept}" if rng.random() < 0.8 else ""  # the letters that stand once
    return ",".join(terms) + stated, shapes


def einsum(equation: str, shapes: list[tuple[int, ...]], rng: np.random.Generator):
    model = Model(rng)
    names = [model.input(*shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    y = model.add("Einsum", *names, equation=equation)
    return model.proto(model.add("Identity", y), model.add("Neg", y))


@pytest.mark.parametrize("_", range(20))
def test_an_einsum_is_products_of_two(_: int) -> None:
    rng = fresh_rng()
    equation, shapes = drawn_equation(rng)
    assert "Einsum" not in rewritten(einsum(equation, shapes, rng)), equation


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ii->i", [(3, 3)]), ("ij,jk->ik", [(3, 1), (4, 5)])]
)
def test_diagonals_and_broadcasts_stay(equation, shapes) -> None:
    assert "Einsum" in rewritten(einsum(equation, shapes, fresh_rng()))


@pytest.mark.parametrize(
    ("kind", "others", "attributes"),
    [
        ("LeakyRelu", [], {"alpha": 0.3}),
        ("Clip", [np.float32(-0.5), np.float32(0.5)], {}),
        ("Clip", ["", np.float32(0.5)], {}),
        ("PRelu", [np.full((3, 1, 1), 0.2, np.float32)], {}),
        ("Max", [np.float32(0.1)], {}),
        ("Cast", [], {"to": 1}),
        ("Softmax", [], {"axis": -1}),
        ("Softmax", [], {"axis": 2}),
    ],
    ids=str,
)
def test_what_stands_behind_a_product_of_five_axes(kind, others, attributes) -> None:
    model = Model(fresh_rng())
    product = model.add("MatMul", model.input(1, 2, 3, 4, 5), model.input(1, 2, 3, 5, 6, name="y"))
    behind = model.add(kind, product, *others, **attributes)
    rewritten(model.proto(model.add("MatMul", behind, model.input(1, 2, 3, 6, 2, name="z"))))


@pytest.mark.parametrize("left", [False, True])
def test_constant_matrices_are_multiplied_where_activations_have_zero_points(left) -> None:
    model = Model(fresh_rng())
    x = model.add("Relu", model.add("MatMul", model.input(1, 12, 8), model.weights(8, 8)))
    x = model.add("Reshape", x, np.array([1, 3, 4, 8]))
    pair = (model.weights(3, 5, 4), x) if left else (x, model.weights(3, 8, 5))
    y = model.add("Reshape", model.add("MatMul", *pair), np.array([1, 1, -1]))
    y = model.add("MatMul", y, model.weights(120 if left else 60, 4))
    parts = partition(imported(model.proto(y), asymmetric=True), turns=True)
    products = [each for each in operators(parts) if isinstance(each, QMatmul)]
    assert len(products) == 1
    (product,) = products
    tensors = next(region.tensors for region in parts.regions if product in region.operators)
    assert [tensors[name].zero_point for name in product.inputs] == [0, 0]
