# SPDX-License-Identifier: Apache-2.0
"""Rows of tasks over time; how high a task stands tells how fast it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.tuner.report.drawing.marks import LETTER, element, label
from tilewright.tuner.report.drawing.scales import Axis

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
class GanttChart:
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
        parts = self._ticks(left, right, bottom)
        for number, name in enumerate(self.rows):
            base = 6 + (ROW + GAP) * number + ROW
            parts.append(label(left - 8, base - ROW / 2 + 4, name, anchor="end"))
            parts.append(element("path", d=f"M{left:.1f} {base:g}H{right:g}", class_="axis"))
        for kind in self.colours:
            shapes = [self._shape(task, left, right) for task in self.tasks if task.kind == kind]
            parts.append(element("g", "".join(shapes), data_series=kind))
        return element(
            "svg", "".join(parts), viewBox=f"0 0 {width} {bottom + 40:.0f}", role="img",
            aria_label=self.alt, class_="chart",
        )  # fmt: skip

    def legend(self) -> list[tuple[str, str]]:
        """The kinds, each with its colour."""
        return [
            (kind, element(
                "svg", element("rect", x=1, y=1, width=26, height=12, rx=2, class_=f"bar {colour}"),
                width=28, height=14, aria_hidden="true", class_="key",
            ))
            for kind, colour in self.colours.items()
        ]  # fmt: skip

    def hover_data(self) -> str:
        """Nothing: tasks answer by themselves."""
        return ""

    def _ticks(self, left: float, right: float, bottom: float) -> list[str]:
        parts, last = [], -1e9
        for value, text in self.axis.labels(max(2, int((right - left) / 84))):
            x, half = round(self.axis.place(value, left, right), 1), LETTER * len(text) / 2
            parts.append(element("path", d=f"M{x:g} 6V{bottom:g}", class_="grid"))
            if x - half >= last + 4:
                last = x + half
                parts.append(label(x, bottom + 15, text, anchor="middle"))
        middle = (left + right) / 2
        parts.append(label(middle, bottom + 34, self.axis.title, anchor="middle", kind="title"))
        return parts

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
