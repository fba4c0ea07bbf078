# SPDX-License-Identifier: Apache-2.0
"""A square of numbers from 0 to 1 between things and themselves."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.tuner.report.drawing.marks import LETTER, element, label


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """How strongly each of some things goes with each other one.

    Attributes:
        alt: what it shows, for who cannot see it.
        names: of the things, in the order of rows and columns.
        values: one row per thing, each number from 0 (nothing) to 1 (full colour).
    """

    alt: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]

    def svg(self, width: int, _key: str = "") -> str:
        """The map, ``width`` pixels wide."""
        room = 8 + LETTER * max((len(name) for name in self.names), default=1)
        cell = min(30.0, (width - room - 4) / max(1, len(self.names)))
        parts = []
        for row, name in enumerate(self.names):
            middle = room + (row + 0.5) * cell
            parts.append(label(room - 6, middle + 4, name, anchor="end"))
            parts.append(
                element("text", html.escape(name), transform=f"translate({middle + 4:.1f} "
                        f"{room - 6:.1f}) rotate(-90)")
            )  # fmt: skip
            for column, other in enumerate(self.names):
                value = self.values[row][column]
                parts.append(
                    element(
                        "rect", x=room + column * cell, y=room + row * cell, width=cell - 1,
                        height=cell - 1, class_="bar c0", fill_opacity=max(0.0, min(1.0, value)),
                        data_tip=f"{name}, {other}: {value:.2f}",
                    )
                )  # fmt: skip
        height = room + cell * len(self.names) + 4
        return element(
            "svg", "".join(parts), viewBox=f"0 0 {width} {height:.0f}", role="img",
            aria_label=self.alt, class_="chart",
        )  # fmt: skip

    def legend(self) -> list[tuple[str, str]]:
        """Nothing: the colour is explained where the map stands."""
        return []

    def hover_data(self) -> str:
        """Nothing: cells answer by themselves."""
        return ""
