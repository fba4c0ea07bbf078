# SPDX-License-Identifier: Apache-2.0
"""The page of a study of tuners, and its tables as CSV files, from the JSON of `bench tuners`.

Prose about the figures is written by hand, in `docs/results/tuners-study.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tilewright.bench.arena.page_tables import Study, study_tables
from tilewright.bench.framework.tables import markdown_text
from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import MARK, renew_folder, write_whole


def write_document(study: Study, path: Path) -> None:
    """Write the page, and beside it a folder of its name with a CSV file for each table."""
    write_whole(path, document(study))
    folder = path.with_suffix("")
    tables = {f"{table.file_name}.csv": table.csv() for table in study_tables(study)}
    renew_folder(folder, tables)
    for name, text in tables.items():
        write_whole(folder / name, text)


def document(study: Study) -> str:
    """The page of a study (`merge.merge`)."""
    return "\n\n".join(_blocks(study)) + "\n"


def _blocks(study: Study) -> Iterator[str]:
    conditions = study["conditions"]
    parts = conditions["parts"]
    missing = sum(part.get("runs_missing", 0) for part in parts)
    yield f"<!-- {MARK} -->"
    yield "# Study of tuners: all tables"
    yield _bullets(
        (
            f"Track *{conditions['track']}*: {', '.join(conditions['configurations'])}",
            f"Space `{conditions['space']}`, {conditions['memory']}",
            f"{conditions['fidelity']} (`{conditions['twin']}`)",
            f"Points per ask: {conditions['batch']}",
            f"Random first points: {conditions['initial_points']}",
            f"Runs of the plan that were not made: {missing:,}",
            *(f"Not run on all tasks: `{tuner}`" for tuner in study["summary"]["incomplete"]),
            *(f"Budget of `{t}`: {most}" for t, most in conditions["small_budgets"].items()),
            *(part["note"] for part in parts if part.get("note")),
        )
    )
    if failures := dict.fromkeys(chain.from_iterable(part.get("failures", ()) for part in parts)):
        yield "## Runs that ended with an error"
        yield _bullets(failures)
    for table in study_tables(study):
        yield f"## {table.title}"
        yield table.markdown()
    yield "## How to repeat"
    yield "\n".join(["```console", *(f"$ {printable(part['command'])}" for part in parts), "```"])


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {markdown_text(line)}" for line in lines)
