# SPDX-License-Identifier: Apache-2.0
"""The report of a study as one self-contained HTML file (no external loads)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tilewright.host.errors import StoreError
from tilewright.host.registers import UNIT_COUNTER_STATES, UNIT_NAMES
from tilewright.host.workload import Workload
from tilewright.tuner.measurement import Status
from tilewright.tuner.report import (
    condition_lines,
    factor,
    hardware_lines,
    mismatch_lines,
    number,
    outcome_line,
    percent,
)
from tilewright.tuner.results import (
    StudyResult,
    TaskResult,
    network_curve,
    ratio,
    schedule_text,
    task_curve,
)

STATE_COLOURS: Final = {
    "busy": "#2f7d4f",
    "token_load": "#4c78a8",
    "token_gemm": "#e4a11b",
    "token_vector": "#b279a2",
    "token_store": "#9d755d",
    "memory": "#d1495b",
    "idle": "#c9ccd1",
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

FAILURES_SHOWN: Final = 200

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1180px;padding:0 1rem;
color:#1d2129;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem}
p.outcome{font-size:1.05rem;font-weight:600}p.wrong{color:#b00020;font-weight:600}
ul.conditions{color:#555;font-size:.86rem;padding-left:1.1rem}
div.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;width:100%}
th,td{padding:.3rem .55rem;border-bottom:1px solid #e3e5e8;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.total td{font-weight:600;border-top:2px solid #888}
p.note{color:#555;font-size:.86rem;margin-top:.2rem}
"""


def write_html(result: StudyResult, path: Path) -> Path:
    """Write the report of a study.

    Args:
        result: worked out from the store.
        path: the file to write.

    Raises:
        StoreError: the file cannot be written.
    """
    figures = [
        ("Best so far against measurements", _NETWORK_NOTE, _progress_figure(result)),
        ("Cycles of each layer against its bound", _BOUND_NOTE, _bound_figure(result)),
        ("Utilisation of the MAC array", _UTILISATION_NOTE, _utilisation_figure(result)),
        ("Where each unit's cycles go", _STALL_NOTE, _stall_figure(result)),
    ]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{html.escape(result.study.name)}</title>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(result.study.name)}</h1>",
        f"<p class='outcome'>{html.escape(outcome_line(result))}</p>",
        *(f"<p class='wrong'>{html.escape(line)}</p>" for line in mismatch_lines(result)),
        "<h2>Layers</h2>",
        _task_table(result),
        "<h2>Hardware</h2>",
        _config_table(result),
    ]
    for position, (title, note, figure) in enumerate(figures):
        parts.append(f"<h2>{title}</h2><p class='note'>{note}</p>")
        parts.append(
            figure.to_html(
                full_html=False,
                div_id=f"figure-{position}",
                include_plotlyjs=position == 0,
                config={"displayModeBar": False, "responsive": True},
            )
        )
    parts += [
        "<h2>Trials without a valid measurement</h2>",
        _failure_table(result),
        "<h2>Conditions</h2><ul class='conditions'>",
        *(f"<li>{html.escape(line)}</li>" for line in condition_lines(result)),
        "</ul></body></html>",
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the report cannot be written ({error.strerror})",
            field=str(path),
            remedy="name a writable file with --output",
        ) from error
    return path


_NETWORK_NOTE: Final = (
    "Relative to the first valid measurement. The network counts only when every layer has a "
    "valid measurement (in shared mode on one configuration). Click a name to hide a line."
)
_BOUND_NOTE: Final = (
    "One occurrence of each layer. The bound is the larger of MAC cycles and compulsory traffic; "
    "no schedule on that configuration can be faster."
)
_UTILISATION_NOTE: Final = (
    "Issued: tile products a cycle, edge padding included. Useful: the layer's own "
    "multiply-accumulates over what the array could do in the measured cycles."
)
_STALL_NOTE: Final = (
    "From the on-chip counters of the best trial of each layer. A unit is in exactly one state a "
    "cycle, so each bar adds up to 100 %."
)


def _measured(result: StudyResult) -> list[TaskResult]:
    return [task for task in result.tasks if task.best is not None]


def _layout(figure: Any, *, height: int, **more: Any) -> Any:
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.2},
        **more,
    )
    return figure


def _progress_figure(result: StudyResult) -> Any:
    figure = go.Figure()
    end = len(result.trials)
    counts = {task.name: task.count for task in result.tasks}
    label = "network" if result.shared else "sum over layers"
    curves: list[tuple[str, list[tuple[int, int]], float]] = [
        (label, network_curve(result.trials, counts, shared=result.shared), 4)
    ]
    curves += [(t.name, task_curve(result.trials, t.name), 1.2) for t in result.tasks]
    for name, curve, width in curves:
        if not curve:
            continue
        points = [*curve, (end, curve[-1][1])]
        first = curve[0][1]
        figure.add_scatter(
            x=[x for x, _ in points],
            y=[y / first for _, y in points],
            customdata=[y for _, y in points],
            hovertemplate="%{customdata:,} cycles after %{x} measurements",
            mode="lines",
            line={"shape": "hv", "width": width, **({"color": "#111"} if width > 2 else {})},
            name=name,
        )
    figure.update_xaxes(title="measurements charged to the study", rangemode="tozero")
    figure.update_yaxes(title="best cycles / first measured")
    return _layout(figure, height=460)


