# SPDX-License-Identifier: Apache-2.0
"""`GroupMapper`, the contract of every search over mappings of a group, and the `Trace` it leaves.

A *sample* is one mapping whose makespan a mapper is told. Every mapper has the same budget of them.
The job table, the bandwidth and closed forms of both, such as the sum of latencies on a core, are
open to all and free: a manual mapper uses nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError, TilewrightError
from tilewright.tuner.multicore.encoding import Population, joined
from tilewright.tuner.multicore.instance import Instance, anneal
from tilewright.tuner.multicore.job_table import JobTable, Numbers
from tilewright.tuner.search.samples import SampleProbe, SampleTrace, Seed, spend

Listener = Callable[[int, float], None]
"""Is told samples used and the lowest makespan, after every batch."""


class GroupMapperError(TilewrightError):
    """A group mapper that there is not, or one that was used against its contract."""


@dataclass(frozen=True, kw_only=True)
class Trace(SampleTrace):
    """What one run of a mapper found; costs are makespans, in cycles."""

    mappings: Population  # of its steps, m of them
    seed: Seed  # entropy of its generator

    @property
    def makespan(self) -> float:
        """The lowest makespan, in cycles."""
        return self.value

    @property
    def mapping(self) -> Population:
        """The mapping of the lowest makespan: a population of one."""
        if not len(self.mappings):
            raise GroupMapperError("no sample is a mapping", field="budget", value=self.samples)
        return self.mappings.take([-1])


class Probe(SampleProbe):
    """All that a mapper sees of the allocator; a listener is told of progress."""

    def __init__(self, instance: Instance, budget: int, listener: Listener | None = None) -> None:
        super().__init__(budget)
        self.instance: Final = instance
        self._listener: Final = listener
        self._found: list[Population] = []

    @property
    def best(self) -> Population:
        """The mapping of it, a population of one; there must have been a sample."""
        return self._found[-1].take(slice(None))

    def makespans(self, population: Population) -> Numbers:
        """Makespans of mappings in cycles, one sample each, in order; shape ``[n]``."""
        population = population.take(slice(0, self.left))
        values = self.instance.makespans(population)
        self._count(population, values)
        return values

    def anneal(
        self, start: Population, temperatures: Numbers, seed: int, table: JobTable | None = None
    ) -> Population:
        """Where a piece of a chain of `annealing.anneal` ends; one sample per temperature."""
        instance = self.instance if table is None else replace(self.instance, table=table)
        walk = anneal(instance, start, temperatures[: self.left], seed)
        self._count(walk.tried, walk.makespans)
        return walk.left

    def _count(self, population: Population, values: Numbers) -> None:
        self._found.extend(population.take([row]) for row in self.count(values))
        if self._listener is not None:
            self._listener(self.budget - self.left, self.lowest)
        self.end_if_spent()

    def improved(self) -> Population:
        """The mappings that improved on the best before them."""
        jobs = self.instance.table.jobs
        none = Population(core=np.empty((0, jobs), np.int32), priority=np.empty((0, jobs)))
        return joined(none, *self._found)


class GroupMapper(ABC):
    """Searches the mappings of one group.

    A run depends on its arguments alone. A subclass defines `_search`, which samples through the
    probe until that raises `BudgetSpentError`, or returns early when it has no more to try.

    Example:
        >>> from tilewright.tuner.multicore.job_table import JobTable
        >>> from tilewright.tuner.multicore.methods.registry import make_group_mapper
        >>> table = JobTable([[4, 4], [3, 3], [3, 3]], [[1, 1], [1, 1], [1, 1]])
        >>> instance = Instance(table=table, bandwidth=2.0)
        >>> trace = make_group_mapper("random").run(instance, budget=100, seed=0)
        >>> trace.makespan, trace.samples
        (6.0, 100)
    """

    def run(
        self,
        instance: Instance,
        budget: int,
        seed: Seed,
        listener: Listener | None = None,
    ) -> Trace:
        """Search; Ctrl-C ends it early and keeps what it found.

        Args:
            instance: what is solved.
            budget: samples.
            seed: entropy of the generator.
            listener: is told of progress.

        Raises:
            ConfigError: the budget is no positive integer, or the instance cannot be.
        """
        if type(budget) is not int or budget < 1:
            raise ConfigError("must be a positive integer", field="budget", value=budget)
        probe, rng = Probe(instance, budget, listener), np.random.default_rng(seed)
        found = spend(probe, lambda: self._search(probe, rng))
        return Trace(mappings=probe.improved(), seed=seed, **found)

    @abstractmethod
    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        """Sample until the budget is spent, with all randomness from ``rng``."""
