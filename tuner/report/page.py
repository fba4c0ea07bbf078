# SPDX-License-Identifier: Apache-2.0
"""The report of a study as one self-contained HTML file (no external loads)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import counted
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.energy import DEFAULT_ENERGY
from tilewright.tuner.report import figures, tables
from tilewright.tuner.report.boards import board_lines, board_table
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.report.summary import (
    condition_lines,
    factor,
    mismatch_lines,
    number,
    outcome_line,
    percent,
    proof_lines,
    share_lines,
)
from tilewright.tuner.study.options import DEFAULT_PROOF_SECONDS
from tilewright.tuner.study.results import StudyResult, ratio, schedule_text, screening_name
from tilewright.tuner.study.settings import DEFAULT_ALLOCATOR, DEFAULT_TUNER


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """How a study is repeated."""

    command: str  # for a shell
    remarks: tuple[str, ...]  # what it cannot say by itself, such as files of the user's own


def repeat(result: StudyResult) -> Repeat:
    """The command that makes the trials of a study again, from its stored settings."""
    search, remarks = result.search.settings, list[str]()
    model, layers = _model(search, remarks)
    words = ["tilewright", "tune", model]
    board, hw, memory = search["board"], search["base"], search["memory"]
    text = "the board's file, which is not one of today's boards."
    words += [
        "--board",
        _named(board, lambda n: load_board(n).to_mapping() == board, remarks, text),
    ]
    text = "the configuration's file; its contents are below."
    base = _named(hw, lambda n: load_hwconfig(n) == HwConfig(**hw), remarks, text)
    words += ["--hw", base] if search["configs"] == 1 else ["--base", base]
    if search["configs"] != 1:
        words += ["--configs", str(search["configs"])]
    words += layers
    if memory != board["memory"]:
        text = "the file of the memory's timing."
        name = _named(memory, lambda n: vars(load_memory(n)) == memory, remarks, text)
        words += ["--memory", name]
    for option, key, default in (
        ("--mode", "mode", "shared"),
        ("--tuner", "tuner", DEFAULT_TUNER),
        ("--allocator", "allocator", DEFAULT_ALLOCATOR),
        ("--objective", "objective", "latency"),
        ("--energy", "energy", DEFAULT_ENERGY),
        ("--space", "space", "full"),
    ):
        if search.get(key, default) != default:
            words += [option, str(search[key])]
    for part in search.get("without", ()):
        words += ["--without", str(part)]
    if start := search.get("warm_start"):
        words += ["--warm-start", str(start["source"])]
        remarks.append("--warm-start needs the store that the study began with, as it was then.")
    if result.tolerance is not None:
        words += ["--within", f"{100 * result.tolerance:g}%"]
        if search["proof_seconds"] != DEFAULT_PROOF_SECONDS:
            words += ["--proof-seconds", f"{search['proof_seconds']:g}"]
    if count := search.get("asynchronous", 0):
        words += ["--asynchronous", str(count)]
    if count > 1:
        remarks.append(
            "An asynchronous search depends on the order in which its trials end: a new run may "
            "take another course. The store holds the order of this one."
        )
    if rtl := search.get("rtl"):
        words += ["--rtl", "mine/tilewright.f"]
        remarks.append(f"--rtl needs the manifest of the RTL of that day; its digest is {rtl}.")
    words += ["--budget", str(search["budget"]), "--seed", str(search["seed"])]
    words += _fidelity(result, remarks)
    if result.search.study.status != "complete":
        remarks.append(
            f"The study has {counted(result.search.summary.count, 'measurement')} of a budget of "
            f"{search['budget']}; the command makes them all."
        )
    screening = "" if result.screening is None else result.screening.study.name
    words += ["--name", screening.removesuffix(screening_name("")) or result.study.name]
    return Repeat(command=_wrapped(words), remarks=tuple(remarks))


def _fidelity(result: StudyResult, remarks: list[str]) -> list[str]:
    """What measures, with the boards that do."""
    fidelity = str(result.settings["fidelity"])
    words = [] if fidelity == Fidelity.RTL else ["--fidelity", fidelity]
    if fidelity == Fidelity.BOARD:
        words += ["--boards", "pool.yaml"]
        remarks.append("pool.yaml stands for the file that lists the agents of the boards.")
        if result.search.settings.get("bitstreams"):
            words += ["--bitstreams", "bitstreams"]
            remarks.append(
                "bitstreams stands for the folder of the bitstreams; they must be those of then."
            )
    if result.screening is None and fidelity not in (Fidelity.TWIN, Fidelity.BOARD):
        words += ["--screen", "none"]
    if result.screening is not None and fidelity == Fidelity.BOARD:
        words += ["--screen", Fidelity.TWIN.value]
    return words


def _wrapped(words: Sequence[str]) -> str:
    """A command, broken before options so that no line is long."""
    lines, line = [], ""
    for word in words:
        quoted = shlex.quote(word)
        if word.startswith("--") and len(line) > 56:
            lines.append(line + " \\")
            line = "  "
        line += quoted if not line.strip() else f" {quoted}"
    return "\n".join([*lines, line])


def _model(settings: Any, remarks: list[str]) -> tuple[str, list[str]]:
    """The model as a command names it, and ``--layers`` where only some were tuned."""
    name, tasks = str(settings["model"]), [dict(task) for task in settings["tasks"]]
    try:
        known = {w.name: w.to_mapping() for w in load_network(name).workloads}
    except TilewrightError:
        known = {}
    names = [str(task["name"]) for task in tasks]
    if not all(known.get(str(task["name"])) == task for task in tasks):
        remarks.append(
            f"The model came from a file: put its path in the place of path/to/{name}, and its "
            "options (such as --layers) if it had some."
        )
        return f"path/to/{name}", []
    return name, ([] if names == list(known) else ["--layers", ",".join(names)])


def _named(settings: Any, is_today: Callable[[str], bool], remarks: list[str], what: str) -> str:
    """A name where it still means what the study used, else a file, which a remark tells of."""
    name = str(settings["name"])
    try:
        if is_today(name):
            return name
    except TilewrightError:
        pass
    remarks.append(f"{name}.yaml stands for {what}")
    return f"{name}.yaml"


def schedules_yaml(result: StudyResult) -> str:
    """The best schedule of every layer that has one; each is a file for ``sim --schedule``."""
    found: dict[str, Any] = {}
    for task in result.tasks:
        if task.best is not None:
            entry = Schedule.from_mapping(task.best.schedule).to_mapping()  # in their usual order
            hw = result.config_name(task.best.config_hash)
            found[task.name] = entry if result.shared else {"hw": hw, "schedule": entry}
    if not found:
        return ""
    return str(yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=96))


def config_yaml(result: StudyResult) -> str:
    """The configuration that the network runs on, as a file for ``--hw``; empty: none chosen."""
    return "" if result.chosen is None else HwConfig(**result.chosen.hw).to_yaml()


def write_html(result: StudyResult, archive: Sequence[Point], path: Path) -> Path:
    """Write the report of a study."""
    return markup.write(page(result, archive), path, "--output")


def page(result: StudyResult, archive: Sequence[Point]) -> str:
    """The report of a study as HTML; arguments as of `write_html`."""
    warnings = [*mismatch_lines(result), *filter(None, share_lines(result.settings)[1:])]
    return markup.document(
        title(result),
        markup.heading(*_heading(result)),
        markup.paragraph(outcome_line(result), "lead outcome"),
        *(markup.paragraph(line, "wrong") for line in warnings),
        markup.tiles(_key_figures(result)),
        markup.section(
            "Layers",
            markup.paragraph(_LAYERS_NOTE, "note"),
            tables.task_table(result),
            _how_to_read(result),
        ),
        *_boards(result),
        markup.section("Hardware", tables.config_table(result)),
        markup.section(
            "The search",
            markup.paragraph(
                _screening_note(result) + (_RACE_NOTE if result.shared else _SUM_NOTE), "note"
            ),
            markup.figure(figures.race_figure(result), "race"),
        ),
        _layer_search(result),
        _pareto(result, archive),
        *_layer_sections(result),
        markup.section("Use it, repeat it", *_use(result)),
        markup.section("Trials without a valid measurement", tables.failure_table(result)),
        markup.section("Conditions", markup.bullets(condition_lines(result), "note")),
    )


def title(result: StudyResult) -> str:
    """What was tuned, for which board, when."""
    return ", ".join(_heading(result))


def _heading(result: StudyResult) -> tuple[str, str]:
    network, board = result.settings["model"], result.settings["board"]["name"]
    return f"{network} on {board}", f"{result.study.created[:10]}, study {result.study.name}"


def _key_figures(result: StudyResult) -> list[tuple[str, str, str]]:
    """Name, figure and remark of what a reader looks for first."""
    best, default, bound = result.best_network, result.default_network, result.bound_network
    found = [("best network" if result.shared else "sum of layers", number(best), "cycles")]
    if result.shared and best is not None:
        found.append(
            (
                "time",
                f"{result.milliseconds(best):.2f} ms",
                f"at {result.clock_text}",
            )
        )
    search = result.search
    found += [
        ("against untuned", factor(ratio(default, best)), f"{number(default)} cycles untuned"),
        ("of the bound", percent(ratio(bound, best)), f"bound: {number(bound)} cycles"),
        ("measurements", number(search.summary.count), f"on {search.settings['fidelity']}"),
    ]
    if result.chosen is not None:
        found.append(("configuration", str(result.chosen.hw["name"]), "chosen"))
    return found


def _how_to_read(result: StudyResult) -> str:
    """The words of the table, readable without a pointer."""
    entries = [
        (
            schedule_text(task.best.schedule),
            tables.schedule_words(task.best.schedule).replace("\n", "; "),
        )
        for task in result.tasks
        if task.best is not None
    ][:1]
    entries += tables.WORDS.items()
    entries += [
        (str(task["name"]), tables.layer_words(task).partition(": ")[2])
        for task in result.settings["tasks"]
    ]
    return markup.folded("What the words mean", markup.definitions(entries))


def _boards(result: StudyResult) -> list[str]:
    """What boards measured, beside the twin."""
    if not result.board_runs:
        return []
    return [
        markup.section(
            "On boards and on the twin",
            markup.paragraph(_BOARDS_NOTE, "note"),
            board_table(result),
            markup.bullets(board_lines(result), "note"),
        )
    ]


def _layer_search(result: StudyResult) -> str:
    charts = figures.layer_figures(result)
    if not charts:
        return ""
    return markup.section(
        "The search of each layer",
        markup.paragraph(_PANELS_NOTE, "note"),
        markup.panels(charts, "layers"),
    )


def _pareto(result: StudyResult, archive: Sequence[Point]) -> str:
    if not archive:
        return ""
    details = figures.pareto_details(result, archive)
    return markup.section(
        "Pareto front of the networks",
        markup.paragraph(_PARETO_NOTE, "note"),
        markup.figure(figures.pareto_figure(result, archive), "pareto"),
        markup.panels(details, "details", width=markup.HALF) if details else "",
        tables.pareto_table(result, archive),
    )


def _layer_sections(result: StudyResult) -> list[str]:
    if not any(task.best for task in result.tasks):
        return []
    return [
        markup.section(
            "Cycles of each layer against its bound",
            markup.paragraph(_BOUND_NOTE, "note"),
            *(markup.paragraph(line, "note") for line in proof_lines(result)),
            markup.figure(figures.bound_figure(result), "bound"),
        ),
        markup.section(
            "Utilisation of the MAC array",
            markup.paragraph(_UTILISATION_NOTE, "note"),
            markup.figure(figures.utilisation_figure(result), "utilisation"),
            markup.folded("The figures as a table", tables.utilisation_table(result)),
        ),
        markup.section(
            "Where each unit's cycles go",
            markup.paragraph(_STALL_NOTE, "note"),
            markup.panels(figures.stall_figures(result), "stalls", width=markup.HALF),
            markup.folded("The figures as a table", tables.stall_table(result)),
        ),
    ]


def _use(result: StudyResult) -> list[str]:
    """The command, the schedules and the configuration, to copy."""
    again = repeat(result)
    same = "makes the same trials" if result.settings.get("asynchronous", 0) < 2 else "searches"
    parts = [
        markup.paragraph(f"This command {same} again, in an empty --runs folder:"),
        markup.copied(again.command, "the command"),
        *(markup.paragraph(remark, "note") for remark in again.remarks),
    ]
    if schedules := schedules_yaml(result):
        parts += [
            markup.paragraph(
                "The best schedule of each layer. What follows a layer's name, in a file of its "
                "own, is what sim --schedule takes:"
            ),
            markup.copied(schedules, "the schedules"),
        ]
    if config := config_yaml(result):
        parts += [
            markup.paragraph("The configuration, as a file for --hw:"),
            markup.copied(config, "the configuration"),
        ]
    return parts


def _screening_note(result: StudyResult) -> str:
    """Where the search was made, when it was not where its outcome was confirmed."""
    if result.screening is None:
        return ""
    search, fidelity = result.screening, result.settings["fidelity"]
    return (
        f"Searched on {search.settings['fidelity']} "
        f"({counted(search.summary.count, 'measurement')}, study {search.study.name}); "
        f"what is marked was measured again on {fidelity}. "
    )


_BOARDS_NOTE: Final = (
    "Cycles on a board are the median of its runs, without outliers. The twin counts the same "
    "schedule with the memory timing that the study assumes; board calibrate fits that to boards. "
    "Neither is ever taken for the other."
)
_LAYERS_NOTE: Final = (
    "Point at a dotted word, or tab to it, to have it explained. A heading sorts by its column."
)
_RACE_NOTE: Final = (
    "A configuration has a network when every layer has a valid measurement on it. Its line ends "
    "with its last measurement. A press on a name hides its line."
)
_SUM_NOTE: Final = (
    "The sum counts when every layer has a valid measurement, each on a configuration of its own."
)
_PANELS_NOTE: Final = (
    "Best cycles of all configurations against measurements of the whole study. Each title tells "
    "the last value in percent of the first."
)
_PARETO_NOTE: Final = (
    "No other network of the study is better in cycles, energy and share of the board at once. "
    "Energy is relative and follows from the on-chip counters. Numbers are those of the table; "
    "points that would cover each other are drawn as one. Networks inside the convex hull of a "
    "configuration are left out."
)
_BOUND_NOTE: Final = (
    "One occurrence of each layer. No schedule on that configuration can be faster than the bound: "
    "a proven one, or else the larger of MAC cycles and compulsory traffic."
)
_UTILISATION_NOTE: Final = (
    "Issued: cycles with a tile product, edge padding included. Useful: the layer's own "
    "multiply-accumulates over what the array could do in the measured cycles."
)
_STALL_NOTE: Final = (
    "From the on-chip counters of the best trial of each layer. A unit is in exactly one state in "
    "every cycle, so each bar adds up to 100 %."
)
