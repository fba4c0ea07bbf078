# SPDX-License-Identifier: Apache-2.0
"""The plots of a study's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tilewright.host.machine.registers import UNIT_COUNTER_STATES, UNIT_NAMES
from tilewright.host.network.workload import Workload
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.study.results import (
    Confirmation,
    StudyResult,
    TaskResult,
    task_curve,
)

INK: Final = "#1d2129"
GREEN: Final = "#2f7d4f"
PALE_GREEN: Final = "#9ec5ab"
GREY: Final = "#c9ccd1"
RED: Final = "#d1495b"

STATE_COLOURS: Final = {
    "busy": GREEN,
    "token_load": "#4c78a8",
    "token_gemm": "#e4a11b",
    "token_vector": "#b279a2",
    "token_store": "#9d755d",
    "memory": RED,
    "idle": GREY,
}

STATE_LABELS: Final = {
    "busy": "busy",
    "token_load": "waits for load",
    "token_gemm": "waits for gemm",
    "token_vector": "waits for vector",
    "token_store": "waits for store",
    "memory": "waits for bus or ACC bank",
    "idle": "no instruction",
}

CURVE_POINTS: Final = 2000
"""No page shows more: a curve that falls at every trial is drawn with steps left out."""

SHOWN_RATIO: Final = 2.0
"""Networks slower than this many times the best one lie outside the first view of the race."""


def race_figure(result: StudyResult) -> Any:
    """Network cycles against measurements: each configuration, the best, what was confirmed."""
    search = result.search
    label = "best network" if search.shared else "sum over layers"
    best = search.network_curve()
    values = [cycles for _, cycles in best]
    figure = go.Figure()
    if best:
        _steps(figure, label, best, search.summary.count, {"color": INK, "width": 6}, opacity=0.3)
    for config in search.configs if search.shared else ():
        curve = search.network_curve(config.config_hash)
        if curve:
            end = search.summary.last[config.config_hash] + 1
            _steps(figure, str(config.hw["name"]), curve, end, {"width": 2})
            values += [cycles for _, cycles in curve]
    _mark_networks(figure, result)
    _frame_race(figure, result, values)
    figure.update_xaxes(title="measurements charged to the search", rangemode="tozero")
    figure.update_yaxes(title="network cycles", tickformat=",")
    return _layout(figure, height=440)


def _steps(
    figure: Any,
    name: str,
    curve: Sequence[tuple[int, int]],
    end: int,
    line: dict[str, Any],
    **more: Any,
) -> None:
    """An anytime curve, drawn on to measurement ``end``."""
    points = [*thinned(curve), (end, curve[-1][1])]
    figure.add_scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        hovertemplate="%{y:,} cycles after %{x} measurements",
        mode="lines",
        line={"shape": "hv", **line},
        name=name,
        **more,
    )


def thinned(curve: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most `CURVE_POINTS` points of a curve, first and last among them."""
    step = -(-len(curve) // CURVE_POINTS)
    return list(curve) if step <= 1 else [*curve[:-1:step], curve[-1]]


def _mark_networks(figure: Any, result: StudyResult) -> None:
    """The untuned and the best network where the search completed what is confirmed."""
    chosen = {task.best.sequence for task in result.tasks if task.best is not None}
    known = result.confirmations
    untuned = [c for c in known if c.trial.origin == "default" and c.trial.sequence not in chosen]
    tuned = [c for c in known if c.trial.sequence in chosen]
    fidelity = result.settings["fidelity"]
    for name, cycles, parts, symbol in (
        ("untuned", result.default_network, untuned, "diamond"),
        ("best", result.best_network, tuned, "star"),
    ):
        if cycles is not None and parts:
            _mark(figure, f"{name}, confirmed on {fidelity}", parts, cycles, symbol)


def _mark(figure: Any, name: str, parts: Sequence[Confirmation], cycles: int, symbol: str) -> None:
    figure.add_scatter(
        x=[max(part.measurement for part in parts)],
        y=[cycles],
        mode="markers",
        marker={"symbol": symbol, "size": 15, "color": RED},
        hovertemplate=f"%{{y:,}} cycles in {len(parts)} confirmed trials",
        name=name,
    )


def _frame_race(figure: Any, result: StudyResult, values: Sequence[int]) -> None:
    """The bound as a line, and a first view of the networks near the best one.

    Args:
        figure: the race.
        result: of the study.
        values: cycles of every network drawn; none where no network is complete.
    """
    bound = result.bound_network
    if bound is not None:
        figure.add_hline(
            y=bound, line={"dash": "dot", "color": INK, "width": 1},
            annotation_text="bound", annotation_position="bottom right",
        )  # fmt: skip
    if not values:
        return
    best, worst = min(values), max(values)
    low = best if bound is None else bound
    high = max(cycles for cycles in values if cycles <= SHOWN_RATIO * best)
    margin = 0.08 * max(high - low, best // 20)
    if worst <= high + 2 * margin:
        return
    figure.update_yaxes(range=[low - margin, high + 2 * margin])
    figure.add_annotation(
        x=0, xref="paper", xanchor="left", y=1, yref="paper", yanchor="bottom",
        text=f"networks of up to {worst:,} cycles above this view: double click shows all",
        showarrow=False,
    )  # fmt: skip


def layers_figure(result: StudyResult) -> Any:
    """Best cycles of each layer against measurements, relative to its first."""
    search = result.search
    figure = go.Figure()
    firsts: dict[str, int] = {}
    for task in search.tasks:
        curve = thinned(task_curve(search.summary.improvements, task.name))
        if not curve:
            continue
        first = firsts[task.name] = curve[0][1]
        points = [*curve, (search.summary.count, curve[-1][1])]
        figure.add_scatter(
            x=[x for x, _ in points],
            y=[y / first for _, y in points],
            customdata=[y for _, y in points],
            hovertemplate="%{customdata:,} cycles after %{x} measurements",
            mode="lines",
            line={"shape": "hv", "width": 1.4},
            name=task.name,
        )
    chosen = {task.best.sequence for task in result.tasks if task.best is not None}
    marks = [c for c in result.confirmations if c.trial.sequence in chosen]
    if marks:
        cycles = [mark.trial.measurement.cycles or 0 for mark in marks]
        tasks = [mark.trial.task for mark in marks]
        figure.add_scatter(
            x=[mark.measurement for mark in marks],
            y=[c / firsts[task] for task, c in zip(tasks, cycles, strict=True)],
            customdata=list(zip(tasks, cycles, strict=True)),
            hovertemplate="%{customdata[0]}: %{customdata[1]:,} cycles",
            mode="markers",
            marker={"symbol": "star", "size": 9, "color": RED},
            name=f"confirmed on {result.settings['fidelity']}",
        )
    figure.update_xaxes(title="measurements charged to the search", rangemode="tozero")
    figure.update_yaxes(title="best cycles / first measured")
    return _layout(figure, height=460)


def pareto_figure(result: StudyResult, archive: Sequence[Point]) -> Any:
    """Energy against cycles of the networks that no other one beats, by configuration."""
    figure = go.Figure()
    for name in dict.fromkeys(point.config for point in archive):
        points = [point for point in archive if point.config == name]
        figure.add_scatter(
            x=[point.cycles for point in points],
            y=[point.energy / archive[0].energy for point in points],
            mode="markers",
            marker={"size": 10},
            hovertemplate="%{x:,} cycles, energy %{y:.3f}",
            name=f"{name}: {100 * points[0].area:.0f} % of the board",
        )
    for point in archive:
        if is_chosen(result, point):
            figure.add_scatter(
                x=[point.cycles],
                y=[point.energy / archive[0].energy],
                mode="markers",
                marker={"symbol": "circle-open", "size": 20, "color": RED, "line": {"width": 2}},
                hoverinfo="skip",
                name="chosen",
            )
            break
    figure.update_xaxes(title="network cycles", tickformat=",")
    figure.update_yaxes(title="energy (relative)", tickformat=".3f")
    return _layout(figure, height=380, showlegend=True)


def is_chosen(result: StudyResult, point: Point) -> bool:
    """Whether a network of the archive is the one that the study reports."""
    if result.chosen is None or result.chosen.config_hash != point.config_hash:
        return False
    best = {task.name: task.best for task in result.tasks}
    return all(
        trial is not None and dict(trial.schedule) == dict(point.schedules[name])
        for name, trial in best.items()
    )


def bound_figure(result: StudyResult) -> Any:
    """Untuned, best and least possible cycles of each layer."""
    tasks = measured(result)
    names = [task.name for task in tasks]
    figure = go.Figure()
    series = (
        ("untuned default", [t.default_cycles for t in tasks], GREY),
        ("best", [t.best_cycles for t in tasks], GREEN),
        ("bound", [t.bound for t in tasks], INK),
    )
    for name, values, colour in series:
        figure.add_bar(x=names, y=values, name=name, marker_color=colour)
    figure.update_yaxes(title="cycles", rangemode="tozero")
    return _layout(figure, height=400, barmode="group")


def utilisation_figure(result: StudyResult) -> Any:
    """Share of the MAC array that each layer's best trial keeps busy, and of use."""
    tasks = measured(result)
    issued, useful = [], []
    macs = {str(t["name"]): Workload.from_mapping(t).macs for t in result.settings["tasks"]}
    for task in tasks:
        best = task.best
        cycles = task.best_cycles
        if best is None or not cycles:
            continue
        hw = best.hw
        per_cycle = hw["batch"] * hw["block_in"] * hw["block_out"]
        issued.append(100 * best.measurement.counters.get("macs_tiles", 0) / cycles)
        useful.append(100 * macs[task.name] / (cycles * per_cycle))
    names = [task.name for task in tasks]
    figure = go.Figure()
    figure.add_bar(x=names, y=issued, name="issued", marker_color=PALE_GREEN)
    figure.add_bar(x=names, y=useful, name="useful", marker_color=GREEN)
    figure.update_yaxes(title="% of peak", range=[0, 105])
    return _layout(figure, height=360, barmode="group")


def stall_figure(result: StudyResult) -> Any:
    """States of each unit in the best trial of each layer, in percent of its cycles."""
    tasks = measured(result)
    names = [task.name for task in tasks]
    figure = make_subplots(
        rows=2, cols=2, subplot_titles=list(UNIT_NAMES), vertical_spacing=0.13, shared_yaxes=True
    )
    shown: set[str] = set()
    for place, unit in enumerate(UNIT_NAMES):
        for state, _ in UNIT_COUNTER_STATES:
            if state == f"token_{unit}":
                continue
            shares = [_share(task, f"{unit}_{state}") for task in tasks]
            figure.add_bar(
                row=place // 2 + 1,
                col=place % 2 + 1,
                x=names,
                y=shares,
                name=STATE_LABELS[state],
                legendgroup=state,
                showlegend=state not in shown,
                marker_color=STATE_COLOURS[state],
                hovertemplate="%{y:.1f} %",
            )
            shown.add(state)
    figure.update_yaxes(range=[0, 100], ticksuffix=" %")
    return _layout(figure, height=640, barmode="stack")


def measured(result: StudyResult) -> list[TaskResult]:
    """Tasks with a valid trial."""
    return [task for task in result.tasks if task.best is not None]


def _share(task: TaskResult, counter: str) -> float:
    best, cycles = task.best, task.best_cycles
    if best is None or not cycles:
        return 0.0
    return 100 * best.measurement.counters.get(counter, 0) / cycles


def _layout(figure: Any, *, height: int, **more: Any) -> Any:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.2},
        **more,
    )
    return figure
