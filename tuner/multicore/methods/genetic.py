# SPDX-License-Identifier: Apache-2.0
"""A genetic algorithm that knows nothing of the two genomes: all genes are alike.

Source: Goldberg, "Genetic Algorithms in Search, Optimization and Machine Learning", 1989: uniform
crossover of two winners of a tournament, mutation by a fresh draw, elitism.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.encoding import Population, joined, random_population
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

POPULATION: Final = 100
ELITE: Final = 10
TOURNAMENT: Final = 3
GENES_MUTATED: Final = 1.5
"""Mean number per child."""


class GeneticMapper(GroupMapper):
    """Generations of `POPULATION` mappings, of which the best `ELITE` stay."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        table = probe.instance.table
        parents = random_population(table, POPULATION, rng)
        costs = probe.makespans(parents)
        children, jobs = POPULATION - ELITE, table.jobs
        while True:
            drawn = rng.integers(POPULATION, size=(2, children, TOURNAMENT))
            winners = np.take_along_axis(drawn, costs[drawn].argmin(axis=2)[..., None], axis=2)
            mother, father = (parents.take(rows) for rows in winners[..., 0])
            mixed, fresh = (
                rng.random((2, children, jobs)) < share for share in (0.5, GENES_MUTATED / 2 / jobs)
            )
            new = random_population(table, children, rng)
            child = Population(
                core=np.where(fresh[0], new.core, np.where(mixed[0], mother.core, father.core)),
                priority=np.where(
                    fresh[1], new.priority, np.where(mixed[1], mother.priority, father.priority)
                ),
            )
            elite = np.argsort(costs, kind="stable")[:ELITE]
            found = probe.makespans(child)
            parents = joined(parents.take(elite), child)
            costs = np.concatenate([costs[elite], found])
