# SPDX-License-Identifier: Apache-2.0
"""Every tuner under equal conditions, replayed against exhaustive tables of the exact twin.

Enumerates the tasks (kept under `runs/arena`, resumed), runs every tuner with the same first
points for a task and seed, and prints measurements to 1 % and 5 % of the optimum, regret, paired
tests, overhead and compile time. Runs are kept too: the same command goes on where it stopped, and
`--minutes 0` collects what is there. The JSON becomes `docs/results/tuners-study-tables.md`.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tilewright.bench.arena.confirm import confirm
from tilewright.bench.arena.merge import merge
from tilewright.bench.arena.page_tables import exact_runs, measurements
from tilewright.bench.arena.prices import PRICES
from tilewright.bench.arena.records import Record, records_of
from tilewright.bench.arena.replay import ARMS, BATCH, INITIAL, Trial
from tilewright.bench.arena.runner import (
    SMALL_BUDGETS,
    Contestant,
    Plan,
    RunStore,
    run_plan,
    sources_of,
)
from tilewright.bench.arena.summary import headline
from tilewright.bench.arena.tables import HARD_TRIALS, Table, load_table
from tilewright.bench.arena.tasks import (
    BOARD,
    KIND,
    TRACKS,
    drawn,
    enumeration_work,
    make_task,
    pynq_z2_choice,
)
from tilewright.bench.result import BenchResult
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.search import TUNERS

REPORT_SECONDS = 15.0
TRACED = 256
"""Measurements of the run whose configurations are shown before and after confidence sampling."""
QUICK_LAYERS = ("C7", "C10")
"""Hard layers of ResNet-18 (on one configuration) whose tables take a minute from nothing."""

CONSOLE = Console()


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which tuners run on which tasks, and for how long.

    Attributes:
        track: of `TRACKS`.
        networks: whose layers are tasks.
        layers: of the networks; empty: all.
        without: layers that are left out.
        hard: leave easy tasks out.
        work_limit: most points times multiply-accumulates of a task.
        per_network: so many layers per network, drawn beforehand; None: all.
        draw: run on so many of the tasks, drawn by their names; None: all.
        tuners: who runs; empty: every registered one.
        seeds: runs per tuner and task.
        budget: measurements of a run.
        arms: of `ARMS`.
        noise: percent of a measurement.
        minutes: start no run after so long.
        confirm: winners of five seeds on the full RTL.
        selections: seeds with which confidence sampling is compared with other selections.
        note: what a reader must know; goes into the page.
        workers: processes.
        folder: of tables and runs.
    """

    track: str
    networks: Sequence[str]
    layers: Sequence[str]
    without: Sequence[str]
    hard: bool
    work_limit: float
    per_network: int | None
    draw: int | None
    tuners: Sequence[Contestant]
    seeds: int
    budget: int
    arms: Sequence[str]
    noise: Sequence[float]
    minutes: float
    confirm: bool
    selections: int
    note: str
    workers: int
    folder: Path

    def __post_init__(self) -> None:
        """Refuse names that do not exist.

        Raises:
            ConfigError: a track, arm or layer.
            WorkloadError: a network.
        """
        for field, given, known in (
            ("--track", [self.track], list(TRACKS)),
            ("--arms", self.arms, list(ARMS)),
            (
                "--layers, --without",
                [*self.layers, *self.without],
                sorted({w.name for name in self.networks for w in load_network(name).workloads}),
            ),
        ):
            for name in given:
                if name not in known:
                    raise ConfigError(
                        "no such name", field=field, value=name, remedy=choices(name, known)
                    )


def everybody() -> list[Contestant]:
    """Every registered tuner; the default tuner without its prior too, for the black-box track."""
    names = list(TUNERS)
    labels = [*names, *(["tilewright:no-prior"] if "tilewright" in names else [])]
    return [Contestant.parse(label) for label in labels]


def enumerate_tasks(options: Options) -> tuple[dict[str, Table], list[Record]]:
    """Tables of the chosen networks and layers, enumerated where they are not on disk.

    Returns:
        The tables to run on, by task, and a record of every table, easy ones included.
    """
    tables: dict[str, Table] = {}
    abouts: dict[str, Record] = {}
    for name in options.networks:
        for workload in chosen_layers(name, options):
            task = make_task(options.track, workload)
            if task.id in abouts:
                continue
            started, told = time.monotonic(), time.monotonic()

            def progress(done: int, points: int, layer: str = workload.name) -> None:
                nonlocal told
                if time.monotonic() - told > REPORT_SECONDS:
                    told = time.monotonic()
                    CONSOLE.print(f"  {layer}: {done:,} of {points:,} points of a configuration")

            table = load_table(
                task, options.folder / "tables", workers=options.workers, on_progress=progress
            )
            about = abouts[task.id] = {"what": "task", **table.summary()}
            CONSOLE.print(
                f"{name} {workload.name}: {about['legal']:,} of {about['points']:,} points legal, "
                f"optimum {about['optimum_cycles']:,}, random needs {about['random_median_1pct']} "
                f"({'hard' if about['hard'] else 'easy'}), {time.monotonic() - started:.1f} s"
            )
            if not options.hard or about["hard"]:
                tables[task.id] = table
    kept = drawn(list(tables), options.draw)
    return {task: tables[task] for task in kept}, list(abouts.values())


