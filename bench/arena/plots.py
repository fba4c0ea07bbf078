# SPDX-License-Identifier: Apache-2.0
"""The figures of a study, in one HTML file without external loads."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.colors import qualitative
from plotly.subplots import make_subplots

from tilewright.bench.arena.records import Record, incumbent_at
from tilewright.bench.arena.replay import BUDGETS, INITIAL
from tilewright.bench.arena.statistics import clustered_mean
from tilewright.bench.arena.summary import common, headline, longest_runs
from tilewright.host.common.errors import StoreError

CURVE_POINTS: Final = 40
"""Places at which a curve is drawn."""

CURVE_RESAMPLES: Final = 300

SAMPLING_POINTS: Final = 60
"""Visited configurations of a plan that are drawn."""

_STYLE: Final = """
body { font-family: sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
.note { color: #555 }
pre { max-height: 20rem; overflow: auto; white-space: pre-wrap }
"""

_CURVE_NOTE: Final = (
    "Cycles of the incumbent over the optimum of the table: interquartile mean over tasks and "
    "seeds, with the 95 % interval of a bootstrap over tasks. Hard tasks, legal points only, no "
    "noise. Click a name to hide a line."
)
_SELECTION_NOTE: Final = (
    "Cycles over optimum of DCOC's candidates after 32 measurements, and of the eight that each "
    "selection takes from the same candidates. Boxes: quartiles; whiskers: 5 % and 95 %."
)
_SAMPLING_NOTE: Final = (
    "One run of DCOC a task: at each plan the configurations that its agents visited and nobody "
    "had measured, and the eight at most that confidence sampling leaves to be measured. Above: "
    "how many. Below: their cycles over the optimum; of the visited ones at most "
    f"{SAMPLING_POINTS} a plan are drawn, evenly by rank, and lines are medians."
)


def write_plots(study: Mapping[str, Any], path: Path) -> Path:
    """Draw a study.

    Args:
        study: ``records``, ``summary`` and ``conditions`` as `merge.merge` makes them.
        path: HTML file.

    Raises:
        StoreError: the file cannot be written.
    """
    track, summary = study["conditions"]["track"], study["summary"]
    exact = [
        r
        for r in study["records"]
        if r["what"] == "run" and r["arm"] == "masked" and not r["noise"] and r["track"] == track
    ]
    main = headline(exact)[0]
    figures = _search_plots("", main, summary["log_regret"])
    if long := longest_runs(main):
        title = f" (the runs of {long[0]['budget']:,} measurements alone)"
        figures += _search_plots(title, long, summary["longest"]["log_regret"])
    if summary["common"] is not None:
        title = " (every tuner, on the tasks that all were run on)"
        figures += _search_plots(title, common(exact), summary["common"]["log_regret"])
    selections = [r for r in study["records"] if r["what"] == "selection"]
    if selections:
        figures.append(
            (
                "Confidence sampling, before and after",
                _SELECTION_NOTE,
                selection_boxes(selections),
            )
        )
    if samplings := [r for r in study["records"] if r["what"] == "sampling"]:
        title = "Configurations over time, before and after confidence sampling"
        figures.append((title, _SAMPLING_NOTE, sampling_course(samplings)))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Tuners</title><style>{_STYLE}</style></head><body><h1>Tuners</h1>",
    ]
    for position, (title, note, figure) in enumerate(figures):
        parts.append(f"<h2>{html.escape(title)}</h2><p class='note'>{html.escape(note)}</p>")
        parts.append(
            figure.to_html(
                full_html=False,
                div_id=f"figure-{position}",
                include_plotlyjs=position == 0,
                config={"displayModeBar": False, "responsive": True},
            )
        )
    conditions = html.escape(json.dumps(study["conditions"], indent=1))
    parts += [f"<h2>Conditions</h2><pre class='note'>{conditions}</pre></body></html>"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the plots cannot be written ({error.strerror})", field=str(path)
        ) from error
    return path


def _search_plots(
    suffix: str, runs: Sequence[Record], regrets: Mapping[str, Any]
) -> list[tuple[str, str, Any]]:
    """Title, note and figure of each plot of some runs."""
    return [
        (f"Best so far{suffix}", _CURVE_NOTE, curves(runs)),
        (
            f"Runs within 1 % of the optimum{suffix}",
            "Share of the runs that have found a point within 1 % after so many measurements.",
            reached(runs),
        ),
        (
            f"Log-regret at fixed budgets{suffix}",
            "Interquartile mean of the natural logarithm of cycles over optimum, 95 % interval.",
            regret_bars(regrets),
        ),
    ]


def curves(records: Sequence[Record]) -> Any:
    """Best-so-far curves with intervals, one a tuner, as far as all of its runs go."""
    figure = go.Figure()
    opacity = min(0.12, 1 / (1 + len({r["tuner"] for r in records})))
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
        colour = _colour(number)
        x = [int(place) for place in places]
        figure.add_scatter(
            x=x, y=[i.value for i in intervals], name=tuner,
            line={"color": colour, "dash": _dash(number)}, legendgroup=tuner,
        )  # fmt: skip
        figure.add_scatter(
            x=[*x, *reversed(x)],
            y=[*(i.high for i in intervals), *(i.low for i in reversed(intervals))],
            fill="toself", fillcolor=colour, opacity=opacity, line={"width": 0}, hoverinfo="skip",
            legendgroup=tuner, showlegend=False,
        )  # fmt: skip
    _measurements_axis(figure)
    figure.update_yaxes(title="cycles / optimum")
    return _layout(figure)


def reached(records: Sequence[Record]) -> Any:
    """Share of runs within 1 % against measurements, as far as all runs of a tuner go."""
    figure = go.Figure()
    for number, (tuner, rows) in enumerate(_tuners(records)):
        budget = min(r["budget"] for r in rows)
        found = [r["trials_to_1pct"] for r in rows if r["trials_to_1pct"] is not None]
        hits = sorted(trials for trials in found if trials <= budget)
        figure.add_scatter(
            x=[1, *hits, budget],
            y=[0, *((n + 1) / len(rows) for n in range(len(hits))), len(hits) / len(rows)],
            name=tuner, mode="lines",
            line={"shape": "hv", "color": _colour(number), "dash": _dash(number)},
        )  # fmt: skip
    _measurements_axis(figure)
    figure.update_yaxes(title="share of runs", range=[0, 1])
    return _layout(figure)


def regret_bars(regrets: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Any:
    """Log-regret by budget and tuner with intervals."""
    figure = go.Figure()
    everybody = dict.fromkeys(tuner for tuners in regrets.values() for tuner in tuners)
    order = sorted(
        everybody,
        key=lambda t: [
            b[t]["value"] if t in b else math.inf for b in reversed(list(regrets.values()))
        ],
    )
    figure.update_xaxes(categoryorder="array", categoryarray=order)
    for budget, tuners in regrets.items():
        values = [t["value"] for t in tuners.values()]
        figure.add_bar(
            x=list(tuners), y=values, name=f"{budget} measurements",
            error_y={
                "array": [t["high"] - t["value"] for t in tuners.values()],
                "arrayminus": [t["value"] - t["low"] for t in tuners.values()],
            },
        )  # fmt: skip
    figure.update_yaxes(title="ln(cycles / optimum)")
    return _layout(figure)


def selection_boxes(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Quality of the candidates and of what each selection takes from them."""
    figure = go.Figure()
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row["selection"], []).extend(row["ratios"])
    for name, values in ratios.items():
        # Quantiles instead of every point: candidates number tens of thousands.
        low, q1, median, q3, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
        figure.add_box(
            x=[name], q1=[q1], median=[median], q3=[q3], lowerfence=[low], upperfence=[high],
            name=name,
        )  # fmt: skip
    figure.update_yaxes(title="cycles / optimum", type="log")
    return _layout(figure)


def sampling_course(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Configurations over time, before and after confidence sampling, a column a task.

    Args:
        rows: of `sampling.trace_sampling`, of one seed a task.
    """
    tasks = list(dict.fromkeys(r["task"] for r in rows))
    names = {r["task"]: r["layer"] for r in rows}
    figure = make_subplots(
        rows=2, cols=len(tasks), shared_xaxes=True, shared_yaxes=True, vertical_spacing=0.06,
        horizontal_spacing=0.02, row_heights=[0.35, 0.65],
        column_titles=[names[task] for task in tasks],
    )  # fmt: skip
    for column, task in enumerate(tasks, start=1):
        own = sorted((r for r in rows if r["task"] == task), key=lambda r: r["trial"])
        trials = [r["trial"] for r in own]
        for side, colour in (("before", "#9aa0a6"), ("after", "#d62728")):
            label = {"name": f"{side} the sampling", "legendgroup": side}
            figure.add_scatter(
                x=trials, y=[len(r[side]) for r in own], mode="lines+markers", **label,
                line={"color": colour}, marker={"size": 5}, showlegend=column == 1,
                row=1, col=column,
            )  # fmt: skip
            drawn = [(r["trial"], ratio) for r in own for ratio in _evenly(r[side])]
            figure.add_scatter(
                x=[x for x, _ in drawn], y=[y for _, y in drawn], mode="markers", **label,
                marker={"color": colour, "size": 4, "opacity": 0.35 if side == "before" else 0.9},
                showlegend=False, row=2, col=column,
            )  # fmt: skip
            figure.add_scatter(
                x=trials, y=[float(np.median(r[side])) if r[side] else None for r in own],
                mode="lines", line={"color": colour, "width": 2}, **label, showlegend=False,
                row=2, col=column,
            )  # fmt: skip
    figure.update_yaxes(type="log")
    figure.update_yaxes(title="configurations", row=1, col=1)
    figure.update_yaxes(title="cycles / optimum", row=2, col=1)
    figure.update_xaxes(title="measurements made", row=2)
    _layout(figure).update_layout(height=640, margin={"t": 50}, legend={"y": -0.12})
    return figure


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


def _measurements_axis(figure: Any) -> None:
    """Measurements on a logarithmic axis, from the first points that all tuners share."""
    ticks = [INITIAL, *BUDGETS]
    longest = max(max(trace.x, default=INITIAL) for trace in figure.data)
    figure.update_xaxes(
        type="log", title="measurements", tickvals=ticks, ticktext=[str(t) for t in ticks],
        range=np.log10([INITIAL, max(longest, 2 * INITIAL)]).tolist(),
    )  # fmt: skip


def _colour(number: int) -> str:
    palette: list[str] = [*qualitative.Plotly, *qualitative.Dark24]
    return palette[number % len(palette)]


def _dash(number: int) -> str:
    """Full lines, then dotted ones: colours alone do not tell twenty lines apart."""
    return "solid" if number < len(qualitative.Plotly) else "dot"


def _layout(figure: Any) -> Any:
    figure.update_layout(
        template="plotly_white",
        height=520,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure
