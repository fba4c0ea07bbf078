# SPDX-License-Identifier: Apache-2.0
"""GAMMA: a genetic algorithm whose operators know what a mapping is.

Source: Kao and Krishna, "GAMMA: Automating the HW Mapping of DNN Models on Accelerators via Genetic
Algorithm", ICCAD 2020, and the rates of its public code. Crossover exchanges the tile of one loop
or a whole order; mutation redraws tiles, the parallel loop and its width; reorder swaps two loops;
growth splits PEs into clusters of a size of their own, aging joins them again. What no buffer
holds is repaired.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.moves import redraw_parallel, redraw_tile, swap_loops
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import INNER, LEVELS, OUTER, MappingSpace

POPULATION: Final = 100
ELITE: Final = 5
PARENTS: Final = 15
CROSS: Final = 0.57
MUTATE_TILE: Final = 0.52
TILES: Final = 3
"""Tiles that a child may change, each with the probability `MUTATE_TILE`."""
MUTATE_PARALLEL: Final = 0.2
"""Three picks at `MUTATE_TILE`, each of which is a parallel loop once in seven times."""
REORDER: Final = 0.47
GROW: Final = 0.57
AGE: Final = 0.27

_D: Final = len(DIMENSIONS)


class GammaMapper(Mapper):
    """Generations of `POPULATION` children of the best `PARENTS`, and an elite that stays."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        population = space.decode_batch(space.sample_batch(rng, POPULATION))
        costs = probe.values(population)
        while True:
            ranked = np.argsort(costs, kind="stable")
            parents, elite = population[ranked[:PARENTS]], ranked[:ELITE]
            children = self._children(space, parents, rng)
            found = probe.values(children)
            population = np.concatenate([population[elite], children])
            costs = np.concatenate([costs[elite], found])

    def _children(self, space: MappingSpace, parents: Batch, rng: np.random.Generator) -> Batch:
        """Crossover, then each operator with its rate."""
        rows = np.arange(POPULATION)
        children = parents[rng.integers(PARENTS, size=POPULATION)].copy()
        other = parents[rng.integers(PARENTS, size=POPULATION)]
        for level in LEVELS:
            crossed = rows[rng.random(POPULATION) < CROSS]
            column = level.tile.start + rng.integers(_D, size=len(crossed))
            children[crossed, column] = other[crossed, column]
        for level in LEVELS:
            crossed = rows[rng.random(POPULATION) < CROSS / 2]
            children[crossed, level.order] = other[crossed, level.order]
        for _ in range(TILES):
            redraw_tile(space, children, rng.random(POPULATION) < MUTATE_TILE, rng)
        redraw_parallel(space, children, rng.random(POPULATION) < MUTATE_PARALLEL, rng)
        swap_loops(children, rng.random(POPULATION) < REORDER, rng)
        self._grow_and_age(space, children, rng)
        return space.repair(children, rng)

    @staticmethod
    def _grow_and_age(space: MappingSpace, children: Batch, rng: np.random.Generator) -> None:
        """Growth gives clusters a new size and fills the PEs with them; aging, single PEs."""
        grown = np.flatnonzero(rng.random(POPULATION) < GROW / _D)
        sizes = space.draw_batch(rng, len(grown))[:, -1] + 1
        aged = np.flatnonzero(rng.random(POPULATION) < AGE / _D)
        for rows, size in ((grown, sizes), (aged, np.ones(len(aged), dtype=np.int32))):
            children[rows, INNER.units] = size
            children[rows, OUTER.units] = np.minimum(
                len(space.knobs[-2]), space.model.arch.pes // size
            )
