# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's report, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.host.common.names import counted
from tilewright.host.machine.registers import UNIT_NAMES
from tilewright.tuner.report import figures, summary
from tilewright.tuner.report.drawing.page import paragraph
from tilewright.tuner.report.drawing.table import Cell, Column, Row, table
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.study.results import (
    FAILURES_KEPT,
    StudyResult,
    TaskResult,
    ratio,
    schedule_text,
)

LOOP_ORDERS: Final[Mapping[str, str]] = {
    "output": "a tile of the output stays on chip while inputs and weights stream past it",
    "weight": "weights stay on chip while the tiles of the image pass by",
    "input": "a tile of the input stays on chip while the weights pass by",
}

FUSIONS: Final[Mapping[str, str]] = {
    "tile": "results are requantised and stored once per tile",
    "block": "results are requantised and stored per block of output channels, while the next "
    "block is still computed",
}

WORDS: Final[Mapping[str, str]] = {
    "default": "cycles of the untuned schedule on the configuration that the study began with",
    "best": "fewest cycles of a valid measurement",
    "bound": "cycles that no schedule on this configuration can undercut: the larger of the MAC "
    "cycles and the time of the compulsory DRAM traffic",
    "of bound": "bound / best: 100 % cannot be improved",
    "speed-up": "default / best",
    "count": "how often the network has this layer",
    "measurement": "one distinct (configuration, layer, schedule) that was simulated; repeats of "
    "earlier studies are counted as well",
    "valid/trials": "measurements of the search that gave a correct result, of all",
    "confirmed": "valid of all measurements that were repeated on the slower, checked fidelity",
    "energy": "of a model that weighs the on-chip counters; good for comparing networks of one "
    "study, not for milliwatts",
    "area": "mean share of the board's LUTs, flip-flops, block RAMs and DSPs",
    "rtl": "fidelity: the RTL that goes into the FPGA, simulated, its output checked bit by bit",
    "dpi": "fidelity: the RTL's control with arithmetic and memories in C++, output checked",
    "timing": "fidelity: the RTL's control alone; cycles without data",
    "twin": "fidelity: a C++ program that counts the same cycles as the RTL",
}
"""Words of the page in the order of the glossary; headings of tables are explained by them."""


def schedule_words(schedule: Mapping[str, Any]) -> str:
    """A schedule in words, one choice per line."""
    rows, columns = schedule["h_threading"], schedule["oc_threading"]
    threads = f"threads {rows}x{columns}: "
    if rows * columns == 1:
        threads += "one thread; loads wait for the arithmetic"
    else:
        threads += (
            f"{rows} over output rows x {columns} over output channels; while one computes, "
            "another loads"
        )
    loop_order, fusion = str(schedule["loop_order"]), str(schedule["fusion"])
    tile = (
        f"output tile: b {counted(schedule['tile_b'], 'block')} of the batch, "
        f"h {counted(schedule['tile_h'], 'row')}, w {counted(schedule['tile_w'], 'column')}, "
        f"co {counted(schedule['tile_co'], 'block')} of output channels"
    )
    return "\n".join(
        (
            tile,
            f"ci {counted(schedule['tile_ci'], 'block')} of input channels loaded at a time",
            threads,
            f"loop order {loop_order}: {LOOP_ORDERS.get(loop_order, 'of the loops over tiles')}",
            f"fusion {fusion}: {FUSIONS.get(fusion, 'of the end of a layer behind its sums')}",
        )
    )


def layer_words(task: Mapping[str, Any]) -> str:
    """A layer in words."""
    kind = str(task["kind"])
    text = f"{task['name']}: {'convolution' if kind == 'conv2d' else kind}"
    if "kernel_h" in task:
        text += f" {task['kernel_h']}x{task['kernel_w']}, stride {task['stride_h']}"
    if "channels_in" in task:
        text += f", {task['channels_in']} to {task['channels_out']} channels"
    if "height" in task:
        text += f", input of {task['height']}x{task['width']}"
    if task.get("residual"):
        text += "; adds the shortcut of its residual block"
        text += " (the r of its name)" if str(task["name"]).endswith("r") else ""
    if task.get("relu"):
        text += "; ReLU"
    if task.get("weight_bits") == 4:
        text += "; weights of 4 bits"
    return text


def _figure(title: str, word: str = "") -> Column:
    return Column(title=title, number=True, explained=WORDS.get(word or title, ""))


def task_table(result: StudyResult) -> str:
    """Each layer with its default, best and least possible cycles, and its best schedule."""
    columns = [
        Column(title="layer"),
        _figure("best cycles", "best"),
        _figure("speed-up"),
        _figure("of bound"),
        _figure("default", "default"),
        _figure("bound"),
        _figure("count"),
        _figure("valid/trials"),
        *([] if result.screening is None else [_figure("confirmed")]),
        *([] if result.shared else [Column(title="configuration")]),
        Column(title="best schedule"),
    ]
    shapes = {str(task["name"]): layer_words(task) for task in result.settings["tasks"]}
    rows = [_task_row(result, task, shapes[task.name]) for task in result.tasks]
    total = Row(
        cells=(
            "network" if result.shared else "sum (not deployable)",
            summary.number(result.best_network),
            summary.factor(ratio(result.default_network, result.best_network)),
            summary.percent(ratio(result.bound_network, result.best_network)),
            summary.number(result.default_network),
            summary.number(result.bound_network),
            "",
            *summary.trial_counts(result),
            *([] if result.shared else [""]),
            "",
        ),
        total=True,
    )
    return table("Layers and their cycles", columns, [*rows, total])


