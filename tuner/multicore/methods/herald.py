# SPDX-License-Identifier: Apache-2.0
"""A mapper in the manner of Herald: each job to the core that suits it, while loads stay balanced.

Source: Kwon et al., "Heterogeneous Dataflow Accelerators for Multi-DNN Workloads", HPCA 2021,
section on scheduling: a layer prefers the sub-accelerator whose data flow runs it best; where that
unbalances the loads by more than a factor, the next one of its preference is taken. Built from that
description; dependencies, which a group does not have, are left out, and so is the pass that moves
layers into idle time, which a core with a queue does not have either.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.encoding import population_of
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

UNBALANCE: Final = 1.25
"""Most that the load of a core may be of the mean load when it is given a job it prefers."""


class HeraldMapper(GroupMapper):
    """One sample.

    Args:
        unbalance: see `UNBALANCE`.
    """

    def __init__(self, *, unbalance: float = UNBALANCE) -> None:
        self._unbalance: Final = unbalance

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        del rng
        probe.makespans(population_of([herald_queues(probe.instance.table, self._unbalance)]))


def herald_queues(table: JobTable, unbalance: float = UNBALANCE) -> list[list[int]]:
    """The jobs of each core, first to last."""
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    busy = np.zeros(table.cores)
    for job, latency in enumerate(table.latency):
        after = busy + latency
        limit = unbalance * (busy.sum() + latency.min()) / table.cores
        liked = (c for c in np.argsort(latency, kind="stable") if after[c] <= limit)
        core = int(next(liked, np.argmin(after)))
        queues[core].append(job)
        busy[core] += latency[core]
    return queues
