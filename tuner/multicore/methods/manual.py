# SPDX-License-Identifier: Apache-2.0
"""Manual mappers: jobs in an order, each placed once; one sample.

Orders: first come first served (as the table has them), shortest job first, and the longest upward
rank first, which for jobs without dependencies is the mean latency over the cores (HEFT:
Topcuoglu et al., IEEE TPDS 13(3), 2002). Placements: where the job ends earliest by its latency
alone, the cores in turn, and the core that runs it fastest (minimum execution time). No placement
looks at bandwidth.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.encoding import population_of
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe


class Order(StrEnum):
    """Which job is placed, and runs, before which."""

    FCFS = "fcfs"
    """First come first served: as in the table."""
    SJF = "sjf"
    """Shortest job first, by its mean latency."""
    HEFT = "heft"
    """Longest upward rank first, by its mean latency."""


class Placement(StrEnum):
    """Which core a job gets."""

    GREEDY = "greedy"
    """Where it ends earliest."""
    ROUND_ROBIN = "round-robin"
    """The cores in turn; one that cannot run the job is passed over."""
    FASTEST = "fastest"
    """Which runs it fastest, whatever waits there."""


class ManualMapper(GroupMapper):
    """One order, one placement."""

    def __init__(self, order: Order, placement: Placement) -> None:
        self._order: Final = order
        self._placement: Final = placement

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        del rng
        queues = placed(probe.instance.table, self._order, self._placement)
        probe.makespans(population_of([queues]))


def placed(table: JobTable, order: Order, placement: Placement) -> list[list[int]]:
    """The jobs of each core, first to last."""
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    busy, turn = np.zeros(table.cores), 0
    for job in in_order(table, order).tolist():
        latency = table.latency[job]
        if placement == Placement.GREEDY:
            core = int(np.argmin(busy + latency))
        elif placement == Placement.FASTEST:
            core = int(np.argmin(latency))
        else:
            core = next(
                core
                for step in range(table.cores)
                if np.isfinite(latency[core := (turn + step) % table.cores])
            )
            turn = core + 1
        queues[core].append(job)
        busy[core] += latency[core]
    return queues


def in_order(table: JobTable, order: Order) -> npt.NDArray[np.intp]:
    """Jobs, first to last; equal ones as in the table."""
    if order == Order.FCFS:
        return np.arange(table.jobs)
    rank = mean_latency(table)
    return np.argsort(-rank if order == Order.HEFT else rank, kind="stable")


def mean_latency(table: JobTable) -> npt.NDArray[np.float64]:
    """Mean over the cores that can run a job, shape ``[jobs]``."""
    able = np.isfinite(table.latency)
    total = np.where(able, table.latency, 0.0).sum(axis=1)
    mean: npt.NDArray[np.float64] = total / able.sum(axis=1)
    return mean
