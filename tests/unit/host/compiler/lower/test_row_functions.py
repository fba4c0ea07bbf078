# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer normalisation and attention: regions, and their bits."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from support.networks.qdq_runs import assert_near, quantised_names, run_all
from support.networks.qgraph_floats import evaluate as evaluate_floats
from support.networks.small_models import Model
from support.programs.hazards import check_hazards
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layer_graph import ChannelSlice
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    QConv,
    QGraph,
    QLayerNorm,
    QMatmul,
    QSoftmax,
    QTensor,
)
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.compiler.pipeline import compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.row_functions import mask_scale
from tilewright.host.network.workload import Kind
from tilewright.sim.reference.device import ReferenceDevice

TINY = load_hwconfig("tiny-4x4")
ROWED = TINY.with_(row_unit=1)
TOKENS, HEADS, WIDTH = 8, 2, 8


def region(
    heads: int = 3, epsilon: float = 0.0, bounds: Bounds = UNBOUNDED, last: Bounds = UNBOUNDED
) -> QGraph:
    """Layer normalisation, then softmax of parts of its channels."""
    shape = (1, 12, 5, 2)
    rng = np.random.default_rng(2)
    known = {
        "x": QTensor(name="x", shape=shape, scale=0.1, zero_point=7),
        "n": QTensor(name="n", shape=shape, scale=0.03, zero_point=-3),
        "y": QTensor(name="y", shape=shape, scale=1 / 200, zero_point=-100),
    }
    norm = QLayerNorm(
        name="norm", inputs=("x",), output="n", gamma=rng.normal(1, 0.3, 12),
        beta=rng.normal(0, 0.3, 12), epsilon=epsilon, bounds=bounds,
    )  # fmt: skip
    softmax = QSoftmax(name="softmax", inputs=("n",), output="y", heads=heads, bounds=last)
    return QGraph(name="g", tensors=known, operators=(norm, softmax), inputs=("x",),
                  outputs=("y",))  # fmt: skip


@pytest.mark.parametrize(
    ("heads", "epsilon", "bounds", "last"),
    [
        (1, 0.0, UNBOUNDED, UNBOUNDED),
        (2, 40.0, UNBOUNDED, UNBOUNDED),
        (3, 0.0, (0.0, None), (0.1, 0.4)),
        (2, 1.0, (-0.5, 1.0), (0.0, None)),
    ],
)
def test_a_region_computes_them_as_real_numbers_do_and_as_specified(
    heads: int, epsilon: float, bounds: Bounds, last: Bounds
) -> None:
    """Epsilon is in the model's units; activations behind the functions are part of them."""
    model = region(heads, epsilon=epsilon, bounds=bounds, last=last)
    graph = layer_graph(model, ROWED)
    rows = [layer.name for layer in graph.layers if layer.workload.kind is Kind.ROWS]
    softmax = [f"softmax/{h}" for h in range(heads)] if heads > 1 else ["softmax"]
    assert rows == ["norm", *softmax]
    data = np.random.default_rng(1).integers(-128, 128, (1, 12, 5, 2)).astype(np.int8)
    values = evaluate(graph, {"x": data})
    real = 0.03 * (values["n"].astype(float) + 3)
    (norm,) = (o for o in model.operators if isinstance(o, QLayerNorm))
    x = 0.1 * data.astype(float)
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
    exact = x * norm.gamma[None, :, None, None] + norm.beta[None, :, None, None]
    assert np.abs(real - np.clip(exact, *bounds)).max() < 0.8 * 0.03
    powers = np.exp(real).reshape(1, heads, 12 // heads, 5, 2)
    exact = (powers / powers.sum(axis=2, keepdims=True)).reshape(data.shape)
    exact = np.clip(exact, *last)
    assert np.abs((values["y"] + 100.0) / 200 - exact).max() < 0.8 / 200
    program = lower_region(graph, ROWED, lambda workload: default_schedule(ROWED, workload))
    run = ReferenceDevice(ROWED).run(program.program, program.image({"x": data}))
    assert np.array_equal(program.read_outputs(run.memory)["y"], values["y"])


def test_hardware_without_a_row_unit_refuses_them() -> None:
    with pytest.raises(WorkloadError, match="row_unit: 1"):
        layer_graph(region(), TINY)


def network():
    """A block of a transformer: attention with heads, a residual, two layer normalisations."""
    model = Model(np.random.default_rng(5), opset=20)
    features = HEADS * WIDTH

    def dense(x: str) -> str:
        return model.add("MatMul", x, model.weights(features, features))

    def split(x: str, perm: list[int]) -> str:
        shape = model.constant(np.array([1, TOKENS, HEADS, WIDTH]))
        return model.add("Transpose", model.add("Reshape", dense(x), shape), perm=perm)

    def norm(x: str) -> str:
        gamma = model.constant(np.linspace(0.5, 1.5, features, dtype=np.float32))
        beta = model.constant(np.linspace(-0.2, 0.2, features, dtype=np.float32))
        return model.add("LayerNormalization", x, gamma, beta, axis=-1)

    x = norm(dense(model.input(1, TOKENS, features)))
    scores = model.add("MatMul", split(x, [0, 2, 1, 3]), split(x, [0, 2, 3, 1]))
    y = model.add("MatMul", model.add("Softmax", scores, axis=-1), split(x, [0, 2, 1, 3]))
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])
    y = model.add("Reshape", y, [1, TOKENS, features])
    return model.proto(dense(norm(model.add("Add", dense(y), x))))


