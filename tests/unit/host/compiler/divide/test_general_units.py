# SPDX-License-Identifier: Apache-2.0
"""Pairs of tensors, moves and reductions of any form: random ones, compared with ONNX Runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from support.networks.compiled_runs import run_compiled
from support.networks.qdq_runs import run_all
from support.networks.small_models import Model
from support.randomness import generator, sample

from tilewright.host.compiler.pipeline import compile_network, import_network
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

HW, BOARD = load_hwconfig("pynq-16x16-rows"), load_board("pynq-z2")
AT_BORDER = "it only moves data at the border of a region"
"""Why an operator that costs nothing is the CPU's."""

BRANCHES = 6
"""Of one model, which has an output for each."""


@dataclass(frozen=True)
class Branch:
    """An output and its scale, and by how many steps of that it may differ."""

    name: str
    scale: float
    steps: float


class Branches:
    """A quantised model whose outputs are functions of its inputs."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.model = Model(rng)
        self.data: dict[str, np.ndarray] = {}
        self.real: dict[str, np.ndarray] = {}
        self.branches: list[Branch] = []

    def input(self, *shape: int) -> str:
        """A rounded input; its real values are known."""
        name = self.model.input(*shape, name=f"x{len(self.data)}")
        array = self.rng.uniform(-2, 2, shape).astype(np.float32)
        self.data[name] = array
        scale, zero = float(self.rng.uniform(0.012, 0.03)), int(self.rng.integers(-30, 30))
        rounded = self.model.quantised(name, scale, zero)
        codes = np.clip(np.rint(array / np.float32(scale)) + zero, -128, 127)
        self.real[rounded] = (codes - zero) * scale
        return rounded

    def leave(self, name: str, values: np.ndarray, steps: float, scale: float = 0.0) -> None:
        """Let a result leave, rounded to a scale that holds it."""
        zero = int(self.rng.integers(-20, 20)) if not scale else 0
        scale = scale or float(np.abs(values).max() or 1.0) / 100
        self.branches.append(Branch(self.model.quantised(name, scale, zero), scale, steps))

    def check(self, *, on_accelerator: float = 1.0) -> None:
        """All outputs are near ONNX Runtime's, and so many operators are on the accelerator."""
        proto = self.model.proto(*(branch.name for branch in self.branches))
        network = import_network(proto)
        compilation = compile_network(network, HW, BOARD, offload_all=True)
        expected, found = run_all(proto, self.data), run_compiled(compilation, self.data)
        for branch in self.branches:
            errors = np.abs(found[branch.name] - expected[branch.name]) / branch.scale
            assert found[branch.name].shape == expected[branch.name].shape
            assert errors.max() <= branch.steps + 1e-3, (branch, errors.max())
        counted = [p for p in compilation.network.placements if p.reason != AT_BORDER]
        places = [p.where for p in counted]
        told = [(p.kind, p.reason) for p in counted if p.where == "cpu"]
        assert places.count("accelerator") >= on_accelerator * len(places), told


def broadcast(rng: np.random.Generator, shape: tuple[int, ...], drop: float) -> tuple[int, ...]:
    """A shape that is broadcast to another one, at times without its first axes."""
    kept = tuple(size if rng.random() < 0.5 else 1 for size in shape)
    return kept[int(rng.integers(len(shape))) :] if rng.random() < drop else kept


def some_shape(rng: np.random.Generator) -> tuple[int, ...]:
    rank = int(rng.integers(2, 5))
    return (1, *(int(size) for size in rng.integers(1, 9, rank - 2)), int(rng.integers(1, 40)))


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("case", sample(4, 12))
def test_any_pair_of_tensors_of_any_broadcast(case) -> None:
    rng = generator(f"pairs {case}")
    made = Branches(rng)
    x = made.input(*some_shape(rng))
    for kind in rng.permutation(sorted(PAIRS)):
        y = made.input(*broadcast(rng, made.real[x].shape, drop=0))
        pair = (x, y) if rng.random() < 0.5 else (y, x)
        values = PAIRS[kind](made.real[pair[0]], made.real[pair[1]])
        several = kind in ("Max", "Min")  # both are rounded to the result's scale
        made.leave(made.model.add(kind, *pair), values, 1 + several)
    made.check()


