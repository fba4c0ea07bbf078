# SPDX-License-Identifier: Apache-2.0
"""Instances by name: a group of a task on a platform, or a job table of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore import jobs
from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.analyse import BandwidthModel, Listener, analyse
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.platform import load_platform

TABLE_SUFFIX = ".csv"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Which instance.

    Attributes:
        bandwidth: of the memory, in GB/s; for a table in bytes per cycle. None: the largest that
            the platform names.
    """

    target: str  # a task, or the path of a job table (`JobTable.from_csv`)
    platform: str = ""  # name or file; empty for a table, whose columns are its cores
    bandwidth: float | None = None
    seed: int = 0  # of the group
    size: int = jobs.DEFAULT_SIZE  # jobs of the group
    mini_batch: int = jobs.DEFAULT_MINI_BATCH  # of each job
    bw_model: BandwidthModel = BandwidthModel.TRAFFIC  # what the required bandwidth of a job is
    policy: Policy = Policy.PROPORTIONAL  # how running jobs share the bandwidth


def is_table(target: str) -> bool:
    """Whether a target is the path of a job table; otherwise it is a task."""
    return target.lower().endswith(TABLE_SUFFIX)


def instance_of(problem: Problem, listener: Listener | None = None) -> Instance:
    """The instance of a problem; what jobs take on cores is computed once and kept."""
    if is_table(problem.target):
        if problem.bandwidth is None:
            raise ConfigError(
                "must be given for a job table, in bytes per cycle", field="bandwidth"
            )
        table = JobTable.from_csv(Path(problem.target))
        return Instance(table=table, bandwidth=problem.bandwidth, policy=problem.policy)
    networks = jobs.task_networks(problem.target)
    platform = load_platform(problem.platform)
    bandwidth = platform.bandwidths[-1] if problem.bandwidth is None else problem.bandwidth
    group = jobs.draw_group(
        problem.target,
        networks,
        seed=problem.seed,
        size=problem.size,
        mini_batch=problem.mini_batch,
        cores=len(platform.cores),
    )
    analysis = analyse(
        group, platform, bandwidth=bandwidth, bw_model=problem.bw_model, listener=listener
    )
    return Instance(
        table=analysis.table,
        bandwidth=platform.bytes_per_cycle(bandwidth),
        policy=problem.policy,
    )
