# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's report, as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tilewright.tuner.report.figures import is_chosen
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.report.summary import (
    factor,
    failure_counts,
    hardware_lines,
    number,
    percent,
    trial_counts,
)
from tilewright.tuner.study.results import (
    FAILURES_KEPT,
    StudyResult,
    ratio,
    schedule_text,
)

Row = tuple[str, Sequence[str]]
"""CSS class of a row, and its cells."""


def _table(headings: Sequence[tuple[str, bool]], rows: Sequence[Row]) -> str:
    """A table; a heading says whether its column is numeric."""

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


def task_table(result: StudyResult) -> str:
    """Each layer with its default, best and least possible cycles, and its best schedule."""
    headings = [
        ("layer", False),
        ("count", True),
        ("default cycles", True),
        ("best cycles", True),
        ("speed-up", True),
        ("bound", True),
        ("of bound", True),
        ("valid/trials", True),
        *([] if result.screening is None else [("confirmed", True)]),
        *([] if result.shared else [("configuration", False)]),
        ("schedule", False),
    ]
    rows: list[Row] = []
    for task in result.tasks:
        best = task.best
        hardware = "-" if best is None else result.config_name(best.config_hash)
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
                    *trial_counts(result, task.name),
                    *([] if result.shared else [hardware]),
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
                *trial_counts(result),
                *([] if result.shared else [""]),
                "",
            ),
        )
    )
    return _table(headings, rows)


def config_table(result: StudyResult) -> str:
    """Each configuration that was considered, with its area, bound and best network."""
    search = result.search
    resources = ("lut", "ff", "bram36", "dsp")
    headings = [("configuration", False), ("status", False)]
    headings += [(f"{name} of {result.settings['board'][name]:,}", True) for name in resources]
    headings += [("network bound", True), ("network best", True), ("measurements", True)]
    headings += [("remark", False)]
    counts = {task.name: task.count for task in search.tasks}
    rows: list[Row] = []
    for config in search.configs:
        chosen = result.chosen is not None and config.config_hash == result.chosen.config_hash
        mine = sum(n for (key, _), n in search.summary.trials.items() if key == config.config_hash)
        curve = search.network_curve(config.config_hash)
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
                    number(mine),
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


def pareto_table(result: StudyResult, archive: Sequence[Point]) -> str:
    """The networks that no other one beats in cycles, energy and area at once."""
    headings = [
        ("network cycles", True),
        (f"ms at {result.clock_mhz:g} MHz", True),
        ("energy (relative)", True),
        ("area", True),
        ("configuration", False),
        ("", False),
    ]
    rows: list[Row] = []
    for point in archive:
        chosen = is_chosen(result, point)
        cells = (
            number(point.cycles),
            f"{result.milliseconds(point.cycles):.2f}",
            f"{point.energy / archive[0].energy:.3f}",
            percent(point.area),
            point.config,
            "chosen" if chosen else "",
        )
        rows.append(("total" if chosen else "", cells))
    return _table(headings, rows)


def failure_table(result: StudyResult) -> str:
    """Trials without a valid measurement, confirmations first."""
    studies = [result] if result.screening is None else [result, result.screening]
    failed = [(study, trial) for study in studies for trial in study.failures]
    if not failed:
        return "<p class='note'>None.</p>"
    rows: list[Row] = [
        (
            "",
            (
                str(trial.sequence),
                str(study.settings["fidelity"]),
                trial.task,
                result.config_name(trial.config_hash),
                schedule_text(trial.schedule),
                trial.measurement.status.value,
                trial.measurement.failure,
            ),
        )
        for study, trial in failed[:FAILURES_KEPT]
    ]
    headings = [
        ("trial", True),
        ("fidelity", False),
        ("layer", False),
        ("configuration", False),
        ("schedule", False),
        ("status", False),
        ("reason", False),
    ]
    more = sum(failure_counts(result).values()) - len(rows)
    note = f"<p class='note'>and {more:,} more in the store</p>" if more > 0 else ""
    return _table(headings, rows) + note
