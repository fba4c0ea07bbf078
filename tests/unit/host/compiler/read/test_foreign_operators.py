# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime and QONNX, written out, against what they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.networks.onnx_results import assert_same_results, drawn_inputs
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import fresh_rng

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.compiler.read.float_model import require_quantised
from tilewright.host.compiler.read.foreign_operators import expanded
from tilewright.host.compiler.read.model_file import check, with_shapes
from tilewright.host.compiler.read.own_operators import OwnOperators

QONNX = "qonnx.custom_op.general"
RUNTIME = "com.microsoft"


def written_out(proto: onnx.ModelProto, path) -> onnx.ModelProto:
    found = expanded(proto, path, OwnOperators(), with_shapes)
    assert not [node.op_type for node in found.graph.node if node.domain]
    check(found)
    return found


# -- QONNX ---------------------------------------------------------------------------------------


def definition(x, scale, zero, bits, *, signed, narrow, rounding="ROUND"):
    """QONNX's own words, in NumPy."""
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    rounded = {"ROUND": np.round, "CEIL": np.ceil, "FLOOR": np.floor}[rounding]
    if signed and bits == 1:
        return (np.where(x / scale + zero >= 0, 1, -1) - zero) * scale
    return (rounded(np.clip(x / scale + zero, low, high)) - zero) * scale


@pytest.mark.parametrize("constant", [False, True], ids=["tensor", "weights"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "channels"])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("bits", [1, 2, 4, 7, 8])
def test_a_quantiser_is_its_definition(tmp_path, bits, signed, several, constant) -> None:
    rng = fresh_rng()
    model = Model(rng)
    shape = (2, 5, 3, 4)
    x = (4 * rng.normal(size=shape)).astype(np.float32)
    scale = rng.uniform(0.02, 0.2, (1, 5, 1, 1) if several else ()).astype(np.float32)
    most = 0 if signed and bits == 1 else 2 ** (bits - 1)
    zero = np.float32(rng.integers(most) if most else 0)
    narrow = int(rng.integers(2)) if bits > 1 else 0
    rounding = str(rng.choice(["ROUND", "CEIL", "FLOOR"])) if constant else "ROUND"
    source = model.constant(x) if constant else model.input(*shape)
    kind, stated = str(rng.choice(["Quant", "IntQuant"])), {"signed": signed, "narrow": narrow}
    numbers = [scale, zero, np.float32(bits)]
    y = model.add(kind, source, *numbers, domain=QONNX, rounding_mode=rounding, **stated)
    if constant:
        y = model.add("Add", model.input(*shape), y)
    proto = model.proto(y)
    found = run_all(written_out(proto, tmp_path), {"x": np.zeros_like(x) if constant else x})[y]
    expected = definition(x, scale, zero, bits, rounding=rounding, **stated)
    off = np.abs(found - expected)
    assert (off > 1e-4 * np.abs(expected).max()).sum() <= 1  # a tie
    assert off.max() <= 1.01 * scale.max()


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_a_bias_of_more_bits_is_rounded_once(tmp_path, bits) -> None:
    rng = fresh_rng()
    model = Model(rng)
    bias = rng.normal(size=6).astype(np.float32)
    scale = rng.uniform(1e-3, 2e-3, 6).astype(np.float32)
    numbers = [scale, np.float32(0), np.float32(bits)]
    rounded = model.add("Quant", bias, *numbers, domain=QONNX, signed=1, narrow=0)
    proto = model.proto(y := model.add("Add", model.input(2, 6), rounded))
    found = run_all(written_out(proto, tmp_path), {"x": np.zeros((2, 6), np.float32)})[y]
    expected = definition(bias.astype(np.float64), scale, 0, bits, signed=1, narrow=0)
    np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 6)), atol=1e-6)


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_a_network_of_quantisers_runs_on_the_accelerator(tmp_path, bits) -> None:
    rng = fresh_rng()
    model = Model(rng)

    def quant(x, scale, width, signed=1, narrow=0):
        numbers = [np.asarray(scale, np.float32), np.float32(0), np.float32(width)]
        return model.add("Quant", x, *numbers, domain=QONNX, signed=signed, narrow=narrow)

    x = quant(model.input(1, 5, 8, 8), 0.03, 8)
    for inputs in (5, 8):
        scale = rng.uniform(0.05, 0.1, (8, 1, 1, 1)) / bits
        weights = quant(model.weights(8, inputs, 3, 3), scale, bits, narrow=1)
        x = model.add("Relu", model.add("Conv", x, weights, model.weights(8), pads=[1, 1, 1, 1]))
        x = quant(x, 0.1, bits, signed=0)
    proto = model.proto(x)
    path = tmp_path / "brevitas.onnx"
    onnx.save(proto, path)
    require_quantised(path)  # it needs no calibration data
    network = import_network(path)
    parts = partition(network)
    assert len(parts.regions) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}
    data = {"x": rng.normal(size=(1, 5, 8, 8)).astype(np.float32)}
    (name,) = (output.name for output in network.outputs)
    found, expected = (
        run_all(each, data)[name] for each in (network.qdq, written_out(proto, tmp_path))
    )
    assert (np.abs(found - expected) > 1e-4).sum() <= 2


