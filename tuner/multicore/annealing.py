# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing from one mapping: `native/annealing.h`, at the speed of the allocator.

Each step changes one thing: a job goes to another core, two jobs of two cores change places, a job
gets a new place in the order, or two jobs of one core change places. A change begins most often
with a job of the core that ends last, or with one that waits for memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.tuner.multicore.allocation import NativeProblem, multicore_library
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers


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
