# SPDX-License-Identifier: Apache-2.0
"""Attention as architectures write it, drawn: one region, and its bits."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from support.networks.compiled_runs import assert_one_region_has_its_bits
from support.networks.onnx_results import rewritten
from support.networks.qdq_runs import Samples, assert_near, quantised_names, region_errors, run_all
from support.networks.small_models import Model, imported_with_its_inputs
from support.randomness import fresh_rng, often

from tilewright.host.compiler.lower.qgraph import QMatmul, QOperator, QTensor
from tilewright.host.compiler.pipeline import partitions
from tilewright.host.compiler.quantise.hardware_options import for_hardware
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.hwconfig import load_hwconfig

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


class Attention:
    """A sequence (1, windows * tokens, heads * width), attention, and a dense layer behind it."""

    def __init__(self, rng: np.random.Generator, kind: str, *, by_einsum: bool) -> None:
        self.rng, self.by_einsum = rng, by_einsum
        self.heads = int(rng.integers(1, 4))
        block = int(rng.choice([1, 4]))  # tokens and features that fill no blocks, or do
        self.tokens, self.width = (block * int(n) for n in rng.integers(1, 1 + 16 // block, 2))
        self.windows = int(rng.integers(2, 4)) if kind == "windows" else 1
        self.model = Model(rng)
        axes = {"w": self.windows, "t": self.tokens, "h": self.heads, "c": self.width, "p": 3}
        self.sizes = axes if kind == "windows" else {a: n for a, n in axes.items() if a != "w"}
        features = self.heads * self.width
        self.shape = (1, self.windows * self.tokens, features)
        x = self.model.input(*self.shape)
        self.x = self.model.add("MatMul", x, self.model.weights(features, 3 * features))
        parts = self._queries_keys_values()
        y = {"windows": self._tokens, "tokens": self._tokens, "channels": self._channels,
             "linear": self._linear, "factorised": self._factorised}[kind](*parts)  # fmt: skip
        y = self.model.add("Reshape", y, np.array(self.shape))
        self.y = self.model.add("MatMul", y, self.model.weights(features, features))
        self.proto = self.model.proto(self.y)

    def _queries_keys_values(self) -> list[tuple[str, str]]:
        """Three tensors and the letters of their axes, in a drawn order."""
        cut = "t" + "".join(self.rng.permutation(["p", "h"])) + "c"
        cut = "w" + cut if "w" in self.sizes else cut
        sizes = np.array([1, *(self.sizes[letter] for letter in cut)])
        y = self.model.add("Reshape", self.x, sizes)
        outer = "".join(self.rng.permutation([a for a in self.sizes if a in "wh"]))
        order = "p" + outer + "tc"
        perm = [cut.index(letter) + 1 for letter in order]
        y = self.model.add("Transpose", y, perm=[perm[0], 0, *perm[1:]])
        return [(self.model.add("Gather", y, np.array(i), axis=0), order[1:]) for i in range(3)]

    def _product(self, a: tuple[str, str], b: tuple[str, str], over: str) -> tuple[str, str]:
        """The sum over an axis; axes before the last two are common."""
        (x, first), (y, second) = a, b
        outer = first[:-2]
        rows, columns = (next(c for c in each[-2:] if c != over) for each in (first, second))
        columns_out = columns.upper() if columns == rows else columns
        if self.by_einsum:
            right = second[:-2] + "".join(
                columns_out if letter == columns else letter for letter in second[-2:]
            )
            equation = f"z{first},z{right}->z{outer}{rows}{columns_out}"
            return self.model.add("Einsum", x, y, equation=equation), outer + rows + columns_out
        x = x if first[-1] == over else self._turned(x, len(first))
        y = y if second[-2] == over else self._turned(y, len(second))
        return self.model.add("MatMul", x, y), outer + rows + columns_out

    def _turned(self, x: str, axes: int) -> str:
        return self.model.add("Transpose", x, perm=[*range(axes - 1), axes, axes - 1])

    def _softmax(self, scores: tuple[str, str]) -> tuple[str, str]:
        y = self.model.add("Mul", scores[0], np.float32(self.width**-0.5))
        return self.model.add("Softmax", y, axis=-1), scores[1]

    def _tokens(self, q, k, v) -> str:
        scores = self._softmax(self._product(q, k, "c"))
        return self._weighted(scores, v, "t")

    def _channels(self, q, k, v) -> str:
        scores = self._softmax(self._product(q, k, "t"))
        return self._weighted(scores, v, "c")

    def _weighted(self, scores: tuple[str, str], v: tuple[str, str], over: str) -> str:
        """The sum of values, with an axis of theirs that scores have as their last."""
        (y, have), (x, axes) = scores, v
        return self._merged(self._product((y, have[:-1] + "k"), (x, axes.replace(over, "k")), "k"))

    def _linear(self, q, k, v) -> str:
        q, k = ((self.model.add("Relu", x), have) for x, have in (q, k))
        state, have = self._product(k, v, "t")
        return self._merged(self._product(q, (state, have), "c"))

    def _factorised(self, q, k, v) -> str:
        """Keys that are normalised along their tokens."""
        keys = self.model.add("Softmax", k[0], axis=k[1].index("t") + 1)
        state, have = self._product((keys, k[1]), v, "t")
        return self._merged(self._product(q, (state, have), "c"))

    def _merged(self, y: tuple[str, str]) -> str:
        have = y[1].replace("C", "c").replace("T", "t")
        wanted = "wthc" if "w" in have else "thc"
        return self.model.add("Transpose", y[0], perm=[0, *(have.index(a) + 1 for a in wanted)])


@pytest.mark.parametrize("kind", ["tokens", "windows", "channels", "linear", "factorised"])
@pytest.mark.parametrize("by_einsum", [False, True])
def test_attention_is_one_region_with_its_bits(kind, by_einsum) -> None:
    rng = fresh_rng()
    drawn = Attention(rng, kind, by_einsum=by_einsum)
    seen = rng.normal(size=(4, *drawn.shape[1:])).astype(np.float32)
    assert_one_region_has_its_bits(drawn.proto, seen, ROWED)
    options = for_hardware(ImportOptions(), ROWED).quantise
    rewritten(drawn.proto, options, x=seen[:1])


@pytest.mark.parametrize("kind", ["tokens", "windows", "channels"])
def test_a_block_that_onnxruntime_quantised_is_one_region_with_its_bits(
    kind, tmp_path, monkeypatch
) -> None:
    """With its defaults: uint8 of any zero point, parameters of normalisations as int8 tensors."""
    monkeypatch.chdir(tmp_path)  # ONNX Runtime writes beside what it reads, and here
    rng = fresh_rng()
    drawn = Attention(rng, kind, by_einsum=False)
    model, features = drawn.model, drawn.shape[-1]
    y = model.add("Add", drawn.y, "x")
    weights = model.weights(features, features + 3)
    y = model.add("MatMul", norm(model, y, features), weights)
    gate = model.add("Erf", model.add("Div", y, np.float32(2**0.5)))
    y = model.add("Mul", y, model.add("Add", gate, np.float32(1)))
    y = model.add("Mul", y, np.float32(0.5))
    name = str(tmp_path / "model.onnx")
    onnx.save(model.proto(model.add("MatMul", y, model.weights(features + 3, 7))), name)
    quant_pre_process(name, name)
    seen = rng.normal(size=(4, *drawn.shape[1:])).astype(np.float32)
    quantize_static(name, name, Samples(seen))
    assert_one_region_has_its_bits(onnx.load(name), seen, TABLED, quantised=True)


def test_heads_that_count_as_windows_give_the_same() -> None:
    """Where windows are cheaper alone, a second division lays them so."""
    rng = fresh_rng()
    drawn = Attention(rng, "tokens", by_einsum=False)
    while drawn.heads == 1:
        drawn = Attention(rng, "tokens", by_einsum=False)
    network, inputs = imported_with_its_inputs(drawn.proto, rng)

    def price(operator: QOperator, _tensors: Sequence[QTensor]) -> float:
        return 1.0 / operator.windows if isinstance(operator, QMatmul) else 0.0

    found = partitions(network, rows=True, turns=True, price=price)
    tensors, names = run_all(network.qdq, inputs), quantised_names(network.qdq)
    windows = []
    for parts in found:
        (region,) = parts.regions
        windows.append(max(o.windows for o in region.operators if isinstance(o, QMatmul)))
        assert max(np.abs(e).max() for e in region_errors(region, tensors, names).values()) <= 2
    assert windows == [1, drawn.heads]


# -- what stands beside it ------------------------------------------------------------------------

TABLED = ROWED.with_(activation_table=1)
FEATURES = 16


def _gelu_of_a_norm(model: Model, x: str) -> str:
    return model.add("Gelu", norm(model, x), domain="com.microsoft")


def _norm_of_a_square(model: Model, x: str) -> str:
    y = model.add("Relu", x)
    return norm(model, model.add("Mul", y, y))


def _norm_of_a_norm(model: Model, x: str) -> str:
    return norm(model, norm(model, x))


def _softmax_of_a_norm(model: Model, x: str) -> str:
    return model.add("Softmax", norm(model, x), axis=-1)


def _batch_norm(model: Model, x: str) -> str:
    """Of a sequence (N, C, L)."""
    y = model.add("Transpose", x, perm=[0, 2, 1])
    numbers = [model.constant(model.rng.uniform(0.5, 1.5, FEATURES).astype("f4")) for _ in range(4)]
    return model.add("Transpose", model.add("BatchNormalization", y, *numbers), perm=[0, 2, 1])


def _batch_norm_of_vectors(model: Model, x: str) -> str:
    y = model.add("Reshape", x, np.array([-1, FEATURES]))
    numbers = [model.constant(model.rng.uniform(0.5, 1.5, FEATURES).astype("f4")) for _ in range(4)]
    y = model.add("BatchNormalization", model.add("Relu", y), *numbers)
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _shared_keys(model: Model, x: str) -> str:
    """Two heads of queries with one of keys and values: multi-query attention."""
    cut = model.add("Reshape", x, np.array([1, -1, 2, FEATURES // 2]))
    q = model.add("Transpose", cut, perm=[0, 2, 1, 3])
    k, v = (
        model.add("Unsqueeze", model.add("MatMul", x, model.weights(FEATURES, FEATURES // 2)), [1])
        for _ in range(2)
    )
    scores = model.add("MatMul", q, model.add("Transpose", k, perm=[0, 1, 3, 2]))
    weights = model.add("Softmax", model.add("Mul", scores, np.float32(0.3)), axis=-1)
    # a factor of each head, as where heads are gated
    gates = model.constant(model.rng.uniform(0.5, 1, (1, 2, 1, 1)).astype("f4"))
    y = model.add("MatMul", model.add("Mul", weights, gates), v)
    y = model.add("Transpose", y, perm=[0, 2, 1, 3])
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _talking_heads(model: Model, x: str) -> str:
    """Heads that are mixed before and behind the softmax."""
    heads = np.array([1, -1, 2, FEATURES // 2])
    q, k, v = (
        model.add("Transpose", model.add("Reshape", each, heads), perm=[0, 2, 1, 3])
        for each in (x, model.add("MatMul", x, model.weights(FEATURES, FEATURES)), x)
    )
    scores = model.add("MatMul", q, model.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = model.add("Conv", scores, model.weights(2, 2, 1, 1), model.weights(2))
    weights = model.add("Softmax", scores, axis=-1)
    weights = model.add("Conv", weights, model.weights(2, 2, 1, 1))
    y = model.add("Transpose", model.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _matrices_of_windows(model: Model, x: str) -> str:
    """Positions relative to a row: constant matrices, one for each row of tokens."""
    rows = int(model.rng.choice([2, 4, 8]))
    letters = str(model.rng.choice(["hkc", "hck", "khc"]))
    sizes = {"h": rows, "k": FEATURES, "c": FEATURES}
    matrices = model.weights(*(sizes[letter] for letter in letters))
    y = model.add("Reshape", x, np.array([1, -1, rows, FEATURES // 2, 2]))
    y = model.add("Transpose", y, perm=[0, 1, 2, 4, 3])
    y = model.add("Reshape", y, np.array([1, -1, rows, FEATURES]))
    y = model.add("Einsum", y, matrices, equation=f"bnhc,{letters}->bnhk")
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _matrices_on_the_left(model: Model, x: str) -> str:
    """Tokens are mixed by constants, for all windows alike or for each."""
    shape = [1, int(model.rng.choice([1, 2, 4])), -1, FEATURES]
    y = model.add("Reshape", x, np.array(shape))
    tokens = 64 // shape[1]
    outer = ([], [1, 1], shape[1:2], shape[:2])[int(model.rng.integers(4))]
    y = model.add("MatMul", model.weights(*outer, tokens, tokens), y)
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _windows_of_six_axes(model: Model, x: str) -> str:
    """A dense layer and what follows it, on windows that stand in rows and columns."""
    y = model.add("Reshape", x, np.array([1, 2, 2, -1, 2, FEATURES]))
    y = model.add("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = model.add("MatMul", y, model.weights(FEATURES, FEATURES))
    y = model.add("Relu", model.add("Add", y, model.weights(FEATURES)))
    y = model.add("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    return model.add("Reshape", y, np.array([1, -1, FEATURES]))


def _padding_mask(model: Model, x: str) -> str:
    """Features that a constant mask leaves out of a softmax, right behind a dense layer."""
    mask = model.constant(np.arange(FEATURES) < model.rng.integers(1, FEATURES))
    far = model.constant(np.float32(model.rng.choice([-1e4, -1e9, -np.inf])))
    return model.add("Softmax", model.add("Where", mask, x, far), axis=-1)


def norm(model: Model, x: str, features: int = FEATURES) -> str:
    sizes = (2, features)
    numbers = map(model.constant, model.rng.uniform(0.5, 1.5, sizes).astype("f4"))
    return model.add("LayerNormalization", x, *numbers, axis=-1)


BETWEEN = [
    _gelu_of_a_norm, _norm_of_a_square, _norm_of_a_norm, _softmax_of_a_norm, _batch_norm,
    _batch_norm_of_vectors, _shared_keys, _talking_heads, _matrices_of_windows,
    _matrices_on_the_left, _windows_of_six_axes, _padding_mask,
]  # fmt: skip


@pytest.mark.parametrize("block", BETWEEN)
@pytest.mark.parametrize("tokens", often("tokens between dense layers", [1, 8], 1))
def test_what_stands_between_dense_layers_stays_on_the_accelerator(block, tokens) -> None:
    wide = (_matrices_of_windows, _matrices_on_the_left, _windows_of_six_axes)
    tokens = 64 if block is _matrices_on_the_left else 8 * tokens if block in wide else tokens
    rng = fresh_rng()
    model = Model(rng)
    y = model.add("MatMul", model.input(1, tokens, FEATURES), model.weights(FEATURES, FEATURES))
    proto = model.proto(model.add("MatMul", block(model, y), model.weights(FEATURES, FEATURES)))
    seen = rng.normal(size=(8, tokens, FEATURES)).astype(np.float32)
    found = assert_one_region_has_its_bits(proto, seen, TABLED)
    assert_near(found, run_all(proto, {"x": seen[:1]})[proto.graph.output[0].name], 0.2)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_softmax_along_any_axis_of_an_image(axis) -> None:
    rng = fresh_rng()
    channels, *sides = (int(n) for n in rng.integers(2, 12, 3))
    model = Model(rng)
    y = model.add("Conv", model.input(1, channels, *sides), model.weights(channels, channels, 1, 1))
    y = model.add("Softmax", y, axis=axis)
    proto = model.proto(model.add("Conv", y, model.weights(channels, channels, 1, 1)))
    seen = rng.normal(size=(4, channels, *sides)).astype(np.float32)
    assert_one_region_has_its_bits(proto, seen, TABLED)