def test_a_block_of_a_transformer_is_one_region_with_its_bits() -> None:
    board = load_board("pynq-z2")
    options = {"calibration": Calibration(random_samples=4), "offload_all": True}
    compilation = compile_model(network(), ROWED, board, **options)
    where = {p.kind: p.where for p in compilation.network.placements}
    assert where["Softmax"] == where["LayerNormalization"] == "accelerator"
    assert set(where.values()) == {"accelerator"}
    (graph,) = compilation.layers
    assert sum(layer.workload.kind is Kind.ROWS for layer in graph.layers) == 2 + HEADS
    data = np.random.default_rng(0).normal(size=(1, TOKENS, HEADS * WIDTH)).astype(np.float32)
    qdq = compilation.imported.qdq
    (source,), (result,) = graph.inputs, graph.outputs
    rounded = run_all(qdq, {"x": data})[quantised_names(qdq)["x"]]
    shape = graph.tensors[source].shape
    expected = evaluate(graph, {source: rounded.transpose(0, 2, 1).reshape(shape)})[result]
    output = graph.tensors[result]
    run = run_network(compilation.network, ReferenceDevice(ROWED), {"x": data}, trusted=True)
    (found,) = run.outputs.values()
    steps = np.rint(found / output.scale) + output.zero_point
    assert np.array_equal(steps[0].T.reshape(-1), expected.reshape(-1))
    name = network().graph.output[0].name
    real = run_all(network(), {"x": data})[name]
    assert_near(found, real, 0.1)


# -- Attention of any tokens, heads and blocks: the bits of its program, whatever memory held
ARRAYS = {
    "4x4": ROWED,
    "8x4": ROWED.with_(name="8x4", block_in=8),
    "4x8": ROWED.with_(name="4x8", block_out=8),
    "4x16": ROWED.with_(name="4x16", block_out=16),
}


def attention(
    heads: int, tokens: int, width: int, *, keys: int | None = None,
    zeros: Mapping[str, int] = MappingProxyType({}), addend: np.ndarray | None = None,
    windows: int = 1, masked: bool = False,
) -> QGraph:  # fmt: skip
    """softmax(q k^T / 4 + addend) v of int8 tensors; tokens and keys are those of a window.

    With a mask, tensor ``m`` is added to all rows of all heads.
    """
    keys = keys or tokens
    everywhere, read = tokens * windows, keys * windows
    shapes = {"q": (heads * width, everywhere), "k": (heads * width, read),
              "v": (heads * width, read), "s": (heads * keys, everywhere),
              "p": (heads * keys, everywhere), "y": (heads * width, everywhere)}  # fmt: skip
    scales = {"q": 0.03, "k": 0.03, "v": 0.02, "s": 0.1, "p": 1 / 127, "y": 0.02}
    known = {
        name: QTensor(
            name=name,
            shape=(1, *shape, 1),
            scale=scales[name],
            zero_point=zeros.get(name, 0),
        )
        for name, shape in shapes.items()
    }
    scores = QMatmul(
        name="scores", inputs=("q", "k"), output="s", heads=heads, b_rows_are_outputs=True,
        factor=0.25, windows=windows,
    )  # fmt: skip
    inputs: tuple[str, ...] = ("q", "k", "v")
    if masked:
        inputs = (*inputs, "m")
        known["m"] = QTensor(name="m", shape=(1, keys, 1, 1), scale=mask_scale(0.1))
    sources = ("s", "m") if masked else ("s",)
    softmax = QSoftmax(name="softmax", inputs=sources, output="p", heads=heads, addend=addend)
    context = QMatmul(
        name="context",
        inputs=("p", "v"),
        output="y",
        heads=heads,
        b_rows_are_outputs=False,
        windows=windows,
    )
    return QGraph(name="g", tensors=known, operators=(scores, softmax, context),
                  inputs=inputs, outputs=("y",))  # fmt: skip


