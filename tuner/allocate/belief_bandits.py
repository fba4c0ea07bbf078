# SPDX-License-Identifier: Apache-2.0
"""DynaTune's ablation of its selection: the belief stays, epsilon-greedy or softmax gives the slot.

The text replaces the confidence bound alone and finds the courses very similar; epsilon is its
0.05. The temperature of its softmax is not said: it is relative to the largest promise here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tilewright.tuner.allocate._base import Arm
from tilewright.tuner.allocate.expectation import Expectation
from tilewright.tuner.search import TunerError


class EpsilonGreedy(Expectation):
    """The arm of the largest promise; with probability epsilon any arm."""

    def __init__(self, arms: Sequence[Arm], *, epsilon: float = 0.05, **options: Any) -> None:
        super().__init__(arms, **options)
        if not 0 <= epsilon <= 1:
            raise TunerError("must lie in 0 to 1", field="epsilon", value=epsilon)
        self._epsilon: Final = epsilon

    def _among(self, moving: list[int]) -> int:
        if self.rng.random() < self._epsilon:
            return moving[int(self.rng.integers(len(moving)))]
        return max(moving, key=self.promised)


class Softmax(Expectation):
    """Arms drawn with probability exp(promise / (temperature x largest promise))."""

    def __init__(self, arms: Sequence[Arm], *, temperature: float = 0.25, **options: Any) -> None:
        super().__init__(arms, **options)
        if not temperature > 0:
            raise TunerError("must be positive", field="temperature", value=temperature)
        self._temperature: Final = temperature

    def _among(self, moving: list[int]) -> int:
        promises = np.array([self.promised(k) for k in moving])
        if promises.max() <= 0:
            return moving[int(self.rng.integers(len(moving)))]
        weights = np.exp((promises / promises.max() - 1.0) / self._temperature)
        return moving[int(self.rng.choice(len(moving), p=weights / weights.sum()))]
