# SPDX-License-Identifier: Apache-2.0
"""A share of each plan that is drawn at random, also where it is less than a whole point."""

from __future__ import annotations

from typing import Final

ROUNDING: Final = 1e-9
"""Twenty times 0.05 is a point, whatever the sum of floats says."""


class RandomShare:
    """Whole points of each plan, what is left of a point being carried to the next plan.

    5 % of a plan of 16 is 0.8: cut off, such plans would never hold a random point.
    """

    def __init__(self, share: float) -> None:
        self._share: Final = share
        self._due = 0.0

    def of(self, plan: int) -> int:
        """Random points of the next plan of so many points."""
        self._due += self._share * plan
        points = int(self._due + ROUNDING)
        self._due -= points
        return points
