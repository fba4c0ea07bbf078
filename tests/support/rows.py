# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation with random parameters, on activations."""

from __future__ import annotations

import numpy as np

from tilewright.host.lowering.row_layers import RowFunction
from tilewright.host.network.row_functions import LayerNorm, Softmax


def some_function(kind: str, channels: int, rng: np.random.Generator) -> RowFunction:
    """``softmax``, or another name for layer normalisation."""
    if kind == "softmax":
        return Softmax.of(float(rng.choice([0.01, 0.1, 1.5])), float(rng.choice([1 / 256, 1 / 64])))
    gamma, beta = rng.normal(1, 0.5, channels), rng.normal(0, 0.5, channels)
    return LayerNorm.of(gamma, beta, 1 / 32, int(rng.integers(-20, 20)))
