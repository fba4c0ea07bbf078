# SPDX-License-Identifier: Apache-2.0
"""Bandits on the gains seen: epsilon-greedy and softmax (Sutton and Barto, chapter 2).

No belief: the value of an arm is the network cost that its last slots saved, a slot. Gains shrink
as a search goes on, so only the last `WINDOW` slots count; a mean over all would follow too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tilewright.tuner.allocate._base import Allocator, Arm
from tilewright.tuner.search import TunerError

WINDOW: Final = 3
"""Slots that the value of an arm looks back."""


class GainEpsilonGreedy(Allocator):
    """The arm of the largest value; with probability epsilon any arm."""

    def __init__(self, arms: Sequence[Arm], *, epsilon: float = 0.1, **options: Any) -> None:
        super().__init__(arms, **options)
        if not 0 <= epsilon <= 1:
            raise TunerError("must lie in 0 to 1", field="epsilon", value=epsilon)
        self._epsilon: Final = epsilon

    def _choose(self, available: list[int]) -> int:
        untried = [k for k in available if not self.tracks[k].slots]
        if untried:
            return untried[0]
        values = [self.gains(k, WINDOW) for k in available]
        if self.rng.random() < self._epsilon or max(values) <= 0:
            return available[int(self.rng.integers(len(available)))]
        return available[int(np.argmax(values))]


class GainSoftmax(Allocator):
    """Arms drawn with probability exp(value / (temperature x largest value))."""

    def __init__(self, arms: Sequence[Arm], *, temperature: float = 0.25, **options: Any) -> None:
        super().__init__(arms, **options)
        if not temperature > 0:
            raise TunerError("must be positive", field="temperature", value=temperature)
        self._temperature: Final = temperature

    def _choose(self, available: list[int]) -> int:
        untried = [k for k in available if not self.tracks[k].slots]
        if untried:
            return untried[0]
        values = np.array([self.gains(k, WINDOW) for k in available])
        if values.max() <= 0:
            return available[int(self.rng.integers(len(available)))]
        weights = np.exp((values / values.max() - 1.0) / self._temperature)
        return available[int(self.rng.choice(len(available), p=weights / weights.sum()))]
