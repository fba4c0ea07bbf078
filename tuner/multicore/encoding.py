# SPDX-License-Identifier: Apache-2.0
"""`Population`: mappings as two genomes, the core of each job and the priority of each job.

Source: Kao and Krishna, "MAGMA", HPCA 2022, section IV: sub-accelerator selection and job
prioritising. Each core runs its jobs in the order of their priorities, the lowest first; equal ones
in the order of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.job_table import JobTable, Numbers

Cores = npt.NDArray[np.int32]
Queues = Sequence[Sequence[int]]
"""Jobs of each core, first to last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Mappings of the same jobs.

    Example:
        >>> population = population_of([[[2, 0], [1]]])
        >>> population.core.tolist(), queues_of(population, 0, cores=2)
        ([[0, 1, 0]], [[2, 0], [1]])
    """

    core: Cores  # of each job, int32 ``[n, jobs]``
    priority: Numbers  # of each job, float64 ``[n, jobs]``; the lower runs first

    def __len__(self) -> int:
        return len(self.core)

    def take(self, rows: Any) -> Population:
        """Copies of some mappings; ``rows`` is an index of an array, of one dimension."""
        return Population(core=self.core[rows].copy(), priority=self.priority[rows].copy())


def joined(*parts: Population) -> Population:
    """The mappings of several populations, one after another."""
    return Population(
        core=np.concatenate([part.core for part in parts]),
        priority=np.concatenate([part.priority for part in parts]),
    )


def random_population(table: JobTable, n: int, rng: np.random.Generator) -> Population:
    """Mappings whose cores and priorities are drawn evenly; jobs only on cores that run them."""
    return Population(
        core=random_cores(table, rng.random((n, table.jobs))),
        priority=rng.random((n, table.jobs)),
    )


def random_cores(table: JobTable, shares: Numbers) -> Cores:
    """Cores by numbers from 0 to below 1, shape ``[n, jobs]``: even shares of the possible ones."""
    able = np.isfinite(table.latency)
    # The cores that can run a job come first in its row, in their own order.
    order = np.argsort(~able, axis=1, kind="stable")
    place = np.minimum(shares * able.sum(axis=1), able.sum(axis=1) - 1).astype(np.intp)
    cores: Cores = order[np.arange(table.jobs), place].astype(np.int32)
    return cores


def population_of(mappings: Sequence[Queues]) -> Population:
    """Mappings given as each core's jobs in order; every job is in one queue."""
    jobs = sum(len(queue) for queue in mappings[0])
    core = np.empty((len(mappings), jobs), dtype=np.int32)
    priority = np.empty((len(mappings), jobs))
    for row, queues in enumerate(mappings):
        for number, queue in enumerate(queues):
            core[row, queue] = number
            priority[row, queue] = np.arange(len(queue))
    return Population(core=core, priority=priority)


def queues_of(population: Population, row: int, cores: int) -> list[list[int]]:
    """The jobs of each core, first to last, of one mapping."""
    order = np.argsort(population.priority[row], kind="stable")
    on = population.core[row][order]
    return [order[on == core].tolist() for core in range(cores)]
