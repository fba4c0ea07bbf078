# SPDX-License-Identifier: Apache-2.0
"""`BestSoFar`: a budget of samples, and the lowest cost after each of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


class BestSoFar:
    """Counts samples and keeps the lowest cost.

    Attributes:
        left: samples that remain.
        lowest: the lowest cost; infinite before the first.
        steps: samples that improved on it, ascending, counted from 0.
    """

    def __init__(self, budget: int) -> None:
        self.budget: Final = budget
        self.left = budget
        self.lowest = np.inf
        self.steps: list[int] = []
        self._curve: Final = np.full(budget, np.inf)

    def add(self, values: Values) -> npt.NDArray[np.intp]:
        """Count the costs of samples, in order; at most as many as are left."""
        start = self.budget - self.left
        best = np.minimum(np.minimum.accumulate(values), self.lowest)
        before = np.concatenate([[self.lowest], best[:-1]])
        improved = np.flatnonzero(best < before)
        self.steps += (start + improved).tolist()
        self._curve[start : start + len(values)] = best
        self.left -= len(values)
        if len(values):
            self.lowest = float(best[-1])
        return improved

    def charge(self, samples: int) -> None:
        """Count samples that changed nothing; at most as many as are left."""
        start = self.budget - self.left
        self.left -= min(samples, self.left)
        self._curve[start : self.budget - self.left] = self.lowest

    def curve(self) -> Values:
        """The lowest cost after each sample, shape ``[budget]``; what is left keeps the last."""
        used = self.budget - self.left
        self._curve[used:] = self.lowest
        return self._curve
