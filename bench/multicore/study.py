# SPDX-License-Identifier: Apache-2.0
"""Every group mapper at equal budgets of samples, against the bound of each instance.

A case is a task on a platform with a bandwidth, or a job table with a bandwidth. A seed draws the
group of a task and is the seed of every mapper on it.

``--json`` is written after each case and seed and read at the start: a stopped run goes on.

    tilewright bench multicore --quick
    tilewright bench multicore --json build/multicore.json
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.multicore.recorded import largest_error
from tilewright.bench.multicore.summary import Row, summarise
from tilewright.bench.result import BenchResult, kept
from tilewright.bench.workers import executor
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.result_document import rows_of
from tilewright.tuner.multicore.analyse import BandwidthModel
from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.encoding import random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.jobs import DEFAULT_SIZE, task_names
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS, MANUAL, make_group_mapper
from tilewright.tuner.multicore.platform import load_platform
from tilewright.tuner.multicore.problems import Problem, instance_of, is_table

PLATFORMS: Final = ("S1", "S2", "S3", "S4", "S5", "S6")
METHODS: Final = (*GROUP_MAPPERS, *MANUAL)
QUICK_METHODS: Final = ("tilewright", "magma", "herald", "ai-mt", "random", "genetic", *MANUAL)
CHECKPOINTS: Final = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
"""Samples at which a run's best is recorded; the last is that of the budget."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared, on what.

    Attributes:
        targets: tasks and paths of job tables.
        platforms: of the tasks, by name or file.
        bandwidths: in GB/s, of a table in bytes per cycle; empty: those of each platform.
        methods: names of group mappers.
        size: jobs of a group.
        bw_model: what the required bandwidth of a job is.
        budget: samples per run.
        seeds: groups per case, and runs per mapper and group: one.
        jobs: processes side by side.
        recorded: folder of recorded makespans that the allocator must give; see `recorded`.
    """

    targets: Sequence[str] = task_names()
    platforms: Sequence[str] = PLATFORMS
    bandwidths: Sequence[float] = ()
    methods: Sequence[str] = METHODS
    size: int = DEFAULT_SIZE
    bw_model: BandwidthModel = BandwidthModel.TRAFFIC
    budget: int = 10_000
    seeds: int = 10
    jobs: int = 1
    recorded: Path | None = None


def problems_of(options: Options) -> list[Problem]:
    """The cases of a study, each with seed 0.

    Raises:
        ConfigError: a table without a bandwidth.
    """
    found = []
    for target in options.targets:
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
                    bw_model=options.bw_model,
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


def bound_row(problem: Problem, instance: Instance) -> Row:
    """The row of an instance."""
    started = time.process_time()
    bound = lower_bound(instance)
    return {
        "what": "bound",
        **key_of(problem),
        "seed": problem.seed,
        "jobs": instance.table.jobs,
        "cores": instance.table.cores,
        "bytes_per_cycle": instance.bandwidth,
        "bound": bound.makespan,
        "core_seconds": round(time.process_time() - started, 3),
    }


def run_row(problem: Problem, instance: Instance, method: str, budget: int) -> Row:
    """The row of one run."""
    mapper = make_group_mapper(method)  # imports, which are no part of a search
    started = time.process_time()
    trace = mapper.run(instance, budget, problem.seed)
    if trace.stopped:
        raise KeyboardInterrupt
    points = sorted({min(point, trace.samples) for point in (*CHECKPOINTS, budget)})
    return {
        "what": "run",
        **key_of(problem),
        "method": method,
        "seed": problem.seed,
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


class Study:
    """The rows of a study, as they come.

    Args:
        options: what is compared.
        known: document of a stopped run.

    Raises:
        ConfigError: the document holds other conditions, or a case that cannot be.
        GroupMapperError: no group mapper of a name.
    """

    def __init__(self, options: Options, known: Mapping[str, Any] | None = None) -> None:
        for method in options.methods:
            make_group_mapper(method)  # refuses a wrong name before hours of work
        self.options: Final = options
        self.problems: Final = problems_of(options)
        self.conditions: Final[Row] = {
            "budget": options.budget,
            "size": options.size,
            "bw_model": str(options.bw_model),
            "policy": str(Problem(target="").policy),
        }
        self.records: list[Row] = []
        if known is not None:
            same = {k: v for k, v in known["conditions"].items() if k in self.conditions}
            if same != self.conditions:
                raise ConfigError(
                    "the file holds rows of other conditions",
                    field="--json",
                    remedy="name another file",
                )
            self.records = rows_of(known)
        self._speed: Row = {
            "evaluations_per_s": evaluations_per_second(),
            "makespan_max_rel_error": None
            if options.recorded is None
            else largest_error(options.recorded),
        }

    def run(self, keep: Callable[[BenchResult], None] | None = None) -> None:
        """Run every mapper on every case, one seed of all cases after the other."""
        done = {_name(row) for row in self.records}
        with kept(keep, self.result) as step, executor(self.options.jobs) as pool:
            for seed in range(self.options.seeds):
                for case in self.problems:
                    problem = replace(case, seed=seed)
                    same = {**key_of(problem), "seed": seed}
                    wanted = [
                        method
                        for method in self.options.methods
                        if _name({"what": "run", **same, "method": method}) not in done
                    ]
                    bounded = _name({"what": "bound", **same}) in done
                    if bounded and not wanted:
                        continue
                    instance = instance_of(problem)
                    if not bounded:
                        self._add(bound_row(problem, instance))
                    futures = [
                        pool.submit(run_row, problem, instance, method, self.options.budget)
                        for method in wanted
                    ]
                    for future in futures:
                        self._add(future.result())
                    step()

    def _add(self, row: Row) -> None:
        self.records.append(row)
        about = f"{row['task']:16} {row['platform']:4} {row['bandwidth']:6g} seed {row['seed']:2}"
        value = row["bound"] if row["what"] == "bound" else row["makespan"]
        print(f"{about} {value:.6e} {row.get('method', 'bound')}", flush=True)

    def result(self) -> BenchResult:
        """What there is so far."""
        summary = {**self._speed, **summarise(self.records)}
        return BenchResult(
            rows=self.records,
            summary=summary,
            conditions={
                **self.conditions,
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
            },
            passed=not summary["bound_violations"],
        )


def _name(row: Row) -> tuple[Any, ...]:
    """What tells a row from all others."""
    members = ("what", "task", "platform", "bandwidth", "method", "seed")
    return tuple(json.dumps(row.get(member)) for member in members)
