# SPDX-License-Identifier: Apache-2.0
"""SVG elements as text: what charts are made of.

Colours of every report, for light and dark pages.

The series colours were placed by a search in CIE Lab, starting at Okabe and Ito's palette ("Color
Universal Design", 2008), so that every two of them stay apart as a deuteranope, a protanope or a
tritanope sees them. `tests/unit/tuner/report/drawing/test_palette.py` holds the distance, and the
contrast with the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff",
    "panel": "#f4f6f8",
    "ink": "#1d2129",
    "muted": "#565e6c",
    "rule": "#d8dce2",
    "bad": "#b00020",
    "link": "#0b5cad",
    "c0": "#1770a3",
    "c1": "#e76f18",
    "c2": "#0ca16f",
    "c3": "#990078",
    "c4": "#008dff",
    "c5": "#653f00",
    "c6": "#382994",
    "c7": "#847a38",
    "pale": "#cfd4da",
}

DARK: Final[Mapping[str, str]] = {
    "paper": "#15181d",
    "panel": "#1e2229",
    "ink": "#ebeef2",
    "muted": "#a5adba",
    "rule": "#363c46",
    "bad": "#ff8a8f",
    "link": "#7db8ff",
    "c0": "#649eed",
    "c1": "#ea7a20",
    "c2": "#3cca99",
    "c3": "#d04bad",
    "c4": "#9ad7ff",
    "c5": "#b98a4a",
    "c6": "#8778ff",
    "c7": "#ecd750",
    "pale": "#454c58",
}

SERIES: Final = tuple(f"c{number}" for number in range(8))
"""Names of the colours of lines, points and bars."""

DASHES: Final = ("", "7 4", "2 3")
"""With the colours, they tell 24 lines apart."""

MARKERS: Final = ("circle", "square", "diamond", "triangle", "cross", "star")


def series_colour(number: int) -> str:
    """Name of the colour of a series."""
    return SERIES[number % len(SERIES)]


def series_dash(number: int) -> str:
    """Dash pattern of a series: full lines first."""
    return DASHES[number // len(SERIES) % len(DASHES)]


def series_marker(number: int) -> str:
    """Shape of the points of a series."""
    return MARKERS[number % len(MARKERS)]


def css_variables() -> str:
    """The palette as CSS custom properties, one class per colour."""

    def block(colours: Mapping[str, str]) -> str:
        return ";".join(f"--{name}:{value}" for name, value in colours.items())

    classes = "".join(f".{name}{{--c:var(--{name})}}" for name in (*SERIES, "ink", "pale", "bad"))
    return (
        f":root{{color-scheme:light dark;{block(LIGHT)}}}\n"
        f"@media(prefers-color-scheme:dark){{:root{{{block(DARK)}}}}}\n{classes}\n"
    )


Pixel = tuple[float, float]

LETTER: float = 6.6
"""Mean width in pixels of a letter of a chart's text."""


def element(name: str, inner: str | None = None, /, **attributes: object) -> str:
    """An element; ``class_`` and ``data_tip`` stand for ``class`` and ``data-tip``."""
    words = []
    for key, value in attributes.items():
        if value is None or value == "":
            continue
        text = f"{value:.5g}" if isinstance(value, float) else html.escape(str(value))
        words.append(f' {key.rstrip("_").replace("_", "-")}="{text}"')
    start = f"<{name}{''.join(words)}"
    return f"{start}/>" if inner is None else f"{start}>{inner}</{name}>"


def drawing(parts: Sequence[str], width: float, height: float, alt: str, **more: object) -> str:
    """The picture of a chart."""
    return element(
        "svg", "".join(parts), viewBox=f"0 0 {width} {height:.0f}", role="img", aria_label=alt,
        class_="chart", **more,
    )  # fmt: skip


def key(*marks: str) -> str:
    """The picture of an entry of a legend."""
    return element("svg", "".join(marks), width=28, height=14, aria_hidden="true", class_="key")


class Chart:
    """What a figure shows."""

    def svg(self, width: int, key: str) -> str:
        """The chart, ``width`` pixels wide; ``key`` is not used twice on a page."""
        raise NotImplementedError

    def legend(self) -> list[tuple[str, str]]:
        """Names of what is shown, each with a picture; empty: the chart tells them itself."""
        return []

    def hover_data(self) -> str:
        """What the pointer is told, as JSON; empty: marks answer by themselves."""
        return ""


def label(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    """A text; ``anchor`` as in SVG."""
    anchored = "" if anchor == "start" else anchor
    return element(
        "text", html.escape(text), x=round(x, 1), y=round(y, 1), text_anchor=anchored, class_=kind
    )


def path(points: Sequence[Pixel | None], *, step: bool = False, closed: bool = False) -> str:
    """The ``d`` of a path; None is a gap; ``step`` goes along, then up or down."""
    words: list[str] = []
    previous: Pixel | None = None
    for point in points:
        if point is None:
            previous = None
            continue
        x, y = round(point[0], 1), round(point[1], 1)
        if previous is None:
            words.append(f"M{x:g} {y:g}")
        elif step:
            words.append(f"H{x:g}" + ("" if y == previous[1] else f"V{y:g}"))
        else:
            words.append(f"L{x:g} {y:g}")
        previous = (x, y)
    return "".join(words) + ("Z" if closed else "")


def marker(shape: str, at: Pixel, size: float, *, kind: str = "", tip: str = "") -> str:
    """A point of a chart, ``size`` pixels wide: a shape of `palette.MARKERS`, or ``ring``."""
    x, y = at
    r = size / 2
    if shape in ("circle", "ring"):
        return element("circle", cx=x, cy=y, r=r, class_=kind, data_tip=tip)
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "diamond": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
        "triangle": [(0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
        "cross": [
            (-1, -0.35), (-0.35, -0.35), (-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35),
            (1, 0.35), (0.35, 0.35), (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35),
        ],
        "star": [
            (
                (1.3 if k % 2 == 0 else 0.55) * math.sin(math.pi * k / 5),
                -(1.3 if k % 2 == 0 else 0.55) * math.cos(math.pi * k / 5),
            )
            for k in range(10)
        ],
    }[shape]  # fmt: skip
    points = [(x + r * dx, y + r * dy) for dx, dy in corners]
    return element("path", d=path(points, closed=True), class_=kind, data_tip=tip)
