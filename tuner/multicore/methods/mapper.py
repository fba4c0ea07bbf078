# SPDX-License-Identifier: Apache-2.0
"""`GroupMapper`, the contract of every search over mappings of a group, and the `Trace` it leaves.

A *sample* is one mapping whose makespan a mapper is told. Every mapper has the same budget of them.
The job table, the bandwidth and closed forms of both, such as the sum of latencies on a core, are
open to all and free: a manual mapper uses nothing else.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, TilewrightError
from tilewright.tuner.multicore.annealing import anneal
from tilewright.tuner.multicore.encoding import Population, joined
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable, Numbers
from tilewright.tuner.search.best_so_far import BestSoFar

Listener = Callable[[int, float], None]
"""Is told samples used and the lowest makespan, after every batch."""

Seed = int | tuple[int, ...]


class GroupMapperError(TilewrightError):
    """A group mapper that there is not, or one that was used against its contract."""


class BudgetSpentError(Exception):
    """Every sample of the budget is used; ends a search from within `Probe.makespans`."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What one run of a mapper found.

    Attributes:
        steps: samples that improved on it, ascending, counted from 0, shape ``[m]``.
    """

    best: Numbers  # the lowest makespan after each sample, shape ``[budget]``
    steps: npt.NDArray[np.int64]
    mappings: Population  # of these samples, m of them
    samples: int  # that the mapper used of its budget; a manual one uses one
    seed: Seed  # entropy of its generator
    seconds: float = 0.0  # wall time of the run
    stopped: bool = False  # Ctrl-C ended it
    notes: dict[str, Any] = field(default_factory=dict)  # more that a mapper tells, in plain values

    @property
    def makespan(self) -> float:
        """The lowest makespan, in cycles."""
        return float(self.best[-1])

    @property
    def mapping(self) -> Population:
        """The mapping of the lowest makespan: a population of one."""
        if not len(self.mappings):
            raise GroupMapperError("no sample is a mapping", field="budget", value=self.samples)
        return self.mappings.take([-1])


class Probe:
    """All that a mapper sees of the allocator: it charges samples and keeps the best.

    Attributes:
        notes: see `Trace`; a mapper may set them.
    """

    def __init__(self, instance: Instance, budget: int, listener: Listener | None = None) -> None:
        self.instance: Final = instance
        self.budget: Final = budget
        self.notes: dict[str, Any] = {}
        self._best: Final = BestSoFar(budget)
        self._listener: Final = listener
        self._found: list[Population] = []

    @property
    def left(self) -> int:
        """Samples that remain."""
        return self._best.left

    @property
    def lowest(self) -> float:
        """The lowest makespan so far; infinite before the first sample."""
        return self._best.lowest

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
        for row in self._best.add(values):
            self._found.append(population.take([row]))
        if self._listener is not None:
            self._listener(self.budget - self.left, self.lowest)
        if not self.left:
            raise BudgetSpentError

    def trace(self, seed: Seed, seconds: float, *, stopped: bool) -> Trace:
        """What was found; after an early end, the best stays what it was."""
        jobs = self.instance.table.jobs
        none = Population(core=np.empty((0, jobs), np.int32), priority=np.empty((0, jobs)))
        return Trace(
            best=self._best.curve(),
            steps=np.array(self._best.steps, dtype=np.int64),
            mappings=joined(none, *self._found),
            samples=self.budget - self.left,
            seed=seed,
            seconds=seconds,
            stopped=stopped,
            notes=self.notes,
        )


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
        probe, stopped = Probe(instance, budget, listener), False
        started = time.perf_counter()
        try:
            with suppress(BudgetSpentError):
                self._search(probe, np.random.default_rng(seed))
        except KeyboardInterrupt:
            if not np.isfinite(probe.lowest):
                raise
            stopped = True
        return probe.trace(seed, time.perf_counter() - started, stopped=stopped)

    @abstractmethod
    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        """Sample until the budget is spent, with all randomness from ``rng``."""
