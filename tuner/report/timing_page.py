# SPDX-License-Identifier: Apache-2.0
"""A static timing estimate as one self-contained HTML file: families of paths as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.bar_chart import BarChart, Bars, Layout, stacked
from tilewright.tuner.report.drawing.marks import series_colour
from tilewright.tuner.report.drawing.scales import spanning
from tilewright.tuner.report.drawing.table import Column, table_of

_DRAWN: Final = 24
"""Families in the picture; the table has all of them."""


def page(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    """The page of one estimate: its families slowest first, and what holds for all."""
    title = f"Timing of {summary['design']} on {summary['part']}"
    drawn = rows[:_DRAWN]
    parts = [
        ("in cells", [row["cell_ns"] for row in drawn]),
        ("on short wires", [row["short_ns"] - row["cell_ns"] for row in drawn]),
        ("more on long wires", [row["long_ns"] - row["short_ns"] for row in drawn]),
    ]
    bars = [
        Bars(
            name=name,
            values=values,
            colour=series_colour(number),
            tips=[f"{ns:.2f} ns {name}" for ns in values],
        )
        for number, (name, values) in enumerate(parts)
    ]
    chart = BarChart(
        alt="ns of the slowest path of each family: in cells, on short wires, on long wires",
        rows=[f"{row['source_unit']} to {row['target_unit']}" for row in drawn],
        axis=spanning("ns", [row["long_ns"] for row in drawn], zero=True),
        bars=stacked(bars),
        layout=Layout.STACKED,
    )
    return markup.document(
        title,
        markup.heading(title, f"{summary['tool']}, RTL {summary['rtl']}"),
        markup.tiles(
            [
                ("clock", f"{summary['low_mhz']:.0f} to {summary['high_mhz']:.0f}", "MHz"),
                ("slowest path", f"{summary['short_ns']:.2f}", "ns with short wires"),
                ("cells alone", f"{summary['cells_ns']:.2f}", "ns"),
                ("late inputs", f"{summary['late']:,}", f"of {summary['ends']:,}"),
            ]
        ),
        markup.section(
            "Families of paths",
            markup.paragraph(
                "Each bar is the slowest path from the registers of one unit to another's."
            ),
            markup.figure(chart, "families"),
        ),
        markup.section("Paths", _table(rows)),
        markup.section(
            "Conditions",
            markup.bullets(
                [
                    "nothing was placed or routed: the length of a wire comes from its sinks",
                    "short and long wires are {:g} and {:g} times the mean of routed ECP5 "
                    "designs".format(*summary["factors"]),
                    f"late inputs are reached after {summary['late_ns']:g} ns",
                ]
            ),
        ),
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    def figure(title: str, explained: str, form: str) -> tuple[Column, Callable[[Any], str]]:
        return Column(title=title, number=True, explained=explained), form.format_map

    return table_of(
        "The slowest path of each family",
        rows,
        {
            Column(title="from"): lambda row: row["source"],
            Column(title="to"): lambda row: f"{row['target']} ({row['pin']})",
            **dict(
                (
                    figure("short", "ns with short wires", "{short_ns:.2f}"),
                    figure("long", "ns with long wires", "{long_ns:.2f}"),
                    figure("cells", "ns in cells", "{cell_ns:.2f}"),
                    figure("wires", "nets that take time", "{wires}"),
                    figure("LUT", "levels of LUT", "{luts}"),
                    figure("carry", "carry cells", "{carries}"),
                )
            ),
        },
    )
