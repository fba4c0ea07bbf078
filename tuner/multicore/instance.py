# SPDX-License-Identifier: Apache-2.0
"""`Instance`: a group of jobs on a platform with a bandwidth, which mappers solve."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tuner.multicore import allocation
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.job_table import JobTable, Numbers, require_number


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """What is solved: a mapping of least makespan."""

    table: JobTable  # what each job takes on each core
    bandwidth: float  # bytes per cycle that all cores of a memory port have together
    policy: allocation.Policy = (
        allocation.Policy.PROPORTIONAL
    )  # how running jobs share it; one of `Policy`
    regulation: allocation.Regulation | None = None  # of `Policy.REGULATED`; None: equal budgets
    ports: tuple[int, ...] = ()  # the memory port of each core; empty: all cores are behind one

    def __post_init__(self) -> None:
        """Validate."""
        require_number("bandwidth", self.bandwidth)
        allocation.checked_ports(self.ports, self.table.cores)

    @property
    def port(self) -> allocation.Indices:
        """The memory port of each core, ``[cores]``."""
        return allocation.checked_ports(self.ports, self.table.cores)

    def makespans(self, population: Population) -> Numbers:
        """Cycles until the last job ends, for each mapping; shape ``[len(population)]``."""
        return allocation.makespans(
            self.table,
            self.bandwidth,
            population.core,
            population.priority,
            self.policy,
            self.regulation,
            self.ports,
        )
