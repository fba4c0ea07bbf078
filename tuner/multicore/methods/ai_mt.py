# SPDX-License-Identifier: Apache-2.0
"""A mapper in the manner of AI-MT: memory-intensive jobs run beside compute-intensive ones.

Source: Baek, Kwon and Kim, "A Multi-Neural Network Acceleration Architecture", ISCA 2020: blocks of
different networks are paired so that the fetches of one hide behind the arithmetic of another, on
cores that are all alike. Built from that description: the core that is free first takes, of the
jobs that wait, the one that needs the most bandwidth of what the running ones leave, or the least
demanding one where none fits. That cores differ is nothing it looks at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.encoding import population_of
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe


class AiMtMapper(GroupMapper):
    """One sample."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        del rng
        probe.makespans(population_of([ai_mt_queues(probe.instance)]))


def ai_mt_queues(instance: Instance) -> list[list[int]]:
    """The jobs of each core, first to last."""
    table = instance.table
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    waiting = np.ones(table.jobs, dtype=np.bool_)
    free, demand = np.zeros(table.cores), np.zeros(table.cores)
    while waiting.any():
        able = waiting[:, None] & np.isfinite(table.latency)
        core = int(np.argmin(np.where(able.any(axis=0), free, np.inf)))
        beside = demand[(free > free[core]) & (instance.port == instance.port[core])].sum()
        room = instance.bandwidth - beside
        job = best_fit(np.flatnonzero(able[:, core]), table.bandwidth[:, core], room)
        waiting[job] = False
        queues[core].append(job)
        free[core] += table.latency[job, core]
        demand[core] = table.bandwidth[job, core]
    return queues


def best_fit(jobs: npt.NDArray[np.intp], needs: Numbers, room: float) -> int:
    """The job that needs most of what fits into a bandwidth, or the least where none fits."""
    wanted = needs[jobs]
    return int(jobs[np.argmax(np.where(wanted <= room, wanted, -wanted))])
