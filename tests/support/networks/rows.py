# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation with random parameters, on activations."""

import numpy as np

from tilewright.host.network.row_functions import LayerNorm, RowFunction, Softmax


def some_function(kind: str, channels: int, rng: np.random.Generator) -> RowFunction:
    """``softmax``, or another name for layer normalisation."""
    if kind == "softmax":
        return Softmax.of(float(rng.choice([0.01, 0.1, 1.5])), float(rng.choice([1 / 256, 1 / 64])))
    gamma, beta = rng.normal(1, 0.5, channels), rng.normal(0, 0.5, channels)
    gamma *= rng.random(channels) < 0.9  # channels whose gamma is 0
    epsilon = float(rng.choice([0, 1, 1000]))
    return LayerNorm.of(gamma, beta, 1 / 32, int(rng.integers(-20, 20)), epsilon)


def masked_softmax(shape: tuple[int, int, int, int], rng: np.random.Generator) -> Softmax:
    """Softmax of an activation with a mask, a bias, or both added to its rows."""
    images, channels, height, width = shape
    rows = (images, height, width, channels)
    kind = rng.integers(3)
    addend = np.zeros(rows) if kind == 0 else rng.normal(0, 0.3, rows)
    if kind != 1:
        addend[rng.random(rows) < 0.4] = rng.choice([-np.inf, -1e4])
    return Softmax.of(float(rng.choice([0.02, 0.1, 0.9])), addend=addend)
