# SPDX-License-Identifier: Apache-2.0
"""Makespans that the original allocator gave, against ours.

A folder holds, per name, ``NAME-jobs.csv`` (a job table), ``NAME-mappings.csv`` (``cores``: a digit
per job; ``order``: jobs, first to last) and ``NAME-makespans.csv`` (``mapping``, ``bandwidth``,
``makespan``).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable


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
