# SPDX-License-Identifier: Apache-2.0
"""Lines, bands and points over two axes."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.report.drawing.marks import (
    LETTER,
    Chart,
    Pixel,
    drawing,
    element,
    key,
    label,
    marker,
    path,
    series_colour,
    series_dash,
)
from tilewright.tuner.report.drawing.scales import Axis


@dataclass(frozen=True, kw_only=True)
class Series:
    """What one entry of the legend stands for."""

    name: str  # in the legend; series of one name are hidden together
    x: Sequence[float]
    y: Sequence[float | None]  # None: a gap
    colour: str = "c0"  # of the palette (``c0`` to ``c7``, ``ink``, ``pale``)
    dash: str = ""  # of `palette.DASHES`
    width: float = 2.0  # of the line in pixels; 0: no line
    step: bool = False  # the line goes along, then down
    marker: str = ""  # shape of the points; empty: none
    size: float = 8.0  # of the points in pixels
    tips: Sequence[str] = ()  # what each point says when pointed at; empty: nothing
    labels: Sequence[str] = ()  # written beside the points; empty: nothing
    low: Sequence[float] = ()  # ends of a band around the line; empty: none
    high: Sequence[float] = ()
    faint: bool = False  # drawn weakly, behind others
    legend: bool = True  # listed in the legend
    hover: bool = False  # its values are told under the pointer


@dataclass(frozen=True, kw_only=True)
class XYChart(Chart):
    """A chart of series over two axes."""

    alt: str  # what it shows, for who cannot see it
    x: Axis
    y: Axis
    series: Sequence[Series]  # drawn in this order
    height: int = 380  # in pixels, at every width
    levels: Sequence[tuple[float, str]] = ()  # horizontal lines with their names
    starts: Sequence[float] = ()  # vertical lines
    note: str = ""  # written above the plot, such as what lies outside of it
    small: bool = False  # one of many panels: few ticks, no titles of axes

    def svg(self, width: int, key: str) -> str:
        """See `Chart`."""
        return _Drawing(self, width).text(key)

    def legend(self) -> list[tuple[str, str]]:
        """Names of the series, each with a picture of its line or point."""
        entries: dict[str, str] = {}
        for each in self.series:
            if each.legend and each.name not in entries:
                entries[each.name] = _key(each)
        return list(entries.items())

    def hover_data(self) -> str:
        """What the pointer is told, as JSON; empty when no series has any."""
        told = [each for each in self.series if each.hover]
        if not told:
            return ""
        data = [
            {"name": s.name, "c": s.colour, "step": s.step, "x": list(s.x), "y": list(s.y)}
            for s in told
        ]
        return json.dumps({"x": self.x.title, "series": data}, separators=(",", ":"))


def numbered(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
    bold: Collection[str] = (),
    **more: Any,
) -> list[Series]:
    """Lines by their names, each with a colour and a dash of its own; bold ones stand out."""
    width = {} if not bold else {name: 3.2 if name in bold else 1.6 for name in curves}
    return [
        Series(
            name=name, x=x, y=y, colour=series_colour(number), dash=series_dash(number),
            width=width.get(name, 2.0), **more,
        )
        for number, (name, (x, y)) in enumerate(curves.items())
    ]  # fmt: skip


def heights(series: Sequence[Series]) -> list[float]:
    """Every value of some series."""
    return [y for each in series for y in each.y if y is not None]


def _key(series: Series) -> str:
    """The picture of a series in a legend."""
    parts = []
    if series.width:
        parts.append(
            element("path", d="M1 7H27", class_=_line_kind(series), stroke_dasharray=series.dash,
                    stroke_width=series.width)
        )  # fmt: skip
    elif series.high:
        parts.append(element("rect", x=1, y=2, width=26, height=10, class_=f"band {series.colour}"))
    if series.marker:
        size = min(series.size, 11.0)
        parts.append(marker(series.marker, (14, 7), size, kind=_point_kind(series)))
    return key(*parts)


def _line_kind(series: Series) -> str:
    return f"line {series.colour}" + (" faint" if series.faint else "")


def _point_kind(series: Series) -> str:
    ring = " ring" if series.marker == "ring" else ""
    return f"point {series.colour}{ring}" + (" faint" if series.faint else "")


class _Drawing:
    """One drawing of a chart."""

    def __init__(self, chart: XYChart, width: int) -> None:
        self.chart, self.width, self.height = chart, width, chart.height
        room = 7.0 if chart.small else 20.0
        self.y_ticks = chart.y.labels(3 if chart.small else 6)
        widest = max((len(text) for _, text in self.y_ticks), default=1)
        self.left = 10 + LETTER * widest + (0 if chart.small else 18)
        self.right = width - (8 if chart.small else 14)
        self.top = 8
        self.bottom = chart.height - (20 if chart.small else 24 + room)
        columns = (self.right - self.left) / (64 if chart.small else 84)
        self.x_ticks = chart.x.labels(max(3, int(columns)))

    def place(self, x: float, y: float) -> Pixel:
        """The pixel of a point."""
        return (
            self.chart.x.place(x, self.left, self.right),
            self.chart.y.place(y, self.bottom, self.top),
        )

    def text(self, key: str) -> str:
        """The SVG element."""
        chart, clip = self.chart, f"clip-{key}"
        frame = element(
            "rect", x=self.left, y=self.top, width=self.right - self.left,
            height=self.bottom - self.top,
        )  # fmt: skip
        parts = [
            element("clipPath", frame, id=clip),
            *self._axes(),
            element("g", "".join(self._lines()), clip_path=f"url(#{clip})"),
            *self._levels(),
            *self._points(),
        ]
        scale = json.dumps(
            [self.left, self.right, chart.x.low, chart.x.high, int(chart.x.log), self.top,
             self.bottom]
        )  # fmt: skip
        told = scale if any(s.hover for s in chart.series) else ""
        return drawing(parts, self.width, self.height, chart.alt, data_scale=told)

    def _axes(self) -> list[str]:
        chart, parts = self.chart, []
        for value, text in self.y_ticks:
            y = round(chart.y.place(value, self.bottom, self.top), 1)
            parts.append(element("path", d=f"M{self.left:g} {y:g}H{self.right:g}", class_="grid"))
            parts.append(label(self.left - 6, y + 4, text, anchor="end"))
        last = -1e9
        for value, text in self.x_ticks:
            x = round(chart.x.place(value, self.left, self.right), 1)
            half = LETTER * len(text) / 2
            middle = min(x, self.width - half)
            if middle - half < last + 4:
                continue
            last = middle + half
            parts.append(element("path", d=f"M{x:g} {self.bottom:g}v4", class_="axis"))
            parts.append(label(middle, self.bottom + 16, text, anchor="middle"))
        parts.append(
            element("path", d=f"M{self.left:g} {self.bottom:g}H{self.right:g}", class_="axis")
        )
        if not chart.small:
            middle = (self.left + self.right) / 2
            parts.append(
                label(middle, self.height - 6, chart.x.title, anchor="middle", kind="title")
            )
            across = (self.top + self.bottom) / 2
            parts.append(
                element(
                    "text", html.escape(chart.y.title), text_anchor="middle", class_="title",
                    transform=f"translate(12 {across:.0f}) rotate(-90)",
                )
            )  # fmt: skip
        return parts

    def _lines(self) -> list[str]:
        parts = []
        for x in self.chart.starts:
            at = self.chart.x.place(x, self.left, self.right)
            parts.append(
                element("path", d=f"M{at:.1f} {self.top:g}V{self.bottom:g}", class_="level")
            )
        for series in self.chart.series:
            own = []
            if series.high:
                ends = [*zip(series.x, series.high, strict=True)]
                ends += reversed([*zip(series.x, series.low, strict=True)])
                outline = [self.place(x, y) for x, y in ends]
                own.append(
                    element("path", d=path(outline, closed=True), class_=f"band {series.colour}")
                )
            if series.width:
                points = [
                    None if y is None else self.place(x, y)
                    for x, y in zip(series.x, series.y, strict=True)
                ]
                own.append(
                    element("path", d=path(points, step=series.step), class_=_line_kind(series),
                            stroke_width=series.width, stroke_dasharray=series.dash)
                )  # fmt: skip
            parts += [element("g", "".join(own), data_series=series.name)] if own else []
        return parts

    def _levels(self) -> list[str]:
        parts = []
        for value, name in self.chart.levels:
            y = self.chart.y.place(value, self.bottom, self.top)
            parts.append(
                element("path", d=f"M{self.left:g} {y:.1f}H{self.right:g}", class_="level")
            )
            parts.append(label(self.right - 4, y - 5, name, anchor="end", kind="halo"))
        return parts

    def _points(self) -> list[str]:
        parts, taken = [], list[Pixel]()
        for series in self.chart.series:
            if not series.marker:
                continue
            own, named = [], list[tuple[Pixel, str]]()
            for number, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                if y is None or not self.chart.y.low <= y <= self.chart.y.high:
                    continue
                at, tip = self.place(x, y), series.tips[number] if series.tips else ""
                own.append(
                    marker(series.marker, at, series.size, kind=_point_kind(series), tip=tip)
                )
                taken.append(at)
                if series.labels and series.labels[number]:
                    named.append((at, series.labels[number]))
            for at, text in named:
                left, base, anchor = self._beside(at, text, series.size, taken)
                own.append(label(left, base, text, anchor=anchor, kind="halo"))
            parts.append(element("g", "".join(own), data_series=series.name))
        return parts

    def _beside(
        self, at: Pixel, text: str, size: float, taken: list[Pixel]
    ) -> tuple[float, float, str]:
        """Where the label of a point covers no other point and no other label."""
        wide, away = LETTER * len(text), size / 2 + 6
        places = [
            (at[0] + away, at[1] + 4, "start"), (at[0], at[1] - away - 1, "middle"),
            (at[0], at[1] + away + 10, "middle"), (at[0] - away, at[1] + 4, "end"),
            (at[0] + away, at[1] - away, "start"), (at[0] - away, at[1] + away + 8, "end"),
        ]  # fmt: skip

        def centre(place: tuple[float, float, str]) -> Pixel:
            shift = {"start": wide / 2, "middle": 0.0, "end": -wide / 2}[place[2]]
            return place[0] + shift, place[1] - 4

        def crowd(place: tuple[float, float, str]) -> float:
            x, y = centre(place)
            inside = self.left <= x - wide / 2 and x + wide / 2 <= self.width and y > 6
            near = sum(
                abs(x - a) < wide / 2 + size / 2 and abs(y - b) < 6 + size / 2 for a, b in taken
            )
            return near + (0 if inside else 5)

        best = min(places, key=crowd)
        taken.append(centre(best))
        return best