@pytest.mark.parametrize("case", sample(4, 12))
def test_any_pair_of_a_tensor_and_a_constant(case) -> None:
    rng = generator(f"constants {case}")
    made = Branches(rng)
    x = made.input(*some_shape(rng))
    for kind in rng.permutation([*sorted(PAIRS), "Div"]):
        small = broadcast(rng, made.real[x].shape, drop=0.3)
        constant = (rng.uniform(0.5, 2, small) * rng.choice([-1, 1], small)).astype(np.float32)
        if kind == "Div" or rng.random() < 0.5:
            values = {**PAIRS, "Div": np.divide}[kind](made.real[x], constant)
            made.leave(made.model.add(kind, x, constant), values, 2)
        else:
            made.leave(made.model.add(kind, constant, x), PAIRS[kind](constant, made.real[x]), 2)
    made.check()


@pytest.mark.parametrize("case", range(3))
def test_constants_that_int8_is_too_coarse_for(case) -> None:
    """One is far larger than the others: along one axis they are factors, else the CPU's."""
    rng = generator(f"coarse constants {case}")
    for axes in (1, 2):
        made = Branches(rng)
        shape = (1, *(int(size) for size in rng.integers(3, 9, int(rng.integers(2, 4)))))
        x = made.input(*shape)
        for kind in ("Mul", "Div", "Add", "Sub"):
            varied = rng.choice(np.arange(1, len(shape)), axes, replace=False)
            sizes = [size if axis in varied else 1 for axis, size in enumerate(shape)]
            constant = rng.uniform(0.3, 1.5, sizes)
            largest = rng.choice(["start", "end", "inside"])
            constant.flat[{"start": 0, "end": -1}.get(largest, 1)] = 0.02 if kind == "Div" else 50
            function = {**PAIRS, "Div": np.divide}[kind]
            others = np.abs(function(made.real[x], np.where(constant > 9, 1.0, constant)))
            result = made.model.add(kind, x, constant.astype(np.float32))
            made.leave(result, others, 2, float(np.median(others)) / 40)
        made.check(on_accelerator=1.0 if axes == 1 else 0.0)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("case", range(2))
def test_constants_that_are_fine_beside_the_steps_of_a_tensor(case, wide) -> None:
    """A bias is in steps of the tensor: it must not lose what the result can tell."""
    rng = generator(f"fine constants {case}")
    made = Branches(rng)
    shape = (1, 6, 4, 5)
    for ratio in 10 ** rng.uniform(1, 4.5, 6):  # to 32,767 the factor of an operand
        name = made.model.input(*shape, name=f"x{len(made.data)}")
        made.data[name] = (rng.integers(-1, 2, shape) * 3).astype(np.float32)
        x, scale = made.model.quantised(name, 3.0, int(rng.integers(-9, 9))), float(3 / ratio)
        sizes = [(6, 1, 1), (1, 1, 1), (1, 4, 1), (6, 4, 5)][int(rng.integers(4))]
        constant = (rng.uniform(-100, 100, sizes) * scale).astype(np.float32)
        if wide:
            constant.flat[0] = 5e4 * scale
        pair = [(x, constant), (constant, x)][int(rng.integers(2))]
        result = made.model.add(str(rng.choice(["Add", "Sub"])), *pair)
        made.leave(result, np.ones(1), 1, scale)
    made.check(on_accelerator=0.0 if wide else 1.0)


@pytest.mark.parametrize("ratio", [20, 2000])
def test_what_a_batch_normalisation_adds_is_not_lost_in_steps_of_its_data(ratio) -> None:
    rng = generator(f"fine offsets {ratio}")
    made, scale = Branches(rng), 3 / ratio
    name = made.model.input(1, 6, 4, 5, name="x0")
    made.data[name] = (rng.integers(-1, 2, (1, 6, 4, 5)) * 3).astype(np.float32)
    x, ones = made.model.quantised(name, 3.0), np.ones(6, np.float32)
    offsets = (rng.uniform(-100, 100, 6) * scale).astype(np.float32)
    held = [made.model.constant(each) for each in (ones, offsets, 0 * ones, ones)]
    made.leave(made.model.add("BatchNormalization", x, *held, epsilon=0.0), np.ones(1), 1, scale)
    made.check(on_accelerator=1.0 if ratio == 20 else 0.0)