def _task_row(result: StudyResult, task: TaskResult, shape: str) -> Row:
    best = task.best
    hardware = "-" if best is None else result.config_name(best.config_hash)
    schedule = (
        "-"
        if best is None
        else Cell(text=schedule_text(best.schedule), explained=schedule_words(best.schedule))
    )
    return Row(
        cells=(
            Cell(text=task.name, explained=shape),
            summary.number(task.best_cycles),
            summary.factor(task.speedup),
            summary.percent(task.of_bound),
            summary.number(task.default_cycles),
            summary.number(task.bound),
            str(task.count),
            *summary.trial_counts(result, task.name),
            *([] if result.shared else [hardware]),
            schedule,
        )
    )


def config_table(result: StudyResult) -> str:
    """Each configuration that was considered, with its area, bound and best network."""
    search = result.search
    resources = ("lut", "ff", "bram36", "dsp")
    columns = [
        Column(title="configuration"),
        Column(title="status"),
        *(_figure(f"{name} of {result.settings['board'][name]:,}") for name in resources),
        _figure("network bound", "bound"),
        _figure("network best", "best"),
        _figure("measurements", "measurement"),
        *([Column(title="remark", wide=True)] if any(c.reason for c in search.configs) else []),
    ]
    counts = {task.name: task.count for task in search.tasks}
    rows = []
    for config in search.configs:
        chosen = result.chosen is not None and config.config_hash == result.chosen.config_hash
        mine = sum(n for (key, _), n in search.summary.trials.items() if key == config.config_hash)
        curve = search.network_curve(config.config_hash)
        bound = sum(config.bounds.get(task, 0) * count for task, count in counts.items())
        rows.append(
            Row(
                cells=(
                    _config_label(str(config.hw["name"]), config.config_hash),
                    "chosen" if chosen else config.status,
                    *(f"{config.area[name]:,}" for name in resources),
                    summary.number(bound),
                    summary.number(curve[-1][1] if curve else None),
                    summary.number(mine),
                    *([config.reason] if len(columns) > 9 else []),
                ),
                strong=chosen,
            )
        )
    remarks = [line for line in summary.hardware_lines(result) if line.startswith("per-layer")]
    return "".join(paragraph(line, "note") for line in remarks) + table(
        "Configurations that were considered", columns, rows
    )


def _config_label(name: str, config_hash: str) -> str:
    """A name with the hash that tells configurations of one name apart."""
    return name if name.endswith(config_hash) else f"{name} ({config_hash})"


def pareto_table(result: StudyResult, archive: Sequence[Point]) -> str:
    """The networks that no other one beats in cycles, energy and area at once."""
    columns = [
        Column(title="point", number=True, explained="number of the point in the chart"),
        _figure("network cycles", "best"),
        Column(title="ms", number=True, explained=f"at {result.clock_text}"),
        _figure("energy (relative)", "energy"),
        _figure("area"),
        Column(title="configuration"),
        Column(title="remark"),
    ]
    rows = []
    for place, point in enumerate(archive, start=1):
        chosen = figures.is_chosen(result, point)
        cells = (
            str(place),
            summary.number(point.cycles),
            f"{result.milliseconds(point.cycles):.2f}",
            f"{point.energy / archive[0].energy:.3f}",
            summary.percent(point.area),
            point.config,
            "chosen" if chosen else "",
        )
        rows.append(Row(cells=cells, strong=chosen))
    return table("Pareto front of the networks", columns, rows)


def utilisation_table(result: StudyResult) -> str:
    """What `figures.utilisation_figure` shows."""
    columns = [Column(title="layer"), _figure("issued, % of peak"), _figure("useful, % of peak")]
    rows = [
        Row(cells=(name, f"{issued:.1f}", f"{useful:.1f}"))
        for name, issued, useful in figures.utilisation(result)
    ]
    return table("Utilisation of the MAC array", columns, rows)


def stall_table(result: StudyResult) -> str:
    """What `figures.stall_figures` show, in percent of a layer's cycles."""
    columns = [
        Column(title="layer"),
        Column(title="unit"),
        *(_figure(f"{name}, %") for name in figures.STATE_LABELS.values()),
    ]
    rows = [
        Row(
            cells=(
                task.name,
                unit,
                *(
                    "-"
                    if state == f"token_{unit}"
                    else f"{figures.state_share(task, unit, state):.1f}"
                    for state in figures.STATE_LABELS
                ),
            )
        )
        for task in figures.measured(result)
        for unit in UNIT_NAMES
    ]
    return table("States of the units", columns, rows)


def failure_table(result: StudyResult) -> str:
    """Trials without a valid measurement, confirmations first."""
    studies = [result] if result.screening is None else [result, result.screening]
    failed = [(study, trial) for study in studies for trial in study.failures]
    if not failed:
        return paragraph("None.", "note")
    rows = [
        Row(
            cells=(
                str(trial.sequence),
                str(study.settings["fidelity"]),
                trial.task,
                result.config_name(trial.config_hash),
                Cell(text=schedule_text(trial.schedule), explained=schedule_words(trial.schedule)),
                trial.measurement.status.value,
                trial.measurement.failure,
            )
        )
        for study, trial in failed[:FAILURES_KEPT]
    ]
    columns = [
        _figure("trial"),
        Column(title="fidelity"),
        Column(title="layer"),
        Column(title="configuration"),
        Column(title="schedule"),
        Column(title="status"),
        Column(title="reason", wide=True),
    ]
    more = sum(summary.failure_counts(result).values()) - len(rows)
    note = paragraph(f"and {more:,} more in the store", "note") if more > 0 else ""
    return table("Trials without a valid measurement", columns, rows) + note
