# SPDX-License-Identifier: Apache-2.0
"""Every group mapper at equal budgets of samples, against the bound of each instance.

A case is a task on a platform with a bandwidth, or a job table with a bandwidth. A seed draws the
group of a task and is the seed of every mapper on it.

    tilewright bench multicore --quick
    tilewright bench multicore --json build/multicore.json
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.commands import MulticoreSettings
from tilewright.bench.framework.records import Cell
from tilewright.bench.framework.study import BenchResult, Study, machine
from tilewright.bench.framework.tables import FigureTable
from tilewright.bench.multicore.page import Row, lines, page, summarise, tables
from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.analyse import BandwidthModel
from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.encoding import Population, random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.jobs import task_names
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS, MANUAL, make_group_mapper
from tilewright.tuner.multicore.platform import load_platform
from tilewright.tuner.multicore.problems import Problem, instance_of, is_table

METHODS: Final = (*GROUP_MAPPERS, *MANUAL)
QUICK_METHODS: Final = ("tilewright", "magma", "herald", "ai-mt", "random", "genetic", *MANUAL)
CHECKPOINTS: Final = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
"""Samples at which a run's best is recorded; the last is that of the budget."""


def problems_of(options: MulticoreSettings) -> list[Problem]:
    """The cases of a study, each with seed 0."""
    found = []
    for target in options.tasks or task_names():
        if is_table(target):
            if not options.bandwidths:
                raise ConfigError(
                    "must be given for job tables, in bytes per cycle", field="bandwidths"
                )
            found += [Problem(target=target, bandwidth=each) for each in options.bandwidths]
            continue
        for name in options.platforms:
            found += [
                Problem(
                    target=target,
                    platform=name,
                    bandwidth=bandwidth,
                    size=options.size,
                    bw_model=BandwidthModel(options.bw_model.value),
                )
                for bandwidth in options.bandwidths or load_platform(name).bandwidths
            ]
    return found


def key_of(problem: Problem) -> Row:
    """What the rows of a case have in common."""
    return {
        "task": Path(problem.target).stem if is_table(problem.target) else problem.target,
        "platform": problem.platform,
        "bandwidth": problem.bandwidth,
    }


@lru_cache(maxsize=2)
def cached_instance(problem: Problem) -> Instance:
    """The instance of a problem: several methods follow one another on it."""
    return instance_of(problem)


def bound_row(problem: Problem) -> Row:
    """The row of an instance."""
    instance = cached_instance(problem)
    started = time.process_time()
    bound = lower_bound(instance)
    able = np.isfinite(instance.table.latency)
    return {
        "jobs": instance.table.jobs,
        "cores": instance.table.cores,
        "bytes_per_cycle": instance.bandwidth,
        "bound": bound.makespan,
        "job_cycles": float(instance.table.latency[able].mean()),
        "job_bytes_per_cycle": float(instance.table.bandwidth[able].mean()),
        "core_seconds": round(time.process_time() - started, 3),
    }


def run_row(problem: Problem, method: str, budget: int) -> Row:
    """The row of one run."""
    instance = cached_instance(problem)
    mapper = make_group_mapper(method)  # imports, which are no part of a search
    started = time.process_time()
    trace = mapper.run(instance, budget, problem.seed)
    if trace.stopped:
        raise KeyboardInterrupt
    points = sorted({min(point, trace.samples) for point in (*CHECKPOINTS, budget)})
    return {
        "makespan": trace.makespan,
        "samples": trace.samples,
        "core_seconds": round(time.process_time() - started, 3),
        "curve": [[point, float(trace.best[point - 1])] for point in points],
    }


def evaluations_per_second(jobs: int = 100, cores: int = 4) -> int:
    """Mappings whose makespans one core computes per second; a median of five."""
    rng = np.random.default_rng(0)
    table = JobTable(rng.uniform(1e3, 1e6, (jobs, cores)), rng.uniform(0.1, 8, (jobs, cores)))
    instance = Instance(table=table, bandwidth=8.0)
    population = random_population(table, 4096, rng)
    seconds = []
    for _ in range(5):
        started = time.process_time()
        instance.makespans(population)
        seconds.append(time.process_time() - started)
    return round(len(population) / float(np.median(seconds)))


