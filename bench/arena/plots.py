# SPDX-License-Identifier: Apache-2.0
"""The charts of a study of tuners, with their figures in tables, in one HTML file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.markdown import median_interval, percent_interval
from tilewright.bench.arena.records import Record, incumbent_at
from tilewright.bench.arena.replay import BUDGETS, INITIAL
from tilewright.bench.arena.statistics import clustered_mean
from tilewright.bench.arena.summary import common, headline, longest_runs
from tilewright.host.common.errors import StoreError
from tilewright.tuner.report.drawing.bar_chart import BarChart, Bars, Box
from tilewright.tuner.report.drawing.page import (
    HALF,
    document,
    figure,
    heading,
    panels,
    paragraph,
    preformatted,
    section,
)
from tilewright.tuner.report.drawing.palette import series_colour, series_dash
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.table import Cell, Column, Row, table
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart

CURVE_POINTS: Final = 40
"""Places at which a curve is drawn."""

CURVE_RESAMPLES: Final = 300

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


def write_plots(study: Mapping[str, Any], path: Path) -> Path:
    """Draw a study.

    Args:
        study: ``records``, ``summary`` and ``conditions`` as `merge.merge` makes them.
        path: HTML file.

    Raises:
        StoreError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(study), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the plots cannot be written ({error.strerror})", field=str(path)
        ) from error
    return path


def page(study: Mapping[str, Any]) -> str:
    """The page of a study as HTML; ``study`` as of `write_plots`."""
    conditions, summary = study["conditions"], study["summary"]
    track = conditions["track"]
    exact = [
        r
        for r in study["records"]
        if r["what"] == "run" and r["arm"] == "masked" and not r["noise"] and r["track"] == track
    ]
    main = headline(exact)[0]
    parts = _search_sections("main", "", main, summary, summary["log_regret"])
    if long := longest_runs(main):
        suffix = f" (the runs of {long[0]['budget']:,} measurements alone)"
        parts += _search_sections("long", suffix, long, None, summary["longest"]["log_regret"])
    if summary["common"] is not None:
        suffix = " (every tuner, on the tasks that all were run on)"
        found = summary["common"]
        parts += _search_sections("common", suffix, common(exact), found, found["log_regret"])
    if selections := [r for r in study["records"] if r["what"] == "selection"]:
        parts.append(_selection_section(selections))
    if samplings := [r for r in study["records"] if r["what"] == "sampling"]:
        parts.append(
            section(
                "Configurations over time, before and after confidence sampling",
                paragraph(_SAMPLING_NOTE, "note"),
                panels(sampling_course(samplings), "sampling", width=HALF),
            )
        )
    networks = ", ".join(conditions["networks"])
    tasks = len({r["task"] for r in main})
    outcome = f"{len({r['tuner'] for r in main})} tuners on {tasks} hard tasks of {networks}."
    return document(
        f"Tuners, judged by the exhaustive optimum: track {track}",
        heading("Tuners, judged by the exhaustive optimum", f"track {track}"),
        paragraph(outcome, "lead"),
        *parts,
        section("Conditions", preformatted(json.dumps(conditions, indent=1), "conditions")),
    )


def _search_sections(
    key: str,
    suffix: str,
    runs: Sequence[Record],
    figures: Mapping[str, Any] | None,
    regrets: Mapping[str, Any],
) -> list[str]:
    """The charts of some runs with their tables.

    Args:
        key: not used twice on a page.
        suffix: of the titles.
        runs: what is drawn.
        figures: of `summary`, of the same runs; None: without the table of measurements.
        regrets: ``log_regret`` of the same runs.
    """
    needed = "" if figures is None else trials_table(runs, figures)
    return [
        section(
            f"Best so far{suffix}",
            paragraph(_CURVE_NOTE, "note"),
            figure(curves(runs), f"{key}-curves"),
        ),
        section(
            f"Runs within 1 % of the optimum{suffix}",
            paragraph(_REACHED_NOTE, "note"),
            figure(reached(runs), f"{key}-reached"),
            needed,
        ),
        section(
            f"Log-regret at fixed budgets{suffix}",
            paragraph(_REGRET_NOTE, "note"),
            figure(regret_bars(regrets), f"{key}-regret"),
            regret_table(regrets),
        ),
    ]


