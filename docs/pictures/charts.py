# SPDX-License-Identifier: Apache-2.0
"""Axes for the plots of the documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from drawing import Drawing


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The part of a drawing that holds a plot, in pixels, and the values at its four sides."""

    x: float
    y: float
    width: float
    height: float
    left: float = 0
    right: float = 1
    bottom: float = 0
    top: float = 1
    logarithmic_x: bool = False
    logarithmic_y: bool = False

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A value as a place in pixels."""
        across = _share(x, self.left, self.right, logarithmic=self.logarithmic_x)
        up = _share(y, self.bottom, self.top, logarithmic=self.logarithmic_y)
        return self.x + across * self.width, self.y + (1 - up) * self.height

    def horizontals(self, art: Drawing, ticks: Sequence[tuple[float, str]]) -> None:
        """Grid lines with their values at the left."""
        for value, words in ticks:
            x, y = self.at(self.left, value)
            art.line([(x, y), (x + self.width, y)], colour="faint")
            art.text(x - 8, y + 4, words, size=11, colour="soft", anchor="end")

    def marks(self, art: Drawing, ticks: Sequence[tuple[float, str]]) -> None:
        """Values below the plot."""
        for value, words in ticks:
            x, y = self.at(value, self.bottom)
            art.line([(x, y), (x, y + 5)])
            art.text(x, y + 19, words, size=11, colour="soft", anchor="middle")


def _share(value: float, low: float, high: float, *, logarithmic: bool) -> float:
    if logarithmic:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return min(1, max(0, (value - low) / (high - low)))
