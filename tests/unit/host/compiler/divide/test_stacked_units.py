# SPDX-License-Identifier: Apache-2.0
"""Windows of an image that a model takes for a batch: one region, and its bits."""

import numpy as np
import pytest
from support.networks.compiled_runs import assert_one_region_has_its_bits
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng

from tilewright.host.compiler.divide.cost import CostModel
from tilewright.host.compiler.lower.fuse import fuse
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.pipeline import partitions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig

ROWED = load_hwconfig("tiny-4x4").with_(row_unit=1)


class Windows:
    """A convolution, windows of its result as a batch, layers on them, and one image again."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.model = rng, Model(rng)
        self.channels = int(rng.choice([3, 4, 8]))
        side = int(rng.choice([3, 4, 5]))
        self.sides = side, side
        self.grid = (int(rng.integers(1, 4)), int(rng.integers(2, 4)))
        rows, columns = (n * side for n in self.grid)
        self.shape = (1, 3, rows, columns)
        x = self.model.add("Conv", self.model.input(*self.shape), self._weights(self.channels, 3))
        self.y = self._cut(x)

    def _weights(self, *shape: int) -> str:
        return self.model.weights(*shape, *(1,) * (4 - len(shape)))

    def _cut(self, x: str) -> str:
        (a, b), (h, w), c = self.grid, self.sides, self.channels
        x = self.model.add("Reshape", x, np.array([1, c, a, h, b, w]))
        x = self.model.add("Transpose", x, perm=[0, 2, 4, 1, 3, 5])
        return self.model.add("Reshape", x, np.array([a * b, c, h, w]))

    def whole(self) -> str:
        """The windows at their places."""
        (a, b), (h, w), c = self.grid, self.sides, self.channels
        x = self.model.add("Reshape", self.y, np.array([1, a, b, c, h, w]))
        x = self.model.add("Transpose", x, perm=[0, 3, 1, 4, 2, 5])
        x = self.model.add("Reshape", x, np.array([1, c, a * h, b * w]))
        return self.model.add("Conv", x, self._weights(4, c))

    # -- layers on windows -----------------------------------------------------------------------

    def convolution(self, *, strided: bool = True) -> None:
        """Of any kernel, stride, padding and dilation; as many channels come out."""
        kernel = [int(n) for n in self.rng.integers(1, 4, 2)]
        dilations = [int(n) for n in self.rng.integers(1, 3, 2)]
        strides = [int(n) for n in self.rng.integers(1, 3 if strided else 2, 2)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        before = [int(self.rng.integers(0, r)) for r in reach]
        groups = self.channels if self.rng.random() < 0.5 else 1
        weights = self.model.weights(self.channels, self.channels // groups, *kernel)
        # As large a result as the image, before the strides.
        behind = [r - 1 - b for r, b in zip(reach, before, strict=True)]
        self.y = self.model.add(
            "Conv", self.y, weights, self.model.weights(self.channels), group=groups,
            strides=strides, dilations=dilations, pads=[*before, *behind],
        )  # fmt: skip
        self.sides = -(-self.sides[0] // strides[0]), -(-self.sides[1] // strides[1])

    def pool(self) -> None:
        pads = [int(n) for n in self.rng.integers(0, 2, 2)]
        self.y = self.model.add(
            "MaxPool", self.y, kernel_shape=[3, 2], pads=[pads[0], pads[1], 2 - pads[0],
            1 - pads[1]], strides=[1, 1],
        )  # fmt: skip

    def activation(self) -> None:
        self.y = self.model.add("Relu", self.y)

    def halves(self) -> None:
        """Channels apart, one part through a layer, and joined or added."""
        first = self.channels // 2
        bounds = [[self.model.constant(np.array([n])) for n in part]
                  for part in ((0, first, 1), (first, self.channels, 1))]  # fmt: skip
        left, right = (self.model.add("Slice", self.y, *part) for part in bounds)
        left = self.model.add("Conv", left, self.model.weights(first, first, 1, 1))
        self.y = self.model.add("Concat", right, left, axis=1)

    def residual(self) -> None:
        kept = self.y
        self.convolution(strided=False)
        self.y = self.model.add("Add", self.y, kept)

    def attention(self) -> None:
        """Of the pixels of each window."""
        count, (h, w) = self.grid[0] * self.grid[1], self.sides
        flat = np.array([count, self.channels, h * w])
        queries, keys, values = (self.model.add("Reshape", each, flat) for each in (
            self.model.add("Conv", self.y, self.model.weights(self.channels, self.channels, 1, 1)),
            self.y, self.y))  # fmt: skip
        turned = self.model.add("Transpose", queries, perm=[0, 2, 1])
        scores = self.model.add("Softmax", self.model.add("MatMul", turned, keys), axis=-1)
        weights = self.model.add("Transpose", scores, perm=[0, 2, 1])
        y = self.model.add("MatMul", values, weights)
        self.y = self.model.add("Reshape", y, np.array([count, self.channels, h, w]))


LAYERS = ("convolution", "pool", "activation", "halves", "residual", "attention")


@pytest.mark.parametrize("first", LAYERS)
def test_layers_on_windows_are_one_region_with_its_bits(first) -> None:
    rng = fresh_rng()
    drawn = Windows(rng)
    for name in (first, *rng.choice(LAYERS, int(rng.integers(1, 3)))):
        getattr(drawn, name)()
    proto = drawn.model.proto(drawn.whole())
    assert_one_region_has_its_bits(
        proto, rng.normal(size=(4, *drawn.shape[1:])).astype(np.float32), ROWED
    )


def test_what_is_left_of_windows_still_lowers() -> None:
    """Whatever stays on the CPU, what begins or ends in the windows then is refused or lowers."""
    rng = fresh_rng()
    drawn = Windows(rng)
    for name in ("halves", "convolution", str(rng.choice(LAYERS))):
        getattr(drawn, name)()
    network = imported(drawn.model.proto(drawn.whole()))
    costs = CostModel(ROWED, load_board("pynq-z2"))
    taken = {"rows": True, "turns": True, "why_not": costs.why_not, "price": costs.price}
    offered: list[int] = []
    partitions(
        network, costs.refused, lambda graph: offered.extend(c.id for c in graph.candidates) or {},
        **taken,
    )  # fmt: skip
    left = [{int(each): "of the test"} for each in rng.permutation(offered)[:6]]
    divided = partitions(network, costs.refused, *(lambda _, one=one: one for one in left), **taken)
    assert len(divided) > 1
    for parts in divided:
        for region in parts.regions:
            assert layer_graph(fuse(region), ROWED).layers
