# SPDX-License-Identifier: Apache-2.0
"""DynaTune: a bandit over tasks whose rewards are foretold by a Bayesian belief.

Zhang, Li, Wang and Li, "DynaTune: Dynamic Tensor Program Optimization in Deep Neural Network
Compilation", ICLR 2021; re-implemented from the text, its code is not public. The slot t goes to

    argmax_k  EI_k + C sqrt(ln t / N_k)

where N_k is the number of slots that task k had, and EI_k the expected improvement of the
network's latency if task k gets one more: its count, times its cost, times the share of it that the
belief (`belief.py`) expects to be gone one slot later. Tasks without a slot come first, the most
expensive before the others. Only the belief of the task that had the slot is fitted again: the
arms are rested.

The text measures rewards in milliseconds, with C = 2, and 0.2 for networks below 1 ms. An
exploration that depends on the unit is replaced here by default: rewards are shares of the
network's present latency, with C = `EXPLORATION`. ``reward="ms"`` does as the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tilewright.tuner.allocate._base import Allocator, Arm, Seed, Track
from tilewright.tuner.allocate.belief import Belief, Floats, corners, fit_belief
from tilewright.tuner.search import TunerError

EXPLORATION: Final = 0.001
"""C for rewards that are shares of the network's latency (docs/dynatune.md tells how chosen)."""

PATIENCE: Final = 48
"""Trials without an improvement after which a task is stopped early."""

REWARDS: Final = ("share", "ms")
PEAKS: Final = ("seen", "bound")

Fit = Callable[[Floats, Floats, tuple[int, ...]], Belief]
"""Times, rates and entropy to a belief."""


def _fit(x: Floats, y: Floats, seed: tuple[int, ...]) -> Belief:
    return fit_belief(x, y, seed=seed)


class DynaTune(Allocator):
    """UCB over expected improvements.

    Args:
        arms, seed, slot: see `Allocator`.
        exploration: C; by default `EXPLORATION` for shares; for milliseconds 2, or 0.2 below 1 ms.
        reward: ``share`` of the network's latency, or ``ms``.
        ms_per_cost: milliseconds of one unit of cost, for ``ms``.
        peak: what rates are divided by: the best ``seen`` so far, or the rate at the ``bound``
            where an arm has one (a grey-box variant: no rate is believed above it).
        patience: trials without an improvement after which a task is stopped early.
        fit: makes beliefs; replaced to keep them between runs.

    Attributes:
        forecasts: arm, expected and true share of its cost saved, for every slot foretold.

    Raises:
        TunerError: an argument out of its range.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        seed: Seed,
        slot: float,
        exploration: float | None = None,
        reward: str = "share",
        ms_per_cost: float = 1e-5,
        peak: str = "seen",
        patience: int = PATIENCE,
        fit: Fit = _fit,
    ) -> None:
        super().__init__(arms, seed=seed, slot=slot)
        for name, value, ok in (
            ("exploration", exploration, exploration is None or exploration >= 0),
            ("reward", reward, reward in REWARDS),
            ("ms_per_cost", ms_per_cost, ms_per_cost > 0),
            ("peak", peak, peak in PEAKS),
            ("patience", patience, patience >= 1),
        ):
            if not ok:
                raise TunerError("is out of its range", field=name, value=value)
        self._exploration: Final = exploration
        self._reward: Final = reward
        self._ms: Final = ms_per_cost
        self._peak: Final = peak
        self._patience: Final = patience
        self._fit: Final = fit
        self._expected: Final[dict[int, float]] = {}
        self.forecasts: Final[list[tuple[int, float, float]]] = []
        self._first = 0.0

    def _choose(self, available: list[int]) -> int:
        network = self.network or 1.0
        self._first = self._first or network
        untried = [k for k in available if not self.tracks[k].slots]
        if untried:
            return max(untried, key=self.share)
        unit = self._ms if self._reward == "ms" else 1.0 / network
        explore, slots = self._constant(), self.slots

        def score(arm: int) -> float:
            expected = self._expected.get(arm, 0.0) * self.share(arm) * unit
            return expected + explore * math.sqrt(math.log(slots) / self.tracks[arm].slots)

        return max(self.moving(available, self._patience), key=score)

    def _constant(self) -> float:
        if self._exploration is not None:
            return self._exploration
        if self._reward == "share":
            return EXPLORATION
        return 2.0 if self._first * self._ms >= 1.0 else 0.2

    def _learn(self, arm: int) -> None:
        track = self.tracks[arm]
        if not track.bests:
            return
        before = track.ends[-2][1] if track.slots > 1 else None
        if arm in self._expected and before is not None:
            came = 1.0 - track.bests[-1] / before
            self.forecasts.append((arm, self._expected[arm], came))
        x, y = self.curve(track, self.arms[arm])
        belief = self._fit(x, y, (*self.seed, arm, track.slots))
        self._expected[arm] = belief.expected_improvement(float(x[-1]) + 1.0, float(y[-1]))

    def curve(self, track: Track, arm: Arm) -> tuple[Floats, Floats]:
        """The evidence of an arm: times in slots and rates, normalised by the peak.

        Returns:
            Two arrays of shape (points,).
        """
        times, bests = np.array(track.times), np.array(track.bests)
        kept = corners(times, bests, [spent for spent, _ in track.ends])
        known = arm.bound if self._peak == "bound" else None
        peak = float(bests[-1]) if known is None else known
        return times[kept] / self.slot, peak / bests[kept]
