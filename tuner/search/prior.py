# SPDX-License-Identifier: Apache-2.0
"""What a prior says of points before any is measured: legality, predicted cost and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.space import Knob

Positions = npt.NDArray[np.int64]
"""Shape (points, knobs): one position a knob."""


class Judgement:
    """What a prior says of an array of positions.

    Attributes:
        legal: bool of shape (points,).
        cycles: float64 of shape (points,); 0 where not legal.
        features: float64 of shape (points, features); 0 where not legal.
    """

    def __init__(self, count: int, width: int) -> None:
        self.legal: Final = np.zeros(count, dtype=bool)
        self.cycles: Final = np.zeros(count)
        self.features: Final = np.zeros((count, width))


class SpacePrior(Protocol):
    """Predicts points of a space."""

    @property
    def task(self) -> str:
        """Identity of what is tuned: observations of equal tasks belong together."""
        ...

    def __call__(self, point: Any) -> float:
        """Predicted cost of one legal point."""
        ...

    def judge(self, knobs: Sequence[Knob], positions: Positions, *, masked: bool) -> Judgement:
        """Predict many points; ``masked``: leave out what does not lower."""
        ...
