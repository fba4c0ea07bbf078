# SPDX-License-Identifier: Apache-2.0
"""Rows of tasks over time; how high a task stands tells how fast it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.tuner.report.drawing.marks import LETTER, Chart, drawing, element, key, label
from tilewright.tuner.report.drawing.scales import Axis, ticks_below

ROW = 26.0
"""Pixels of a row, and of the space below it."""
GAP = 6.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """Something that keeps a row busy for a while."""

    row: int  # number of its row
    kind: str  # what entry of the legend it belongs to
    times: Sequence[float]  # at which its speed changes, ascending: its start first, its end last
    speeds: Sequence[float]  # between them, from 0 to 1
    tip: str  # what it says when pointed at


@dataclass(frozen=True, kw_only=True)
class GanttChart(Chart):
    """Tasks in rows."""

    alt: str  # what it shows, for who cannot see it
    rows: Sequence[str]  # names, from the top
    axis: Axis  # of the time, from the left
    tasks: Sequence[Task]  # in any order; those of a row do not overlap
    colours: dict[str, str]  # of the palette, by kind, in the order of the legend

    def svg(self, width: int, _key: str = "") -> str:
        """The chart, ``width`` pixels wide."""
        left = 14 + LETTER * max((len(name) for name in self.rows), default=1)
        right, bottom = width - 22, 6 + (ROW + GAP) * len(self.rows)
        parts = ticks_below(self.axis, left, right, 6, bottom)
        for number, name in enumerate(self.rows):
            base = 6 + (ROW + GAP) * number + ROW
            parts.append(label(left - 8, base - ROW / 2 + 4, name, anchor="end"))
            parts.append(element("path", d=f"M{left:.1f} {base:g}H{right:g}", class_="axis"))
        for kind in self.colours:
            shapes = [self._shape(task, left, right) for task in self.tasks if task.kind == kind]
            parts.append(element("g", "".join(shapes), data_series=kind))
        return drawing(parts, width, bottom + 40, self.alt)

    def legend(self) -> list[tuple[str, str]]:
        """The kinds, each with its colour."""
        box = {"x": 1, "y": 1, "width": 26, "height": 12, "rx": 2}
        return [
            (kind, key(element("rect", **box, class_=f"bar {colour}")))
            for kind, colour in self.colours.items()
        ]

    def _shape(self, task: Task, left: float, right: float) -> str:
        """Its whole time weakly, and in it the share of its full speed."""
        base = 6 + (ROW + GAP) * task.row + ROW
        at = [round(self.axis.place(time, left, right), 2) for time in task.times]
        colour = f"bar {self.colours[task.kind]}"
        outline = f"M{at[0]:g} {base:g}"
        for end, speed in zip(at[1:], task.speeds, strict=True):
            outline += f"V{base - ROW * min(1.0, speed):.1f}H{end:g}"
        inner = element("rect", x=at[0], y=base - ROW, width=at[-1] - at[0], height=ROW,
                        class_=colour, fill_opacity=0.25)  # fmt: skip
        inner += element("path", d=f"{outline}V{base:g}Z", class_=colour)
        return element("g", inner, data_tip=task.tip)
