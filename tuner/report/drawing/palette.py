# SPDX-License-Identifier: Apache-2.0
"""Colours of every report, for light and dark pages.

The series colours were placed by a search in CIE Lab, starting at Okabe and Ito's palette ("Color
Universal Design", 2008), so that every two of them stay apart as a deuteranope, a protanope or a
tritanope sees them. `tests/unit/tuner/report/drawing/test_palette.py` holds the distance, and the
contrast with the page.
"""

from __future__ import annotations

from collections.abc import Mapping
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