def curves(records: Sequence[Record]) -> XYChart:
    """Best-so-far curves with intervals, one per tuner, as far as all of its runs go."""
    series = []
    for number, (tuner, rows) in enumerate(_tuners(records)):
        budget = min(r["budget"] for r in rows)
        places = np.unique(np.geomspace(8, max(9, budget), CURVE_POINTS).astype(int))
        intervals = []
        for place in places:
            strata: dict[str, list[float]] = {}
            for r in rows:
                ratio = incumbent_at(r["curve"], int(place)) / r["optimum"]
                strata.setdefault(r["task"], []).append(ratio)
            intervals.append(clustered_mean(list(strata.values()), resamples=CURVE_RESAMPLES))
        series.append(
            Series(
                name=tuner, x=[int(place) for place in places], y=[i.value for i in intervals],
                low=[i.low for i in intervals], high=[i.high for i in intervals],
                colour=series_colour(number), dash=series_dash(number), hover=True,
            )
        )  # fmt: skip
    values = [y for each in series for y in each.y if y is not None]
    return XYChart(
        alt="Cycles over the optimum against measurements, a line per tuner",
        x=_measurements_axis(series),
        y=spanning("cycles / optimum", values, log=True),
        series=series,
        height=460,
    )


def reached(records: Sequence[Record]) -> XYChart:
    """Share of runs within 1 % against measurements, as far as all runs of a tuner go."""
    series = []
    for number, (tuner, rows) in enumerate(_tuners(records)):
        budget = min(r["budget"] for r in rows)
        found = [r["trials_to_1pct"] for r in rows if r["trials_to_1pct"] is not None]
        hits = sorted(trials for trials in found if trials <= budget)
        series.append(
            Series(
                name=tuner, x=[1, *hits, budget], step=True, hover=True,
                y=[0, *((n + 1) / len(rows) for n in range(len(hits))), len(hits) / len(rows)],
                colour=series_colour(number), dash=series_dash(number),
            )
        )  # fmt: skip
    return XYChart(
        alt="Share of runs within 1 % of the optimum against measurements, a line per tuner",
        x=_measurements_axis(series),
        y=Axis(title="share of runs", low=0, high=1),
        series=series,
        height=460,
    )


def regret_bars(regrets: Mapping[str, Mapping[str, Mapping[str, float]]]) -> BarChart:
    """Log-regret by budget and tuner with intervals."""
    tuners = _by_regret(regrets)
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
                    f"{tuner} after {budget} measurements: {percent_interval(each)} %"
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


