# SPDX-License-Identifier: Apache-2.0
"""The figures of DynaTune's paper on Tilewright's tasks: one self-contained HTML file."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tilewright.bench.framework.page import Curve, conditions, courses, study_page
from tilewright.bench.framework.tables import FigureTable, grouped
from tilewright.tuner.allocate.belief import WALKERS, Belief, corners, fit_belief, last_piece
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.bar_chart import BarChart, Bars
from tilewright.tuner.report.drawing.marks import series_colour, series_marker
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.table import Cell
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart, heights

NAMES = ("a", "b", "c", "ln sigma")
STEPS = 120
"""Steps of a walker that are drawn at most."""
HORIZON = 2.0
"""Slots beyond the data that a belief is drawn for."""

Row = dict[str, Any]
Panels = list[tuple[str, XYChart]]


def page(result: Mapping[str, Any], cases: Mapping[str, Any]) -> str:
    """The page as HTML, from a document and from the first case of each network."""
    rows, price = result["rows"], result["rows"][0]["price"]
    rows = [r for r in rows if r["price"] == price]
    fits = _fits(cases)
    untuned, seconds = _untuned(rows), _seconds(result["rows"])
    return study_page(
        "Who gets the next slot of tuning time",
        ", ".join(cases),
        markup.section(
            "Network latency by tuning time",
            markup.paragraph(f"Medians over seeds at the price of {price}.", "note"),
            markup.panels(_courses(result["curves"], price), "courses", width=markup.HALF),
        ),
        markup.section(
            "Final latency as a share of the untuned default",
            markup.panels(_finals(untuned), "untuned", width=markup.HALF),
            _table("allocator", untuned, "{:.3f}"),
        ),
        markup.section(
            "Where the time goes",
            markup.figure(_seconds_chart(seconds), "seconds"),
            _table("part", seconds, "{:.3g}"),
        ),
        markup.section(
            "Belief and segments",
            markup.paragraph("Rate of a task, divided by its peak, by slots spent.", "note"),
            markup.panels(_beliefs(fits), "beliefs", width=markup.HALF) if fits else "",
        ),
        markup.section(
            "Walkers of the fits above, step by step",
            markup.paragraph("In brackets the acceptance.", "note"),
            markup.panels(_traces(fits), "traces") if fits else "",
        ),
        markup.section(
            "Cycles saved by tuning against operations of a task, count included",
            markup.figure(_flops(cases), "flops"),
        ),
        conditions(result, kind="note"),
        head=", ".join(cases),
    )


def _courses(curves: Sequence[Row], price: str) -> Panels:
    """Median latency over seeds, a panel per network, a line per allocator."""

    def curve(values: Sequence[Sequence[float]]) -> Curve:
        data = np.median(values, axis=0)
        return np.linspace(0, 1, len(data)).round(4).tolist(), data.tolist()

    return [
        (
            network,
            courses(
                {name: curve([c["curves"][name] for c in here]) for name in here[0]["curves"]},
                f"Latency of {network} by share of the budget, a line per allocator",
                Axis(title="share of the budget", low=0, high=1),
                "latency / untuned", 300, ("dynatune",),
            ),
        )
        for network, here in grouped(
            (c for c in curves if c["price"] == price), "network"
        ).items()
    ]  # fmt: skip


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


def _beliefs(fits: Sequence[tuple[str, Any, Any, Belief]]) -> Panels:
    """What is believed of the rates, with the data and the start of the segment."""
    charts = []
    for title, x, y, belief in fits:
        later = np.linspace(x[belief.start], x[-1] + HORIZON, 80)
        low, middle, high = np.quantile(belief.rates(later), [0.05, 0.5, 0.95], axis=0)
        series = [
            Series(
                name="median belief, 5 to 95 %", x=later.round(4).tolist(), y=middle.tolist(),
                low=low.tolist(), high=high.tolist(), hover=True,
            ),
            Series(
                name="best so far", x=x.tolist(), y=y.tolist(), width=0, marker="circle", size=4.5,
                colour="ink",
            ),
        ]  # fmt: skip
        chart = XYChart(
            alt=f"Belief in the rate of {title} by slots spent",
            x=spanning("slots", [*x, *later]),
            y=spanning("rate / peak", [*y, *low, *high]),
            series=series,
            starts=[float(x[belief.start])] if belief.start else [],
            height=280,
        )
        charts.append((title, chart))
    return charts


def _traces(fits: Sequence[tuple[str, Any, Any, Belief]]) -> Panels:
    """Every walker of every fit, a panel per parameter."""
    charts = []
    for title, _, _, belief in fits:
        for number, name in enumerate(NAMES):
            every = -(-len(belief.chain) // STEPS)
            chain = belief.chain[::every, :, number]
            series = [
                Series(
                    name=name, x=range(0, every * len(chain), every), y=chain[:, walker].tolist(),
                    width=0.7, colour=series_colour(walker), legend=False,
                )
                for walker in range(WALKERS)
            ]  # fmt: skip
            chart = XYChart(
                alt=f"Walkers of parameter {name} of the fit of {title}",
                x=Axis(title="step", low=0, high=every * len(chain)),
                y=spanning(name, chain.ravel().tolist()),
                series=series,
                small=True,
                height=120,
            )
            charts.append((f"{title} ({belief.acceptance:.2f}): {name}", chart))
    return charts


def _seconds(records: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Median seconds of measuring, searching and deciding, by network and price."""
    runs = [r for r in records if r["what"] == "run" and r["allocator"] == "dynatune"]
    search = {
        (r["network"], r["seed"], r["price"]): r["seconds_per_trial"]
        for r in records if r["what"] == "search"
    }  # fmt: skip
    parts: dict[str, Callable[[Row], float]] = {
        "measuring": lambda r: r["budget_seconds"] + r["warm_up_seconds"],
        "search tuner": lambda r: search[r["network"], r["seed"], r["price"]] * r["trials"],
        "deciding (beliefs)": lambda r: r["deciding_seconds"],
    }
    return {
        f"{network}, {price}": {
            name: statistics.median(
                value(r) for r in runs if (r["network"], r["price"]) == (network, price)
            )
            for name, value in parts.items()
        }
        for network, price in dict.fromkeys((r["network"], r["price"]) for r in runs)
    }


