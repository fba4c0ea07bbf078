# SPDX-License-Identifier: Apache-2.0
"""What only moves elements, as operators of a region or none, compared with ONNX Runtime."""

from math import prod

import numpy as np
import onnx
import pytest
from support.networks.qdq_runs import quantised_names, run_all
from support.networks.region_runs import assert_program_has_bits, int8_inputs
from support.networks.small_models import Model, accelerated, operators
from support.randomness import fresh_rng

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.index_maps import MAX_TURNED, Source, Turned, moved
from tilewright.host.compiler.divide.relax_calls import Refusal
from tilewright.host.compiler.divide.tensor_layouts import Order
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QGather,
    QOperator,
    QRescale,
    QSelect,
    QStack,
)
from tilewright.host.compiler.pipeline import import_network, partition
from tilewright.host.machine.hwconfig import load_hwconfig


def _shuffled(model: Model, x: str, channels: int, size: int) -> str:
    y = model.add("Reshape", x, [1, 2, channels // 2, size, size])
    y = model.add("Transpose", y, perm=[0, 2, 1, 3, 4])
    return model.add("Reshape", y, [1, channels, size, size])


def test_splits_and_shuffles_of_channels_are_selections() -> None:
    model = Model(fresh_rng())
    y = model.add("Relu", model.add("Conv", model.input(1, 3, 6, 6), model.weights(10, 3, 1, 1)))
    for number in range(2):
        halves = [f"left{number}", f"right{number}"]
        sizes = model.constant(np.array([5, 5]))
        split = onnx.helper.make_node("Split", [y, sizes], halves, f"split{number}", axis=1)
        model.nodes.append(split)
        worked = model.add("Relu", model.add("Conv", halves[1], model.weights(5, 5, 1, 1)))
        y = _shuffled(model, model.add("Concat", halves[0], worked, axis=1), 10, 6)
    found = in_one_region(model, model.add("Conv", y, model.weights(4, 10, 3, 3)))
    shuffles = [o for o in found if isinstance(o, QSelect) and len(o.channels) == 10]
    assert [o.channels for o in shuffles] == [(0, 5, 1, 6, 2, 7, 3, 8, 4, 9)] * 2


def in_one_region(model: Model, *outputs: str) -> list[QOperator]:
    """The operators of a model that the accelerator computes as a whole."""
    parts = accelerated(model.proto(*outputs))
    assert len(parts.regions) == 1
    assert {p.place for p in parts.placements} == {"accelerator"}
    return operators(parts)


def test_rows_and_columns_exchanged_are_a_move_of_pixels() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 4, 6, 5), model.weights(4, 4, 1, 1))
    y = model.add("Transpose", y, perm=[0, 1, 3, 2])
    parts = accelerated(model.proto(model.add("Conv", y, model.weights(4, 4, 1, 1))))
    assert len(parts.regions) == 1
    (move,) = [o for o in operators(parts) if isinstance(o, QGather)]
    assert move.pixels.tolist() == np.arange(30).reshape(6, 5).T.reshape(-1).tolist()


# -- relax sequences ------------------------------------------------------------------------------

TINY = load_hwconfig("tiny-4x4")


def sequence(model: Model, tokens: int = 7) -> str:
    """Five features of some tokens, out of a dense layer."""
    return model.add("MatMul", model.input(1, tokens, 3), model.weights(3, 5))


def agrees(model: Model, result: str):
    """The operators of the model's one region, whose program has the bits of its layers."""
    parts = accelerated(model.proto(model.add("MatMul", result, model.weights(5, 6))))
    (region,) = parts.regions
    graph, rng = layer_graph(fuse(region), TINY), fresh_rng()
    assert_program_has_bits(graph, TINY, int8_inputs(graph, rng), rng)
    return operators(parts)


@pytest.mark.parametrize("last", [False, True])
def test_a_constant_token_is_joined_to_a_sequence(last) -> None:
    model = Model(fresh_rng())
    token = model.constant(model.rng.normal(size=(1, 1, 5)).astype(np.float32))
    parts = [token, sequence(model)]
    found = agrees(model, model.add("Concat", *(parts[::-1] if last else parts), axis=1))
    assert any(isinstance(operator, QStack) for operator in found)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 1, 1), (6, 7, 1), (1, 7, 1), (2, 5, 1), (0, 7, 2), (1, 6, 3)]
)
def test_some_tokens_are_a_convolution(start, end, step) -> None:
    model = Model(fresh_rng())
    bounds = [model.constant(np.array([n], np.int64)) for n in (start, end, 1, step)]
    found = agrees(model, model.add("Slice", sequence(model), *bounds))
    assert sum(isinstance(operator, QConv) for operator in found) == 3