def chosen_layers(network: str, options: Options) -> list[Workload]:
    """The layers of a network that are enumerated: named, affordable and drawn, in this order."""
    found = {
        workload.key: workload
        for workload in load_network(network).workloads
        if (not options.layers or workload.name in options.layers)
        and workload.name not in options.without
        and enumeration_work(make_task(options.track, workload)) <= options.work_limit
    }
    return [found[key] for key in drawn(list(found), options.per_network)]


def run(options: Options, tables: dict[str, Table]) -> tuple[list[Record], dict[str, Any]]:
    """Make the runs; returns their records and what there is to say about them."""
    plan = Plan(
        tasks={task: table.task for task, table in tables.items()},
        contestants=options.tuners,
        seeds=options.seeds,
        arms=options.arms,
        noises=[percent / 100 for percent in options.noise],
        budget=options.budget,
    )
    told = time.monotonic()

    def progress(done: int, total: int, trial: Trial) -> None:
        nonlocal told
        if time.monotonic() - told > REPORT_SECONDS or done == total:
            told = time.monotonic()
            CONSOLE.print(f"  {done:,} of {total:,} runs, last {trial.tuner} seed {trial.seed}")

    outcome = run_plan(
        plan,
        tables=options.folder / "tables",
        store=RunStore(options.folder / "runs.jsonl"),
        workers=options.workers,
        seconds=60 * options.minutes,
        on_progress=progress,
    )
    for failure in outcome.failures:
        CONSOLE.print(f"[red]failed[/red] {failure}")
    records = records_of(outcome.runs, tables, options.tuners)
    return records, {"failures": list(outcome.failures), "runs_missing": outcome.missing}


def study(options: Options) -> tuple[BenchResult, dict[str, Any]]:
    """Run the tuners that have not run, and collect what is there.

    Returns:
        Rows and conditions; and the study (`merge`), which plots and tables are made of.

    Raises:
        ConfigError: nothing was run.
    """
    # One thread a process: two runs at a time share two cores, and sums do not depend on threads.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    load = os.getloadavg()[0]
    tables, records = enumerate_tasks(options)
    runs, outcome = run(options, tables)
    if not runs:
        raise ConfigError("no runs were made", field="--minutes", remedy="give it more")
    records += runs
    if options.selections:
        from tilewright.bench.arena.sampling import (  # noqa: PLC0415  (needs torch)
            compare_selections,
            trace_sampling,
        )

        for table in tables.values():
            records += compare_selections(table, range(options.selections))
            records += trace_sampling(table, 0, min(options.budget, TRACED))
    if options.confirm:
        exact = [r for r in runs if r["arm"] == "masked" and not r["noise"]]
        for row in confirm(exact, tables, workers=options.workers):
            records.append(row)
            CONSOLE.print(
                f"RTL {row['layer']} on {row['hw']}: {row['rtl_cycles']} cycles, table "
                f"{row['expected_cycles']}: {'equal' if row['equal'] else 'DIFFERENT'}"
                f" {row['failure']}"
            )
    conditions = {
        "fidelity": "Exact twin of the RTL, by table; legality from the table",
        "twin": identity_of("twin"),
        "board": BOARD,
        "memory": f"DRAM timing of {BOARD}",
        "space": KIND,
        "track": options.track,
        "configurations": [
            hw.name for hw in pynq_z2_choice()[: None if options.track == "per-layer" else 1]
        ],
        "networks": list(options.networks),
        "layers": list(options.layers) or "all",
        "without": list(options.without),
        "hard_only": options.hard,
        "work_limit": None if math.isinf(options.work_limit) else options.work_limit,
        "per_network": options.per_network,
        "draw": options.draw,
        "selections": options.selections,
        "confirm": options.confirm,
        "note": options.note,
        "seeds": options.seeds,
        "budget": options.budget,
        "small_budgets": dict(SMALL_BUDGETS),
        "batch": BATCH,
        "initial_points": INITIAL,
        "hard": f"random-legal needs more than {HARD_TRIALS} measurements to 1 % in the median",
        "sources": {c.label: sources_of(c.tuner)[:12] for c in options.tuners},
        "arms": list(options.arms),
        "noise_percent": list(options.noise),
        "prices": {name: vars(price) for name, price in PRICES.items()},
        "cpus": os.cpu_count(),
        "load_before": round(load, 2),
        "python": platform.python_version(),
        **outcome,
    }
    merged = merge([{"rows": records, "conditions": conditions}])
    print(measurements(merged["summary"], headline(exact_runs(merged))[0]).markdown())
    different = any(r["what"] == "confirmation" and not r["equal"] for r in records)
    result = BenchResult(
        rows=records,
        summary=merged["summary"],
        conditions=conditions,
        passed=not different and not outcome["failures"],
    )
    return result, merged
