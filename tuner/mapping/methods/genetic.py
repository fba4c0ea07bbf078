# SPDX-License-Identifier: Apache-2.0
"""A genetic algorithm that knows nothing of mappings: knobs are genes.

Source: Goldberg, "Genetic Algorithms in Search, Optimization and Machine Learning", 1989: uniform
crossover of two winners of a tournament, mutation by a fresh draw, elitism.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe

POPULATION: Final = 100
ELITE: Final = 10
TOURNAMENT: Final = 3
GENES_MUTATED: Final = 1.5
"""Mean number per child."""


class GeneticMapper(Mapper):
    """Generations of `POPULATION` children; what no buffer holds is repaired and kept so."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        parents = space.sample_batch(rng, POPULATION)
        costs = probe.values(space.decode_batch(parents))
        children, genes = POPULATION - ELITE, parents.shape[1]
        while True:
            drawn = rng.integers(POPULATION, size=(2, children, TOURNAMENT))
            winners = np.take_along_axis(drawn, costs[drawn].argmin(axis=2)[..., None], axis=2)
            mother, father = parents[winners[0, :, 0]], parents[winners[1, :, 0]]
            child = np.where(rng.random((children, genes)) < 0.5, mother, father)
            mutated = rng.random((children, genes)) < GENES_MUTATED / genes
            child = np.where(mutated, space.draw_batch(rng, children), child)
            batch = space.repair(space.decode_batch(child), rng)
            elite = np.argsort(costs, kind="stable")[:ELITE]
            parents = np.concatenate([parents[elite], space.encode_batch(batch)])
            costs = np.concatenate([costs[elite], probe.values(batch)])