def _bound_figure(result: StudyResult) -> Any:
    tasks = _measured(result)
    names = [task.name for task in tasks]
    figure = go.Figure()
    series = (
        ("untuned default", [t.default_cycles for t in tasks], "#c9ccd1"),
        ("best", [t.best_cycles for t in tasks], "#2f7d4f"),
        ("bound", [t.bound for t in tasks], "#1d2129"),
    )
    for name, values, colour in series:
        figure.add_bar(x=names, y=values, name=name, marker_color=colour)
    figure.update_yaxes(title="cycles", rangemode="tozero")
    return _layout(figure, height=400, barmode="group")


def _utilisation_figure(result: StudyResult) -> Any:
    tasks = _measured(result)
    issued, useful = [], []
    macs = _macs(result)
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
    figure.add_bar(x=names, y=issued, name="issued", marker_color="#9ec5ab")
    figure.add_bar(x=names, y=useful, name="useful", marker_color="#2f7d4f")
    figure.update_yaxes(title="% of peak", range=[0, 105])
    return _layout(figure, height=360, barmode="group")


def _macs(result: StudyResult) -> dict[str, int]:
    return {str(t["name"]): Workload.from_mapping(t).macs for t in result.settings["tasks"]}


def _stall_figure(result: StudyResult) -> Any:
    tasks = _measured(result)
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


def _share(task: TaskResult, counter: str) -> float:
    best, cycles = task.best, task.best_cycles
    if best is None or not cycles:
        return 0.0
    return 100 * best.measurement.counters.get(counter, 0) / cycles


# -- tables -----------------------------------------------------------------------------------


def _table(headings: Sequence[tuple[str, bool]], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    def cell(tag: str, text: str, numeric: bool) -> str:
        return f"<{tag}{' class=n' if numeric else ''}>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", text, numeric) for text, numeric in headings)
    body = []
    for kind, cells in rows:
        line = "".join(
            cell("td", text, numeric) for text, (_, numeric) in zip(cells, headings, strict=True)
        )
        body.append(f"<tr{f' class={kind}' if kind else ''}>{line}</tr>")
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _task_table(result: StudyResult) -> str:
    headings = [
        ("layer", False),
        ("count", True),
        ("default cycles", True),
        ("best cycles", True),
        ("speed-up", True),
        ("bound", True),
        ("of bound", True),
        ("valid / trials", True),
        ("configuration", False),
        ("schedule", False),
    ]
    rows: list[tuple[str, Sequence[str]]] = []
    for task in result.tasks:
        best = task.best
        rows.append(
            (
                "",
                (
                    task.name,
                    str(task.count),
                    number(task.default_cycles),
                    number(task.best_cycles),
                    factor(task.speedup),
                    number(task.bound),
                    percent(task.of_bound),
                    f"{task.valid_trials} / {task.trials}",
                    "-" if best is None else result.config_name(best.config_hash),
                    "-" if best is None else schedule_text(best.schedule),
                ),
            )
        )
    rows.append(
        (
            "total",
            (
                "network" if result.shared else "sum (not deployable)",
                "",
                number(result.default_network),
                number(result.best_network),
                factor(ratio(result.default_network, result.best_network)),
                number(result.bound_network),
                percent(ratio(result.bound_network, result.best_network)),
                f"{sum(t.valid_trials for t in result.tasks)} / {len(result.trials)}",
                "",
                "",
            ),
        )
    )
    return _table(headings, rows)


def _config_table(result: StudyResult) -> str:
    resources = ("lut", "ff", "bram36", "dsp")
    headings = [("configuration", False), ("status", False)]
    headings += [(f"{name} of {result.settings['board'][name]:,}", True) for name in resources]
    headings += [("network bound", True), ("network best", True), ("remark", False)]
    counts = {task.name: task.count for task in result.tasks}
    rows: list[tuple[str, Sequence[str]]] = []
    for config in result.configs:
        chosen = result.chosen is not None and config.config_hash == result.chosen.config_hash
        mine = [t for t in result.trials if t.config_hash == config.config_hash]
        curve = network_curve(mine, counts, shared=True)
        bound = sum(config.bounds.get(task, 0) * count for task, count in counts.items())
        rows.append(
            (
                "total" if chosen else "",
                (
                    f"{config.hw['name']} ({config.config_hash})",
                    "chosen" if chosen else config.status,
                    *(f"{config.area[name]:,}" for name in resources),
                    number(bound),
                    number(curve[-1][1] if curve else None),
                    config.reason,
                ),
            )
        )
    remarks = "".join(
        f"<p class='note'>{html.escape(line)}</p>"
        for line in hardware_lines(result)
        if line.startswith("per-layer")
    )
    return remarks + _table(headings, rows)


def _failure_table(result: StudyResult) -> str:
    failed = [t for t in result.trials if t.measurement.status is not Status.OK]
    if not failed:
        return "<p class='note'>None.</p>"
    rows: list[tuple[str, Sequence[str]]] = [
        (
            "",
            (
                str(trial.sequence),
                trial.task,
                result.config_name(trial.config_hash),
                schedule_text(trial.schedule),
                trial.measurement.status.value,
                trial.measurement.failure,
            ),
        )
        for trial in failed[:FAILURES_SHOWN]
    ]
    headings = [
        ("trial", True),
        ("layer", False),
        ("configuration", False),
        ("schedule", False),
        ("status", False),
        ("reason", False),
    ]
    more = len(failed) - FAILURES_SHOWN
    note = f"<p class='note'>and {more} more in the store</p>" if more > 0 else ""
    return _table(headings, rows) + note