@pytest.mark.parametrize("case", range(2))
def test_products_far_finer_than_their_factors_keep_what_is_zero(case) -> None:
    """A zero point comes off in steps of the product, which must not be many of the result."""
    rng = generator(f"fine products {case}")
    made = Branches(rng)
    x = made.input(1, 4, 4, 5)
    for kind in ("constant", "tensor", "constant"):
        size = float(10 ** rng.uniform(0, 6))
        chosen = (rng.random((1, 4, 4, 5)) < 0.3) * np.float32(size)
        if kind == "constant":
            other = chosen
        else:
            name = made.model.input(*chosen.shape, name=f"x{len(made.data)}")
            made.data[name] = chosen
            other = made.model.quantised(name, size / 100, int(rng.integers(-28, 28)))
        made.leave(made.model.add("Mul", x, other), np.ones(1), 2, 0.02)
    made.check(on_accelerator=0.0)


def moved(rng: np.random.Generator, made: Branches, x: str, shape: tuple[int, ...]) -> str:
    """One random move of a tensor of this shape."""
    add, axis = made.model.add, int(rng.integers(1, len(shape)))
    size = shape[axis]
    if rng.random() < 0.4:
        return joined(rng, made, x, shape, axis)
    match rng.choice(["pad", "slice", "transpose", "tile", "gather"]):
        case "pad":
            pads = rng.integers(0, 3, 2 * len(shape))
            pads[[0, len(shape)]] = 0
            result = add("Pad", x, pads.astype(np.int64), np.float32(rng.choice([0, 0.5, -1])))
        case "slice":
            start, step = int(rng.integers(size)), int(rng.choice([-2, -1, 1, 2]))
            end = -(size + 1) if step < 0 else size
            result = add("Slice", x, *(np.array([n]) for n in (start, end, axis, step)))
        case "transpose":
            order = 1 + rng.permutation(len(shape) - 1)
            result = add("Transpose", x, perm=[0, *order.tolist()])
        case "tile":
            repeats = np.ones(len(shape), np.int64)
            repeats[axis] = 2
            result = add("Tile", x, repeats)
        case _:
            result = add("Gather", x, rng.integers(-size, size, 3), axis=axis)
    return result


def joined(
    rng: np.random.Generator, made: Branches, x: str, shape: tuple[int, ...], axis: int
) -> str:
    """A random join, split or repetition along an axis."""
    add, size = made.model.add, shape[axis]
    kind = rng.choice(["concat", "expand", "split"])
    if kind == "concat" or size < 2:
        other = rng.choice([0, 0.5, -0.25], shape).astype(np.float32)
        parts = [x, x] if rng.random() < 0.5 else [x, made.model.constant(other)]
        return add("Concat", *parts, axis=axis)
    if kind == "expand":
        wide = add("Unsqueeze", x, np.array([axis]))
        wide = add("Expand", wide, np.array([*shape[:axis], 2, *shape[axis:]]))
        return add("Reshape", wide, np.array([*shape[:axis], 2 * size, *shape[axis + 1 :]]))
    first = int(rng.integers(1, size))
    sizes = made.model.constant(np.array([first, size - first]))
    names = [f"part{len(made.model.nodes)}_{i}" for i in range(2)]
    made.model.nodes.append(onnx.helper.make_node("Split", [x, sizes], names, names[0], axis=axis))
    return names[int(rng.integers(2))]


@pytest.mark.parametrize("case", sample(4, 16))
def test_chains_of_moves_are_one_way_of_elements(case) -> None:
    rng = generator(f"moves {case}")
    made = Branches(rng)
    scale = 0.5 / 24
    for _ in range(BRANCHES):
        shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
        name = made.model.input(1, *shape, name=f"x{len(made.data)}")
        made.data[name] = rng.uniform(-2, 2, (1, *shape)).astype(np.float32)
        y = made.model.add("LeakyRelu", made.model.quantised(name, scale), alpha=0.5)
        y = made.model.quantised(y, scale)
        for _ in range(int(rng.integers(1, 4))):
            now = run_all(made.model.proto(y), made.data)[y].shape
            y = moved(rng, made, y, now)
            if rng.random() < 0.5:
                y = made.model.quantised(y, scale)
        y = made.model.quantised(y, scale)
        made.leave(made.model.add("LeakyRelu", y, alpha=0.25), np.zeros(1), 1, scale)
    made.check(on_accelerator=0.8)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceSum": np.sum,
}  # fmt: skip


