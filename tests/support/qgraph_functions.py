# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs of what needs an activation table or a row unit."""

import numpy as np
from support.qgraphs import ACTIVATIONS, GraphMaker

FUNCTION_KINDS = (
    "add", "conv", "depthwise", "norm", "norm", "relu", "select", "shuffle", "softmax", "softmax",
    "table", "table", "table",
)  # fmt: skip


def draw_functions(rng, block, *, zero_points=False):
    """Tables, softmax and layer normalisation between joins and shuffles of channels."""
    images, channels, size = (int(n) for n in (rng.choice([1, 1, 2]), rng.integers(1, 3 * block),
                                               rng.integers(1, 6)))  # fmt: skip
    maker = GraphMaker(rng, (images, channels, size, size), zero_points=zero_points)
    act = lambda: ACTIVATIONS[rng.integers(len(ACTIVATIONS))]  # noqa: E731  (drawn each time)
    found = ["x0", maker.conv("x0", int(rng.integers(1, 3 * block)))]
    for _ in range(int(rng.integers(3, 8))):
        x = found[int(rng.integers(max(len(found) - 3, 0), len(found)))]
        channels = maker.shape(x)[1]
        kind = rng.choice([*FUNCTION_KINDS, *["concat"] * (2 if images == 1 else 0)])
        if kind == "conv":
            x = maker.conv(x, int(rng.integers(1, 3 * block)), bounds=act())
        elif kind == "depthwise" and channels > 1:
            x = maker.conv(x, channels, groups=channels, bounds=act())
        elif kind == "add":
            equal = [y for y in found if maker.shape(y) == maker.shape(x)]
            x = maker.add(x, str(rng.choice(equal)), bounds=act())
        elif kind == "concat":
            x = maker.concat(*map(str, rng.choice(found, int(rng.integers(2, 4)))))
        elif kind == "shuffle" and channels % 2 == 0:
            x = maker.select(x, np.arange(channels).reshape(2, -1).T.reshape(-1))
        elif kind == "select":
            some = rng.permutation(channels)[: int(rng.integers(1, channels + 1))]
            x = maker.select(x, some, exact=bool(rng.integers(2)))
        elif kind == "softmax":
            x = maker.softmax(x, heads=2 if images == 1 and channels % 2 == 0 else 1)
        elif kind == "norm":
            x = maker.norm(x, act())
        else:
            x = maker.rescale(x, act()) if kind == "relu" else maker.table(x)
        found.append(x)
    results = [y for y in found[2:-1] if rng.random() < 0.2]
    return maker.graph(*dict.fromkeys(results), maker.conv(found[-1], 3)), maker.arguments()
