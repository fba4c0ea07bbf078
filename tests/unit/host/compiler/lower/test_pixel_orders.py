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


def assert_same(before: QGraph, after: QGraph) -> None:
    data = [fresh_rng().integers(-128, 128, before.tensors["x"].shape).astype(np.int8)]
    for expected, found in zip(evaluate(before, data), evaluate(after, data), strict=True):
        assert np.array_equal(expected, found)


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
