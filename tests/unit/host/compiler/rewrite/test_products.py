# SPDX-License-Identifier: Apache-2.0
"""Einsum and products of many axes are batches of matrices; NumPy and ONNX Runtime agree."""

import numpy as np
import pytest
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import quantised_names, region_errors, run_all
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.qgraph import to_normal_form
from tilewright.host.compiler.pipeline import compile_model, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice

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
    ("equation", "shapes", "kinds"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], ["MatMul"]),
        ("...ij,...kj->...ik", [(2, 3, 4), (2, 5, 4)], ["Transpose", "MatMul"]),
        ("ij->ji", [(3, 4)], ["Transpose"]),
        ("ij->", [(3, 4)], ["ReduceSum"]),
    ],
)
def test_known_einsums(equation, shapes, kinds) -> None:
    found = rewritten(einsum(equation, shapes, fresh_rng()))
    assert [kind for kind in found if kind not in ("Identity", "Neg", "Reshape")] == kinds


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ii->i", [(3, 3)]), ("ij,jk->ik", [(3, 1), (4, 5)])]
)
def test_diagonals_and_broadcasts_stay(equation, shapes) -> None:
    assert "Einsum" in rewritten(einsum(equation, shapes, fresh_rng()))


HEADS, TOKENS, WIDTH, WINDOWS = 2, 8, 16, 3


def windows_attention(model: Model, *, by_einsum: bool) -> str:
    """Attention in windows of a sequence, with its batch, heads and windows as axes."""
    features = HEADS * WIDTH
    x = model.input(1, WINDOWS * TOKENS, features)
    dense = model.add("MatMul", x, model.weights(features, 3 * features))
    cut = model.add("Reshape", dense, np.array([1, WINDOWS, TOKENS, 3, HEADS, WIDTH]))
    cut = model.add("Transpose", cut, perm=[3, 0, 4, 1, 2, 5])
    q, k, v = (model.add("Gather", cut, np.array(i), axis=0) for i in range(3))
    if by_einsum:
        scores = model.add("Einsum", q, k, equation="bhwqc,bhwkc->bhwqk")
    else:
        scores = model.add("MatMul", q, model.add("Transpose", k, perm=[0, 1, 2, 4, 3]))
    scores = model.add("Mul", scores, np.float32(WIDTH**-0.5))
    scores = model.add("Add", scores, model.weights(HEADS, 1, TOKENS, TOKENS))
    weights = model.add("Softmax", scores, axis=-1)
    if by_einsum:
        mixed = model.add("Einsum", weights, v, equation="bhwqk,bhwkc->bwqhc")
    else:
        mixed = model.add("Transpose", model.add("MatMul", weights, v), perm=[0, 2, 3, 1, 4])
    y = model.add("Reshape", mixed, np.array([1, WINDOWS * TOKENS, features]))
    return model.add("MatMul", y, model.weights(features, features))


ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


@pytest.mark.parametrize("by_einsum", [False, True])
def test_attention_of_five_axes_is_one_region_with_its_bits(by_einsum) -> None:
    rng = fresh_rng()
    model = Model(rng)
    proto = model.proto(windows_attention(model, by_einsum=by_einsum))
    seen = rng.normal(size=(4, WINDOWS * TOKENS, HEADS * WIDTH)).astype(np.float32)
    options = {"calibration": Calibration(arrays={"x": seen}), "offload_all": True}
    compilation = compile_model(proto, ROWED, load_board("pynq-z2"), **options)
    (graph,) = compilation.layers
    places = {p.name: p.where for p in compilation.network.placements}
    assert set(places.values()) == {"accelerator"}, places
    inputs = {"x": seen[:1]}
    tensors = run_all(compilation.imported.qdq, inputs)
    names = quantised_names(compilation.imported.qdq)
    (region,) = partition(compilation.imported, rows=True).regions
    assert max(np.abs(each).max() for each in region_errors(region, tensors, names).values()) <= 2
    (source,), (result,) = graph.inputs, graph.outputs
    data = to_normal_form(tensors[names["x"]], graph.tensors[source].shape)
    expected = evaluate(graph, {source: data})[result].reshape(HEADS * WIDTH, -1).T
    run = run_network(compilation.network, ReferenceDevice(ROWED), inputs, trusted=True)
    (found,) = run.outputs.values()
    output = graph.tensors[result]
    steps = np.rint(found / output.scale) + output.zero_point
    assert np.array_equal(steps.reshape(expected.shape), expected)
    (real,) = run_all(proto, inputs)[proto.graph.output[0].name][None]
    assert np.abs(found - real).max() < 0.1 * np.abs(real).max()
