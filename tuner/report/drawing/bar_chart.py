# SPDX-License-Identifier: Apache-2.0
"""Horizontal bars, one row per name: side by side, on top of each other, stacked, or boxes.

And rows of tasks over time, where the height of a task tells how fast it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tilewright.tuner.report.drawing.marks import LETTER, Chart, drawing, element, key, label
from tilewright.tuner.report.drawing.scales import Axis, ticks_below


class Layout(StrEnum):
    """How the bars of a row stand."""

    GROUPED = "grouped"
    """One below the other."""
    OVERLAID = "overlaid"
    """The first the broadest, each later one inside; `Bars.tick` as a line across."""
    STACKED = "stacked"
    """One after the other."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """What one entry of the legend stands for."""

    name: str  # in the legend
    values: Sequence[float | None]  # one per row; None: nothing is drawn
    colour: str  # of the palette
    tips: Sequence[str]  # what each bar says when pointed at
    low: Sequence[float | None] = ()  # ends of an interval per row; empty: none
    high: Sequence[float | None] = ()
    tick: bool = False  # a line across the row in place of a bar


@dataclass(frozen=True, kw_only=True)
class Box:
    """Five quantiles of a row, ascending: ends of the whiskers, quartiles, median in the middle."""

    quantiles: tuple[float, float, float, float, float]
    tip: str


@dataclass(frozen=True, kw_only=True)
class BarChart(Chart):
    """Rows of bars over one axis."""

    alt: str  # what it shows, for who cannot see it
    rows: Sequence[str]  # names, from the top
    axis: Axis  # of the values, from the left
    bars: Sequence[Bars] = ()  # of every row
    layout: Layout = Layout.GROUPED  # how the bars of a row stand
    boxes: Sequence[Box] = ()  # one per row in place of bars; empty: none

    def svg(self, width: int, _key: str = "") -> str:
        """The chart, ``width`` pixels wide."""
        return _Drawing(self, width).text()

    def legend(self) -> list[tuple[str, str]]:
        """Names of the bars, each with a picture; none for a single one."""
        if len(self.bars) < 2:
            return []
        return [(bars.name, _key(bars)) for bars in self.bars]


def stacked(bars: Sequence[Bars]) -> list[Bars]:
    """Bars with ``low`` and ``high`` as places in a stack; a missing value takes no room."""
    ends = [0.0] * len(bars[0].values)
    found = []
    for each in bars:
        starts, ends = ends, [a + (b or 0.0) for a, b in zip(ends, each.values, strict=True)]
        found.append(replace(each, low=starts, high=ends))
    return found


def _key(bars: Bars) -> str:
    shape = {"x": 12, "width": 3} if bars.tick else {"x": 1, "width": 26}
    mark = element("rect", y=1, height=12, rx=2, class_=f"bar {bars.colour}", **shape)
    return key(mark)


class _Drawing:
    """One drawing of a chart."""

    def __init__(self, chart: BarChart, width: int) -> None:
        self.chart, self.width = chart, width
        widest = max((len(name) for name in chart.rows), default=1)
        self.left = min(14 + LETTER * widest, 0.4 * width)
        self.right = width - 22
        self.lines = max(1, len(chart.bars)) if chart.layout is Layout.GROUPED else 1
        self.bar = 18 if self.lines == 1 else max(7, 20 - 3 * self.lines)
        self.row = self.lines * self.bar + 8
        self.top = 6
        self.bottom = self.top + self.row * max(1, len(chart.rows))

    def x(self, value: float) -> float:
        """The pixel of a value, at the ends for those outside."""
        at = self.chart.axis.place(value, self.left, self.right)
        return min(max(at, self.left), self.right)

    def text(self) -> str:
        """The SVG element."""
        parts = ticks_below(self.chart.axis, self.left, self.right, self.top, self.bottom)
        for number, name in enumerate(self.chart.rows):
            y = self.top + self.row * number
            letters = int((self.left - 8) / LETTER)
            shown = name if len(name) <= letters else name[: letters - 1] + "…"
            parts.append(label(self.left - 8, y + self.row / 2 + 4, shown, anchor="end"))
            parts += self._box(number, y) if self.chart.boxes else self._row(number, y)
        return drawing(parts, self.width, self.bottom + 40, self.chart.alt)

    def _row(self, number: int, y: float) -> list[str]:
        parts = []
        bars = self.chart.bars
        if self.chart.layout is Layout.STACKED:
            bars = stacked(bars)
        for place, each in enumerate(bars):
            value, tip = each.values[number], each.tips[number]
            if value is None:
                continue
            inset = {Layout.GROUPED: place * self.bar, Layout.OVERLAID: 3.5 * place}.get(
                self.chart.layout, 0
            )
            top = y + 4 + inset
            height = self.bar - (2 * inset if self.chart.layout is Layout.OVERLAID else 1)
            mark = {"class_": f"bar {each.colour}", "data_tip": tip}
            if each.tick:
                at = self.x(value)
                shape = element("rect", x=at - 1.5, y=y + 1, width=3, height=self.row - 2, **mark)
            elif self.chart.layout is Layout.STACKED:
                start, end = self.x(each.low[number] or 0.0), self.x(each.high[number] or 0.0)
                if end - start < 0.05:
                    continue
                shape = element("rect", x=start, y=top, width=end - start, height=height, **mark)
            else:
                start = self.x(max(0.0, self.chart.axis.low))
                shape = element(
                    "rect", x=start, y=top, width=max(0.5, self.x(value) - start), height=height,
                    rx=1.5, **mark,
                )  # fmt: skip
                shape += self._interval(each, number, top + height / 2)
            parts.append(element("g", shape, data_series=each.name))
        return parts

    def _interval(self, bars: Bars, number: int, y: float) -> str:
        low, high = (ends[number] if ends else None for ends in (bars.low, bars.high))
        if low is None or high is None:
            return ""
        return element("path", d=f"M{self.x(low):.1f} {y:.1f}H{self.x(high):.1f}", class_="whisker")

    def _box(self, number: int, y: float) -> list[str]:
        box = self.chart.boxes[number]
        at = [round(self.x(value), 1) for value in box.quantiles]
        middle, top, height = y + self.row / 2, y + 6, self.row - 12
        return [
            element("path", d=f"M{at[0]:g} {middle:g}H{at[4]:g}", class_="whisker"),
            element(
                "rect", x=at[1], y=top, width=max(1.0, at[3] - at[1]), height=height,
                class_="bar c0", data_tip=box.tip,
            ),
            element("path", d=f"M{at[2]:g} {top - 2:g}v{height + 4:g}", class_="median"),
        ]  # fmt: skip


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
