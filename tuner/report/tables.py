# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's report, as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tilewright.host.common.names import counted
from tilewright.host.machine.registers import UNIT_NAMES
from tilewright.tuner.report import figures, summary
from tilewright.tuner.report.drawing.page import paragraph
from tilewright.tuner.report.drawing.table import Cell, Column, Row, table_of
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.store.records import StoredConfig
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
    if task.get("chained"):
        text += "; not folded"
    return text


def _figure(title: str, word: str = "") -> Column:
    return Column(title=title, number=True, explained=WORDS.get(word or title, ""))


def _schedule_cell(schedule: Mapping[str, Any]) -> Cell:
    return Cell(text=schedule_text(schedule), explained=schedule_words(schedule))


def task_table(result: StudyResult) -> str:
    """Each layer with its default, best and least possible cycles, and its best schedule."""
    shapes = {str(task["name"]): layer_words(task) for task in result.settings["tasks"]}
    counts = {task.name: summary.trial_counts(result, task.name) for task in result.tasks}
    columns: dict[str | Column, Callable[[TaskResult], str | Cell]] = {
        Column(title="layer"): lambda task: Cell(text=task.name, explained=shapes[task.name]),
        _figure("best cycles", "best"): lambda task: summary.number(task.best_cycles),
        _figure("speed-up"): lambda task: summary.factor(task.speedup),
        _figure("of bound"): lambda task: summary.percent(task.of_bound),
        _figure("default", "default"): lambda task: summary.number(task.default_cycles),
        _figure("bound"): lambda task: summary.number(task.bound),
        _figure("count"): lambda task: str(task.count),
        _figure("valid/trials"): lambda task: counts[task.name][0],
    }
    if result.screening is not None:
        columns[_figure("confirmed")] = lambda task: counts[task.name][1]
    if not result.shared:
        columns[Column(title="configuration")] = lambda task: (
            "-" if task.best is None else result.config_name(task.best.config_hash)
        )
    columns[Column(title="best schedule")] = lambda task: (
        "-" if task.best is None else _schedule_cell(task.best.schedule)
    )
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
    return table_of("Layers and their cycles", result.tasks, columns, total=[total])


def config_table(result: StudyResult) -> str:
    """Each configuration that was considered, with its area, bound and best network."""
    search, chosen = result.search, result.chosen
    counts = {task.name: task.count for task in search.tasks}
    curves = {each.config_hash: search.network_curve(each.config_hash) for each in search.configs}
    made: Counter[str] = Counter()
    for (config_hash, _), trials in search.summary.trials.items():
        made[config_hash] += trials

    def is_chosen(config: StoredConfig) -> bool:
        return chosen is not None and config.config_hash == chosen.config_hash

    def area(name: str) -> Callable[[StoredConfig], str]:
        return lambda config: f"{config.area[name]:,}"

    def bound(config: StoredConfig) -> str:
        return summary.number(sum(config.bounds.get(task, 0) * n for task, n in counts.items()))

    def best(config: StoredConfig) -> str:
        curve = curves[config.config_hash]
        return summary.number(curve[-1][1] if curve else None)

    columns: dict[str | Column, Callable[[StoredConfig], str | Cell]] = {
        Column(title="configuration"): lambda config: _config_label(
            str(config.hw["name"]), config.config_hash
        ),
        Column(title="status"): lambda config: "chosen" if is_chosen(config) else config.status,
        **{
            _figure(f"{name} of {result.settings['board'][name]:,}"): area(name)
            for name in ("lut", "ff", "bram36", "dsp")
        },
        _figure("network bound", "bound"): bound,
        _figure("network best", "best"): best,
        _figure("measurements", "measurement"): lambda config: summary.number(
            made[config.config_hash]
        ),
    }
    if any(each.reason for each in search.configs):
        columns[Column(title="remark", wide=True)] = lambda config: config.reason
    remarks = [line for line in summary.hardware_lines(result) if line.startswith("per-layer")]
    return "".join(paragraph(line, "note") for line in remarks) + table_of(
        "Configurations that were considered", search.configs, columns, strong=is_chosen
    )


def _config_label(name: str, config_hash: str) -> str:
    """A name with the hash that tells configurations of one name apart."""
    return name if name.endswith(config_hash) else f"{name} ({config_hash})"


def pareto_table(result: StudyResult, archive: Sequence[Point]) -> str:
    """The networks that no other one beats in cycles, energy and area at once."""
    places = {id(point): str(place) for place, point in enumerate(archive, start=1)}

    def chosen(point: Point) -> bool:
        return figures.is_chosen(result, point)

    return table_of(
        "Pareto front of the networks",
        archive,
        {
            Column(title="point", number=True, explained="number of the point in the chart"): (
                lambda point: places[id(point)]
            ),
            _figure("network cycles", "best"): lambda point: summary.number(point.cycles),
            Column(title="ms", number=True, explained=f"at {result.clock_text}"): (
                lambda point: f"{result.milliseconds(point.cycles):.2f}"
            ),
            _figure("energy (relative)", "energy"): (
                lambda point: f"{point.energy / archive[0].energy:.3f}"
            ),
            _figure("area"): lambda point: summary.percent(point.area),
            Column(title="configuration"): lambda point: point.config,
            Column(title="remark"): lambda point: "chosen" if chosen(point) else "",
        },
        strong=chosen,
    )


def utilisation_table(result: StudyResult) -> str:
    """What `figures.utilisation_figure` shows."""
    return table_of(
        "Utilisation of the MAC array",
        figures.utilisation(result),
        {
            Column(title="layer"): lambda row: row[0],
            "issued, % of peak": lambda row: f"{row[1]:.1f}",
            "useful, % of peak": lambda row: f"{row[2]:.1f}",
        },
    )


def stall_table(result: StudyResult) -> str:
    """What `figures.stall_figures` show, in percent of a layer's cycles."""

    def share(state: str) -> Callable[[tuple[TaskResult, str]], str]:
        return lambda of: (
            "-" if state == f"token_{of[1]}" else f"{figures.state_share(*of, state):.1f}"
        )

    return table_of(
        "States of the units",
        [(task, unit) for task in figures.measured(result) for unit in UNIT_NAMES],
        {
            Column(title="layer"): lambda of: of[0].name,
            Column(title="unit"): lambda of: of[1],
            **{f"{name}, %": share(state) for state, name in figures.STATE_LABELS.items()},
        },
    )


def failure_table(result: StudyResult) -> str:
    """Trials without a valid measurement, confirmations first."""
    studies = [result] if result.screening is None else [result, result.screening]
    failed = [(study, trial) for study in studies for trial in study.failures][:FAILURES_KEPT]
    if not failed:
        return paragraph("None.", "note")
    more = sum(summary.failure_counts(result).values()) - len(failed)
    note = paragraph(f"and {more:,} more in the store", "note") if more > 0 else ""
    return (
        table_of(
            "Trials without a valid measurement",
            failed,
            {
                "trial": lambda of: str(of[1].sequence),
                Column(title="fidelity"): lambda of: str(of[0].settings["fidelity"]),
                Column(title="layer"): lambda of: of[1].task,
                Column(title="configuration"): lambda of: result.config_name(of[1].config_hash),
                Column(title="schedule"): lambda of: _schedule_cell(of[1].schedule),
                Column(title="status"): lambda of: of[1].measurement.status.value,
                Column(title="reason", wide=True): lambda of: of[1].measurement.failure,
            },
        )
        + note
    )
