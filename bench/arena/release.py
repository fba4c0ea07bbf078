# SPDX-License-Identifier: Apache-2.0
"""The certified tables as one file, with the module that reads it beside it.

*Known* tasks are the layers of `tasks.NETWORKS` that are enumerated whole; constants and settings
were chosen on some of them. *Fresh* tasks are hard layers that nothing was chosen on
(`tasks.fresh_layers`).

    tilewright bench tables --output build/study/certified-tables.npz
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.arena import certified_tables, tasks
from tilewright.bench.arena.certified_tables import CertifiedTable
from tilewright.bench.arena.tables import WHOLE_WORK, Table, load_table
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Files, Study
from tilewright.host.common.errors import StoreError, TilewrightError, reason_of
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.rules import host_rules

SETS: Final = certified_tables.SETS
FRESH, KNOWN = SETS

TRACK: Final = "per-layer"


def packed(table: Table, name: str, of: str) -> CertifiedTable:
    """A whole table as it stands in the file."""
    task = table.task
    knobs = {knob.name: knob.values for knob in task.space.knobs}
    if len(task.configs) > 1:
        knobs["hw"] = tuple(hw.name for hw in task.configs)
    about = {
        "set": of,
        "generator": MARK,
        "twin": table.twin,
        "track": task.track,
        "workload": task.workload.to_mapping(),
        "configurations": [asdict(hw) for hw in task.configs],
        "memory": asdict(task.memory),
    }
    unordered = tuple(knob.name for knob in task.space.knobs if not knob.ordered)
    return CertifiedTable(name, about, knobs, unordered, table.cycles.astype(np.int32))


def unpacked(found: CertifiedTable) -> Table:
    """A table of the file as the arena replays it."""
    about = found.about
    try:
        task = tasks.Task(
            track=about["track"],
            workload=Workload.from_mapping(about["workload"]),
            configs=tuple(HwConfig.from_mapping(hw) for hw in about["configurations"]),
            memory=MemoryModel.from_mapping(about["memory"]),
        )
        table = Table(
            task=task, cycles=found.cycles.astype(np.int64), twin=about["twin"], of=about["set"]
        )
        expected, bounds = packed(table, found.name, about["set"]), _bounds(task)
    except (TilewrightError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise _not_of_task(found, "about", reason_of(error), "describe a task") from error
    for field, ours, theirs in (
        *((f"about.{of}", expected.about[of], about[of]) for of in _OF_TASK),
        ("knobs", list(expected.knobs), list(found.knobs)),
        *((f"knobs.{k}", values, found.knobs.get(k)) for k, values in expected.knobs.items()),
        ("unordered", expected.unordered, found.unordered),
    ):
        if json.dumps(ours) != json.dumps(theirs):
            raise _not_of_task(found, field, theirs, f"be {json.dumps(ours)[:200]}, as of its task")
    for part, bound in zip(
        table.cycles if len(bounds) > 1 else [table.cycles], bounds, strict=True
    ):
        low = int(part[part > 0].min(initial=np.iinfo(np.int64).max))
        if low < bound:
            raise _not_of_task(found, "cycles", low, f"be at least the layer's bound, {bound}")
    return table


_OF_TASK: Final = ("workload", "configurations", "memory")


def _bounds(task: tasks.Task) -> list[int]:
    """Cycles that no schedule undercuts, of each configuration."""
    return [host_rules().bound(hw, task.workload, task.memory).cycles for hw in task.configs]


def _not_of_task(found: CertifiedTable, field: str, value: Any, rule: str) -> StoreError:
    return StoreError(f"must {rule}", field=f"{found.name}: {field}", value=value, remedy=_MAKE_IT)


_MAKE_IT: Final = "make the file anew: tilewright bench tables"


def open_tables(path: Path) -> dict[str, CertifiedTable]:
    """The tables of a file."""
    try:
        return certified_tables.load(path)
    except (OSError, ValueError) as error:
        raise StoreError(str(error), field="--tables", remedy=_MAKE_IT) from error


def _beside(path: Path) -> Path:
    """Where the module that reads a file of tables stands."""
    return path.with_name(Path(certified_tables.__file__).name)


def _write(path: Path, tables: Mapping[str, CertifiedTable]) -> None:
    content = io.BytesIO()
    certified_tables.save(content, tables)
    with zipfile.ZipFile(content, "a") as archive:
        archive.comment = MARK.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())
    reader = Path(certified_tables.__file__).read_text(encoding="utf-8")
    write_whole(_beside(path), f"# {MARK} (tilewright bench tables)\n{reader}")


class Tables(Study):
    """Enumerates every task and writes the file."""

    kept = "what was enumerated is kept, the same command goes on"

    @property
    def writes(self) -> Files:
        output = self.settings.output
        return {"--output": output, "the module beside --output": _beside(output)}

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        given = self.settings
        found: dict[str, CertifiedTable] = {}
        for of, name, workload in self._offered(found):
            started = time.monotonic()
            table = load_table(
                tasks.make_task(TRACK, workload), given.folder / "tables", workers=given.workers
            )
            kept = of == KNOWN or table.hard
            if kept:
                found[name] = packed(table, name, of)
            seconds = time.monotonic() - started
            yield {"name": name, "set": of, "kept": kept, "seconds": seconds, **table.summary()}
        _write(given.output, found)

    def _offered(self, found: Mapping[str, CertifiedTable]) -> Iterator[tuple[str, str, Workload]]:
        """Set, name and layer of what is enumerated: fresh ones until enough of them are hard."""
        given, seen = self.settings, set[str]()

        def affordable(workload: Workload, most: float) -> bool:
            new = workload.key not in seen
            seen.add(workload.key)
            return new and tasks.enumeration_work(tasks.make_task(TRACK, workload)) <= most

        for number, workload in enumerate(tasks.fresh_layers(given.seed)):
            if len(found) >= given.fresh:
                break
            if affordable(workload, tasks.FRESH_WORK):
                yield FRESH, f"fresh-{number}.{workload.name}", workload
        for network in given.networks or tasks.NETWORKS:
            for workload in load_network(network).workloads:
                if affordable(workload, WHOLE_WORK):
                    yield KNOWN, f"{network}.{workload.name}", workload

    def conditions(self) -> Row:
        return {"twin": identity_of("twin"), "board": tasks.BOARD, "space": tasks.KIND}

    def line(self, row: Row) -> str:
        state = "hard" if row["hard"] else "easy"
        return (
            f"{row['name']}: {row['legal']:,} of {row['points']:,} points legal, optimum "
            f"{row['optimum_cycles']:,}, {state}{'' if row['kept'] else ', left out'}, "
            f"{row['seconds']:.1f} s"
        )

    def summarise(self, rows: Sequence[Row]) -> Row:
        kept = [row for row in rows if row["kept"]]
        path = self.settings.output
        return {
            **{of: sum(row["set"] == of for row in kept) for of in SETS},
            "hard": sum(row["hard"] for row in kept),
            "points": sum(row["points"] for row in kept),
            "seconds": round(sum(row["seconds"] for row in rows), 1),
            "bytes": path.stat().st_size if path.is_file() else 0,
        }

    def passed(self, result: BenchResult) -> bool:
        return all(row["whole"] for row in result.rows)


def tables_of(path: Path, sets: Sequence[str], *, hard: bool) -> dict[str, Table]:
    """Tables of a file by their tasks, of some sets; ``hard``: without the easy ones."""
    found: dict[str, Any] = {}
    for packed_table in open_tables(path).values():
        if packed_table.about["set"] in sets:
            table = unpacked(packed_table)
            if not hard or table.hard:
                found[table.task.id] = table
    return found