def regret_table(regrets: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """What `regret_bars` shows, in percent."""
    columns = [Column(title="tuner")]
    columns += [Column(title=f"{budget} measurements, %", number=True) for budget in regrets]
    rows = [
        Row(
            cells=(
                tuner,
                *(
                    Cell(
                        text=percent_interval(figures.get(tuner)),
                        value=figures[tuner]["value"] if tuner in figures else math.inf,
                    )
                    for figures in regrets.values()
                ),
            )
        )
        for tuner in _by_regret(regrets)
    ]
    return table("Log-regret at fixed budgets, with 95 % intervals", columns, rows)


def trials_table(runs: Sequence[Record], figures: Mapping[str, Any]) -> str:
    """Median measurements to the targets with intervals, the fewest first."""
    one = figures["trials_to_1pct"]
    budgets = {tuner: min(r["budget"] for r in rows) for tuner, rows in _tuners(runs)}
    columns = [
        Column(title="tuner"),
        Column(title="runs", number=True),
        Column(title="budget", number=True),
        Column(
            title="to 1 %", number=True,
            explained="median measurements to a point within 1 % of the optimum, 95 % interval",
        ),
        Column(title="to 5 %", number=True),
    ]  # fmt: skip
    rows = []
    for tuner in sorted(one, key=lambda t: math.inf if one[t] is None else one[t]):
        cells = [
            Cell(
                text=median_interval(
                    figures[f"trials_to_{target}"][tuner],
                    figures[f"interval_to_{target}"][tuner],
                    budgets[tuner],
                ),
                value=figures[f"trials_to_{target}"][tuner] or math.inf,
            )
            for target in ("1pct", "5pct")
        ]
        count = sum(r["tuner"] == tuner for r in runs)
        rows.append(Row(cells=(tuner, str(count), str(budgets[tuner]), *cells)))
    return table("Measurements to the targets", columns, rows)


def _by_regret(regrets: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """Tuners, the least regret after the most measurements first."""
    everybody = dict.fromkeys(tuner for tuners in regrets.values() for tuner in tuners)
    return sorted(
        everybody,
        key=lambda t: [
            b[t]["value"] if t in b else math.inf for b in reversed(list(regrets.values()))
        ],
    )


def _selection_section(rows: Sequence[Mapping[str, Any]]) -> str:
    quantiles = selection_quantiles(rows)
    columns = [Column(title="selection")]
    columns += [
        Column(title=name, number=True) for name in ("5 %", "25 %", "median", "75 %", "95 %")
    ]
    found = [
        Row(cells=(name, *(f"{value:.3f}" for value in values)))
        for name, values in quantiles.items()
    ]
    return section(
        "Confidence sampling, before and after",
        paragraph(_SELECTION_NOTE, "note"),
        figure(selection_boxes(rows), "selection"),
        table("Cycles over optimum by selection", columns, found),
    )


def selection_quantiles(
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, tuple[float, float, float, float, float]]:
    """Quantiles of the candidates' cycles over optimum, by selection.

    Quantiles instead of every point: candidates number tens of thousands.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row["selection"], []).extend(row["ratios"])
    return {
        name: tuple(np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist())
        for name, values in ratios.items()
    }


def selection_boxes(rows: Sequence[Mapping[str, Any]]) -> BarChart:
    """Quality of the candidates and of what each selection takes from them."""
    quantiles = selection_quantiles(rows)
    return BarChart(
        alt="Cycles over optimum of candidates, by selection",
        rows=list(quantiles),
        axis=spanning("cycles / optimum", [v for q in quantiles.values() for v in q], log=True),
        boxes=[
            Box(quantiles=found, tip=f"{name}: median {found[2]:.3f}")
            for name, found in quantiles.items()
        ],
    )


def sampling_course(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, XYChart]]:
    """Configurations over time, before and after confidence sampling: two charts per task.

    Args:
        rows: of `sampling.trace_sampling`, of one seed per task.
    """
    charts = []
    for task in dict.fromkeys(r["task"] for r in rows):
        own = sorted((r for r in rows if r["task"] == task), key=lambda r: r["trial"])
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
        layer = own[0]["layer"]
        charts += [
            (
                f"{layer}: configurations",
                XYChart(
                    alt=f"{layer}: configurations before and after the sampling",
                    x=x_axis, y=spanning("configurations", most, log=True), series=counts,
                    height=260,
                ),
            ),
            (
                f"{layer}: their quality",
                XYChart(
                    alt=f"{layer}: cycles over the optimum before and after the sampling",
                    x=x_axis, series=quality, height=260,
                    y=spanning(
                        "cycles / optimum", [y for s in quality for y in s.y if y is not None],
                        log=True,
                    ),
                ),
            ),
        ]  # fmt: skip
    return charts


def _evenly(ratios: Sequence[float]) -> list[float]:
    """At most `SAMPLING_POINTS` of ascending values, the least and the largest among them."""
    if len(ratios) <= SAMPLING_POINTS:
        return list(ratios)
    places = np.linspace(0, len(ratios) - 1, SAMPLING_POINTS).round().astype(int)
    return [ratios[place] for place in places]


def _tuners(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    groups: dict[str, list[Record]] = {}
    for r in records:
        groups.setdefault(r["tuner"], []).append(r)
    return list(groups.items())


def _measurements_axis(series: Sequence[Series]) -> Axis:
    """Measurements on a logarithmic axis, from the first points that all tuners share."""
    longest = max((max(each.x, default=INITIAL) for each in series), default=INITIAL)
    return Axis(
        title="measurements", low=INITIAL, high=max(longest, 2 * INITIAL), log=True,
        ticks=(INITIAL, *BUDGETS),
    )  # fmt: skip