@pytest.mark.parametrize(("start", "end", "step"), [(0, 2, 1), (1, 6, 2), (5, -7, -1)])
def test_some_channels_of_an_image_without_rows_are_where_they_lie(start, end, step) -> None:
    model = Model(fresh_rng())
    x = model.add("Conv", model.input(1, 3, 5, 4), model.weights(6, 3, 1, 1))
    x = model.add("Reshape", x, [1, 6, 20])
    bounds = [model.constant(np.array([n], np.int64)) for n in (start, end, 1, step)]
    x = model.add("Slice", x, *bounds)
    expected = tuple(range(6)[start:end:step])
    x = model.add("Reshape", x, [1, len(expected), 5, 4])
    x = model.add("Conv", x, model.weights(2, len(expected), 1, 1))
    (region,) = accelerated(model.proto(x)).regions
    (chosen,) = [each for each in region.operators if isinstance(each, QSelect)]
    assert chosen.channels == expected


def test_tokens_in_reverse_are_none_that_are_left_out() -> None:
    model = Model(fresh_rng())
    bounds = [model.constant(np.array([n], np.int64)) for n in (6, -8, 1, -1)]
    x = model.add("Slice", sequence(model), *bounds)
    parts = accelerated(model.proto(model.add("MatMul", x, model.weights(5, 6))))
    assert not any(isinstance(operator, QSelect) for operator in operators(parts))


# -- pointwise functions as tables: what ONNX Runtime computes of every int8 value ----------------

OPSET = 20  # the first with Gelu


def _gelu_by_erf(model, x):
    numbers = [model.constant(np.float32(v)) for v in (2**0.5, 1, 0.5)]
    shifted = model.add("Add", model.add("Erf", model.add("Div", x, numbers[0])), numbers[1])
    return model.add("Mul", model.add("Mul", x, shifted), numbers[2])


def _plain(kind, **attributes):
    return lambda model, x: model.add(kind, x, **attributes)


