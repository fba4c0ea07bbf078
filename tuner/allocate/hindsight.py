# SPDX-License-Identifier: Apache-2.0
"""The oracle in hindsight: it knows every arm's curve in advance, and so bounds what is possible.

With rested arms the network's cost is a sum of curves, one an arm, each of its own time only. If
they were convex, giving each slot to the arm of the steepest next gain would be optimal at every
moment (a greedy argument; Everett, Operations Research 1963). Real curves are flat and then fall:
the steepest *chord* to any later point takes the place of the next gain, which follows the lower
convex hull of each curve, and is optimal at the corners of the hulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.search import TunerError

Floats = npt.NDArray[np.float64]


class Hindsight(Allocator):
    """The arm with the steepest true gain to any later point of its curve.

    Args:
        arms, seed, slot: see `Allocator`.
        futures: one curve an arm: price spent on it and its best cost after each trial, two
            arrays of shape (trials,).

    Raises:
        TunerError: not one curve an arm.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        seed: Seed,
        slot: float,
        futures: Sequence[tuple[Floats, Floats]],
    ) -> None:
        super().__init__(arms, seed=seed, slot=slot)
        if len(futures) != len(arms):
            raise TunerError("needs one curve an arm", field="futures", value=len(futures))
        self._futures: Final = tuple(futures)

    def _choose(self, available: list[int]) -> int:
        slopes = [self._slope(arm) for arm in available]
        if max(slopes) <= 0:
            return self.fewest_slots(available)
        return available[int(np.argmax(slopes))]

    def _slope(self, arm: int) -> float:
        """Largest cost saved a unit of price, on the way to any later point."""
        times, bests = self._futures[arm]
        track = self.tracks[arm]
        times, bests = times[track.trials :], bests[track.trials :]
        if not len(times) or track.best is None:
            return 0.0
        saved = self.arms[arm].count * (track.best - bests)
        return float((saved / np.maximum(times - track.spent, 1e-12)).max())
