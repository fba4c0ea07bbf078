# SPDX-License-Identifier: Apache-2.0
"""The figures of DynaTune's paper on Tilewright's tasks: one self-contained HTML file."""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.stats import spearmanr

from tilewright.tuner.allocate.belief import WALKERS, Belief, corners, fit_belief, last_piece

COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#393b79", "#8c6d31", "#ad494a", "#a55194", "#637939", "#000000",
)  # fmt: skip
NAMES = ("a", "b", "c", "ln sigma")
HORIZON = 2.0
"""Slots beyond the data that a belief is drawn for."""

Row = dict[str, Any]


def write_figures(path: Path, result: Mapping[str, Any], cases: Mapping[str, Any]) -> None:
    """Draw everything.

    Args:
        path: HTML file.
        result: rows and curves of `bench.allocate`.
        cases: network to its first case: searches, arms and slot.
    """
    rows, price = result["rows"], result["rows"][0]["price"]
    rows = [r for r in rows if r["price"] == price]
    fits = _fits(cases)
    parts = [
        ("Network latency by tuning time", _courses(result["curves"], price)),
        (
            "Belief and segments: rate of a task, divided by its peak, by slots spent",
            _beliefs(fits),
        ),
        ("Walkers of the fits above, step by step, and their acceptance", _traces(fits)),
        ("Where the time goes", _breakdown(result["rows"])),
        ("Cycles saved by tuning against operations of a task, count included", _flops(cases)),
        ("Final latency as a share of the untuned default", _untuned(rows)),
    ]
    text = ["<!doctype html><html><head><meta charset='utf-8'><title>Allocators</title>"]
    text += [
        "<style>body{font-family:sans-serif;max-width:1100px;margin:auto}</style></head><body>"
    ]
    text += ["<h1>Who gets the next slot of tuning time</h1>"]
    for number, (title, figure) in enumerate(parts):
        figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 50, "b": 50})
        text.append(f"<h2>{html.escape(title)}</h2>")
        text.append(figure.to_html(full_html=False, include_plotlyjs=number == 0))
    text.append("<h2>Conditions</h2><ul>")
    for key, value in result["conditions"].items():
        text.append(f"<li>{html.escape(key)}: {html.escape(str(value))}</li>")
    text.append("</ul></body></html>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text), encoding="utf-8")


def _courses(curves: Sequence[Row], price: str) -> Any:
    """Median latency over seeds, a panel a network, a line an allocator."""
    curves = [c for c in curves if c["price"] == price]
    networks = list(dict.fromkeys(c["network"] for c in curves))
    columns = min(2, len(networks))
    lines = -(-len(networks) // columns)
    figure = make_subplots(rows=lines, cols=columns, subplot_titles=networks)
    for place, network in enumerate(networks):
        here = [c["curves"] for c in curves if c["network"] == network]
        for number, name in enumerate(here[0]):
            data = np.median([c[name] for c in here], axis=0)
            figure.add_trace(
                go.Scatter(
                    x=np.linspace(0, 1, len(data)),
                    y=data,
                    name=name,
                    legendgroup=name,
                    showlegend=place == 0,
                    line={
                        "color": COLOURS[number % len(COLOURS)],
                        "width": 3 if name == "dynatune" else 1.3,
                        "dash": "dash" if name == "oracle" else "solid",
                    },
                ),
                row=place // columns + 1,
                col=place % columns + 1,
            )
    figure.update_layout(height=80 + 320 * lines)
    figure.update_xaxes(title_text="share of the budget")
    figure.update_yaxes(title_text="latency / untuned")
    return figure


def _fits(cases: Mapping[str, Any]) -> list[tuple[str, Any, Any, Belief]]:
    """Beliefs of up to four searches: with a jump and without, as far as the networks have them."""
    found: list[tuple[str, Any, Any, Belief]] = []
    for jumped in (True, True, False, False):
        for network, case in cases.items():
            for number, (arm, future) in enumerate(zip(case.arms, case.futures, strict=True)):
                title = f"{network} {arm.name}"
                valid = np.isfinite(future[1])  # a belief begins at the first valid result
                times, bests = (values[valid] for values in future)
                start = last_piece(1.0 / bests)
                enough = len(bests) - start >= 20 and len(set(bests[start:])) >= 4
                if title in [f[0] for f in found] or (start > 5) != jumped or not enough:
                    continue
                ends = np.arange(1.0, times[-1] / case.slot) * case.slot
                kept = corners(times, bests, times[np.searchsorted(times, ends)].tolist())
                x, y = times[kept] / case.slot, bests[-1] / bests[kept]
                later = float(x[-1]) + 1.0
                found.append((title, x, y, fit_belief(x, y, seed=(0, number), horizon=later)))
                break
            else:
                continue
            break
    return found


def _beliefs(fits: Sequence[tuple[str, Any, Any, Belief]]) -> Any:
    figure = make_subplots(
        rows=-(-len(fits) // 2) or 1, cols=2, subplot_titles=[f[0] for f in fits]
    )
    for place, (_, x, y, belief) in enumerate(fits):
        where = {"row": place // 2 + 1, "col": place % 2 + 1}
        first = place == 0
        later = np.linspace(x[belief.start], x[-1] + HORIZON, 80)
        low, middle, high = np.quantile(belief.rates(later), [0.05, 0.5, 0.95], axis=0)
        band = {"x": np.r_[later, later[::-1]], "y": np.r_[high, low[::-1]]}
        figure.add_trace(
            go.Scatter(**band, fill="toself", line_width=0, name="5 to 95 %", showlegend=first,
                       fillcolor="rgba(31,119,180,0.25)"), **where
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(x=later, y=middle, name="median belief", line_color="#1f77b4",
                       showlegend=first), **where
        )  # fmt: skip
        figure.add_trace(
            go.Scatter(x=x, y=y, mode="markers", marker={"size": 4, "color": "#333"},
                       name="best so far", showlegend=first), **where
        )  # fmt: skip
        if belief.start:
            figure.add_vline(x=float(x[belief.start]), line_dash="dot", **where)
    figure.update_layout(height=80 + 300 * max(1, -(-len(fits) // 2)))
    return figure


def _traces(fits: Sequence[tuple[str, Any, Any, Belief]]) -> Any:
    figure = make_subplots(
        rows=max(1, len(fits)), cols=4,
        subplot_titles=[
            f"{name} ({title}, acceptance {belief.acceptance:.2f})" if not number else name
            for title, _, _, belief in fits for number, name in enumerate(NAMES)
        ],
    )  # fmt: skip
    for line, (_, _, _, belief) in enumerate(fits):
        for number in range(4):
            for walker in range(WALKERS):
                figure.add_trace(
                    go.Scatter(y=belief.chain[:, walker, number], line_width=0.6, showlegend=False),
                    row=line + 1, col=number + 1,
                )  # fmt: skip
    figure.update_annotations(font_size=11)
    figure.update_layout(height=80 + 220 * max(1, len(fits)))
    return figure


def _breakdown(records: Sequence[Row]) -> Any:
    """Median seconds of measuring, searching and deciding, a bar a network and price."""
    runs = [r for r in records if r["what"] == "run" and r["allocator"] == "dynatune"]
    search = {
        (r["network"], r["seed"], r["price"]): r["seconds_per_trial"]
        for r in records if r["what"] == "search"
    }  # fmt: skip
    labels = list(dict.fromkeys((r["network"], r["price"]) for r in runs))
    figure = go.Figure()
    parts: dict[str, Callable[[Row], float]] = {
        "measuring": lambda r: r["budget_seconds"] + r["warm_up_seconds"],
        "search tuner": lambda r: search[r["network"], r["seed"], r["price"]] * r["trials"],
        "deciding (beliefs)": lambda r: r["deciding_seconds"],
    }
    for name, value in parts.items():
        heights = [
            statistics.median(value(r) for r in runs if (r["network"], r["price"]) == label)
            for label in labels
        ]
        figure.add_trace(go.Bar(x=[f"{n}, {p}" for n, p in labels], y=heights, name=name))
    figure.update_layout(barmode="group", height=420)
    figure.update_yaxes(type="log", title_text="seconds")
    return figure


def _flops(cases: Mapping[str, Any]) -> Any:
    figure = go.Figure()
    for network, case in cases.items():
        work = [arm.count * arm.work for arm in case.arms]
        gain = [
            arm.count * (search.table.start.cycles - bests[-1])
            for arm, search, (_, bests) in zip(case.arms, case.searches, case.futures, strict=True)
        ]
        rank = float(spearmanr(work, gain)[0])
        figure.add_trace(
            go.Scatter(
                x=work, y=gain, mode="markers", text=[arm.name for arm in case.arms],
                name=f"{network} (rank correlation {rank:.2f})",
            )
        )  # fmt: skip
    figure.update_xaxes(type="log", title_text="MACs")
    figure.update_yaxes(type="log", title_text="cycles saved")
    figure.update_layout(height=460)
    return figure


def _untuned(rows: Sequence[Row]) -> Any:
    runs = [r for r in rows if r["what"] == "run"]
    networks = list(dict.fromkeys(r["network"] for r in runs))
    figure = go.Figure()
    for number, name in enumerate(dict.fromkeys(r["allocator"] for r in runs)):
        heights = [
            statistics.median(
                r["final_cycles"] / r["start_cycles"]
                for r in runs if r["network"] == network and r["allocator"] == name
            )
            for network in networks
        ]  # fmt: skip
        colour = COLOURS[number % len(COLOURS)]
        figure.add_trace(go.Bar(x=networks, y=heights, name=name, marker_color=colour))
    figure.update_layout(barmode="group", height=420)
    figure.update_yaxes(title_text="latency / untuned")
    return figure
