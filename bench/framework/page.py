# SPDX-License-Identifier: Apache-2.0
"""The page of a study as HTML, and the chart of curves that most of them show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tilewright.bench.framework.tables import FigureTable
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.xy_chart import XYChart, heights, numbered

Curve = tuple[Sequence[float], Sequence[float | None]]


def study_page(
    title: str,
    more: str,
    *parts: str,
    tables: Iterable[FigureTable] = (),
    last: Iterable[str] = (),
    head: str = "",
) -> str:
    """Parts, tables, and what else holds; ``head``: what the browser's title adds."""
    return markup.document(
        f"{title}: {head}" if head else title,
        markup.heading(title, more),
        *parts,
        *(markup.section(table.title, table.html()) for table in tables),
        *last,
    )


def conditions(document: Mapping[str, Any], lines: Iterable[str] = (), kind: str = "") -> str:
    """What the rows of a study hold under."""
    told = (f"{name}: {value}" for name, value in document["conditions"].items())
    return markup.section("Conditions", markup.bullets((*lines, *told), kind))


def courses(
    curves: Mapping[str, Curve], alt: str, x: str | Axis, y: str, height: int,
    bold: Collection[str],
) -> XYChart:  # fmt: skip
    """Lines by their names, some of them bold, on logarithmic axes where ``x`` is no axis."""
    series = numbered(curves, bold, hover=True)
    if isinstance(x, Axis):
        return XYChart(alt=alt, x=x, y=spanning(y, heights(series)), series=series, height=height)
    return XYChart(
        alt=alt,
        x=spanning(x, [value for xs, _ in curves.values() for value in xs], log=True),
        y=spanning(y, heights(series), log=True),
        series=series,
        height=height,
    )
