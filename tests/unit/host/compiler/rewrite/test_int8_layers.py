# SPDX-License-Identifier: Apache-2.0
"""Quantised models as frameworks write them run on the accelerator, as in ONNX Runtime."""

import numpy as np
import onnx
import pytest
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model, assert_regions_agree
from support.randomness import fresh_rng

from tilewright.host.compiler.pipeline import import_network, partition

KINDS = (np.int8, np.uint8)


def assert_same(proto: onnx.ModelProto, *, cpu: tuple[str, ...] = ()) -> None:
    """The canonical model computes the same, in one region, which computes that."""
    rng = fresh_rng()
    network = import_network(proto)
    inputs = {a.name: (2 * rng.normal(size=a.shape)).astype(np.float32) for a in network.inputs}
    found, expected = run_all(network.qdq, inputs), run_all(proto, inputs)
    for name in (argument.name for argument in network.outputs):
        off = np.abs(found[name] - expected[name]) > 1e-5 * np.abs(expected[name]).max()
        assert off.sum() <= max(2, 0.01 * off.size), name  # scales that are multiplied round
    parts = partition(network, tables=True, rows=True, turns=True)
    assert {p.kind for p in parts.placements if p.place == "cpu"} <= set(cpu)
    assert len(parts.regions) == 1
    assert_regions_agree(network, parts, inputs)


def numbers(model: Model, count: int | None, dtype: type, zero: int) -> tuple[str, str]:
    """Scales and zero points; None: one of each."""
    shape = () if count is None else (count,)
    scale = model.rng.uniform(0.01, 0.03, shape).astype(np.float32)
    return model.constant(scale), model.constant(np.full(shape, zero, dtype))


def trained(
    model: Model, shape: tuple[int, ...], axis: int | None, dtype: type = np.int8, zero: int = 0
) -> str:
    """Float weights that are quantised in every inference."""
    stated = {} if axis is None else {"axis": axis}
    both = numbers(model, None if axis is None else shape[axis], dtype, zero)
    return model.add(
        "DequantizeLinear",
        model.add("QuantizeLinear", model.weights(*shape), *both, **stated),
        *both,
        **stated,
    )


def layer(model: Model, x: str, kind: str, axis: bool, *, channels: int = 6) -> str:
    """A layer with eight outputs, by weights that are quantised on the axis of the outputs."""
    dtype = KINDS[model.rng.integers(2)]
    zero = 128 if dtype is np.uint8 else 0
    if kind == "Conv":
        weights = trained(model, (8, channels, 3, 3), [0, -4][axis] if axis else None, dtype, zero)
        return model.add("Conv", x, weights, pads=[1, 1, 1, 1])
    if kind == "Turned":
        weights = trained(model, (8, channels), 0 if axis else None, dtype, zero)
        return model.add("MatMul", x, model.add("Transpose", weights, perm=[1, 0]))
    turned = kind == "Gemm" and int(model.rng.integers(2))
    shape = (8, channels) if turned else (channels, 8)
    weights = trained(model, shape, (0 if turned else -1) if axis else None, dtype, zero)
    return model.add(kind, x, weights, **({"transB": turned} if kind == "Gemm" else {}))


SHAPES = {"Conv": (1, 6, 5, 7), "Gemm": (5, 6), "MatMul": (1, 5, 6), "Turned": (2, 3, 6)}


# -- Training with fake quantisation -------------------------------------------------------------


