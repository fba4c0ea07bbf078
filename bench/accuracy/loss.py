# SPDX-License-Identifier: Apache-2.0
"""How much accuracy a network loses on a sample of inputs, and what that says about all inputs."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from tilewright.bench.accuracy.subject import Array

_DEVIATIONS = 1.96
"""Of a normal distribution, to either side of its mean: 95 %."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Percent points of accuracy that are lost; negative: won.

    Attributes:
        points: of the sample.
        lowest, highest: ends of the interval of 95 %.
    """

    points: float
    lowest: float
    highest: float


def loss(before: Array, after: Array) -> Loss:
    """What is lost between two forms of a network that answered the same inputs.

    Both answer alike nearly everywhere, so the interval comes from the difference on each input.
    One more input that loses a point and one that wins one count in it (Bonett and Price, Adjusted
    Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data, 2012):
    without them it would be empty where no answer differs.
    """
    lost = (before[:, 0] - after[:, 0]).astype(np.float64)
    sizes = before[:, 1].astype(np.float64)
    more = np.append(lost, [1.0, -1.0])
    wide = np.append(sizes, [sizes.mean()] * 2)
    share = more.sum() / wide.sum()
    reach = _DEVIATIONS * sqrt(np.square(more - share * wide).sum()) / wide.sum()
    return Loss(
        points=float(100 * lost.sum() / sizes.sum()),
        lowest=float(100 * (share - reach)),
        highest=float(100 * (share + reach)),
    )
