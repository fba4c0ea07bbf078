# SPDX-License-Identifier: Apache-2.0
"""Random search over valid points: the baseline that every tuner must beat."""

from __future__ import annotations

from typing import TypeVar

from tilewright.tuner.search.space import Index
from tilewright.tuner.search.tuner import Result, Tuner

P = TypeVar("P")


class RandomTuner(Tuner[P]):
    """Samples valid points without repetition (Bergstra and Bengio, JMLR 2012)."""

    def _propose(self) -> Index | None:
        return self.sample_new()

    def _learn(self, result: Result) -> None:
        """Results do not change what is sampled."""
