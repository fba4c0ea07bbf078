# SPDX-License-Identifier: Apache-2.0
"""Tilewright's own rule: cycles above the closed-form bound, discounted while nothing improves."""

from __future__ import annotations

from tilewright.tuner.allocate._base import Allocator


class Headroom(Allocator):
    """The arm with the largest count x (best - bound) / (1 + stale slots)^2.

    The bound says where a search is nearly done, which no black-box allocator can know. The
    discount keeps a bound that no schedule reaches from drawing all the time. An arm whose bound
    is unknown has all of its cost to lose.
    """

    def _choose(self, available: list[int]) -> int:
        def left(arm: int) -> float:
            track, known = self.tracks[arm], self.arms[arm]
            stale = track.stale / max(1.0, track.trials / max(1, track.slots))
            gap = (track.best or 0.0) - (known.bound or 0.0)
            return known.count * max(0.0, gap) / (1.0 + stale) ** 2

        return max(available, key=left)