@pytest.mark.parametrize("case", sample(4, 12))
def test_reductions_over_any_axes(case) -> None:
    rng = generator(f"reductions {case}")
    made = Branches(rng)
    for kind in [*REDUCTIONS, *REDUCTIONS]:
        x = made.input(*some_shape(rng))
        rank, keep = made.real[x].ndim, bool(rng.integers(2))
        count = int(rng.integers(1, rank + 1 if keep else rank))
        axes = sorted(int(a) for a in rng.permutation(np.arange(1, rank))[:count]) or [rank - 1]
        values = REDUCTIONS[kind](made.real[x], axis=tuple(axes), keepdims=keep)
        more = {"keepdims": int(keep)}
        if kind == "ReduceSum":
            y = made.model.add(kind, x, np.array(axes), **more)
        else:
            y = made.model.add(kind, x, axes=axes, **more)
        # What is reduced in two steps is rounded in between, to the scale of the data.
        count = made.real[x].size // max(values.size, 1)
        coarse = 0.03 if kind != "ReduceSum" else max(float(np.abs(values).max()), count) / 100
        made.leave(y, values, 3 if kind == "ReduceSum" else 2, coarse)
    made.check()


@pytest.mark.parametrize("case", range(4))
def test_means_that_leave_the_padding_out(case) -> None:
    rng = generator(f"masked means {case}")
    made = Branches(rng)
    for _ in range(3):
        x = made.input(1, int(rng.integers(1, 20)), *(int(n) for n in rng.integers(5, 9, 2)))
        kernel = [int(n) for n in rng.integers(2, 4, 2)]
        pads = [int(rng.integers(0, k)) for k in [*kernel, *kernel]]
        strides = [int(n) for n in rng.integers(1, 3, 2)]
        y = made.model.add("AveragePool", x, kernel_shape=kernel, pads=pads, strides=strides)
        worst = np.prod(
            [k / max(k - max(p), 1) for k, *p in zip(kernel, pads[:2], pads[2:], strict=True)]
        )
        made.leave(y, np.full(1, 2.0), 1 + worst)
    made.check()


def test_a_reduction_meets_what_it_is_of_again() -> None:
    """The mean of groups of channels is broadcast, and what is left has another shape behind it."""
    rng = generator("normalisation")
    made = Branches(rng)
    x = made.input(1, 24, 5, 6)
    real = made.real[x].reshape(1, 3, -1)
    add, model = made.model.add, made.model
    rows = model.quantised(add("Reshape", x, np.array([1, 3, -1])), 0.02, 0)
    mean = model.quantised(add("ReduceMean", rows, axes=[2], keepdims=1), 0.002)
    centred = add("Sub", rows, mean)
    made.leave(add("Reshape", centred, np.array([1, 24, 5, 6])), real, 3)
    made.check()


@pytest.mark.parametrize("case", range(3))
def test_a_reduction_of_a_reduction(case) -> None:
    """Axes that are gone behind the first one count no more in the second one."""
    rng = generator(f"reductions of reductions {case}")
    made = Branches(rng)
    for _ in range(3):
        x = made.input(1, *(int(n) for n in rng.integers(2, 7, 3)))
        first, second = (int(axis) for axis in (rng.integers(1, 4), rng.integers(1, 3)))
        real = made.real[x].max(first)
        inner = made.model.quantised(made.model.add("ReduceMax", x, axes=[first], keepdims=0), 0.03)
        outer = made.model.add("ReduceMean", inner, axes=[second], keepdims=0)
        made.leave(outer, real.mean(second), 2, 0.03)
    made.check()


@pytest.mark.parametrize("case", range(4))
def test_a_difference_goes_into_the_convolution_that_it_is_of(case) -> None:
    """On either side of it, with saturation and with a ReLU behind it."""
    rng = generator(f"differences {case}")
    made = Branches(rng)
    model, x, y = made.model, made.input(1, 5, 4, 6), made.input(1, 9, 4, 6)
    for first in (True, False):
        codes = model.constant(rng.integers(-127, 128, (9, 5, 1, 1)).astype(np.int8))
        weights = model.add("DequantizeLinear", codes, np.float32(0.004), np.int8(0))
        z = model.quantised(model.add("Conv", x, weights), float(rng.choice([0.004, 0.02])))
        difference = model.add("Sub", *((z, y) if first else (y, z)))
        if rng.random() < 0.5:
            difference = model.add("Relu", difference)
        made.leave(difference, np.full(1, 2.0), 2, 0.02)
    made.check()
