# SPDX-License-Identifier: Apache-2.0
"""What DynaTune and its ablations share: a belief about each arm, and what it promises.

Zhang et al., ICLR 2021. After each slot the belief (`belief.py`) of the arm that had it is fitted
again, the others stand: the arms are rested. The reward that an arm promises is its count, times
its cost, times the share of it that the belief expects to be gone one slot later. What differs
between the allocators is how a slot is given on these promises: by confidence bound (`dynatune.py`)
or mostly the largest, or drawn (`belief_bandits.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tilewright.tuner.allocate._base import Allocator, Arm, Track
from tilewright.tuner.allocate.belief import Belief, Floats, corners, fit_belief
from tilewright.tuner.search import TunerError

PATIENCE: Final = 48
"""Trials without an improvement after which a task is stopped early."""

PEAKS: Final = ("seen", "bound")
PRIORS: Final = ("above", "rising")

Fit = Callable[[Floats, Floats, tuple[int, ...], float | None], Belief]
"""Times, rates, entropy and horizon (None: no curve is excluded there) to a belief."""


def _fit(x: Floats, y: Floats, seed: tuple[int, ...], horizon: float | None) -> Belief:
    return fit_belief(x, y, seed=seed, horizon=horizon)


class Expectation(Allocator):
    """Keeps a belief an arm and stops arms early; a subclass gives the slot.

    Tasks without a slot come first, the most expensive before the others.

    Args:
        peak: what rates are divided by: the best ``seen`` so far, or the rate at the ``bound``
            where an arm has one (a grey-box variant: no rate is believed above it).
        prior: ``above`` excludes curves that predict less than the last best one slot later, as the
            text does; ``rising`` excludes falling curves alone.
        patience: trials without an improvement after which a task is stopped early.
        fit: makes beliefs; replaced to keep them between runs.
        options: of `Allocator`.

    Attributes:
        forecasts: arm, expected and true share of its cost saved, for every slot foretold.

    Raises:
        TunerError: an argument out of its range.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        peak: str = "seen",
        prior: str = "above",
        patience: int = PATIENCE,
        fit: Fit = _fit,
        **options: Any,
    ) -> None:
        super().__init__(arms, **options)
        for name, value, ok in (
            ("peak", peak, peak in PEAKS),
            ("prior", prior, prior in PRIORS),
            ("patience", patience, patience >= 1),
        ):
            if not ok:
                raise TunerError("is out of its range", field=name, value=value)
        self._peak: Final = peak
        self._prior: Final = prior
        self._patience: Final = patience
        self._fit: Final = fit
        self._expected: Final[dict[int, float]] = {}
        self.forecasts: Final[list[tuple[int, float, float]]] = []

    @abstractmethod
    def _among(self, moving: list[int]) -> int:
        """One of the arms that are not stopped, each of which had a slot."""

    def promised(self, arm: int) -> float:
        """Cost of the network that one more slot of an arm is expected to save."""
        return self._expected.get(arm, 0.0) * self.share(arm)

    def _choose(self, available: list[int]) -> int:
        untried = [k for k in available if not self.tracks[k].slots]
        if untried:
            return max(untried, key=self.share)
        return self._among(self.moving(available, self._patience))

    def _learn(self, arm: int) -> None:
        track = self.tracks[arm]
        if not track.bests:
            return
        before = track.ends[-2][1] if track.slots > 1 else None
        if arm in self._expected and before is not None:
            came = 1.0 - track.bests[-1] / before
            self.forecasts.append((arm, self._expected[arm], came))
        x, y = self.curve(track, self.arms[arm])
        later = float(x[-1]) + 1.0
        belief = self._fit(
            x, y, (*self.seed, arm, track.slots), later if self._prior == "above" else None
        )
        self._expected[arm] = belief.expected_improvement(later, float(y[-1]))

    def curve(self, track: Track, arm: Arm) -> tuple[Floats, Floats]:
        """The evidence of an arm: times in slots, and rates, which are normalised by the peak."""
        times, bests = np.array(track.times), np.array(track.bests)
        kept = corners(times, bests, [spent for spent, _ in track.ends])
        known = arm.bound if self._peak == "bound" else None
        peak = float(bests[-1]) if known is None else known
        return times[kept] / self.slot, peak / bests[kept]
