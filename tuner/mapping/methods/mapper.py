# SPDX-License-Identifier: Apache-2.0
"""`Mapper`, the contract of every search over mappings, and the `Trace` that it leaves.

A *sample* is one mapping whose cost a mapper is told. Every mapper has the same budget of them and
sees nothing else of the cost model. Whether a mapping fits the buffers is not charged to anybody:
it is a closed form of the tiles that each published mapper evaluates first.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping as MappingType
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, TilewrightError
from tilewright.tuner.mapping.cost import CostModel, Costs, Objective, require_priced
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Mapping, mapping_of
from tilewright.tuner.mapping.space import MappingSpace
from tilewright.tuner.search.best_so_far import BestSoFar

MOST_SAMPLES: Final = 10**8
"""Of one run: the lowest cost after each of them is kept."""

Values = npt.NDArray[np.float64]
"""Costs of a batch, shape ``[n]``; infinite for what is not legal."""


class MapperError(TilewrightError):
    """A mapper that there is not, or one that was used against its contract."""


class BudgetSpentError(Exception):
    """Every sample of the budget is used; ends a search from within `Probe.values`."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What one run of a mapper found.

    Attributes:
        best: the lowest cost after each sample, shape ``[budget]``; infinite before the first
            legal one.
        steps: samples that improved on it, ascending, counted from 0, shape ``[m]``.
        notes: more that a mapper tells, in plain values.
    """

    best: Values
    steps: npt.NDArray[np.int64]
    rows: Batch  # the mappings of these samples, shape ``[m, len(COLUMNS)]``
    samples: int  # that the mapper used of its budget; a capped one stops early
    setup_samples: int = 0  # used before the run, such as a data set that the mapper learnt from
    seconds: float = 0.0  # wall time of the run
    stopped: bool = False  # Ctrl-C ended it
    notes: MappingType[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The lowest cost."""
        return float(self.best[-1])

    @property
    def mapping(self) -> Mapping:
        """The mapping of the lowest cost."""
        if not len(self.rows):
            raise MapperError(
                "no sample was a legal mapping", field="budget", remedy="give a larger budget"
            )
        return mapping_of(self.rows[-1])

    def samples_to(self, value: float) -> int | None:
        """Samples until the cost was ``value`` or lower; None: never within the budget."""
        reached = np.flatnonzero(self.best <= value)
        return int(reached[0]) + 1 if len(reached) else None


class Probe:
    """All that a mapper sees of the cost model: it charges samples and keeps the best.

    Attributes:
        space: the mappings.
        setup_samples, notes: see `Trace`; a mapper may set them.
    """

    def __init__(self, model: CostModel, objective: Objective, budget: int) -> None:
        require_priced(model.arch, objective)
        self.space: Final = MappingSpace(model.nest, model.arch)
        self.model: Final = self.space.model
        self.objective: Final = objective
        self.budget: Final = budget
        self.setup_samples = 0
        self.notes: dict[str, Any] = {}
        self._best: Final = BestSoFar(budget)
        self._rows: list[Batch] = []

    @property
    def left(self) -> int:
        """Samples that remain."""
        return self._best.left

    def values(self, batch: Batch) -> Values:
        """What is minimised of mappings, one sample each, in order; infinite: not legal."""
        return self.costs(batch).of(self.objective)

    def costs(self, batch: Batch) -> Costs:
        """Costs of mappings, one sample each, in order."""
        batch = batch[: self.left]
        costs = self.model.costs(batch)
        for step in self._best.add(costs.of(self.objective)):
            self._rows.append(batch[step].copy())
        if not self.left:
            raise BudgetSpentError
        return costs

    def charge(self, samples: int) -> None:
        """Count samples of another model that took the place of this one's."""
        self._best.charge(samples)
        if not self.left:
            raise BudgetSpentError

    @property
    def found(self) -> bool:
        """Whether a legal mapping was among the samples."""
        return bool(self._rows)

    def trace(self, seconds: float, *, stopped: bool = False) -> Trace:
        """What was found; after an early end, the best stays what it was."""
        return Trace(
            best=self._best.curve(),
            steps=np.array(self._best.steps, dtype=np.int64),
            rows=np.array(self._rows, dtype=np.int32).reshape(-1, len(COLUMNS)),
            samples=self.budget - self.left,
            setup_samples=self.setup_samples,
            seconds=seconds,
            stopped=stopped,
            notes=self.notes,
        )


class Mapper(ABC):
    """Searches the mappings of one nest.

    A run depends on its arguments alone. A subclass defines `_search`, which samples through the
    probe until that raises `BudgetSpentError`, or returns early when it has no more to try.

    Example:
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> from tilewright.tuner.mapping.methods.registry import make_mapper
        >>> from tilewright.tuner.mapping.nest import LoopNest
        >>> model = CostModel(
        ...     LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1)), load_architecture("flexible-256")
        ... )
        >>> trace = make_mapper("random").run(model, Objective.EDP, budget=100, seed=0)
        >>> len(trace.best), trace.value == trace.best[-1]
        (100, True)
    """

    def run(
        self, model: CostModel, objective: Objective, budget: int, seed: int | tuple[int, ...]
    ) -> Trace:
        """Search; Ctrl-C ends it early and keeps what it found.

        Args:
            model: the nest on its architecture.
            objective: what is minimised.
            budget: samples.
            seed: entropy of the generator.

        Raises:
            ConfigError: the budget is no integer from 1 to `MOST_SAMPLES`, or the objective has no
                price.
            SpaceError: the buffers hold nothing.
        """
        if type(budget) is not int or not 1 <= budget <= MOST_SAMPLES:
            raise ConfigError(
                f"must be an integer from 1 to {MOST_SAMPLES}", field="budget", value=budget
            )
        probe, started = Probe(model, objective, budget), time.perf_counter()
        try:
            return self.spend(probe, seed)
        except KeyboardInterrupt:
            if not probe.found:
                raise
            return probe.trace(time.perf_counter() - started, stopped=True)

    def spend(self, probe: Probe, seed: int | tuple[int, ...]) -> Trace:
        """Search through a probe until its budget is spent."""
        started = time.perf_counter()
        with suppress(BudgetSpentError):
            self._search(probe, np.random.default_rng(seed))
        return probe.trace(time.perf_counter() - started)

    @abstractmethod
    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        """Sample until the budget is spent, with all randomness from ``rng``."""
