# SPDX-License-Identifier: Apache-2.0
"""The study of tuners as one small file, and the tables of its page from that file alone.

The file holds what each run came to; every figure of the page is computed from it anew, which a
test does. Prose is written by hand around the tables.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.bench.arena.page_tables import measurements, pairs, regret
from tilewright.bench.arena.records import BASELINE, Record, headline
from tilewright.bench.arena.release import SETS
from tilewright.bench.arena.replay import BUDGETS
from tilewright.bench.arena.summary import COMPARED, require, require_parts, search_figures
from tilewright.bench.framework.coverage import INTERVALS, POPULATIONS, SIZES, table_of_shares
from tilewright.bench.framework.tables import FigureTable, write_page
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.plain_values import is_integer
from tilewright.host.common.result_document import rows_of
from tilewright.host.common.whole_file import MARK

RUN: Final = (
    *("tuner", "grey", "task", "seed", "budget", "trials", "tuner_seconds"),
    *("trials_to_1pct", "trials_to_5pct"),
)
"""Members of a run's record that are kept, beside its regret by budget."""

TASK: Final = (
    *("set", "layer", "points", "legal", "optimum_cycles", "within_1pct", "within_5pct"),
    "random_median_1pct",
)
CONDITIONS: Final = ("command", "twin", "board", "memory", "space", "seeds", "budget", "batch",
                     "initial_points", "small_budgets", "cpus", "load_before")  # fmt: skip

Document = Mapping[str, Any]


def compacted(studies: Sequence[Document], shares: Document) -> dict[str, Any]:
    """The file of some documents of `bench tuners` and one of `bench intervals`."""
    require_parts(studies)
    for number, study in enumerate(studies, 1):
        _require_complete(study, f"JSON {number}")
    _require_shares(shares)
    tasks: dict[str, Record] = {}
    runs: dict[tuple[Any, ...], Sequence[Any]] = {}
    for study in studies:
        for row in rows_of(study):
            if row["what"] == "task":
                of = _set_of(row, study)
                tasks[row["task"]] = {"set": of, **{name: row[name] for name in TASK[1:]}}
    numbers = {task: number for number, task in enumerate(tasks)}
    for study in studies:
        for row in rows_of(study):
            if row["what"] == "run":
                kept = {**row, "task": numbers[row["task"]]}
                regrets = {budget: round(value, 5) for budget, value in row["regret"].items()}
                run = tuple(kept[name] for name in ("tuner", "task", "seed"))
                runs[run] = [*(_short(kept[name]) for name in RUN), regrets]
    conditions = [
        {name: {**study["conditions"], "command": command}[name] for name in CONDITIONS}
        for study in studies
        # No folders of a machine.
        for command in [re.sub(r"(?<= )/\S*/", "", study.get("command", ""))]
    ]
    return {
        "generator": MARK,
        "conditions": conditions,
        "tasks": tasks,
        "columns": [*RUN, "regret"],
        "runs": list(runs.values()),
        "intervals": {"conditions": shares["conditions"], "rows": list(rows_of(shares))},
    }


def _set_of(row: Record, study: Document) -> Any:
    """The set of a task; files from before tasks told theirs are of one set."""
    sets = study["conditions"].get("sets")
    return row.get("set", sets[0] if isinstance(sets, list) and len(sets) == 1 else None)


def _require_complete(study: Document, place: str) -> None:
    """Refuse a document that the tables of the page lack something of."""
    conditions, rows = study["conditions"], rows_of(study)
    missing = [name for name in CONDITIONS[1:] if name not in conditions]
    require(not missing, f"{place}: conditions", f"have {', '.join(missing)}")
    most, small = conditions["budget"], conditions["small_budgets"]
    require(is_integer(most, 1), f"{place}: budget", "be at least 1", most)
    few = all(is_integer(each, 1) for each in small.values())
    require(few, f"{place}: small_budgets", "be budgets by tuner", small)
    known = [row for row in rows if row["what"] == "task"]
    require(known, f"{place}: rows", "have tasks")
    for row in known:
        of, field = _set_of(row, study), f"{place}: task {row['task']}"
        require(of in SETS, field, f"be of a set of {', '.join(SETS)}", of)
        counts = [row.get(name) for name in TASK[2:]]
        require(all(is_integer(n, 0) for n in counts), field, f"have counts {TASK[2:]}", counts)
        require(isinstance(row.get("layer"), str), field, "name its layer", row.get("layer"))
    for row in (row for row in rows if row["what"] == "run"):
        budget = min(most, small.get(row["tuner"].partition(":")[0], most))
        field = f"{place}: run of {row['tuner']}"
        require(row["budget"] == budget, field, f"have the budget {budget}", row["budget"])
        told = [str(each) for each in BUDGETS if each <= budget]
        require(list(row["regret"]) == told, field, f"have regret at {', '.join(told)}")
        require(isinstance(row.get("grey"), bool), field, "have grey, true or false")


