# SPDX-License-Identifier: Apache-2.0
"""`Mapper`, the contract of every search over mappings, and the `Trace` that it leaves.

A *sample* is one mapping whose cost a mapper is told. Every mapper has the same budget of them and
sees nothing else of the cost model. Whether a mapping fits the buffers is not charged to anybody:
it is a closed form of the tiles that each published mapper evaluates first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError, TilewrightError
from tilewright.tuner.mapping.cost import CostModel, Costs, Objective, require_priced
from tilewright.tuner.mapping.fixed import FREE, Fixed
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Mapping, mapping_of
from tilewright.tuner.mapping.space import MappingSpace
from tilewright.tuner.search.samples import SampleProbe, SampleTrace, Seed, Values, spend

MOST_SAMPLES: Final = 10**8
"""Of one run: the lowest cost after each of them is kept."""


class MapperError(TilewrightError):
    """A mapper that there is not, or one that was used against its contract."""


@dataclass(frozen=True, kw_only=True)
class Trace(SampleTrace):
    """What one run of a mapper found."""

    rows: Batch  # the mappings of its steps, shape ``[m, len(COLUMNS)]``
    setup_samples: int = 0  # used before the run, such as a data set that the mapper learnt from

    @property
    def mapping(self) -> Mapping:
        """The mapping of the lowest cost."""
        if not len(self.rows):
            raise MapperError(
                "no sample was a legal mapping", field="budget", remedy="give a larger budget"
            )
        return mapping_of(self.rows[-1])


class Probe(SampleProbe):
    """All that a mapper sees of the cost model.

    Attributes:
        space: the mappings.
        setup_samples: see `Trace`; a mapper may set it.

    Raises:
        ConfigError: the objective has no price.
        SpaceError: the buffers hold nothing.
    """

    def __init__(
        self, model: CostModel, objective: Objective, budget: int, fixed: Fixed = FREE
    ) -> None:
        require_priced(model.arch, objective)
        super().__init__(budget)
        self.space: Final = MappingSpace(model.nest, model.arch, fixed)
        self.model: Final = self.space.model
        self.objective: Final = objective
        self.setup_samples = 0
        self._rows: list[Batch] = []

    def values(self, batch: Batch) -> Values:
        """What is minimised of mappings, one sample each, in order; infinite: not legal."""
        return self.costs(batch).of(self.objective)

    def costs(self, batch: Batch) -> Costs:
        """Costs of mappings, one sample each, in order; what is fixed is cut into them first."""
        batch = batch[: self.left]
        if self.space.fixed:
            batch = self.space.cut(batch.copy())
        costs = self.model.costs(batch)
        self._rows.extend(batch[step].copy() for step in self.count(costs.of(self.objective)))
        self.end_if_spent()
        return costs

    def improved(self) -> Batch:
        """The mappings that improved on the best before them."""
        return np.array(self._rows, dtype=np.int32).reshape(-1, len(COLUMNS))


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
        self,
        model: CostModel,
        objective: Objective,
        budget: int,
        seed: Seed,
        fixed: Fixed = FREE,
    ) -> Trace:
        """Search; Ctrl-C ends it early and keeps what it found.

        Args:
            model: the nest on its architecture.
            objective: what is minimised.
            budget: samples.
            seed: entropy of the generator.
            fixed: what every sample has.

        Raises:
            ConfigError: the budget is no integer from 1 to `MOST_SAMPLES`, or the objective has no
                price; or no mapping has what is fixed.
            SpaceError: the buffers hold nothing.
        """
        if type(budget) is not int or not 1 <= budget <= MOST_SAMPLES:
            raise ConfigError(
                f"must be an integer from 1 to {MOST_SAMPLES}", field="budget", value=budget
            )
        return self.spend(Probe(model, objective, budget, fixed), seed, keep=True)

    def spend(self, probe: Probe, seed: Seed, *, keep: bool = False) -> Trace:
        """Search through a probe until its budget is spent; ``keep``: see `samples.spend`."""
        rng = np.random.default_rng(seed)
        found = spend(probe, lambda: self._search(probe, rng), keep=keep)
        return Trace(rows=probe.improved(), setup_samples=probe.setup_samples, **found)

    @abstractmethod
    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        """Sample until the budget is spent, with all randomness from ``rng``."""