@pytest.mark.parametrize("axis", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("bias", [None, np.float32, np.int8, np.uint8, np.int16, np.int32])
def test_weights_and_biases_that_a_model_quantises_itself(kind, axis, bias) -> None:
    model = Model(fresh_rng(), opset=21)
    y = layer(model, model.quantised(model.input(*SHAPES[kind]), 0.03, 4), kind, axis)
    if bias is not None:
        values = model.weights(8)
        if bias is not np.float32:
            low = 0 if bias is np.uint8 else -100
            steps = model.rng.integers(low, 100, 8).astype(bias)
            zero = 0 if bias is np.int32 else 7
            values = model.add("DequantizeLinear", steps, np.float32(0.01), bias(zero))
        if kind in ("Conv", "Gemm"):
            where = next(i for i, node in enumerate(model.nodes) if y in node.output)
            model.nodes[where].input.append(values)
            model.nodes.append(model.nodes.pop(where))
        else:
            y = model.add("Add", y, values)
    assert_same(model.proto(model.quantised(y, 0.05, -3)))


@pytest.mark.parametrize(
    ("kind", "what"),
    [*((kind, "Mul") for kind in SHAPES), *((k, "BatchNormalization") for k in ("Conv", "Gemm"))],
)
def test_what_scales_the_channels_behind_a_quantised_layer_is_folded(kind, what) -> None:
    rng = fresh_rng()
    model = Model(rng)
    y = layer(
        model, model.quantised(model.input(*SHAPES[kind]), 0.03, 4), kind, bool(rng.integers(2))
    )
    factors = rng.uniform(0.5, 2, 8) * rng.choice([-1, 1], 8)
    factors[rng.integers(8)] = 0
    factors = factors.astype(np.float32)
    if rng.integers(2):
        extra = model.weights(8, *[1] * (2 * (kind == "Conv")))
        y = model.add("Add", y, extra) if rng.integers(2) else model.add("Add", extra, y)
    if what == "Mul":
        y = model.add("Mul", y, factors.reshape(-1, *[1] * (2 * (kind == "Conv"))))
    else:
        spread = rng.uniform(0.5, 2, 8).astype(np.float32)
        y = model.add(what, y, factors, model.weights(8), model.weights(8), spread)
    assert_same(model.proto(model.quantised(model.add("Relu", y), 0.05, -3)))


# -- Fewer quantisations than tensors ------------------------------------------------------------


@pytest.mark.parametrize(
    "case", ["flatten", "maxpool", "maxpool first", "concat", "transpose", "bounds", "bounds below"]
)
def test_what_moves_elements_needs_a_quantisation_on_one_side_alone(case) -> None:
    rng = fresh_rng()
    model = Model(rng)
    zero = int(rng.integers(-20, 20))
    x = model.quantised(model.input(1, 6, 8, 8), 0.03)
    y = model.add("Relu", layer(model, x, "Conv", True))
    if case == "concat":
        y = model.add("Concat", y, layer(model, x, "Conv", False), axis=1)
    if case == "maxpool":
        y = model.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    if case.startswith("bounds"):
        scale, offset = model.constant(np.float32(0.05)), model.constant(np.int8(zero))
        low, high = (zero, zero + 15) if case == "bounds" else (zero + 3, zero + 90)
        y = model.add("QuantizeLinear", y, scale, offset)
        y = model.add("Clip", y, np.int8(low), np.int8(high))
        y = model.add("DequantizeLinear", y, scale, offset)
    else:
        y = model.quantised(y, 0.05, zero)
    channels = 16 if case == "concat" else 8
    if case == "maxpool first":
        y = model.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    if case == "flatten":
        y = model.add("Flatten", model.quantised(model.add("GlobalAveragePool", y), 0.02))
        y = layer(model, y, "Gemm", True, channels=8)
    elif case == "transpose":
        y = model.add("Transpose", model.add("Reshape", y, [1, 8, 64]), perm=[0, 2, 1])
        y = layer(model, y, "MatMul", True, channels=8)
    else:
        y = layer(model, y, "Conv", True, channels=channels)
    assert_same(model.proto(model.quantised(y, 0.05, 3)))


# -- Zero points of weights ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "groups"), [("Conv", 1), ("Conv", 2), ("Conv", 8), ("ConvTranspose", 1),
                         ("ConvTranspose", 2), ("Gemm", 1), ("MatMul", 1)],
)  # fmt: skip
@pytest.mark.parametrize("several", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("zero", [0, 100, 127, 128, 131, 255])
def test_weights_with_any_zero_point(kind, groups, zero, several) -> None:
    rng = fresh_rng()
    model = Model(rng)
    image = kind.startswith("Conv")
    x = model.quantised(model.input(*((1, 8, 6, 5) if image else (5, 8))), 0.03, 5)
    shape = (8, 8 // groups, 3, 3) if image else (8, 8)
    stated = {"pads": [1, 1, 1, 1], "group": groups} if image else {}
    turned = kind == "Gemm" and int(rng.integers(2))
    axis = 0 if kind == "Conv" or turned else 1
    scale = rng.uniform(0.01, 0.03, shape[axis] if several else ()).astype(np.float32)
    zeros = np.full(scale.shape, zero, np.uint8)
    if several:
        zeros[rng.integers(zeros.size)] = rng.integers(256)
    steps = rng.integers(0, 256, shape).astype(np.uint8)
    weights = model.add("DequantizeLinear", steps, scale, zeros, axis=axis)
    if kind == "Gemm":
        stated = {"transB": turned}
    assert_same(
        model.proto(model.quantised(model.add(kind, x, weights, **stated), 1.0)), cpu=("Gather",)
    )


# -- Channels last -------------------------------------------------------------------------------


def last(model: Model, x: str, *, back: bool = False) -> str:
    return model.add("Transpose", x, perm=[0, 2, 3, 1] if back else [0, 3, 1, 2])


@pytest.mark.parametrize("order", ["TTQ", "TQT", "QTT", "TQRT", "residual", "concat", "constant"])
def test_transposes_that_wrap_layers_vanish(order) -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = last(model, model.quantised(model.input(1, 8, 8, 6), 0.03, 4))
    y = layer(model, x, "Conv", True)
    y = last(model, y, back=True) if order != "QTT" else model.quantised(y, 0.05, 2)
    if order == "QTT":
        y = last(model, y, back=True)
    elif order in ("TQT", "TQRT"):
        y = model.quantised(y, 0.05, 2)
    elif order in ("residual", "concat", "constant"):
        y = model.quantised(y, 0.05, 2)
        if order == "constant":
            z = model.weights(8)
        else:
            z = last(model, layer(model, x, "Conv", False), back=True)
            z = model.quantised(z, 0.04, 1)
        kind, stated = ("Concat", {"axis": -1}) if order == "concat" else ("Add", {})
        y = model.quantised(model.add(kind, y, z, **stated), 0.07, -6)
    if order == "TQRT":
        y = model.quantised(model.add("Relu", y), 0.05, 2)
    y = last(model, y)
    if order == "TTQ":
        y = model.quantised(y, 0.05, 2)
    y = layer(model, y, "Conv", True, channels=16 if order == "concat" else 8)
    proto = model.proto(model.quantised(last(model, y, back=True), 0.06))
    network = import_network(proto)
    kinds = [node.op_type for node in network.qdq.graph.node]
    assert kinds.count("Transpose") == 2
    assert_same(proto, cpu=("Transpose",))  # at the ends


@pytest.mark.parametrize("middle", ["Relu", "Sigmoid", ""])
def test_a_dense_layer_on_an_image_with_channels_last(middle) -> None:
    model = Model(fresh_rng())
    x = last(model, model.quantised(model.input(1, 6, 6, 6), 0.03, 4))
    y = last(model, layer(model, x, "Conv", True), back=True)
    if middle == "Relu":
        y = model.add("Relu", y)
    y = model.quantised(y, 0.05, 2)
    if middle == "Sigmoid":
        y = model.quantised(model.add("Sigmoid", y), 0.004, -128)
    y = model.quantised(model.add("Reshape", y, [1, 8 * 36]), 0.03, 5)
    y = layer(model, y, "MatMul", True, channels=8 * 36)
    assert_same(model.proto(model.quantised(y, 0.05)), cpu=("Transpose",))


def test_equal_scales_of_any_axis_are_one() -> None:
    rng = fresh_rng()
    model = Model(rng)
    x = model.quantised(model.input(1, 6, 5, 5), 0.03, 4)
    steps, scale = rng.integers(-99, 99, (8, 6, 3, 3)).astype(np.int8), rng.uniform(0.01, 0.1)
    numbers = np.full(6, scale, np.float32), np.zeros(6, np.int8)
    weights = model.add("DequantizeLinear", steps, *numbers, axis=1)
    assert_same(model.proto(model.quantised(model.add("Conv", x, weights), 1.0)))


@pytest.mark.parametrize("kind", ["ConvTranspose", "MatMul"])
def test_weights_with_axes_of_one(kind) -> None:
    model = Model(fresh_rng())
    if kind == "MatMul":
        x, weights, stated = model.input(2, 5, 6), trained(model, (1, 6, 8), 2), {}
    else:  # one input and output for each group
        x, weights = model.input(1, 6, 5, 5), trained(model, (6, 1, 2, 2), 0)
        stated = {"group": 6, "strides": [2, 2]}
    y = model.add(kind, model.quantised(x, 0.03, 4), weights, **stated)
    assert_same(model.proto(model.quantised(y, 0.05)))
