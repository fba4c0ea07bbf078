# SPDX-License-Identifier: Apache-2.0
"""`Instance`: a group of jobs on a platform with a bandwidth, which mappers solve."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tuner.multicore.allocation import Policy, Regulation, makespans
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.job_table import JobTable, Numbers, require_number


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """What is solved: a mapping of least makespan.

    Attributes:
        table: what each job takes on each core.
        bandwidth: bytes per cycle that all cores have together.
        policy: how running jobs share it; one of `Policy`.
        regulation: of `Policy.REGULATED`; None: equal budgets.

    Raises:
        ConfigError: a bandwidth that no allocator computes with (`require_number`).
    """

    table: JobTable
    bandwidth: float
    policy: Policy = Policy.PROPORTIONAL
    regulation: Regulation | None = None

    def __post_init__(self) -> None:
        """Validate."""
        require_number("bandwidth", self.bandwidth)

    def makespans(self, population: Population) -> Numbers:
        """Cycles until the last job ends, for each mapping; shape ``[len(population)]``.

        Raises:
            ConfigError: a mapping that cannot be.
        """
        return makespans(
            self.table,
            self.bandwidth,
            population.core,
            population.priority,
            self.policy,
            self.regulation,
        )
