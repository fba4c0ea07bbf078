# SPDX-License-Identifier: Apache-2.0
"""Differential evolution, whole generations at once.

Source: Storn and Price, Journal of Global Optimization 11, 1997; the variant "current to best" with
the settings of Nevergrad's ``DE``, which M3E runs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.multicore.methods.standard_cube import StandardCube, inside

POPULATION: Final = 30
WEIGHT: Final = 0.8
"""Of both differences: of two random points, and to the best point."""
CROSSOVER: Final = 0.5
"""Chance of a coordinate to change."""


class DifferentialEvolutionMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        points = cube.drawn(POPULATION, rng)
        costs = cube.costs(points)
        every = np.arange(POPULATION)
        while True:
            one, two = points[rng.integers(POPULATION, size=(2, POPULATION))]
            best = points[np.argmin(costs)]
            donor = points + WEIGHT * (one - two) + WEIGHT * (best - points)
            changed = rng.random(points.shape) < CROSSOVER
            changed[every, rng.integers(cube.width, size=POPULATION)] = True
            trial = inside(np.where(changed, donor, points))
            found = cube.costs(trial)
            better = found <= costs
            points[better], costs[better] = trial[better], found[better]
