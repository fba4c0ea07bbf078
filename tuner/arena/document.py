# SPDX-License-Identifier: Apache-2.0
"""docs/tuners-study.md from the JSON of `bench/tuners.py`: no figure is typed by hand.

python -m tilewright.tuner.arena.document build/bench/tuners.json docs/tuners-study.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.errors import ConfigError
from tilewright.tuner.arena import sections
from tilewright.tuner.arena.markdown import bullets
from tilewright.tuner.arena.sections import Study

_ORIGIN: Final = (
    "Written by `python -m tilewright.tuner.arena.document` from the JSON of `bench/tuners.py`; "
    "edit neither figure nor text here. To repeat it:"
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
    """The page as Markdown."""
    parts = (
        _opening(study),
        sections.tasks_section(study),
        sections.measurements_section(study),
        sections.regrets_section(study),
        sections.tests_section(study),
        sections.costs_section(study),
        sections.networks_section(study),
        sections.arms_section(study),
        sections.selections_section(study),
        sections.confirmations_section(study),
        sections.published_section(study),
        sections.rules_section(study),
    )
    return "\n\n".join(text for text in parts if text) + "\n"


def _opening(study: Study) -> str:
    conditions = study["conditions"]
    missing, failures = conditions["runs_missing"], conditions["failures"]
    lines = [
        "# Tuners, judged by the exhaustive optimum",
        _ORIGIN,
        (
            "```console\n"
            f"$ python bench/tuners.py {_arguments(conditions)} --json build/bench/tuners.json \\\n"
            "    --html build/bench/tuners.html\n"
            "$ python -m tilewright.tuner.arena.document build/bench/tuners.json "
            "docs/tuners-study.md\n```"
        ),
        (
            f"Track *{conditions['track']}*: {_track(conditions)} Space `{conditions['space']}`, "
            f"{conditions['memory']}, {conditions['budget']} measurements a run, up to "
            f"{conditions['seeds']} seeds, asks of {conditions['batch']}, the same "
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
    if conditions["hard_only"]:
        words.append("--hard")
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


def main(arguments: Sequence[str]) -> int:
    """Command line."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m tilewright.tuner.arena.document JSON PAGE\n")
        return 2
    source, page = map(Path, arguments)
    write_document(json.loads(source.read_text(encoding="utf-8")), page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
