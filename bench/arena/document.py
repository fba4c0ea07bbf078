# SPDX-License-Identifier: Apache-2.0
"""docs/results/tuners-study-tables.md from the JSON of `tilewright bench tuners`.

No figure is typed by hand. `tilewright bench tuners-page` makes one page of several JSON files
(other tuners, tasks, seeds or arms).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.bench.arena import sections
from tilewright.bench.arena.markdown import bullets
from tilewright.bench.arena.sections import Study
from tilewright.host.common.errors import ConfigError

_ORIGIN: Final = (
    "The answer of this study is on [its own page](tuners-study.md), with "
    "[what the tables mean](tuners-study.md#how-to-read-the-tables). `tilewright bench "
    "tuners-page` writes this page from the JSON files of `tilewright bench tuners`; edit nothing "
    "here."
)


def write_document(study: Study, path: Path) -> None:
    """Write the study's page.

    Raises:
        ConfigError: the page cannot be written.
    """
    try:
        path.write_text(document(study), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the page cannot be written ({error.strerror})", field=str(path)
        ) from error


def document(study: Study) -> str:
    """The page of a study (`merge.merge`) as Markdown."""
    parts = (
        _opening(study),
        sections.networks_covered_section(study),
        sections.tasks_section(study),
        sections.measurements_section(study),
        sections.regrets_section(study),
        sections.tests_section(study),
        sections.costs_section(study),
        sections.networks_section(study),
        sections.common_section(study),
        sections.arms_section(study),
        sections.selections_section(study),
        sections.confirmations_section(study),
        sections.published_section(study),
        _commands(parts := study["conditions"]["parts"]),
        _planning(parts),
    )
    return "\n\n".join(text for text in parts if text) + "\n"


def _opening(study: Study) -> str:
    conditions = study["conditions"]
    parts = conditions["parts"]
    missing = sum(part["runs_missing"] for part in parts)
    failures = list(dict.fromkeys(text for part in parts for text in part["failures"]))
    lines = [
        "# Study of tuners: all tables",
        _ORIGIN,
        (
            f"Track *{conditions['track']}*: {_track(conditions)} Space `{conditions['space']}`, "
            f"{conditions['memory']}, asks of {conditions['batch']}, the same "
            f"{conditions['initial_points']} random first points for every tuner on a task and "
            f"seed. {conditions['fidelity']} (`{conditions['twin']}`)."
        ),
    ]
    if missing:
        lines.append(
            f"**Incomplete**: {missing:,} runs of the plan were not made in the time given. Every "
            "figure is of the runs that were; the tables say how many."
        )
    if failures:
        lines.append("Runs that ended with an error:\n\n" + bullets(failures))
    return "\n\n".join(lines)


def _commands(parts: Sequence[Mapping[str, Any]]) -> str:
    files = _files(parts)
    runs = [
        f"$ tilewright bench tuners {_arguments(part)} --json {file}"
        for part, file in zip(parts, files, strict=True)
    ]
    page = (
        f"$ tilewright bench tuners-page {' '.join(files)} "
        "--output docs/results/tuners-study-tables.md --html build/bench/tuners.html"
    )
    return "## How to repeat\n\n```console\n" + "\n".join([*runs, page]) + "\n```"


def _planning(parts: Sequence[Mapping[str, Any]]) -> str:
    """What decided which runs were made; empty when nothing was noted."""
    notes = [part["note"] for part in parts if part.get("note")]
    return f"## How the runs were planned\n\n{bullets(notes)}" if notes else ""


def _files(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    if len(parts) == 1:
        return ["build/bench/tuners.json"]
    return [f"build/bench/tuners-{number}.json" for number in range(1, len(parts) + 1)]


def _arguments(conditions: Mapping[str, Any]) -> str:
    words = [
        f"--track {conditions['track']}",
        f"--networks {','.join(conditions['networks'])}",
        f"--seeds {conditions['seeds']}",
        f"--budget {conditions['budget']}",
        f"--arms {','.join(conditions['arms'])}",
        f"--noise {','.join(f'{n:g}' for n in conditions['noise_percent'])}",
    ]
    if conditions["layers"] != "all":
        words.append(f"--layers {','.join(conditions['layers'])}")
    if conditions.get("without"):
        words.append(f"--without {','.join(conditions['without'])}")
    if conditions["hard_only"]:
        words.append("--hard")
    for name in ("work_limit", "per_network", "draw", "selections"):
        if conditions.get(name):
            words.append(f"--{name.replace('_', '-')} {conditions[name]:g}")
    if conditions.get("confirm"):
        words.append("--confirm")
    words.append(f"--tuners '{' '.join(conditions['sources'])}'")
    return " ".join(words)


def _track(conditions: Mapping[str, Any]) -> str:
    configs = conditions["configurations"]
    if len(configs) == 1:
        return f"schedules on `{configs[0]}` alone, what VTA's AutoTVM template searched."
    return (
        f"each layer chooses one of {len(configs)} configurations that fit a PYNQ-Z2 "
        f"({', '.join(f'`{name}`' for name in configs)}) together with its schedule. That is what "
        "the papers report; it is not deployable as one bitstream."
    )