@pytest.mark.parametrize(
    ("kind", "bits", "stated", "rule"),
    [
        ("Quant", 9, {}, "must have 1 to 8 bits"),
        ("Quant", 2.5, {}, "must have 1 to 8 bits"),
        ("Quant", 4, {"rounding_mode": "FLOOR"}, "must round to the nearest integer"),
        ("Quant", 4, {"rounding_mode": "DITHER"}, "must round in one of the ways"),
        ("Trunc", 4, {}, "must be Quant or BipolarQuant"),
    ],
)
def test_other_quantisers_are_refused_by_their_names(tmp_path, kind, bits, stated, rule) -> None:
    model = Model(fresh_rng())
    numbers = [np.float32(0.1), np.float32(0), np.float32(bits)]
    y = model.add(kind, model.input(1, 4), *numbers, domain=QONNX, signed=1, narrow=0, **stated)
    with pytest.raises(WorkloadError, match=rule) as error:
        import_network(model.proto(y))
    assert kind in str(error.value)


# -- ONNX Runtime --------------------------------------------------------------------------------


def f32(rng, *shape):
    return (rng.normal(size=shape) / 2).astype(np.float32)


def fused_conv(model, rng):
    kind = str(rng.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"]))
    more = {"LeakyRelu": [0.2], "Clip": [-0.3, 0.6], "HardSigmoid": [0.3, 0.4]}.get(kind)
    stated = {"activation": kind} | ({"activation_params": more} if more else {})
    inputs = [model.input(1, 3, 6, 6), f32(rng, 4, 3, 3, 3), f32(rng, 4)]
    if rng.integers(2):
        inputs.append(model.input(1, 4, 6, 6, name="z"))
    return model.add("FusedConv", *inputs, domain=RUNTIME, pads=[1, 1, 1, 1], **stated)


def fused_gemm(model, rng):
    inputs = [model.input(3, 4), f32(rng, 5, 4), f32(rng, 5)]
    stated = {"activation": "LeakyRelu", "activation_alpha": 0.3}
    return model.add("FusedGemm", *inputs, domain=RUNTIME, transB=1, alpha=0.5, **stated)


def fused_matmul(model, rng):
    turned = [int(each) for each in rng.integers(2, size=2)]
    shape = (2, 4, 3) if turned[0] else (2, 3, 4)
    other = (2, 5, 4) if turned[1] else (2, 4, 5)
    second = model.input(*other, name="z") if rng.integers(2) else f32(rng, *other)
    stated = {"transA": turned[0], "transB": turned[1], "alpha": float(rng.uniform(0.1, 2))}
    return model.add("FusedMatMul", model.input(*shape), second, domain=RUNTIME, **stated)


def function(kind, biased):
    def build(model, rng):
        more = [f32(rng, 6)] if biased else []
        return model.add(kind, model.input(2, 3, 6), *more, domain=RUNTIME)

    return build


def skip_normalisation(model, rng):
    inputs = [model.input(2, 3, 8), model.input(2, 3, 8, name="z"), f32(rng, 8)]
    inputs += [f32(rng, 8) for _ in range(rng.integers(3))]
    return model.add("SkipLayerNormalization", *inputs, domain=RUNTIME, epsilon=1e-5)


def few_bits(model, rng):
    rows, columns, block = 48, 6, int(rng.choice([16, 32]))
    bits = int(rng.choice([4, 8]))
    blocks = -(-rows // block)
    packed = rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    inputs = [model.input(2, rows), packed, rng.uniform(0.01, 0.1, columns * blocks)]
    inputs[2] = inputs[2].astype(np.float32)
    if rng.integers(2):
        inputs.append(rng.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8))
    stated = {"K": rows, "N": columns, "bits": bits, "block_size": block}
    return model.add("MatMulNBits", *inputs, domain=RUNTIME, **stated)


def attention(model, rng):
    inputs = [model.input(2, 5, 8), f32(rng, 8, 24), f32(rng, 24)]
    mask = int(rng.integers(3))
    if mask:
        inputs.append([None, np.array([3, 5]), rng.integers(0, 2, (2, 5))][mask].astype(np.int32))
        if mask == 2:
            inputs[-1][:, 0] = 1
    stated = {"num_heads": 2, "unidirectional": 0 if mask else int(rng.integers(2))}
    return model.add("Attention", *inputs, domain=RUNTIME, **stated)


def quantised_attention(model, rng):
    x = model.input(2, 5, 8)
    scale, zero = model.constant(np.float32(0.03)), model.constant(np.uint8(120))
    steps = model.add("QuantizeLinear", x, scale, zero)
    weights = rng.integers(-99, 99, (8, 24)).astype(np.int8)
    mask = model.constant(np.array([4, 5], np.int32))
    inputs = [steps, weights, f32(rng, 24), scale, np.float32(0.01), mask, zero, np.int8(0)]
    return model.add("QAttention", *inputs, domain=RUNTIME, num_heads=4)


def conversions(model, rng):
    kind = rng.choice([np.int8, np.uint8])
    numbers = model.constant(np.float32(0.02)), model.constant(kind(rng.integers(99)))
    y = model.add("QuantizeLinear", model.input(3, 4), *numbers, domain=RUNTIME)
    return model.add("DequantizeLinear", y, *numbers, domain=RUNTIME)


BUILDERS = {
    "Attention": attention,
    "BiasGelu": function("BiasGelu", True),
    "DequantizeLinear": conversions,
    "FastGelu": function("FastGelu", False),
    "FastGelu with a bias": function("FastGelu", True),
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu": function("Gelu", False),
    "MatMulNBits": few_bits,
    "QAttention": quantised_attention,
    "QuickGelu": function("QuickGelu", False),
    "SkipLayerNormalization": skip_normalisation,
}


@pytest.mark.parametrize("member", range(3))
@pytest.mark.parametrize("opset", [16, 17])
@pytest.mark.parametrize("kind", BUILDERS)
def test_an_operator_of_the_runtime_is_what_it_computes(tmp_path, kind, opset, member) -> None:
    rng = fresh_rng()
    model = Model(rng, opset)
    y = BUILDERS[kind](model, rng)
    proto = model.proto(y)
    atol = 2e-3 if "Gelu" in kind else 2e-5
    changed = written_out(proto, tmp_path)
    assert_same_results(proto, changed, drawn_inputs(proto, rng), rtol=1e-4, atol=atol)


@pytest.mark.parametrize("masked", [False, True])
def test_embeddings_with_their_normalisation(tmp_path, masked) -> None:
    rng = fresh_rng()
    model = Model(rng)
    words = model.input(2, 5, name="words", kind=TensorProto.INT32)
    kinds = model.input(2, 5, name="kinds", kind=TensorProto.INT32)
    tables = [f32(rng, rows, 8) for rows in (20, 9, 2)]
    inputs = [words, kinds, *tables, f32(rng, 8), f32(rng, 8)]
    if masked:
        inputs.append(model.input(2, 5, name="mask", kind=TensorProto.INT32))
    y = model.add("EmbedLayerNormalization", *inputs, domain=RUNTIME)
    model.nodes[-1].output.append("counts")
    proto = model.proto(y, "counts", kinds=(TensorProto.FLOAT, TensorProto.INT32))
    data = {"words": rng.integers(0, 20, (2, 5)), "kinds": rng.integers(0, 2, (2, 5))}
    if masked:
        data["mask"] = np.arange(5) < np.array([[3], [5]])
    data = {name: array.astype(np.int32) for name, array in data.items()}
    assert_same_results(proto, written_out(proto, tmp_path), data, atol=1e-5)


def test_what_is_not_known_is_refused_by_its_name() -> None:
    model = Model(fresh_rng())
    y = model.add("Inverse", model.input(3, 3), domain=RUNTIME)
    with pytest.raises(WorkloadError, match="Inverse"):
        import_network(model.proto(model.quantised(y, 0.1)))
