# SPDX-License-Identifier: Apache-2.0
"""What no mask sees, learned from outcomes: the probability that a point can be measured.

A Gaussian process on the outcomes, 1 for a measurement and 0 for a failure, less their mean. Its
length scale is fitted as that of the cost is: sizes decide, so one failure tells much of larger
tiles, and a short length would leave every point but its neighbours at even odds. A point is
valid when the process is above one half there (least-squares classification: Rasmussen and
Williams, Gaussian processes for machine learning, 2006, section 6.5).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tilewright.tuner.search.gaussian import residual


def below(z: residual.Floats) -> residual.Floats:
    """Probability that a standard normal lies below each value."""
    return 0.5 * (1 + np.array([math.erf(v) for v in z / math.sqrt(2)]))


def expected_improvement(gain: residual.Floats, spread: residual.Floats) -> residual.Floats:
    """Expected improvement of a normal with mean ``gain`` and standard deviation ``spread``.

    Equation 15 of Jones, Schonlau and Welch, Efficient global optimization, 1998.
    """
    z = gain / np.maximum(spread, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray(gain * below(z) + spread * density, dtype=np.float64)


RECENT: Final = 256
"""Outcomes that the process rests on: the last ones, which lie where the search is."""

LEAST: Final = 0.003
"""Probability that no point falls below: the process may be wrong."""


class Feasibility:
    """Outcomes of points so far, and what they say of others."""

    def __init__(self) -> None:
        self._features: Final[list[residual.Floats]] = []
        self._valid: Final[list[bool]] = []

    def add(self, features: residual.Floats, *, valid: bool) -> None:
        """Take in whether a point of these features, shape (features,), could be measured."""
        self._features.append(features)
        self._valid.append(valid)

    def chances(self, features: residual.Floats) -> residual.Floats:
        """Probability that each point, a row, is valid; 1 while none was found to be otherwise."""
        if all(self._valid):
            return np.ones(len(features))
        valid = np.array(self._valid[-RECENT:], dtype=np.float64)
        share = float(valid.mean())
        outcomes = [
            residual.Observation(features=point, residual=label - share, log_cost=0.0)
            for point, label in zip(self._features[-RECENT:], valid.tolist(), strict=True)
        ]
        process = residual.Posterior(
            outcomes, [], features, residual.fit_kernel_shape(outcomes[-residual.FITTED :], [])
        )
        level = process.mean + share - 0.5
        return np.clip(below(level / np.sqrt(process.variance)), LEAST, 1.0)
