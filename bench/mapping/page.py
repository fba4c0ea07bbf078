# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of a study of mappers: Markdown for the docs, one HTML file for a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.tables import FigureTable
from tilewright.bench.mapping.summary import Row, value_at
from tilewright.tuner.report.drawing.page import (
    HALF,
    bullets,
    document,
    figure,
    heading,
    panels,
    paragraph,
    section,
)
from tilewright.tuner.report.drawing.palette import series_colour, series_dash
from tilewright.tuner.report.drawing.scales import spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart
from tilewright.tuner.report.mapping_roles import correlation_map, dendrogram, trajectories

POINTS: Final = 30
"""Sample counts that a curve is drawn at."""
LEAST_PCT: Final = 0.01
"""Regret that is drawn for a smaller one."""


def tables(summary: Mapping[str, Any]) -> Iterator[FigureTable]:
    """The tables of a study."""
    regret, ratio = summary["regret_pct"], summary["ratio_to_marl"]
    methods = list(dict.fromkeys(m for of in regret.values() for m in of))
    objectives = list(regret)
    yield FigureTable(
        title="Regret to the certified optimum, per cent",
        header=["mapper", *objectives, *(f"{o}, tenth of the budget" for o in objectives)],
        rows=[
            [
                method,
                *(_interval(regret[o].get(method)) for o in objectives),
                *(_interval(summary["regret_pct_at_tenth"][o].get(method)) for o in objectives),
            ]
            for method in methods
        ],
    )
    yield FigureTable(
        title="Cost over that of the clustered agents",
        header=["mapper", *objectives],
        rows=[[m, *(_interval(ratio[o].get(m)) for o in objectives)] for m in methods],
    )
    efficiency, seconds = summary["sample_efficiency_over_ppo"], summary["core_seconds_per_run"]
    yield FigureTable(
        title="Samples to what the single agent ends with, and time",
        header=[
            "mapper", "times fewer samples than PPO", "data set charged", "never got there",
            "runs within 1 %", "at a tenth of the budget", "core-seconds per run",
        ],
        rows=[
            [
                method,
                _interval(efficiency.get(method, {}).get("ratio")),
                _interval(efficiency.get(method, {}).get("with_setup")),
                _share(efficiency.get(method, {}).get("missed")),
                _share(summary["share_within_1_pct"][method]),
                _share(summary["share_within_1_pct_at_tenth"][method]),
                f"{seconds[method]:.1f}",
            ]
            for method in methods
        ],
    )  # fmt: skip


def page(result: Mapping[str, Any]) -> str:
    """The page as HTML."""
    title = "Mappers against certified optima"
    return document(
        title,
        heading(title, str(result["conditions"]["hardware"])),
        section(
            "Regret by samples",
            paragraph("Geometric mean over layers and seeds; both axes are logarithmic.", "note"),
            panels(_courses(result["rows"]), "courses", width=HALF),
        ),
        *(section(table.title, table.html()) for table in tables(result["summary"])),
        *_roles(result["rows"]),
        section("Conditions", bullets((f"{k}: {v}" for k, v in result["conditions"].items()))),
    )


def _courses(rows: Sequence[Row]) -> list[tuple[str, XYChart]]:
    """A panel per objective, a line per mapper."""
    best = {_task(r): r["value"] for r in rows if r["what"] == "optimum"}
    runs = [r for r in rows if r["what"] == "run"]
    budget = max(r["samples"] for r in runs)
    samples = np.unique(np.geomspace(min(100, budget), budget, POINTS).astype(int)).tolist()
    charts = []
    for objective in dict.fromkeys(r["objective"] for r in runs):
        here = [r for r in runs if r["objective"] == objective]
        series = []
        for number, method in enumerate(dict.fromkeys(r["method"] for r in here)):
            logs = [
                [np.log(value_at(r, at) / best[_task(r)]) for at in samples]
                for r in here
                if r["method"] == method
            ]
            regret = np.maximum((np.exp(np.mean(logs, axis=0)) - 1) * 100, LEAST_PCT)
            series.append(
                Series(
                    name=method, x=samples, y=regret.round(4).tolist(), hover=True,
                    colour=series_colour(number), dash=series_dash(number),
                    width=3.2 if method in ("marl", "structured") else 1.6,
                )
            )  # fmt: skip
        chart = XYChart(
            alt=f"Regret of {objective} by samples, a line per mapper",
            x=spanning("samples", samples, log=True),
            y=spanning("regret, %", [y for s in series for y in s.y if y is not None], log=True),
            series=series,
            height=320,
        )
        charts.append((objective, chart))
    return charts


def _roles(rows: Sequence[Row]) -> list[str]:
    """How the clustered agents came to be and what they did, of the first run that tells it."""
    told = [r for r in rows if r["what"] == "run" and "clustering" in r.get("notes", {})]
    if not told:
        return []
    run, notes = told[0], told[0]["notes"]
    about = f"{run['network']} {run['layer']}, {run['objective']}, {run['method']}, seed 0."
    moves = trajectories([s for s, _ in run["improvements"]], notes["course"], run["samples"])
    return [
        section(
            "Roles of the clustered agents",
            paragraph(f"{about} Correlation over the best 15 % of its data set.", "note"),
            figure(correlation_map(notes["clustering"]), "correlation"),
            figure(dendrogram(notes["clustering"], notes["roles"]), "tree"),
        ),
        section(
            "The best mapping by samples",
            paragraph(about, "note"),
            panels(moves, "course", width=HALF),
        ),
    ]


def _task(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"], row["objective"]


def _interval(of: Mapping[str, float] | None) -> str:
    if of is None:
        return "-"
    digits = 1 if of["high"] >= 10 else 2
    value, low, high = (f"{of[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _share(of: float | None) -> str:
    return "-" if of is None else f"{of * 100:.0f} %"
