# SPDX-License-Identifier: Apache-2.0
"""Every tuner on equal terms, replayed against exhaustive tables of the exact twin.

Enumerates the tasks (kept under `runs/arena`, resumed), runs every tuner with the same first
points for a task and seed, and prints measurements to 1 % and 5 % of the optimum, regret, paired
tests, overhead and compile time. Runs are kept too: the same command goes on where it stopped, and
`--minutes 0` collects what is there. The JSON becomes
`docs/results/tuners-study-tables.md`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Text

from tilewright.bench.arena.confirm import confirm
from tilewright.bench.arena.merge import merge
from tilewright.bench.arena.plots import write_plots
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
from tilewright.bench.arena.tables import HARD_TRIALS, Table, load_table
from tilewright.bench.arena.tasks import (
    BOARD,
    KIND,
    NETWORKS,
    TRACKS,
    drawn,
    enumeration_work,
    make_task,
    pynq_z2_choice,
)
from tilewright.host.common.errors import TilewrightError
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


def everybody() -> list[Contestant]:
    """Every registered tuner; the default tuner without its prior too, for the black-box track."""
    names = list(TUNERS)
    labels = [*names, *(["tilewright:no-prior"] if "tilewright" in names else [])]
    return [Contestant.parse(label) for label in labels]


def enumerate_tasks(options: argparse.Namespace) -> tuple[dict[str, Table], list[Record]]:
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


def chosen_layers(network: str, options: argparse.Namespace) -> list[Workload]:
    """The layers of a network that are enumerated: named, affordable and drawn, in this order."""
    found = {
        workload.key: workload
        for workload in load_network(network).workloads
        if (not options.layers or workload.name in options.layers)
        and workload.name not in options.without
        and enumeration_work(make_task(options.track, workload)) <= options.work_limit
    }
    return [found[key] for key in drawn(list(found), options.per_network)]


def run(
    options: argparse.Namespace, tables: dict[str, Table]
) -> tuple[list[Record], dict[str, Any]]:
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


def show(summary: dict[str, Any]) -> None:
    """Print the headline."""
    text = Text(title=f"{summary['headline_tasks']} tasks, masked, no noise")
    for name in ("tuner", "to 1 %", "to 5 %", "core-s / 100"):
        text.add_column(name, justify="left" if name == "tuner" else "right")
    order = summary["trials_to_1pct"]
    for tuner in sorted(order, key=lambda t: (order[t] is None, order[t] or 0)):
        to_1, to_5 = (summary[f"trials_to_{t}"][tuner] for t in ("1pct", "5pct"))
        text.add_row(
            tuner,
            "more" if to_1 is None else f"{to_1:.0f}",
            "more" if to_5 is None else f"{to_5:.0f}",
            f"{summary['overhead_seconds_per_100'][tuner]:.3f}",
        )
    CONSOLE.print(text)


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = lambda text: [part for part in text.split(",") if part]  # noqa: E731  (a converter)
    parser.add_argument("--quick", action="store_true", help="two layers, five seeds, 128 trials")
    parser.add_argument("--json", type=Path, help="write records, summary and conditions here")
    parser.add_argument("--html", type=Path, help="write the plots here")
    parser.add_argument("--track", choices=TRACKS, default="per-layer")
    parser.add_argument("--networks", type=names, default=list(NETWORKS), metavar="A,B")
    parser.add_argument("--layers", type=names, default=[], metavar="A,B", help="of the networks")
    parser.add_argument("--without", type=names, default=[], metavar="A,B", help="not these layers")
    parser.add_argument("--hard", action="store_true", help="leave easy tasks out")
    parser.add_argument(
        "--work-limit", type=float, default=float("inf"), metavar="N",
        help="leave layers out whose points times multiply-accumulates are more",
    )  # fmt: skip
    parser.add_argument(
        "--per-network", type=int, metavar="N", help="so many layers a network, drawn beforehand"
    )
    parser.add_argument(
        "--draw", type=int, metavar="N", help="run on so many of the tasks, drawn by their names"
    )
    parser.add_argument(
        "--tuners", type=lambda t: [Contestant.parse(n) for n in t.split()], default=None,
        metavar="'A B:option=value C:no-prior'", help="default: every registered one",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--budget", type=int, default=1000, help="measurements of a run")
    parser.add_argument("--arms", type=names, default=["masked"], help=f"of {','.join(ARMS)}")
    parser.add_argument(
        "--noise", type=lambda t: [float(n) for n in t.split(",")], default=[0.0],
        metavar="0,1,3", help="percent of a measurement",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no run after so long"
    )
    parser.add_argument("--confirm", action="store_true", help="winners of 5 seeds on the full RTL")
    parser.add_argument(
        "--selections", type=int, default=0, metavar="SEEDS",
        help="compare confidence sampling with other selections on identical candidates, and "
        "show one run's configurations over time before and after it",
    )  # fmt: skip
    parser.add_argument("--note", default="", help="what a reader must know; goes into the page")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("runs/arena"), help="tables and runs")
    options = parser.parse_args()
    for arm in options.arms:
        if arm not in ARMS:
            parser.error(f"no arm {arm}: use {', '.join(ARMS)}")
    known = {w.name for name in options.networks for w in load_network(name).workloads}
    if unknown := sorted({*options.layers, *options.without} - known):
        parser.error(f"no layer {', '.join(unknown)} in {', '.join(options.networks)}")
    if options.quick:
        options.track, options.networks, options.layers = "schedule", ["resnet18"], QUICK_LAYERS
        options.seeds, options.budget = 5, 128
    options.tuners = everybody() if options.tuners is None else options.tuners
    return options


def main() -> int:
    """Command line."""
    options = parse()
    # One thread a process: two runs at a time share two cores, and sums do not depend on threads.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    load = os.getloadavg()[0]
    tables, records = enumerate_tasks(options)
    runs, outcome = run(options, tables)
    if not runs:
        CONSOLE.print("no runs: give it more --minutes")
        return 1
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
        "networks": options.networks,
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
        "arms": options.arms,
        "noise_percent": options.noise,
        "prices": {name: vars(price) for name, price in PRICES.items()},
        "cpus": os.cpu_count(),
        "load_before": round(load, 2),
        "python": platform.python_version(),
        **outcome,
    }
    study = merge([{"records": records, "conditions": conditions}])
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        part = {"records": records, "summary": study["summary"], "conditions": conditions}
        options.json.write_text(json.dumps(part) + "\n", encoding="utf-8")
    if options.html:
        write_plots(study, options.html)
    show(study["summary"])
    return 1 if any(r["what"] == "confirmation" and not r["equal"] for r in records) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; the runs made are kept, the same command goes on", file=sys.stderr)
        sys.exit(130)