class Multicore(Study):
    """Every mapper on every case, one seed of all cases after the other."""

    resumes = True

    def __init__(self, settings: MulticoreSettings) -> None:
        super().__init__(settings)
        self.methods: Final = settings.methods or (QUICK_METHODS if settings.quick else METHODS)
        for method in self.methods:
            make_group_mapper(method)  # refuses a wrong name before hours of work
        self.problems: Final = {
            tuple(key_of(problem).values()): problem for problem in problems_of(settings)
        }

    @property
    def jobs(self) -> int:
        return int(self.settings.jobs)

    def cells(self) -> Iterator[Cell]:
        for seed in range(self.settings.seeds):
            for problem in self.problems.values():
                name = key_of(problem)
                yield {"what": "bound", **name, "seed": seed}
                for method in self.methods:
                    yield {"what": "run", **name, "method": method, "seed": seed}

    def measure(self, cell: Cell) -> list[Row]:
        case = self.problems[cell["task"], cell["platform"], cell["bandwidth"]]
        problem = replace(case, seed=cell["seed"])
        if cell["what"] == "bound":
            return [bound_row(problem)]
        return [run_row(problem, cell["method"], self.settings.budget)]

    def conditions(self) -> Row:
        return {
            **self.of_settings("budget", "size"),
            "bw_model": str(BandwidthModel(self.settings.bw_model.value)),
            "policy": str(Problem(target="").policy),
        }

    def environment(self) -> Row:
        return machine()

    @cached_property
    def speed(self) -> Row:
        """How fast our allocator is, and how far from the recorded one."""
        recorded = self.settings.recorded
        return {
            "evaluations_per_s": evaluations_per_second(),
            "makespan_max_rel_error": None if recorded is None else largest_error(recorded),
        }

    def summarise(self, rows: Sequence[Any]) -> Row:
        return {**self.speed, **summarise(rows)}

    def passed(self, result: BenchResult) -> bool:
        return not result.summary.get("bound_violations")

    def line(self, row: Any) -> str:
        about = f"{row['task']:16} {row['platform']:4} {row['bandwidth']:6g} seed {row['seed']:2}"
        value = row["bound"] if row["what"] == "bound" else row["makespan"]
        return f"{about} {value:.6e} {row.get('method', 'bound')}"

    def tables(self, document: Any) -> Iterator[FigureTable]:
        return tables(document["summary"])

    def text(self, document: Any) -> str:
        return "\n\n".join([super().text(document), "\n".join(lines(document["summary"]))])

    def page(self, document: Any) -> str:
        return page(document)


def largest_error(folder: Path) -> float:
    """The largest relative difference of a makespan."""
    errors = []
    for path in sorted(folder.glob("*-makespans.csv")):
        name = path.name.removesuffix("-makespans.csv")
        table = JobTable.from_csv(folder / f"{name}-jobs.csv")
        mappings = _rows(folder / f"{name}-mappings.csv")
        core = np.array([[int(digit) for digit in row["cores"]] for row in mappings])
        order = np.array([[int(job) for job in row["order"].split()] for row in mappings])
        population = Population(
            core=core.astype(np.int32), priority=np.argsort(order, axis=1).astype(np.float64)
        )
        runs = _rows(path)
        found = {
            bandwidth: Instance(table=table, bandwidth=float(bandwidth)).makespans(population)
            for bandwidth in {run["bandwidth"] for run in runs}
        }
        for run in runs:
            ours = found[run["bandwidth"]][int(run["mapping"])]
            errors.append(abs(ours / float(run["makespan"]) - 1))
    if not errors:
        raise ConfigError(
            "must hold records, NAME-makespans.csv and what belongs to it",
            field="--recorded",
            value=str(folder),
        )
    return float(max(errors))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