def _require_shares(document: Document) -> None:
    """Refuse a document that is none of `bench intervals` with all of its shares."""
    rows = rows_of(document)
    held = [
        json.dumps([row.get(name) for name in ("interval", "effects", "clusters")])
        for row in rows
        if _is_share(row) and isinstance(row.get("share"), (int, float)) and 0 <= row["share"] <= 1
    ]
    wanted = [json.dumps(each) for each in itertools.product(INTERVALS, POPULATIONS, SIZES)]
    whole = sorted(held) == sorted(wanted) and len(rows) == len(held)
    require(whole, "JSON of 'bench intervals'", "hold every share once, and no other row")


def _is_share(row: Any) -> bool:
    return isinstance(row, Mapping) and "interval" in row


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def records(document: Document, of: str) -> list[Record]:
    """The records of a set's runs, as far as the figures need them."""
    tasks = list(document["tasks"].items())
    found = []
    for row in document["runs"]:
        record = dict(zip(document["columns"], row, strict=True))
        name, task = tasks[record["task"]]
        if task["set"] == of:
            found.append({**record, "task": name, "hard": True, "arm": "masked", "noise": 0.0})
    return found


def tables(document: Document) -> Iterator[tuple[str, FigureTable]]:
    """Every table of the page by its name."""
    for of in dict.fromkeys(task["set"] for task in document["tasks"].values()):
        runs, left_out = headline(records(document, of))
        require(any(run["tuner"] == BASELINE for run in runs), of, f"have runs of {BASELINE}")
        if left_out:
            raise ConfigError(
                "every tuner must have run on every task", field=of, value=", ".join(left_out)
            )
        figures = search_figures(runs, prices=False)
        yield f"{of} measurements", measurements(figures, runs)
        yield f"{of} regret", regret(figures["log_regret"])
        yield f"{of} costs", _costs(figures)
        tuners = list(figures["trials_to_1pct"])
        for own in COMPARED:
            if own in tuners:
                yield f"{of} {own.replace(':', ' ')}", pairs(
                    figures, own, [tuner for tuner in tuners if tuner != own]
                )  # fmt: skip
        yield f"{of} tasks", _tasks(document, of)
    yield "intervals", table_of_shares(document["intervals"]["rows"])


def _costs(figures: Mapping[str, Any]) -> FigureTable:
    seconds = figures["overhead_seconds_per_100"]
    rows = [(tuner, f"{seconds[tuner]:.2f}") for tuner in sorted(seconds, key=seconds.__getitem__)]
    return FigureTable(title="What a search costs", header=("tuner", "core-s / 100"), rows=rows)


def _tasks(document: Document, of: str) -> FigureTable:
    return FigureTable(
        title="Tasks",
        header=("layer", *(name.replace("_", " ") for name in TASK[2:])),
        rows=[
            (task["layer"], *(f"{task[name]:,}" for name in TASK[2:]))
            for task in document["tasks"].values()
            if task["set"] == of
        ],
    )


def write_study(parts: Sequence[Document], page: Path) -> None:
    """Write the file of a study beside its page, and the page's tables."""
    shares = [part for part in parts if any(_is_share(row) for row in rows_of(part))]
    studies = [part for part in parts if part not in shares]
    require(len(shares) == 1, "JSON", "be one file of 'bench intervals' among them", len(shares))
    document = compacted(studies, shares[0])
    write_page(page, document, dict(tables(document)))
