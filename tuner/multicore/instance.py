# SPDX-License-Identifier: Apache-2.0
"""`Instance`: a group of jobs on a platform with a bandwidth; and annealing from one mapping.

Annealing is `native/annealing.h`, at the speed of the allocator. Each step changes one thing: a job
goes to another core, two jobs of two cores change places, a job gets a new place in the order, or
two jobs of one core change places. A change begins most often with a job of the core that ends
last, or with one that waits for memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.tuner.multicore import allocation
from tilewright.tuner.multicore.allocation import NativeProblem, Policy, multicore_library
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.job_table import JobTable, Numbers, require_number


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """What is solved: a mapping of least makespan."""

    table: JobTable  # what each job takes on each core
    bandwidth: float  # bytes per cycle that all cores of a memory port have together
    policy: Policy = Policy.PROPORTIONAL  # how running jobs share it
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Walk:
    """What a piece of a chain tried, and where it is."""

    tried: Population  # the mapping of each step
    makespans: Numbers  # theirs, in cycles, ``[steps]``
    left: Population  # the mapping that the chain is at: a population of one


def anneal(instance: Instance, start: Population, temperatures: Numbers, seed: int) -> Walk:
    """Try as many changes as there are temperatures."""
    problem = NativeProblem(
        instance.table, instance.bandwidth, instance.policy, instance.regulation, instance.ports
    )
    steps, jobs = len(temperatures), instance.table.jobs
    schedule = np.ascontiguousarray(temperatures, dtype=np.float64)
    left = Population(
        core=np.array(start.core, dtype=np.int32, order="C"),
        priority=np.array(start.priority, dtype=np.float64, order="C"),
    )
    tried = Population(core=np.empty((steps, jobs), np.int32), priority=np.empty((steps, jobs)))
    found = np.empty(steps)
    multicore_library().tw_multicore_anneal(
        problem.reference(),
        seed,
        left.core.ctypes.data,
        left.priority.ctypes.data,
        steps,
        schedule.ctypes.data,
        tried.core.ctypes.data,
        tried.priority.ctypes.data,
        found.ctypes.data,
    )
    return Walk(tried=tried, makespans=found, left=left)