def _untuned(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Median final latency over the untuned one, by network and allocator."""
    runs = [r for r in rows if r["what"] == "run"]
    found: dict[str, dict[str, list[float]]] = {}
    for r in runs:
        own = found.setdefault(r["network"], {}).setdefault(r["allocator"], [])
        own.append(r["final_cycles"] / r["start_cycles"])
    return {
        network: {name: statistics.median(values) for name, values in own.items()}
        for network, own in found.items()
    }


def _seconds_chart(figures: Mapping[str, Mapping[str, float]]) -> BarChart:
    """What `_seconds` found, on a logarithmic axis."""
    names = list(dict.fromkeys(name for own in figures.values() for name in own))
    bars = [
        Bars(
            name=name,
            values=[own[name] for own in figures.values()],
            colour=series_colour(number),
            tips=[f"{row}, {name}: {own[name]:.3g} s" for row, own in figures.items()],
        )
        for number, name in enumerate(names)
    ]
    values = [value for own in figures.values() for value in own.values()]
    axis = spanning("seconds", values, log=True)
    return BarChart(alt="Seconds of each part of tuning", rows=list(figures), axis=axis, bars=bars)


def _finals(figures: Mapping[str, Mapping[str, float]]) -> list[tuple[str, BarChart]]:
    """What `_untuned` found: a panel per network, a row per allocator, the least first."""
    charts = []
    for network, own in figures.items():
        names = sorted(own, key=own.__getitem__)
        bars = Bars(
            name="latency / untuned",
            values=[own[name] for name in names],
            colour="c0",
            tips=[f"{network}, {name}: {own[name]:.3f}" for name in names],
        )
        axis = spanning("latency / untuned", list(own.values()), zero=True)
        alt = f"Final latency of {network} over the untuned one, by allocator"
        charts.append((network, BarChart(alt=alt, rows=names, axis=axis, bars=[bars])))
    return charts


def _table(title: str, figures: Mapping[str, Mapping[str, float]], form: str) -> str:
    """Figures by column and row."""
    names = dict.fromkeys(name for own in figures.values() for name in own)
    rows = [
        (
            name,
            *(
                Cell(text=form.format(own[name]), value=own[name]) if name in own else "-"
                for own in figures.values()
            ),
        )
        for name in names
    ]
    return FigureTable(title=f"Figures by {title}", header=(title, *figures), rows=rows).html()


def _flops(cases: Mapping[str, Any]) -> XYChart:
    """Cycles that tuning saves against the work of a task, a point per task."""
    series = []
    for number, (network, case) in enumerate(cases.items()):
        work = [arm.count * arm.work for arm in case.arms]
        gain = [
            float(arm.count * (search.table.start.cycles - bests[-1]))
            for arm, search, (_, bests) in zip(case.arms, case.searches, case.futures, strict=True)
        ]
        rank = float(spearmanr(work, gain)[0])
        series.append(
            Series(
                name=f"{network} (rank correlation {rank:.2f})", x=work, y=gain, width=0,
                colour=series_colour(number), marker=series_marker(number), size=9,
                tips=[
                    f"{network} {arm.name}: {saved:,.0f} cycles saved"
                    for arm, saved in zip(case.arms, gain, strict=True)
                ],
            )
        )  # fmt: skip
    return XYChart(
        alt="Cycles saved by tuning against multiply-accumulates, a point per task",
        x=spanning("MACs", [x for each in series for x in each.x], log=True),
        y=spanning("cycles saved", heights(series), log=True),
        series=series,
        height=420,
    )
