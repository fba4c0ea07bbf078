# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation between layers: one region, and its bits."""

import numpy as np
import pytest
from support.networks.qdq_runs import quantised_names, run_all
from support.networks.small_models import Model

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.integer import evaluate
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    QGraph,
    QLayerNorm,
    QSoftmax,
    QTensor,
)
from tilewright.host.compiler.lower.region import lower_region
from tilewright.host.compiler.pipeline import compile_model, import_network, partition
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.run.runtime import run_network
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
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


def test_epsilon_and_what_follows_in_the_model_are_read() -> None:
    model = Model(np.random.default_rng(0))
    ones = model.constant(np.ones(6, dtype=np.float32))
    x = model.quantised(model.input(1, 5, 6), 0.01)
    norm = model.add("LayerNormalization", x, ones, ones, epsilon=0.25)
    low, high = (model.constant(np.float32(bound)) for bound in (0.125, 0.5))
    x = model.quantised(model.add("Relu", norm), 0.02)
    softmax = model.add("Clip", model.add("Softmax", x, axis=-1), low, high)
    network = import_network(model.proto(model.quantised(softmax, 1 / 256, -128)))
    (region,) = partition(network, rows=True).regions
    found = {type(operator): operator for operator in region.operators}
    assert found[QLayerNorm].epsilon == 0.25
    assert found[QLayerNorm].bounds == (0.0, None)
    assert found[QSoftmax].bounds == (0.125, 0.5)


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
    y = model.add("Reshape", y, model.constant(np.array([1, TOKENS, features])))
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
    assert np.abs(found - real).max() < 0.1 * np.abs(real).max()
