# SPDX-License-Identifier: Apache-2.0
"""Orders for a placement that pair memory-hungry jobs of one core with frugal ones of the others.

Jobs are put into their queues in the order of time. The core that is free first takes one of its
jobs so that what all cores need together stays at a level: below the bandwidth where the jobs allow
it, and near their mean where they do not. Two rules choose: the hungriest job that still fits
below the level, or the one that comes closest to it.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.ai_mt import best_fit
from tilewright.tuner.multicore.methods.balance import Placement


class Rule(StrEnum):
    """Which job a free core takes."""

    FIT = "fit"
    """The hungriest that stays below the level; else the most frugal."""
    CLOSEST = "closest"
    """Which brings the sum closest to the level."""


def mean_need(table: JobTable, core: Placement) -> float:
    """Bytes per cycle that all cores need together, on average over the longest queue."""
    jobs = np.arange(table.jobs)
    latency = table.latency[jobs, core]
    longest = np.bincount(core, latency, minlength=table.cores).max()
    return float(table.bytes[jobs, core].sum() / longest)


def paired(table: JobTable, core: Placement, level: float, rule: Rule) -> list[list[int]]:
    """The jobs of each core, first to last."""
    waiting = [np.flatnonzero(core == c) for c in range(table.cores)]
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    free, demand = np.zeros(table.cores), np.zeros(table.cores)
    for _ in range(table.jobs):
        left = np.array([len(jobs) > 0 for jobs in waiting])
        mine = int(np.argmin(np.where(left, free, np.inf)))
        beside = float(demand[free > free[mine]].sum())
        jobs, needs = waiting[mine], table.bandwidth[:, mine]
        if rule is Rule.FIT:
            job = best_fit(jobs, needs, level - beside)
        else:
            job = int(jobs[np.argmin(np.abs(needs[jobs] + beside - level))])
        waiting[mine] = jobs[jobs != job]
        queues[mine].append(job)
        free[mine] += table.latency[job, mine]
        demand[mine] = table.bandwidth[job, mine]
    return queues
