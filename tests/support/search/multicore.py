# SPDX-License-Identifier: Apache-2.0
"""Groups of random jobs on random cores, as mappers get them."""

import numpy as np

from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable


def random_table(rng, jobs=24, cores=4, *, alike=False, unable=0.0):
    """Latencies over two orders of magnitude; a job moves the same bytes on cores that differ.

    ``unable`` is the share of pairs of a job and a core, but for core 0, that cannot be.
    """
    work = np.exp(rng.normal(8, 1.5, (jobs, 1)))
    speed = np.ones((1, cores)) if alike else np.exp(rng.normal(0, 0.5, (jobs, cores)))
    latency = np.ceil(work * speed)
    moved = latency.min(axis=1, keepdims=True) * np.exp(rng.normal(0, 1.5, (jobs, 1)))
    need = moved / latency
    cannot = rng.random((jobs, cores)) < unable
    cannot[:, 0] = False
    return JobTable(np.where(cannot, np.inf, latency), need)


def random_instance(
    rng, jobs=24, cores=4, share=0.7, policy=Policy.PROPORTIONAL, ports=(), **kinds
):
    """A random table with a bandwidth that is a share of what greedy cores need on average."""
    table = random_table(rng, jobs, cores, **kinds)
    least = table.bytes.min(axis=1).sum()
    cycles = max(table.latency.min(axis=1).sum() / cores, table.latency.min(axis=1).max())
    return Instance(
        table=table, bandwidth=float(share * least / cycles), policy=policy, ports=ports
    )
