# SPDX-License-Identifier: Apache-2.0
"""Moves of pixels go where few are needed, and the bits stay."""

from itertools import count

import numpy as np
import pytest
from support.networks.qgraph_floats import evaluate
from support.randomness import fresh_rng

from tilewright.host.compiler.lower.gathers import with_fewer_moves
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConv,
    QGather,
    QGraph,
    QLayerNorm,
    QOperator,
    QPool,
    QReshape,
    QTensor,
)

SIDE = 4
PIXELS = SIDE * SIDE
WINDOWS = np.arange(PIXELS).reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(-1)
"""The pixels of a 4 x 4 image in the order of 2 x 2 windows."""


class Maker:
    """A graph, operator by operator."""

    def __init__(self, channels: int = 4) -> None:
        self.rng = fresh_rng()
        self.numbers = count()
        self.operators: list[QOperator] = []
        self.tensors = {"x": self.tensor("x", channels, (SIDE, SIDE))}

    def tensor(self, name: str, channels: int, pixels: tuple[int, int]) -> QTensor:
        return QTensor(name=name, shape=(1, channels, *pixels), scale=0.05, zero_point=0)

    def add(self, kind: type[QOperator], *inputs: str, **values: object) -> str:
        """An operator whose result has its first input's shape."""
        name = f"t{next(self.numbers)}"
        _, channels, *pixels = self.tensors[inputs[0]].shape
        weights = values.get("weights")
        if isinstance(weights, np.ndarray):
            channels = weights.shape[0]
        self.tensors[name] = self.tensor(name, channels, (pixels[0], pixels[1]))
        self.operators.append(kind(name=name, inputs=inputs, output=name, **values))
        return name

    def move(self, x: str, pixels: np.ndarray) -> str:
        return self.add(QGather, x, pixels=pixels)

    def dense(self, x: str, outputs: int, kernel: int = 1) -> str:
        depth = self.tensors[x].shape[1]
        return self.add(
            QConv, x, weights=self.rng.integers(-9, 9, (outputs, depth, kernel, kernel), np.int8),
            weight_scales=np.full(outputs, 0.02), bias=self.rng.normal(0, 0.1, outputs),
            pads=(kernel // 2,) * 4,
        )  # fmt: skip

    def norm(self, x: str) -> str:
        channels = self.tensors[x].shape[1]
        return self.add(QLayerNorm, x, gamma=np.ones(channels), beta=np.zeros(channels))

    def graph(self, *outputs: str) -> QGraph:
        return QGraph(
            name="g", tensors=self.tensors, operators=tuple(self.operators), inputs=("x",),
            outputs=outputs,
        )  # fmt: skip


def moves(graph: QGraph) -> int:
    return sum(isinstance(operator, QGather) for operator in graph.operators)


def kinds(graph: QGraph) -> list[type[QOperator]]:
    return [type(o) for o in graph.operators if not isinstance(o, QReshape)]


def assert_same(before: QGraph, after: QGraph) -> None:
    data = [fresh_rng().integers(-128, 128, before.tensors["x"].shape).astype(np.int8)]
    for expected, found in zip(evaluate(before, data), evaluate(after, data), strict=True):
        assert np.array_equal(expected, found)


def block(m: Maker, x: str, order: np.ndarray) -> str:
    """As a block of Swin: what stands for attention is a pool that sees neighbours."""
    y = m.dense(m.move(m.norm(x), order), 8)
    y = m.add(QPool, y, maximum=True, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1))
    y = m.add(QAdd, x, m.move(m.dense(y, 4), np.argsort(order)))
    return m.add(QAdd, y, m.dense(m.dense(m.norm(y), 16), 4))


def test_blocks_are_computed_in_the_order_of_their_windows() -> None:
    m = Maker()
    rolled = np.roll(np.arange(PIXELS), 3)[WINDOWS]
    graph = m.graph(m.dense(block(m, block(m, "x", WINDOWS), rolled), 3, kernel=3))
    after = with_fewer_moves(graph)
    assert (moves(graph), moves(after)) == (4, 3)
    # the input and the result of attention are added where nothing moves in between
    assert kinds(after)[:5] == [QGather, QLayerNorm, QConv, QPool, QConv]
    assert kinds(after).count(QConv) == kinds(graph).count(QConv)
    assert kinds(after).count(QLayerNorm) == kinds(graph).count(QLayerNorm)
    assert_same(graph, after)


def test_a_move_back_undoes_one() -> None:
    m = Maker()
    y = m.norm(m.dense(m.move("x", WINDOWS), 4))
    graph = m.graph(m.dense(m.move(y, np.argsort(WINDOWS)), 4, kernel=3))
    after = with_fewer_moves(graph)
    assert moves(after) == 0
    assert_same(graph, after)


def test_many_channels_are_not_moved_for_few() -> None:
    m = Maker()
    wide = m.dense(m.move("x", WINDOWS), 64)
    graph = m.graph(m.dense(wide, 4, kernel=3))
    assert with_fewer_moves(graph) is graph  # the move stays before the layer that widens


def test_a_move_that_drops_pixels_stays() -> None:
    m = Maker()
    y = m.move("x", np.minimum(WINDOWS, 9))
    graph = m.graph(m.dense(m.add(QAdd, y, y), 4, kernel=3))
    assert with_fewer_moves(graph) is graph


@pytest.mark.parametrize("case", range(40))
def test_any_graph_keeps_its_bits(case: int) -> None:
    m = Maker()
    known = ["x"]
    for _ in range(int(m.rng.integers(2, 14))):
        x, y = (known[int(m.rng.integers(len(known)))] for _ in range(2))
        match int(m.rng.integers(7)):
            case 0 | 1:
                known.append(m.move(x, m.rng.permutation(PIXELS)))
            case 2:
                pixels = int(m.rng.integers(2)) and m.rng.integers(0, PIXELS, PIXELS)
                known.append(m.move(x, WINDOWS if isinstance(pixels, int) else pixels))
            case 3:
                known.append(m.norm(x))
            case 4:
                known.append(m.dense(x, 4, kernel=1 + 2 * int(m.rng.integers(2))))
            case 5:
                known.append(m.add(QAdd, x, y))
            case _:
                inverse = next((o for o in m.operators if isinstance(o, QGather)), None)
                order = WINDOWS if inverse is None else np.argsort(inverse.pixels)
                known.append(m.move(x, order))
    graph = m.graph(*dict.fromkeys([known[-1], known[len(known) // 2]]))
    assert_same(graph, with_fewer_moves(graph))