def run(graph: QGraph, hw: HwConfig, most: int = 8) -> None:
    """A program's bits are the reference's, over memory that held anything; both near floats.

    A tie of a score is a tenth of a probability, and so up to as many steps as are given.
    """
    rng = fresh_rng()
    layers = layer_graph(graph, hw)
    data = {
        name: rng.integers(-127, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    if "m" in data:
        data["m"] = np.where(rng.random(data["m"].shape) < 0.4, -128, 0).astype(np.int8)
        data["m"][:, 0] = 0
    expected = evaluate(layers, data)
    floats = evaluate_floats(graph, [data[name] for name in graph.inputs])
    for name, real in zip(graph.outputs, floats, strict=True):
        errors = np.abs(expected[name].astype(int) - real)
        assert errors.max() <= most
        assert errors.mean() < (0.6 if errors.size >= 500 else 1.2) * most / 8
    program = lower_region(layers, hw, lambda workload: default_schedule(hw, workload))
    memory = program.program.image()
    region = program.program.regions["activations"]
    residue = rng.integers(0, 256, region.nbytes).astype(np.uint8)
    memory[region.offset : region.offset + region.nbytes] = residue
    program.write_inputs(memory, data)
    check_hazards(hw, program.program, memory)
    found = ReferenceDevice(hw).run(program.program, memory)
    for name, output in program.read_outputs(found.memory).items():
        assert np.array_equal(output, expected[name])


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize(
    ("heads", "tokens", "width"),
    [(1, 8, 8), (2, 16, 16), (3, 13, 8), (2, 5, 6), (1, 9, 3), (2, 1, 4), (2, 3, 8)],
)
def test_tokens_and_heads_of_any_size_have_their_bits(
    array: str, heads: int, tokens: int, width: int
) -> None:
    run(attention(heads, tokens, width), ARRAYS[array])


@pytest.mark.parametrize("array", ["4x4", "8x4"])
def test_each_head_has_its_own_addend(array: str) -> None:
    addend = fresh_rng().normal(0, 2, (1, 2 * 7, 7, 1))
    addend[:, 7:] = np.where(np.tri(7) > 0, 0, -np.inf).T[None, :, :, None]
    run(attention(2, 7, 4, addend=addend), ARRAYS[array])


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize(("heads", "tokens", "width"), [(1, 8, 8), (2, 16, 16), (3, 13, 8)])
def test_all_heads_read_one_mask(array: str, heads: int, tokens: int, width: int) -> None:
    graph = attention(heads, tokens, width, masked=True)
    rows = [each for each in layer_graph(graph, ARRAYS[array]).layers if each.rows is not None]
    assert [layer.mask for layer in rows] == [ChannelSlice(tensor="m")] * heads
    run(graph, ARRAYS[array])


@pytest.mark.parametrize(("shape", "zero_point"), [((1, 8, 8, 1), 0), ((1, 8, 1, 1), 5)])
def test_a_mask_that_is_no_row_or_has_a_zero_point_is_refused(shape, zero_point) -> None:
    graph = attention(1, 8, 8, masked=True)
    mask = QTensor(name="m", shape=shape, scale=1.0, zero_point=zero_point)
    with pytest.raises(WorkloadError, match="its mask is not one row"):
        layer_graph(replace(graph, tensors={**graph.tensors, "m": mask}), ROWED)


def test_images_of_a_batch_are_no_weights() -> None:
    with pytest.raises(WorkloadError, match="batch is 1"):
        layer_graph(attention(1, 8, 8), ROWED.with_(name="b2", batch=2))


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("number", range(4))
def test_factors_of_any_zero_point_have_their_products(array: str, number: int) -> None:
    rng = fresh_rng()
    heads, tokens, width, keys = (int(rng.integers(1, most)) for most in (4, 15, 18, 19))
    windows = int(rng.integers(1, 4)) if array in ("4x4", "8x4") else 1
    ends = [-128, 127, 0, -1, int(rng.integers(-128, 128))]
    zeros = {name: int(rng.choice(ends)) for name in ("q", "k", "v")}
    zeros["p"] = -128 if number else -1
    if number == 1:
        zeros = dict.fromkeys(zeros, -1)
    graph = attention(heads, tokens, width, keys=keys, windows=windows, zeros=zeros)
    run(graph, ARRAYS[array], most=16)  # values are up to 255 steps


def after_dense(graph: QGraph) -> QGraph:
    """The same where dense layers write the factors."""
    rng = fresh_rng()
    (_, channels, tokens, _) = graph.tensors["q"].shape
    dense = [
        QConv(
            name=f"dense {name}",
            inputs=("x",),
            output=name,
            weights=rng.integers(-9, 9, (channels, 6, 1, 1)).astype(np.int8),
            weight_scales=np.full(channels, 0.05),
            bias=np.zeros(channels),
        )
        for name in graph.inputs
    ]
    x = QTensor(name="x", shape=(1, 6, tokens, 1), scale=0.02)
    return replace(
        graph,
        tensors={**graph.tensors, "x": x},
        operators=(*dense, *graph.operators),
        inputs=("x",),
    )


def test_what_a_dense_layer_writes_has_room_and_is_not_copied() -> None:
    graph = after_dense(attention(2, 13, 8))
    layers = layer_graph(graph, ROWED)
    assert not any(layer.workload.kind is Kind.DEPTHWISE for layer in layers.layers)
    assert layers.tensors["k"].shape == layers.tensors["v"].shape == (1, 16, 16, 1)
    assert layers.tensors["q"].shape == (1, 16, 13, 1)
    run(graph, ROWED)


def test_keys_that_are_values_before_have_room_for_both() -> None:
    """Values are turned in stored blocks of 8, keys are loaded in tiles of 4 tokens."""
    shapes = {"p": (3, 3), "q": (8, 3), "k": (8, 3), "y": (8, 3), "s": (3, 3)}
    tensors = {
        name: QTensor(name=name, shape=(1, *shape, 1), scale=0.1) for name, shape in shapes.items()
    }
    products = (
        QMatmul(name="context", inputs=("p", "k"), output="y", heads=1, factor=0.01,
                b_rows_are_outputs=False),
        QMatmul(name="scores", inputs=("q", "k"), output="s", heads=1, factor=0.01,
                b_rows_are_outputs=True),
    )  # fmt: skip
    graph = QGraph(name="g", tensors=tensors, operators=products, inputs=("p", "q", "k"),
                   outputs=("y", "s"))  # fmt: skip
    dense = QConv(
        name="dense k", inputs=("x",), output="k", bias=np.zeros(8),
        weights=fresh_rng().integers(-9, 9, (8, 6, 1, 1)).astype(np.int8),
        weight_scales=np.full(8, 0.05),
    )  # fmt: skip
    x = QTensor(name="x", shape=(1, 6, 3, 1), scale=0.1)
    graph = replace(graph, tensors={**tensors, "x": x}, operators=(dense, *products),
                    inputs=("p", "q", "x"))  # fmt: skip
    assert layer_graph(graph, ARRAYS["8x4"]).tensors["k"].shape == (1, 8, 8, 1)
    run(graph, ARRAYS["8x4"])


@pytest.mark.parametrize("array", ["4x4", "8x4"])
@pytest.mark.parametrize(
    ("heads", "tokens", "windows"), [(1, 4, 3), (2, 6, 4), (2, 9, 2), (1, 5, 3)]
)
def test_windows_of_any_size_have_their_bits(
    array: str, heads: int, tokens: int, windows: int
) -> None:
    graph = attention(heads, tokens, 8, windows=windows)
    run(graph, ARRAYS[array])
    run(after_dense(graph), ARRAYS[array])


@pytest.mark.parametrize(
    ("tokens", "moves", "copies"),
    [
        pytest.param(8, 0, 0, id="whole tiles"),
        pytest.param(6, 0, 0, id="beats of the bus"),
        pytest.param(5, 2, 0, id="neither"),
    ],
)
def test_windows_that_begin_at_a_beat_are_not_moved(tokens: int, moves: int, copies: int) -> None:
    layers = layer_graph(after_dense(attention(1, tokens, 8, windows=3)), ROWED).layers
    kinds = [layer.workload.kind for layer in layers]
    assert (kinds.count(Kind.GATHER), kinds.count(Kind.DEPTHWISE)) == (moves, copies)
