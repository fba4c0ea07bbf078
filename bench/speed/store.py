# SPDX-License-Identifier: Apache-2.0
"""The trial store under load: commits per second, and the report of a study of many trials.

    tilewright bench store --trials 50000,1000000

Each report runs in a process of its own, whose wall time and greatest memory are measured; with
``--postgres URL`` the same on a server. Medians of ``--repeats`` runs.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.host.common.children import end_with_parent, python_command, spawn_context
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.store.database import Database
from tilewright.tuner.store.records import trial_row
from tilewright.tuner.store.schema import TRIALS
from tilewright.tuner.store.store import Store, StoredConfig
from tilewright.tuner.study.settings import StudySettings

LAYERS = 11
CONFIGS = 4
INSERTED_AT_A_TIME = 5000
FIRST = 20_000

CHILD = """
import resource, sys, time
started = time.perf_counter()
sys.argv = ["tilewright", "report", "bench", *sys.argv[1:]]
from tilewright.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3,
          file=sys.stderr)
"""


def settings(trials: int) -> StudySettings:
    """A study of the layers of ResNet-18."""
    board = load_board("pynq-z2")
    return StudySettings(
        model="resnet18",
        tasks=load_network("vta-resnet18").workloads[:LAYERS],
        board=board,
        memory=board.memory,
        base=load_hwconfig("pynq-16x16"),
        budget=max(trials, LAYERS),
    )


def requests(study: StudySettings, trials: int) -> Iterator[tuple[str, Request, Measurement]]:
    """Trials of every layer on every configuration, cycles from a fixed sequence."""
    configs = [study.base.with_(name=f"c{n}", read_outstanding=n + 1) for n in range(CONFIGS)]
    state = 1
    for number in range(trials):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        cycles = 100_000 + (state >> 40) * 50 // (1 + number % 97)
        task = study.tasks[number % LAYERS]
        request = Request(
            hw=configs[number // LAYERS % CONFIGS],
            workload=task,
            schedule=Schedule(tile_h=1 + number, tile_w=1, tile_ci=1, tile_co=1),
            memory=study.memory,
            max_cycles=1 << 40,
        )
        counters = {
            name: (state >> 20) % (index + 1) * 1000 for index, (name, _) in enumerate(COUNTERS)
        }
        counters |= {"cycles": cycles, "bytes_read": (state >> 30) % 1_000_000}
        status = Status.TIMEOUT if number % 50 == 49 else Status.OK
        ok = status is Status.OK
        answer = Measurement(
            status=status,
            fidelity="rtl",
            cycles=cycles if ok else None,
            counters=counters if ok else {},
            failure="" if ok else "more than 1 cycles",
            limit_cycles=1 << 40,
            output_checked=ok,
        )
        yield task.name, request, answer


def open_study(store: Store, study: StudySettings) -> int:
    """The study's row and its configurations."""
    mapping = {**study.to_mapping(), "oracle": "bench", "fidelity": "rtl"}
    row = store.open_study("bench", mapping, {})
    rules = host_rules()
    for number in range(CONFIGS):
        hw = study.base.with_(name=f"c{number}", read_outstanding=number + 1)
        store.put_config(row.id, _config(hw, study, rules))
    return row.id


def _config(hw: HwConfig, study: StudySettings, rules: Any) -> StoredConfig:
    area = rules.estimate(hw)
    amounts = {name: getattr(area, name) for name in ("lut", "ff", "bram36", "dsp")}
    return StoredConfig(
        config_hash=f"{hw.config_hash:08x}",
        hw={"name": hw.name, **hw.parameters()},
        area={**amounts, "fits": True, "text": "bench"},
        bounds={task.name: 1000 for task in study.tasks},
        status="measured",
        reason="",
    )


