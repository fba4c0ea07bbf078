# SPDX-License-Identifier: Apache-2.0
"""The charts and the tables of a study of tuners in one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.arena import page_tables
from tilewright.bench.arena.records import Record, common, headline, incumbent_at
from tilewright.bench.arena.replay import BUDGETS, INITIAL
from tilewright.bench.arena.summary import longest_runs
from tilewright.bench.framework.page import Curve
from tilewright.bench.framework.statistics import typical
from tilewright.bench.framework.tables import grouped
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.bar_chart import BarChart, Bars, Box
from tilewright.tuner.report.drawing.marks import series_colour, series_dash
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart, heights, numbered

CURVE_POINTS: Final = 40
"""Places at which a curve is drawn."""

SAMPLING_POINTS: Final = 60
"""Visited configurations of a plan that are drawn."""

_CURVE_NOTE: Final = (
    "Cycles of the incumbent over the optimum of the table: interquartile mean over tasks and "
    "seeds, with the 95 % interval of a bootstrap over tasks. Hard tasks, legal points only, no "
    "noise. A press on a name hides its line."
)
_REACHED_NOTE: Final = (
    "Share of the runs that have found a point within 1 % after so many measurements."
)
_REGRET_NOTE: Final = (
    "Interquartile mean of the natural logarithm of cycles over optimum, with its 95 % interval."
)
_SELECTION_NOTE: Final = (
    "Cycles over optimum of DCOC's candidates after 32 measurements, and of the eight that each "
    "selection takes from the same candidates. Boxes: quartiles; whiskers: 5 % and 95 %."
)
_SAMPLING_NOTE: Final = (
    "One run of DCOC per task: at each plan the configurations that its agents visited and nobody "
    "had measured, and the eight at most that confidence sampling leaves to be measured. First "
    "how many, then their cycles over the optimum. Of the visited ones at most "
    f"{SAMPLING_POINTS} per plan are drawn, evenly by rank; lines are medians."
)


def page(study: Mapping[str, Any]) -> str:
    """The page of a study (`merge.merge`) as HTML."""
    conditions, summary = study["conditions"], study["summary"]
    track = conditions["track"]
    exact = page_tables.exact_runs(study)
    main = headline(exact)[0]
    parts = _search_sections("main", "", main, summary["log_regret"])
    if long := longest_runs(main):
        suffix = f" (the runs of {long[0]['budget']:,} measurements alone)"
        parts += _search_sections("long", suffix, long, summary["longest"]["log_regret"])
    if summary["common"] is not None:
        suffix = " (every tuner, on the tasks that all were run on)"
        found = summary["common"]["log_regret"]
        parts += _search_sections("common", suffix, common(exact), found)
    if selections := page_tables.of_kind(study, "selection"):
        parts.append(
            markup.section(
                "Confidence sampling, before and after",
                markup.paragraph(_SELECTION_NOTE, "note"),
                markup.figure(selection_boxes(selections), "selection"),
            )
        )
    if samplings := page_tables.of_kind(study, "sampling"):
        parts.append(
            markup.section(
                "Configurations over time, before and after confidence sampling",
                markup.paragraph(_SAMPLING_NOTE, "note"),
                markup.panels(sampling_course(samplings), "sampling", width=markup.HALF),
            )
        )
    networks = ", ".join(conditions["networks"])
    tasks = len({r["task"] for r in main})
    outcome = f"{len({r['tuner'] for r in main})} tuners on {tasks} hard tasks of {networks}."
    return markup.document(
        f"Tuners, judged by the exhaustive optimum: track {track}",
        markup.heading("Tuners, judged by the exhaustive optimum", f"track {track}"),
        markup.paragraph(outcome, "lead"),
        *parts,
        *(markup.section(table.title, table.html()) for table in page_tables.study_tables(study)),
        markup.section(
            "Conditions", markup.preformatted(json.dumps(conditions, indent=1), "conditions")
        ),
    )


def _search_sections(
    key: str, suffix: str, runs: Sequence[Record], regrets: page_tables.Regrets
) -> list[str]:
    """The charts of some runs."""
    return [
        markup.section(
            f"Best so far{suffix}",
            markup.paragraph(_CURVE_NOTE, "note"),
            markup.figure(curves(runs), f"{key}-curves"),
        ),
        markup.section(
            f"Runs within 1 % of the optimum{suffix}",
            markup.paragraph(_REACHED_NOTE, "note"),
            markup.figure(reached(runs), f"{key}-reached"),
        ),
        markup.section(
            f"Log-regret at fixed budgets{suffix}",
            markup.paragraph(_REGRET_NOTE, "note"),
            markup.figure(regret_bars(regrets), f"{key}-regret"),
        ),
    ]


def curves(records: Sequence[Record]) -> XYChart:
    """Best-so-far curves with intervals, one per tuner, as far as all of its runs go."""
    series = []
    for number, (tuner, rows) in enumerate(grouped(records, "tuner").items()):
        budget = min(r["budget"] for r in rows)
        places = np.unique(np.geomspace(8, max(9, budget), CURVE_POINTS).astype(int)).tolist()
        tasks = grouped(rows, "task").values()
        intervals = [
            typical([[incumbent_at(r["curve"], at) / r["optimum"] for r in task] for task in tasks])
            for at in places
        ]
        series.append(
            Series(
                name=tuner, x=places, y=[i.value for i in intervals],
                low=[i.low for i in intervals], high=[i.high for i in intervals],
                colour=series_colour(number), dash=series_dash(number), hover=True,
            )
        )  # fmt: skip
    return XYChart(
        alt="Cycles over the optimum against measurements, a line per tuner",
        x=_measurements_axis(series),
        y=spanning("cycles / optimum", heights(series), log=True),
        series=series,
        height=460,
    )


def reached(records: Sequence[Record]) -> XYChart:
    """Share of runs within 1 % against measurements, as far as all runs of a tuner go."""
    found: dict[str, Curve] = {}
    for tuner, rows in grouped(records, "tuner").items():
        budget = min(r["budget"] for r in rows)
        known = [r["trials_to_1pct"] for r in rows if r["trials_to_1pct"] is not None]
        hits = sorted(trials for trials in known if trials <= budget)
        shares = [(n + 1) / len(rows) for n in range(len(hits))]
        found[tuner] = [1, *hits, budget], [0, *shares, len(hits) / len(rows)]
    series = numbered(found, step=True, hover=True)
    return XYChart(
        alt="Share of runs within 1 % of the optimum against measurements, a line per tuner",
        x=_measurements_axis(series),
        y=Axis(title="share of runs", low=0, high=1),
        series=series,
        height=460,
    )


def regret_bars(regrets: page_tables.Regrets) -> BarChart:
    """Log-regret by budget and tuner with intervals."""
    tuners = page_tables.by_regret(regrets)
    bars = []
    for number, (budget, figures) in enumerate(regrets.items()):
        found = [figures.get(tuner) for tuner in tuners]
        bars.append(
            Bars(
                name=f"{budget} measurements",
                values=[None if each is None else each["value"] for each in found],
                low=[None if each is None else each["low"] for each in found],
                high=[None if each is None else each["high"] for each in found],
                colour=series_colour(number),
                tips=[
                    f"{tuner} after {budget} measurements: {page_tables.percent_interval(each)} %"
                    for tuner, each in zip(tuners, found, strict=True)
                ],
            )
        )
    highs = [value for each in bars for value in each.high if value is not None]
    return BarChart(
        alt="Log-regret of each tuner at fixed budgets",
        rows=tuners,
        axis=spanning("ln(cycles / optimum)", highs, zero=True),
        bars=bars,
    )


def selection_boxes(rows: Sequence[Record]) -> BarChart:
    """Quality of the candidates and of what each selection takes from them."""
    quantiles = {}
    for name, own in grouped(rows, "selection").items():
        ratios = [ratio for row in own for ratio in row["ratios"]]
        quantiles[name] = tuple(np.quantile(ratios, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist())
    return BarChart(
        alt="Cycles over optimum of candidates, by selection",
        rows=list(quantiles),
        axis=spanning("cycles / optimum", [v for q in quantiles.values() for v in q], log=True),
        boxes=[
            Box(quantiles=found, tip=f"{name}: median {found[2]:.3f}")
            for name, found in quantiles.items()
        ],
    )


def sampling_course(rows: Sequence[Record]) -> list[tuple[str, XYChart]]:
    """Configurations over time, before and after confidence sampling: two charts per task."""
    charts = []
    for of_task in grouped(rows, "task").values():
        own = sorted(of_task, key=lambda r: r["trial"])
        counts, quality = [], []
        for side, colour in (("before", "c5"), ("after", "c4")):
            name = f"{side} the sampling"
            trials = [r["trial"] for r in own]
            counts.append(
                Series(
                    name=name, x=trials, y=[len(r[side]) for r in own], colour=colour, hover=True,
                    marker="circle", size=5,
                )
            )  # fmt: skip
            drawn = [(r["trial"], ratio) for r in own for ratio in _evenly(r[side])]
            quality.append(
                Series(
                    name=name, x=[x for x, _ in drawn], y=[y for _, y in drawn], width=0,
                    marker="circle", size=4, colour=colour, faint=side == "before",
                )
            )  # fmt: skip
            medians = [float(np.median(r[side])) if r[side] else None for r in own]
            quality.append(Series(name=name, x=trials, y=medians, colour=colour, legend=False))
        x_axis = spanning("measurements made", [r["trial"] for r in own])
        most = [len(r[side]) for r in own for side in ("before", "after")]
        layer, sides = own[0]["layer"], "before and after the sampling"
        for title, alt, y, series in (
            ("configurations", "configurations", spanning("configurations", most, log=True),
             counts),
            ("their quality", "cycles over the optimum",
             spanning("cycles / optimum", heights(quality), log=True), quality),
        ):  # fmt: skip
            text = f"{layer}: {alt} {sides}"
            charts.append(
                (f"{layer}: {title}", XYChart(alt=text, x=x_axis, y=y, series=series, height=260))
            )
    return charts


def _evenly(ratios: Sequence[float]) -> list[float]:
    """At most `SAMPLING_POINTS` of ascending values, the least and the largest among them."""
    if len(ratios) <= SAMPLING_POINTS:
        return list(ratios)
    places = np.linspace(0, len(ratios) - 1, SAMPLING_POINTS).round().astype(int)
    return [ratios[place] for place in places]


def _measurements_axis(series: Sequence[Series]) -> Axis:
    """Measurements on a logarithmic axis, from the first points that all tuners share."""
    longest = max((max(each.x, default=INITIAL) for each in series), default=INITIAL)
    return Axis(
        title="measurements", low=INITIAL, high=max(longest, 2 * INITIAL), log=True,
        ticks=(INITIAL, *BUDGETS),
    )  # fmt: skip
