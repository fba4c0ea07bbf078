# SPDX-License-Identifier: Apache-2.0
"""The charts of a study's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilewright.host.common.names import counted
from tilewright.host.machine.registers import UNIT_NAMES
from tilewright.host.network.workload import Workload
from tilewright.tuner.report.drawing.bar_chart import BarChart, Bars, Layout
from tilewright.tuner.report.drawing.marks import series_colour, series_dash, series_marker
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.study.results import Confirmation, StudyResult, TaskResult, task_curve

STATE_COLOURS: Final = {
    "busy": "c2",
    "token_load": "c0",
    "token_gemm": "c1",
    "token_vector": "c3",
    "token_store": "c5",
    "memory": "c6",
    "idle": "pale",
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
"""Networks slower than this many times the best one lie outside the view of the race."""

NEAR: Final = 0.012
"""Points of a Pareto plot closer than this share of both axes are drawn as one."""


def race_figure(result: StudyResult) -> XYChart:
    """Network cycles against measurements: each configuration, the best, what was confirmed."""
    search = result.search
    curves: list[Series] = []
    best = search.network_curve()
    if best:
        label = "best network" if search.shared else "sum over layers"
        curves.append(_steps(label, best, search.summary.count, "ink", width=5.0, faint=True))
    for number, config in enumerate(search.configs if search.shared else ()):
        curve = search.network_curve(config.config_hash)
        if curve:
            end = search.summary.last[config.config_hash] + 1
            name, colour = str(config.hw["name"]), series_colour(number)
            curves.append(_steps(name, curve, end, colour, dash=series_dash(number)))
    cycles = [y for each in curves for y in each.y if y is not None]
    y_axis, note = _race_view(result, cycles)
    bound = result.bound_network
    return XYChart(
        alt="Cycles of the best network found so far against measurements, per configuration",
        x=Axis(title="measurements", low=0, high=max(1, search.summary.count) * 1.02),
        y=y_axis,
        series=[*curves, *_marked_networks(result)],
        levels=[] if bound is None else [(bound, "bound")],
        note=note,
        height=400,
    )


def _steps(
    name: str, curve: Sequence[tuple[int, int]], end: int, colour: str, *, dash: str = "",
    width: float = 2.0, faint: bool = False,
) -> Series:  # fmt: skip
    """An anytime curve, drawn on to measurement ``end``."""
    points = [*thinned(curve), (end, curve[-1][1])]
    return Series(
        name=name, x=[x for x, _ in points], y=[y for _, y in points], colour=colour, dash=dash,
        width=width, faint=faint, step=True, hover=True,
    )  # fmt: skip


def thinned(curve: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most `CURVE_POINTS` points of a curve, first and last among them."""
    step = -(-len(curve) // CURVE_POINTS)
    return list(curve) if step <= 1 else [*curve[:-1:step], curve[-1]]


def _marked_networks(result: StudyResult) -> list[Series]:
    """The untuned and the best network where the search completed what is confirmed."""
    chosen = {task.best.sequence for task in result.tasks if task.best is not None}
    known = result.confirmations
    untuned = [c for c in known if c.trial.origin == "default"]
    tuned = [c for c in known if c.trial.sequence in chosen]
    fidelity = result.settings["fidelity"]
    marks = []
    for name, cycles, parts, shape in (
        ("untuned", result.default_network, untuned, "diamond"),
        ("best", result.best_network, tuned, "star"),
    ):
        if cycles is not None and parts:
            confirmed = f"confirmed on {fidelity} in {counted(len(parts), 'measurement')}"
            tip = f"{name}: {cycles:,} cycles, {confirmed}"
            marks.append(
                Series(
                    name=f"{name}, confirmed on {fidelity}", width=0, marker=shape, size=13,
                    x=[max(part.measurement for part in parts)], y=[cycles], colour="ink",
                    tips=[tip],
                )
            )  # fmt: skip
    return marks


def _race_view(result: StudyResult, values: Sequence[float]) -> tuple[Axis, str]:
    """A view of the networks near the best one, and what lies outside of it."""
    bound = result.bound_network
    if not values:
        return Axis(title="network cycles", low=0, high=2 * (bound or 1)), ""
    best, worst = min(values), max(values)
    low = best if bound is None else min(best, bound)
    high = max(cycles for cycles in values if cycles <= SHOWN_RATIO * best)
    margin = 0.08 * max(high - low, best / 20)
    outside = worst > high + 2 * margin
    note = f"slower ones, up to {worst:,.0f} cycles, are not shown" if outside else ""
    return Axis(title="network cycles", low=low - margin, high=high + 2 * margin), note


def layer_figures(result: StudyResult) -> list[tuple[str, XYChart]]:
    """Best cycles of each layer against measurements, relative to its first; a chart per layer."""
    search = result.search
    charts = []
    x_axis = Axis(title="measurements", low=0, high=max(1, search.summary.count) * 1.02)
    marks = _marked_trials(result)
    for task in search.tasks:
        curve = thinned(task_curve(search.summary.improvements, task.name))
        if not curve:
            continue
        first, last = curve[0][1], curve[-1][1]
        points = [*curve, (search.summary.count, last)]
        series = [
            Series(
                name="best cycles", x=[x for x, _ in points], y=[y for _, y in points], step=True,
                hover=True, legend=False,
            )
        ]  # fmt: skip
        if found := marks.get(task.name):
            at, cycles = found.measurement, found.trial.measurement.cycles or 0
            fidelity = result.settings["fidelity"]
            series.append(
                Series(
                    name=f"confirmed on {fidelity}", x=[at], y=[cycles], width=0, marker="star",
                    size=11, colour="ink", tips=[f"{task.name}: {cycles:,} cycles on {fidelity}"],
                )
            )  # fmt: skip
        chart = XYChart(
            alt=f"Best cycles of {task.name} against measurements: from {first:,} to {last:,}",
            x=x_axis,
            y=Axis(title="cycles", low=0, high=first * 1.06),
            series=series,
            small=True,
            height=112,
        )
        charts.append((f"{task.name}: {100 * last / first:.0f} % of {first:,}", chart))
    return charts


def _marked_trials(result: StudyResult) -> dict[str, Confirmation]:
    """What was confirmed of each layer's best trial."""
    chosen = {task.best.sequence for task in result.tasks if task.best is not None}
    return {c.trial.task: c for c in result.confirmations if c.trial.sequence in chosen}


def pareto_figure(result: StudyResult, archive: Sequence[Point]) -> XYChart:
    """Energy against cycles of the networks that no other one beats, by configuration."""
    return _pareto_chart(result, archive, list(dict.fromkeys(point.config for point in archive)))


def pareto_details(result: StudyResult, archive: Sequence[Point]) -> list[tuple[str, XYChart]]:
    """`pareto_figure` of each configuration with several points alone; none for a single one."""
    names = list(dict.fromkeys(point.config for point in archive))
    if len(names) < 2:
        return []
    return [
        (f"{name} alone", _pareto_chart(result, archive, [name], colour=number, height=300))
        for number, name in enumerate(names)
        if sum(point.config == name for point in archive) > 1
    ]


def _pareto_chart(
    result: StudyResult, archive: Sequence[Point], names: Sequence[str], *, colour: int = 0,
    height: int = 400,
) -> XYChart:  # fmt: skip
    """Points of some configurations, the first of them in a colour of the palette."""
    shown = [point for point in archive if point.config in names]
    x_axis = spanning("network cycles", [p.cycles for p in shown])
    y_axis = spanning("energy (relative)", [p.energy / archive[0].energy for p in shown])
    series = []
    for number, name in enumerate(names, start=colour):
        groups = _grouped(archive, name, x_axis, y_axis)
        first = [group[0] for group in groups]
        series.append(
            Series(
                name=f"{name}: {100 * archive[first[0]].area:.0f} % of the board",
                x=[archive[k].cycles for k in first],
                y=[archive[k].energy / archive[0].energy for k in first],
                width=1.0, dash="2 3", colour=series_colour(number),
                marker=series_marker(number), size=11,
                labels=[numbers_text(group) for group in groups],
                tips=["\n".join(point_text(archive, k) for k in group) for group in groups],
            )
        )  # fmt: skip
    chosen = [p for p in shown if is_chosen(result, p)][:1]
    if chosen:
        series.append(
            Series(
                name="chosen", x=[chosen[0].cycles], y=[chosen[0].energy / archive[0].energy],
                width=0, marker="ring", size=20, colour="ink",
            )
        )  # fmt: skip
    return XYChart(
        alt=f"Energy against cycles of networks that no other one beats: {', '.join(names)}",
        x=x_axis, y=y_axis, series=series, height=height,
    )  # fmt: skip


def _grouped(archive: Sequence[Point], name: str, x: Axis, y: Axis) -> list[list[int]]:
    """Positions of a configuration's points, those that would cover each other together."""
    groups: list[list[int]] = []
    for position, point in enumerate(archive):
        if point.config != name:
            continue
        for group in groups:
            first = archive[group[0]]
            across = abs(point.cycles - first.cycles) / (x.high - x.low)
            up = abs(point.energy - first.energy) / archive[0].energy / (y.high - y.low)
            if across < 2 * NEAR and up < 3 * NEAR:
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def numbers_text(positions: Sequence[int]) -> str:
    """Numbers from 1 of some positions, neighbours as a range: ``1-3, 5``."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ", ".join(
        str(run[0] + 1) + (f"\N{EN DASH}{run[-1] + 1}" if len(run) > 1 else "") for run in runs
    )


def point_text(archive: Sequence[Point], position: int) -> str:
    """A network of the archive in a line."""
    point = archive[position]
    return (
        f"{position + 1}: {point.config}, {point.cycles:,} cycles, "
        f"energy {point.energy / archive[0].energy:.3f}"
    )


def is_chosen(result: StudyResult, point: Point) -> bool:
    """Whether a network of the archive is the one that the study reports."""
    if result.chosen is None or result.chosen.config_hash != point.config_hash:
        return False
    best = {task.name: task.best for task in result.tasks}
    return all(
        trial is not None and dict(trial.schedule) == dict(point.schedules[name])
        for name, trial in best.items()
    )


def bound_figure(result: StudyResult) -> BarChart:
    """Untuned, best and least possible cycles of each layer."""
    tasks = measured(result)

    def bars(name: str, values: Sequence[int | None], colour: str, *, tick: bool = False) -> Bars:
        tips = [
            f"{task.name}, {name}: {value or 0:,} cycles"
            for task, value in zip(tasks, values, strict=True)
        ]
        return Bars(name=name, values=values, colour=colour, tips=tips, tick=tick)

    shown = [
        bars("untuned default", [t.default_cycles for t in tasks], "pale"),
        bars("best", [t.best_cycles for t in tasks], "c0"),
        bars("bound", [t.bound for t in tasks], "c1", tick=True),
    ]
    known = [value for each in shown for value in each.values if value is not None]
    return BarChart(
        alt="Cycles of each layer: untuned, best and bound",
        rows=[task.name for task in tasks],
        axis=spanning("cycles of one occurrence", known, zero=True),
        bars=shown,
        layout=Layout.OVERLAID,
    )


def utilisation(result: StudyResult) -> list[tuple[str, float, float]]:
    """Per measured layer: percent of cycles with an issued tile product, and of useful MACs."""
    macs = {str(t["name"]): Workload.from_mapping(t).macs for t in result.settings["tasks"]}
    found = []
    for task in measured(result):
        best, cycles = task.best, task.best_cycles
        if best is None or not cycles:
            continue
        per_cycle = best.hw["batch"] * best.hw["block_in"] * best.hw["block_out"]
        issued = 100 * best.measurement.counters.get("macs_tiles", 0) / cycles
        found.append((task.name, issued, 100 * macs[task.name] / (cycles * per_cycle)))
    return found


def utilisation_figure(result: StudyResult) -> BarChart:
    """Share of the MAC array that each layer's best trial keeps busy, and of use."""
    rows = utilisation(result)
    return BarChart(
        alt="Share of the MAC array's peak that each layer issues and uses",
        rows=[name for name, _, _ in rows],
        axis=Axis(title="% of peak", low=0, high=100),
        bars=[
            Bars(name="issued", values=[v for _, v, _ in rows], colour="pale",
                 tips=[f"{name}: {v:.1f} % issued" for name, v, _ in rows]),
            Bars(name="useful", values=[v for _, _, v in rows], colour="c2",
                 tips=[f"{name}: {v:.1f} % useful" for name, _, v in rows]),
        ],
        layout=Layout.OVERLAID,
    )  # fmt: skip


def stall_figures(result: StudyResult) -> list[tuple[str, BarChart]]:
    """States of each unit in the best trial of each layer, in percent of its cycles."""
    tasks = measured(result)
    charts = []
    for unit in UNIT_NAMES:
        bars = []
        for state in STATE_LABELS:
            values = [state_share(task, unit, state) for task in tasks]
            name = STATE_LABELS[state]
            tips = [
                f"{task.name}, {unit}: {name}, {value:.1f} %"
                for task, value in zip(tasks, values, strict=True)
            ]
            bars.append(Bars(name=name, values=values, colour=STATE_COLOURS[state], tips=tips))
        chart = BarChart(
            alt=f"States of the {unit} unit in percent of each layer's cycles",
            rows=[task.name for task in tasks],
            axis=Axis(title="% of the layer's cycles", low=0, high=100),
            bars=bars,
            layout=Layout.STACKED,
        )
        charts.append((unit, chart))
    return charts


def measured(result: StudyResult) -> list[TaskResult]:
    """Tasks with a valid trial."""
    return [task for task in result.tasks if task.best is not None]


def state_share(task: TaskResult, unit: str, state: str) -> float:
    """Percent of the cycles of a layer's best trial that a unit is in a state."""
    best, cycles = task.best, task.best_cycles
    if best is None or not cycles:
        return 0.0
    return 100 * best.measurement.counters.get(f"{unit}_{state}", 0) / cycles