def commits(location: Path | str, number: int) -> dict[str, Any]:
    """Trials a second that one writer commits, each on its own."""
    study = settings(number)
    with Store(location) as store:
        row = open_study(store, study)
        made = list(requests(study, number))
        started, busy = time.perf_counter(), time.process_time()
        for sequence, (task, request, answer) in enumerate(made):
            store.add_trial(
                row, sequence=sequence, task=task, origin="bench", request=request,
                measurement=answer, oracle="bench", owner="bench",
            )  # fmt: skip
        wall, cpu = time.perf_counter() - started, time.process_time() - busy
    return {"commits_per_s": number / wall, "cpu_ms_per_commit": 1e3 * cpu / number}


def fill(location: Path | str, trials: int) -> None:
    """A study of many trials: the first through the store's own code, copies of them after that."""
    study, first = settings(trials), min(trials, FIRST)
    with Store(location) as store:
        row = open_study(store, study)
    database = Database(location)
    rows: list[dict[str, Any]] = []

    def flush() -> None:
        database.write(lambda connection: connection.execute(TRIALS.insert(), rows))
        rows.clear()

    for sequence, (task, request, answer) in enumerate(requests(study, first)):
        common = {"study_id": row, "sequence": sequence, "task": task, "origin": "bench"}
        rows.append(common | trial_row(request, answer, "bench"))
        if len(rows) == INSERTED_AT_A_TIME:
            flush()
    if rows:
        flush()
    for copy in range(1, -(-trials // first)):
        statement = _copied(row, first, copy, trials)
        database.write(partial(_execute, statement))
    database.close()


def _execute(statement: sa.Insert, connection: sa.Connection) -> None:
    connection.execute(statement)


def _copied(study: int, first: int, number: int, trials: int) -> sa.Insert:
    """The first trials again, later and with other cycles; the blanks keep schedules distinct."""
    changed: dict[str, Any] = {
        "sequence": TRIALS.c.sequence + number * first,
        "schedule": TRIALS.c.schedule + " " * number,
        "key": sa.func.substr(TRIALS.c.key, 1, 24) + f"{number:08x}",
        "cycles": TRIALS.c.cycles + number * 7 % 101,
        "energy_pj": TRIALS.c.energy_pj + number * 7 % 101,
    }
    names = [column.name for column in TRIALS.c if column.name != "id"]
    query = sa.select(*(changed.get(name, TRIALS.c[name]) for name in names)).where(
        TRIALS.c.study_id == study,
        TRIALS.c.sequence < min(first, trials - number * first),
    )
    return TRIALS.insert().from_select(names, query)


def report(location: Path | str, folder: Path) -> dict[str, float]:
    """Seconds, core-seconds and megabytes of `tilewright report`."""
    words = ["--store", str(location), "--runs", str(folder), "--json", str(folder / "r.json")]
    done = subprocess.run(
        python_command("-c", CHILD, *words), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    names = ("seconds", "core_seconds", "megabytes")
    return dict(zip(names, map(float, done.stderr.split()[-3:]), strict=True))


class StoreSpeed(Study):
    """Commits, then reports of stores of several sizes."""

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        with tempfile.TemporaryDirectory(
            prefix="tilewright-bench-", dir=self.settings.folder
        ) as name:
            for row in self._rows(Path(name)):
                yield {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}

    def _rows(self, place: Path) -> Iterator[Row]:
        given = self.settings
        if not given.postgres:
            runs = [commits(place / f"c{n}.sqlite", given.commits) for n in range(given.repeats)]
            medians = {k: statistics.median(r[k] for r in runs) for k in runs[0]}
            yield {"what": "commits", **medians}
        for count in given.trials:
            location = given.postgres or place / f"{count}.sqlite"
            started = time.perf_counter()
            fill(location, count)
            filled = time.perf_counter() - started
            found = [report(location, place) for _ in range(given.repeats)]
            is_file = isinstance(location, Path)
            yield {
                "what": "report",
                "trials": count,
                **{key: statistics.median(run[key] for run in found) for key in found[0]},
                "fill_seconds": filled,
                "file_megabytes": location.stat().st_size / 1e6 if is_file else None,
            }
            if is_file:
                location.unlink()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        yield {"what": "bench itself", "megabytes": own}

    def conditions(self) -> Row:
        return {
            "store": "PostgreSQL" if self.settings.postgres else "SQLite, WAL, synchronous=FULL",
            "repeats": self.settings.repeats,
        }


def _write(location: Path | str, name: str, commits: int, barrier: Any, times: Any) -> None:
    """One writer: a study that commits trials, claims included, as a session does."""
    end_with_parent()
    trials = list(requests(settings(commits), commits))
    with Store(location) as store:
        study = store.open_study(name, {}, {})
        barrier.wait()
        seconds = []
        for number, (task, request, measurement) in enumerate(trials):
            started = time.perf_counter()
            store.add_trial(
                study.id,
                sequence=number,
                task=task,
                origin="bench",
                request=request,
                measurement=measurement,
                oracle=f"bench-{name}",
                owner="bench",
            )
            seconds.append(time.perf_counter() - started)
        times.put(seconds)


def stores(amounts: Amounts, places: dict[str, Callable[[], Path | str]]) -> Iterator[Record]:
    """Commits/s of a store by several writers at once, and how it is to open and to look up."""
    context = spawn_context()
    for (kind, place), writers in ((p, w) for p in places.items() for w in amounts.writers):
        location = place()
        Store(location).close()
        barrier, times = context.Barrier(writers + 1), context.Queue()
        processes = [
            context.Process(
                target=_write, args=(location, f"study{n}", amounts.commits, barrier, times)
            )
            for n in range(writers)
        ]
        for process in processes:
            process.start()
        barrier.wait()
        started = time.perf_counter()
        each = [seconds for _ in processes for seconds in times.get()]
        whole = time.perf_counter() - started
        for process in processes:
            process.join()
        yield {
            "what": "store",
            "store": kind,
            "writers": writers,
            "commits_per_s": round(writers * amounts.commits / whole, 1),
            "commit_ms_median": round(1e3 * statistics.median(each), 2),
            "commit_ms_p99": round(1e3 * sorted(each)[int(0.99 * (len(each) - 1))], 2),
        }
    for (kind, place), rows in ((p, r) for p in places.items() for r in amounts.rows):
        yield _size(kind, place(), rows)


def _size(kind: str, location: Path | str, rows: int) -> Record:
    """A store with many trials: bytes per trial, seconds to open, to look up and to read all."""
    with Store(location) as store:
        study = store.open_study("a", {}, {})
        common = {"study_id": study.id, "origin": "bench"}
        rows_of_trials = [
            {**common, "task": task, "sequence": n, **trial_row(request, measurement, "bench")}
            for n, (task, request, measurement) in enumerate(requests(settings(rows), rows))
        ]
        keys = [row["key"] for row in rows_of_trials]
        database = Database(location)
        database.write(lambda connection: connection.execute(TRIALS.insert(), rows_of_trials))
        database.close()
        look = [
            timed(partial(store.measured, keys[n : n + 8])) for n in range(0, min(400, rows), 8)
        ]
        claim = [
            timed(partial(store.claim, [f"{n}-{i}" for i in range(8)], "bench", seconds=60))
            for n in range(20)
        ]
        read = timed(lambda: store.trials(study.id))
    opened = timed(lambda: Store(location, must_exist=True).close())
    return {
        "what": "store size",
        "store": kind,
        "trials": rows,
        "bytes_per_trial": location.stat().st_size // rows if isinstance(location, Path) else None,
        "open_ms": round(1e3 * opened, 2),
        "look_up_8_ms": round(1e3 * statistics.median(look), 2),
        "claim_8_ms": round(1e3 * statistics.median(claim), 2),
        "read_all_ms": round(1e3 * read, 1),
    }


Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much is measured."""

    layers: tuple[str, ...]
    trials: int
    jobs: int
    commits: int
    writers: tuple[int, ...]
    rows: tuple[int, ...]
    repeats: int


def timed(action: Callable[[], object]) -> float:
    """Wall-clock seconds of a call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
