# SPDX-License-Identifier: Apache-2.0
"""Ansor's task scheduler: the slot goes where the network's cost should fall most steeply.

Zheng et al., OSDI 2020, section 6.2 and appendix A. With g_i the cost of task i after t_i slots,
w_i its count, C_i its operations and V_k the best operations per cycle of a similar task, the
gradient of the network's cost by the slots of task i is estimated as

    w_i (alpha (g_i(t_i) - g_i(t_i - window)) / window
         + (1 - alpha) min(-g_i(t_i) / t_i, beta C_i / max_k V_k - g_i(t_i)))

a mix of the gain seen recently, and of what is hoped for: that the cost falls to 0 if as much time
is spent again, or that the task gets as fast as the similar ones, whichever promises more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tilewright.tuner.allocate._base import Allocator, Arm
from tilewright.tuner.search import TunerError


class AnsorGradient(Allocator):
    """Steepest estimated gradient, each task once first, and any task now and then."""

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        alpha: float = 0.2,
        beta: float = 2.0,
        window: int = 3,
        epsilon: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(arms, **options)
        for name, value, ok in (
            ("alpha", alpha, 0 <= alpha <= 1),
            ("beta", beta, beta > 0),
            ("window", window, window >= 1),
            ("epsilon", epsilon, 0 <= epsilon <= 1),
        ):
            if not ok:
                raise TunerError("is out of its range", field=name, value=value)
        self._alpha: Final = alpha
        self._beta: Final = beta
        self._window: Final = window
        self._epsilon: Final = epsilon

    def _choose(self, available: list[int]) -> int:
        untried = [k for k in available if not self.tracks[k].slots]
        if untried:
            return untried[0]
        if self.rng.random() < self._epsilon:
            return available[int(self.rng.integers(len(available)))]
        return min(available, key=self._gradient)

    def _gradient(self, arm: int) -> float:
        """Estimated change of the network's cost with one more slot; at most 0."""
        track, known = self.tracks[arm], self.arms[arm]
        best = track.best or 0.0
        hoped = -best / track.slots
        speeds = [
            other.work / found.best
            for k, (other, found) in enumerate(zip(self.arms, self.tracks, strict=True))
            if k != arm and other.group == known.group and found.best
        ]
        if speeds:
            hoped = min(hoped, self._beta * known.work / max(speeds) - best)
        backward = -self.gains(arm, self._window)
        return self._alpha * backward + (1 - self._alpha) * known.count * hoped