CURVES = {
    "ceil": _plain("Ceil"),
    "cos": _plain("Cos"),
    "floor": _plain("Floor"),
    "sign": _plain("Sign"),
    "snake": lambda m, x: m.add("Add", x, m.add("Mul", *[m.add("Sin", x)] * 2)),
    "sigmoid": _plain("Sigmoid"),
    "hard-sigmoid": _plain("HardSigmoid", alpha=1 / 6),
    "hard-swish": _plain("HardSwish"),
    "tanh": _plain("Tanh"),
    "gelu": _plain("Gelu"),
    "gelu-tanh": _plain("Gelu", approximate="tanh"),
    "gelu-erf": _gelu_by_erf,
    "leaky-relu": _plain("LeakyRelu", alpha=0.1),
    "prelu": lambda m, x: m.add("PRelu", x, np.float32([0.2])),
    "elu": _plain("Elu", alpha=0.7),
    "selu": _plain("Selu"),
    "mish": _plain("Mish"),
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "silu": lambda m, x: m.add("Mul", x, m.add("Sigmoid", x)),
    "silu-rounded": lambda m, x: m.add("Mul", x, m.quantised(m.add("Sigmoid", x), 1 / 255, -128)),
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


WHY = ["two tensors", "no value", "broadcast", "16 bits in between", "scales in between"]


@pytest.mark.parametrize("why", WHY)
def test_what_is_no_table_stays_on_the_cpu(why):
    model = Model(np.random.default_rng(0), opset=21)
    x = model.quantised(model.input(1, 4, 8, 8), 0.05)
    if why == "two tensors":
        y = model.quantised(model.input(1, 4, 8, 8, name="y"), 0.05)
        result = model.add("Mul", model.add("Sigmoid", x), y)
    elif why == "no value":
        result = model.add("Sqrt", model.add("Sub", x, np.float32(100)))
    elif why == "16 bits in between":
        gate = model.quantised(model.add("Sigmoid", x), 1 / 32767, 0, np.int16)
        result = model.add("Mul", x, gate)
    elif why == "scales in between":
        numbers = [model.constant(np.full(4, 1 / 127, "f")), model.constant(np.zeros(4, np.int8))]
        gate = model.add("QuantizeLinear", model.add("Tanh", x), *numbers)
        result = model.add("Mul", x, model.add("DequantizeLinear", gate, *numbers))
    else:
        result = model.add("Tanh", model.add("Mul", x, np.ones((2, 1, 1, 1), "f")))
    proto = model.proto(model.quantised(result, 0.04))
    assert not partition(import_network(proto), tables=True).regions


# -- orders of elements, against arrays that are really permuted ----------------------------------


def positions(order: Order) -> np.ndarray:
    """Where each element of the model's flat array lies in the normal form."""
    sizes = [size for size, _ in order]
    ranks = [rank for _, rank in order]
    in_form = np.arange(prod(sizes)).reshape([sizes[ranks.index(r)] for r in range(len(ranks))])
    return in_form.transpose(ranks).reshape(-1)


def test_random_reshapes_and_permutations_are_tracked_and_equal_orders_mean_equal_lying() -> None:
    rng = fresh_rng()
    tracked = 0
    for _ in range(300):
        shape = tuple(rng.choice([1, 2, 2, 3, 4], size=rng.integers(2, 6)).tolist())
        order = layouts._order(shape, range(len(shape)))
        lying = np.arange(prod(shape)).reshape(shape)  # element -> position
        for _ in range(rng.integers(1, 5)):
            if rng.random() < 0.5:
                axes = rng.permutation(lying.ndim)
                moved = layouts.permuted(order, lying.shape, axes)
                if moved is None:
                    break
                order, lying = moved, lying.transpose(axes)
            else:
                cut = rng.integers(1, lying.ndim) if lying.ndim > 1 else 1
                merged = (prod(lying.shape[:cut]), *lying.shape[cut:])
                lying = lying.reshape(merged if rng.random() < 0.5 else shape_of_any(rng, lying))
            assert (positions(order) == lying.reshape(-1)).all()
            tracked += 1
        plain = layouts._order(lying.shape, range(lying.ndim))
        assert (order == plain) == (lying.reshape(-1) == np.arange(lying.size)).all()
    assert tracked > 200


def shape_of_any(rng: np.random.Generator, array: np.ndarray) -> tuple[int, ...]:
    """A random shape of as many elements."""
    rest, shape = array.size, []
    while rest > 1:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(int(rng.choice(divisors)))
        rest //= shape[-1]
    return tuple(shape) or (1,)


def test_an_axis_that_cuts_blocks_apart_has_no_order() -> None:
    order = layouts.sequence((1, 4, 6)).order
    assert layouts.permuted(order, (1, 8, 3), (0, 2, 1)) is not None
    assert layouts.permuted(order, (1, 3, 8), (0, 2, 1)) is None


def test_natural_forms_follow_rank_and_use() -> None:
    assert layouts.natural((1, 8, 4, 4)) == layouts.image((1, 8, 4, 4))
    assert layouts.natural((1, 8, 4, 4), layouts.heads) == layouts.heads((1, 8, 4, 4))
    assert layouts.natural((8,)).shape == (1, 8, 1, 1)
    assert layouts.natural((1, 2, 3, 4, 5)) == layouts.image((1, 6, 4, 5))
    assert layouts.natural((2, 2, 3, 4, 5)) is None


def test_pixels_of_windows_are_found_and_moves_of_channels_are_none() -> None:
    rows, columns, window, channels = 6, 4, 2, 3
    cut = (1, rows // window, window, columns // window, window, channels)
    image = layouts.tokens((1, rows, columns, channels))
    turned = layouts.permuted(image.order, cut, (0, 1, 3, 2, 4, 5))
    assert turned is not None
    have = layouts.TensorLayout(shape=image.shape, order=turned)
    pixels = np.arange(rows * columns).reshape(cut[:-1]).transpose(0, 1, 3, 2, 4).reshape(-1)
    want = layouts.tokens((1, 6, window * window, channels))
    assert layouts.pixels_of(have, want) == tuple(pixels.tolist())
    assert layouts.pixels_of(want, want) == tuple(range(rows * columns))
    assert layouts.channels_of(have, want) is None
    heads = layouts.heads((1, 3, 4, 2))
    mixed = layouts.permuted(heads.order, (1, 3, 4, 2), (0, 2, 1, 3))
    assert mixed is not None
    swapped = layouts.TensorLayout(shape=heads.shape, order=mixed)
    assert layouts.pixels_of(swapped, layouts.heads((1, 4, 3, 2))) is None


@pytest.mark.parametrize("pixels", [MAX_TURNED, MAX_TURNED + 1])
def test_no_more_pixels_become_channels_than_weights_hold(pixels) -> None:
    """An exchange is a product with as many rows of weights: of 38,416 it took gigabytes."""
    wanted = np.arange(2 * pixels).reshape(2, pixels).T
    if pixels > MAX_TURNED:
        with pytest.raises(Refusal):
            moved([Source("x", 2, pixels)], wanted, turns=True)
    else:
        assert isinstance(moved([Source("x", 2, pixels)], wanted, turns=True).source, Turned)
