# SPDX-License-Identifier: Apache-2.0
"""Every tuner under equal conditions, replayed against exhaustive tables of the exact twin.

Enumerates the tasks (kept under `runs/arena`, resumed), runs every tuner with the same first
points for a task and seed, and prints measurements to 1 % and 5 % of the optimum, regret, paired
tests, overhead and compile time. Runs are kept too: the same command goes on where it stopped, and
`--minutes 0` collects what is there. The JSON becomes tables (`tuners-page`).
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from rich.console import Console

from tilewright.bench.arena import runner, tasks
from tilewright.bench.arena.page_tables import CONFIRMED_SEEDS, exact_runs, measurements
from tilewright.bench.arena.plots import page
from tilewright.bench.arena.records import PRICES, Record, headline, records_of, who
from tilewright.bench.arena.release import TRACK, tables_of
from tilewright.bench.arena.replay import BATCH, INITIAL, Trial
from tilewright.bench.arena.summary import merge
from tilewright.bench.arena.tables import HARD_TRIALS, Table, load_table
from tilewright.bench.commands import TunersSettings
from tilewright.bench.framework.records import Cell
from tilewright.bench.framework.settings import require_names
from tilewright.bench.framework.study import BenchResult, Files, Study, in_processes
from tilewright.bench.framework.tables import FigureTable
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.measurement import Request
from tilewright.tuner.measure.oracle import build_job, trial_job
from tilewright.tuner.search import TUNERS
from tilewright.tuner.search.space import Index

REPORT_SECONDS = 15.0
TRACED = 256
"""Measurements of the run whose configurations are shown before and after confidence sampling."""

RUNS: Final = "runs.jsonl"

CONSOLE = Console()


VARIANTS: Final = (
    "tilewright:no-prior",
    "tilewright:calibrate=false",
    "tilewright:ideal-prior",
    "tilewright:calibrate=false,ideal-prior",
    "guided:ideal-prior",
    "autotvm:plan=16",
    "optuna-tpe:multivariate=true",
)
"""Contestants beside the plain tuners: without the prior, without the Gaussian process, with a
prior that does not know the memory, with small plans, with a joint model of the knobs."""


def everybody() -> list[runner.Contestant]:
    """Every registered tuner, and `VARIANTS`."""
    return [runner.Contestant.parse(label) for label in (*TUNERS, *VARIANTS)]


def enumerate_tasks(given: TunersSettings) -> tuple[dict[str, Table], list[Record]]:
    """Tables of the chosen networks and layers, enumerated where they are not on disk."""
    tables: dict[str, Table] = {}
    abouts: dict[str, Record] = {}
    for name in given.networks or tasks.NETWORKS:
        for workload in chosen_layers(name, given):
            task = tasks.make_task(given.track, workload)
            if task.id in abouts:
                continue
            started, told = time.monotonic(), time.monotonic()

            def progress(done: int, points: int, layer: str = workload.name) -> None:
                nonlocal told
                if time.monotonic() - told > REPORT_SECONDS:
                    told = time.monotonic()
                    CONSOLE.print(f"  {layer}: {done:,} of {points:,} points of a configuration")

            table = load_table(
                task, given.folder / "tables", workers=given.workers, on_progress=progress
            )
            about = abouts[task.id] = {"what": "task", **table.summary()}
            CONSOLE.print(
                f"{name} {workload.name}: {about['legal']:,} of {about['points']:,} points legal, "
                f"optimum {about['optimum_cycles']:,}, random needs {about['random_median_1pct']} "
                f"({'hard' if about['hard'] else 'easy'}), {time.monotonic() - started:.1f} s"
            )
            if not given.hard or about["hard"]:
                tables[task.id] = table
    kept = tasks.drawn(list(tables), given.draw)
    return {task: tables[task] for task in kept}, list(abouts.values())


def chosen_layers(network: str, given: TunersSettings) -> list[Workload]:
    """The layers of a network that are enumerated: named, affordable and drawn, in this order."""
    found = {
        workload.key: workload
        for workload in load_network(network).workloads
        if (not given.layers or workload.name in given.layers)
        and workload.name not in given.without
        and tasks.enumeration_work(tasks.make_task(given.track, workload)) <= given.work_limit
    }
    return [found[key] for key in tasks.drawn(list(found), given.per_network)]


def _shared(table: Table) -> Record:
    """What the tables of a study have in common."""
    task = table.task
    names = [hw.name for hw in task.configs]
    return {"twin": table.twin, "track": task.track, "configurations": names, "memory": task.memory}


class Tuners(Study):
    """All runs of a plan; those of earlier commands are kept in the folder, and taken from it."""

    kept = "the runs made are kept, the same command goes on"

    def __init__(self, settings: TunersSettings) -> None:
        super().__init__(settings)
        distinct: dict[str, runner.Contestant] = {}
        for contestant in map(runner.Contestant.parse, settings.tuners):
            distinct.setdefault(who(contestant), contestant)
        self.contestants: Final = list(distinct.values()) or everybody()
        self._file: Final = {} if settings.tables is None else self._read()
        networks = settings.networks or tasks.NETWORKS
        layers = {w.name for name in networks for w in load_network(name).workloads}
        require_names("--layers", settings.layers, sorted(layers))
        require_names("--without", settings.without, sorted(layers))
        # One thread a process: sums do not depend on threads, and two runs share two cores.
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        self._load = os.getloadavg()[0]
        self.outcome: runner.Outcome = runner.Outcome(runs=(), failures=(), missing=0)

    @property
    def reads(self) -> Files:
        return {"--tables": self.settings.tables}

    @property
    def keeps(self) -> Files:
        return {"the runs in --folder": self.settings.folder / RUNS}

    def measure(self, cell: Cell) -> Iterator[Record]:
        del cell
        given = self.settings
        tables = self._file
        abouts = [{"what": "task", **table.summary()} for table in tables.values()]
        if not tables:
            tables, abouts = enumerate_tasks(given)
        yield from abouts
        runs = self.runs(tables)
        if not runs:
            raise ConfigError("no runs were made", field="--minutes", remedy="give it more")
        yield from runs
        if given.selections:
            from tilewright.bench.arena.sampling import (  # noqa: PLC0415  (needs torch)
                compare_selections,
                trace_sampling,
            )

            for table in tables.values():
                yield from compare_selections(table, range(given.selections))
                yield from trace_sampling(table, 0, min(given.budget, TRACED))
        if given.confirm:
            exact = [r for r in runs if r["arm"] == "masked" and not r["noise"]]
            yield from confirm(exact, tables, workers=given.workers)

    def _read(self) -> dict[str, Table]:
        """Tables of the file."""
        tables = tables_of(self.settings.tables, self.settings.sets, hard=self.settings.hard)
        kept = tasks.drawn(list(tables), self.settings.draw)
        tables = {task: tables[task] for task in kept}
        if not tables:
            raise ConfigError(
                "the file has no such tasks", field="--sets", value=",".join(self.settings.sets)
            )
        for name in ("twin", "track", "configurations", "memory"):
            values = dict.fromkeys(map(str, (_shared(table)[name] for table in tables.values())))
            if len(values) > 1:
                raise ConfigError(
                    f"tables of a study must agree in their {name}",
                    field="--tables",
                    value=", ".join(values),
                    remedy="make a file of each",
                )
        return tables

    def runs(self, tables: dict[str, Table]) -> list[Record]:
        """Make the runs that have not been made; the records of all."""
        given = self.settings
        plan = runner.Plan(
            tables=tables,
            contestants=self.contestants,
            seeds=given.seeds,
            arms=given.arms,
            noises=[percent / 100 for percent in given.noise],
            budget=given.budget,
        )
        told = time.monotonic()

        def progress(done: int, total: int, trial: Trial) -> None:
            nonlocal told
            if time.monotonic() - told > REPORT_SECONDS or done == total:
                told = time.monotonic()
                CONSOLE.print(f"  {done:,} of {total:,} runs, last {trial.tuner} seed {trial.seed}")

        self.outcome = runner.run_plan(
            plan,
            tables=given.tables or given.folder / "tables",
            store=runner.RunStore(given.folder / RUNS),
            workers=given.workers,
            seconds=60 * given.minutes,
            on_progress=progress,
        )
        for failure in self.outcome.failures:
            CONSOLE.print(f"[red]failed[/red] {failure}")
        return records_of(self.outcome.runs, tables, self.contestants)

    def line(self, row: Any) -> str:
        if row["what"] != "confirmation":
            return ""
        return (
            f"RTL {row['layer']} on {row['hw']}: {row['rtl_cycles']} cycles, table "
            f"{row['expected_cycles']}: {'equal' if row['equal'] else 'DIFFERENT'} {row['failure']}"
        )

    def conditions(self) -> Record:
        given = self.settings
        configs = tasks.pynq_z2_choice()[: None if given.track == TRACK else 1]
        shared = {
            "twin": identity_of("twin"),
            "track": given.track,
            "configurations": [hw.name for hw in configs],
        }
        if self._file:
            shared = _shared(next(iter(self._file.values())))
        return {
            "fidelity": "Exact twin of the RTL, by table; legality from the table",
            "twin": shared["twin"],
            "board": tasks.BOARD,
            "memory": f"DRAM timing of {tasks.BOARD}",
            "space": tasks.KIND,
            "track": shared["track"],
            "sets": list(given.sets) if given.tables else [],
            "configurations": shared["configurations"],
            "networks": list(given.networks or tasks.NETWORKS),
            "layers": list(given.layers) or "all",
            "without": list(given.without),
            "hard_only": given.hard,
            "work_limit": None if math.isinf(given.work_limit) else given.work_limit,
            **self.of_settings(
                "per_network", "draw", "selections", "confirm", "note", "seeds", "budget"
            ),
            "small_budgets": dict(runner.SMALL_BUDGETS),
            "batch": BATCH,
            "initial_points": INITIAL,
            "hard": f"random-legal needs more than {HARD_TRIALS} measurements to 1 % in the median",
            "sources": {c.label: runner.sources_of(c.tuner)[:12] for c in self.contestants},
            "arms": list(given.arms),
            "noise_percent": list(given.noise),
            "prices": {name: vars(price) for name, price in PRICES.items()},
            "cpus": os.cpu_count(),
            "load_before": round(self._load, 2),
            "python": platform.python_version(),
        }

    def environment(self) -> Record:
        return {"failures": list(self.outcome.failures), "runs_missing": self.outcome.missing}

    def summarise(self, rows: Sequence[Any]) -> Record:
        conditions = {**self.conditions(), **self.environment()}
        found: Record = merge([{"rows": rows, "conditions": conditions}])["summary"]
        return found

    def passed(self, result: BenchResult) -> bool:
        different = any(r["what"] == "confirmation" and not r["equal"] for r in result.rows)
        return not different and not self.outcome.failures

    def tables(self, document: Any) -> Iterator[FigureTable]:
        merged = merge([document])
        yield measurements(merged["summary"], headline(exact_runs(merged))[0])

    def page(self, document: Any) -> str:
        return page(merge([document]))


SLACK_CYCLES: Final = 1_000
"""The RTL may run so many cycles longer than the table says before it is stopped as wrong."""


def point_of(table: Table, flat: int) -> tuple[HwConfig, Schedule]:
    """Configuration and schedule at a position of a table."""
    point = table.task.space.decode(_index(table, flat))
    if isinstance(point, Schedule):
        return table.task.configs[0], point
    return point.hw, point.schedule


def confirm(
    records: Iterable[Record], tables: Mapping[str, Table], *, workers: int = 2
) -> Iterator[dict[str, Any]]:
    """Run each distinct winner of the first seeds, and each optimum, on the full RTL."""
    wanted: dict[tuple[str, int], None] = {}
    for record in records:
        if record["seed"] < CONFIRMED_SEEDS and record["flat"] is not None:
            wanted[record["task"], record["flat"]] = None
            table = tables[record["task"]]
            wanted[record["task"], table.best] = None
    # Points of one configuration follow each other, so that a worker builds few of them.
    jobs = sorted(
        ((*point_of(tables[task], flat), task, flat) for task, flat in wanted),
        key=lambda job: (job[0].name, job[2], job[3]),
    )
    requests = [_request(tables[job[2]], *job) for job in jobs]
    for place, (failure, cycles) in in_processes(_run, requests, workers):
        hw, schedule, task, flat = jobs[place]
        expected = _cycles(tables[task], flat)
        yield {
            "what": "confirmation",
            "task": task,
            "flat": flat,
            "layer": tables[task].task.workload.name,
            "hw": hw.name,
            "schedule": schedule.to_mapping(),
            "expected_cycles": expected,
            "rtl_cycles": cycles,
            "equal": cycles == expected and not failure,
            "failure": failure,
        }


def _request(table: Table, hw: HwConfig, schedule: Schedule, _task: str, flat: int) -> Request:
    return Request(
        hw=hw,
        workload=table.task.workload,
        schedule=schedule,
        memory=table.task.memory,
        max_cycles=_cycles(table, flat) + SLACK_CYCLES,
    )


def _cycles(table: Table, flat: int) -> int:
    """What a table says of a legal position."""
    return table.measure(_index(table, flat)) or 0


def _index(table: Table, flat: int) -> Index:
    return tuple(int(i) for i in np.unravel_index(flat, table.cycles.shape))


def _run(request: Request) -> tuple[str, int | None]:
    """Why a point has no valid measurement on the RTL, and its cycles."""
    build_job("rtl", request.hw)
    measurement = trial_job("rtl", request)
    return measurement.failure, measurement.cycles if measurement.valid else None
