# SPDX-License-Identifier: Apache-2.0
"""The normal distribution, as a search by a Gaussian process needs it."""

from __future__ import annotations

import math

import numpy as np

from tilewright.tuner.search.gaussian.residual import Floats


def below(z: Floats) -> Floats:
    """Probability that a standard normal lies below each value."""
    return 0.5 * (1 + np.array([math.erf(v) for v in z / math.sqrt(2)]))


def expected_improvement(gain: Floats, spread: Floats) -> Floats:
    """Expected improvement of a normal with mean ``gain`` and standard deviation ``spread``.

    Equation 15 of Jones, Schonlau and Welch, Efficient global optimization, 1998.
    """
    z = gain / np.maximum(spread, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray(gain * below(z) + spread * density, dtype=np.float64)
