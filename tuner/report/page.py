# SPDX-License-Identifier: Apache-2.0
"""The report of a study as one self-contained HTML file (no external loads)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import StoreError
from tilewright.host.common.names import counted
from tilewright.host.common.whole_file import write_whole
from tilewright.tuner.report.boards import board_lines, board_table
from tilewright.tuner.report.drawing.page import (
    HALF,
    bullets,
    copied,
    definitions,
    document,
    figure,
    folded,
    heading,
    panels,
    paragraph,
    section,
    tiles,
)
from tilewright.tuner.report.figures import (
    bound_figure,
    layer_figures,
    pareto_details,
    pareto_figure,
    race_figure,
    stall_figures,
    utilisation_figure,
)
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.report.repeat import config_yaml, repeat, schedules_yaml
from tilewright.tuner.report.summary import (
    condition_lines,
    factor,
    mismatch_lines,
    number,
    outcome_line,
    percent,
)
from tilewright.tuner.report.tables import (
    config_table,
    failure_table,
    pareto_table,
    stall_table,
    task_table,
    utilisation_table,
)
from tilewright.tuner.report.tuned_share import share_lines
from tilewright.tuner.report.words import WORDS, layer_words, schedule_words
from tilewright.tuner.study.results import StudyResult, ratio, schedule_text


def write_html(result: StudyResult, archive: Sequence[Point], path: Path) -> Path:
    """Write the report of a study."""
    try:
        write_whole(path, page(result, archive))
    except OSError as error:
        raise StoreError(
            f"the report cannot be written ({error.strerror})",
            field=str(path),
            remedy="name a writable file with --output",
        ) from error
    return path


def page(result: StudyResult, archive: Sequence[Point]) -> str:
    """The report of a study as HTML; arguments as of `write_html`."""
    warnings = [*mismatch_lines(result), *filter(None, share_lines(result.settings)[1:])]
    return document(
        title(result),
        heading(*_heading(result)),
        paragraph(outcome_line(result), "lead outcome"),
        *(paragraph(line, "wrong") for line in warnings),
        tiles(_key_figures(result)),
        section(
            "Layers", paragraph(_LAYERS_NOTE, "note"), task_table(result), _how_to_read(result)
        ),
        *_boards(result),
        section("Hardware", config_table(result)),
        section(
            "The search",
            paragraph(
                _screening_note(result) + (_RACE_NOTE if result.shared else _SUM_NOTE), "note"
            ),
            figure(race_figure(result), "race"),
        ),
        _layer_search(result),
        _pareto(result, archive),
        *_layer_sections(result),
        section("Use it, repeat it", *_use(result)),
        section("Trials without a valid measurement", failure_table(result)),
        section("Conditions", bullets(condition_lines(result), "note")),
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
        (schedule_text(task.best.schedule), schedule_words(task.best.schedule).replace("\n", "; "))
        for task in result.tasks
        if task.best is not None
    ][:1]
    entries += WORDS.items()
    entries += [
        (str(task["name"]), layer_words(task).partition(": ")[2])
        for task in result.settings["tasks"]
    ]
    return folded("What the words mean", definitions(entries))


def _boards(result: StudyResult) -> list[str]:
    """What boards measured, beside the twin."""
    if not result.board_runs:
        return []
    return [
        section(
            "On boards and on the twin",
            paragraph(_BOARDS_NOTE, "note"),
            board_table(result),
            bullets(board_lines(result), "note"),
        )
    ]


def _layer_search(result: StudyResult) -> str:
    charts = layer_figures(result)
    if not charts:
        return ""
    return section(
        "The search of each layer", paragraph(_PANELS_NOTE, "note"), panels(charts, "layers")
    )


def _pareto(result: StudyResult, archive: Sequence[Point]) -> str:
    if not archive:
        return ""
    details = pareto_details(result, archive)
    return section(
        "Networks that no other one beats",
        paragraph(_PARETO_NOTE, "note"),
        figure(pareto_figure(result, archive), "pareto"),
        panels(details, "details", width=HALF) if details else "",
        pareto_table(result, archive),
    )


def _layer_sections(result: StudyResult) -> list[str]:
    if not any(task.best for task in result.tasks):
        return []
    return [
        section(
            "Cycles of each layer against its bound",
            paragraph(_BOUND_NOTE, "note"),
            figure(bound_figure(result), "bound"),
        ),
        section(
            "Utilisation of the MAC array",
            paragraph(_UTILISATION_NOTE, "note"),
            figure(utilisation_figure(result), "utilisation"),
            folded("The figures as a table", utilisation_table(result)),
        ),
        section(
            "Where each unit's cycles go",
            paragraph(_STALL_NOTE, "note"),
            panels(stall_figures(result), "stalls", width=HALF),
            folded("The figures as a table", stall_table(result)),
        ),
    ]


def _use(result: StudyResult) -> list[str]:
    """The command, the schedules and the configuration, to copy."""
    again = repeat(result)
    parts = [
        paragraph("This command makes the same trials again, in an empty --runs folder:"),
        copied(again.command, "the command"),
        *(paragraph(remark, "note") for remark in again.remarks),
    ]
    if schedules := schedules_yaml(result):
        parts += [
            paragraph(
                "The best schedule of each layer. What follows a layer's name, in a file of its "
                "own, is what sim --schedule takes:"
            ),
            copied(schedules, "the schedules"),
        ]
    if config := config_yaml(result):
        parts += [
            paragraph("The configuration, as a file for --hw:"),
            copied(config, "the configuration"),
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
    "One occurrence of each layer. The bound is the larger of MAC cycles and compulsory traffic: "
    "no schedule on that configuration can be faster."
)
_UTILISATION_NOTE: Final = (
    "Issued: cycles with a tile product, edge padding included. Useful: the layer's own "
    "multiply-accumulates over what the array could do in the measured cycles."
)
_STALL_NOTE: Final = (
    "From the on-chip counters of the best trial of each layer. A unit is in exactly one state in "
    "every cycle, so each bar adds up to 100 %."
)
