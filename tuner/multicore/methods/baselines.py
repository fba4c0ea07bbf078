# SPDX-License-Identifier: Apache-2.0
"""What every group mapper has to beat: random samples and populations that know nothing of jobs.

Those of Nevergrad, which M3E runs, are here for whole populations at once, with Nevergrad's
settings, in a cube (`Latent`) in coordinates whose spread is 1. Sources:

- the genetic algorithm: Goldberg, "Genetic Algorithms in Search, Optimization and Machine
  Learning", 1989: uniform crossover of two winners of a tournament, mutation by a fresh draw,
  elitism; all genes are alike;
- differential evolution: Storn and Price, Journal of Global Optimization 11, 1997; the variant
  "current to best";
- particle swarm: Kennedy and Eberhart, ICNN 1995; weights of Zambrano-Bigiarini, Clerc and Rojas
  (SPSO 2011, CEC 2013). Particles fly in a cube of side 1 that an arctangent maps all coordinates
  into;
- TBPSA: Hellwig and Beyer, "Evolution under Strong Noise", PPSN 2016 (pcCMSA-ES): one centre, one
  step size that adapts itself, no covariances. Every `TESTED` generations the first and the last
  are compared. Where nothing has been gained, the population doubles; otherwise it shrinks, never
  below its first size.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.encoding import Population, joined, random_cores, random_population
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

CHUNK: Final = 1024
"""Mappings drawn at once."""


class RandomMapper(GroupMapper):
    """Draws cores and priorities evenly."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        while True:
            probe.makespans(random_population(probe.instance.table, min(CHUNK, probe.left), rng))


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


SPREADS: Final = 6.0
"""Sides of the cube: 3 to either side of its middle, which is 0."""


class StandardCube:
    """Judges points of ``width`` coordinates by the logarithm of their makespans."""

    def __init__(self, probe: Probe) -> None:
        self._probe: Final = probe
        self._latent: Final = Latent(probe.instance.table)
        self.width: Final = self._latent.width

    def costs(self, points: Vectors) -> Vectors:
        """Logarithms of the makespans, shape ``[n]``; points as `inside` gives them."""
        mappings = self._latent.decode(points / SPREADS + 0.5)
        costs: Vectors = np.log(self._probe.makespans(mappings))
        return costs

    def drawn(self, n: int, rng: np.random.Generator) -> Vectors:
        """First points: normal around the middle."""
        return inside(rng.normal(size=(n, self.width)))


def inside(points: Vectors) -> Vectors:
    """Points outside are reflected at the sides, once; then they are cut."""
    side = SPREADS / 2
    reflected = 2 * np.clip(points, -side, side) - points
    found: Vectors = np.clip(reflected, -side, side)
    return found


AGENTS: Final = 30
WEIGHT: Final = 0.8
"""Of both differences: of two random points, and to the best point."""
CROSSOVER: Final = 0.5
"""Chance of a coordinate to change."""


class DifferentialEvolutionMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        points = cube.drawn(AGENTS, rng)
        costs = cube.costs(points)
        every = np.arange(AGENTS)
        while True:
            one, two = points[rng.integers(AGENTS, size=(2, AGENTS))]
            best = points[np.argmin(costs)]
            donor = points + WEIGHT * (one - two) + WEIGHT * (best - points)
            changed = rng.random(points.shape) < CROSSOVER
            changed[every, rng.integers(cube.width, size=AGENTS)] = True
            trial = inside(np.where(changed, donor, points))
            found = cube.costs(trial)
            better = found <= costs
            points[better], costs[better] = trial[better], found[better]


SWARM: Final = 40
INERTIA: Final = 0.5 / math.log(2)
PULL: Final = 0.5 + math.log(2)
"""To the best place of the particle, and to that of the swarm."""


class ParticleSwarmMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        at = _boxed(cube.drawn(SWARM, rng))
        costs = cube.costs(_unboxed(at))
        speed = rng.uniform(-1, 1, at.shape)
        own, lowest = at.copy(), costs
        while True:
            swarm = own[np.argmin(lowest)]
            to_own, to_swarm = rng.random((2, *at.shape))
            speed = INERTIA * speed + PULL * (to_own * (own - at) + to_swarm * (swarm - at))
            at = _boxed(inside(_unboxed(np.clip(at + speed, 0, 1))))
            costs = cube.costs(_unboxed(at))
            better = costs <= lowest
            own[better], lowest = at[better], np.where(better, costs, lowest)


def _boxed(points: Vectors) -> Vectors:
    boxed: Vectors = 0.5 + np.arctan(points) / math.pi
    return boxed


def _unboxed(boxed: Vectors) -> Vectors:
    points: Vectors = np.tan(math.pi * (boxed - 0.5))
    return points


OFFSPRING: Final = 4
"""Per parent; at first there are as many parents as coordinates."""
TESTED: Final = 5
SIGNIFICANT: Final = 2.0
"""Gain in standard errors from which on the population shrinks."""
SHRINKING: Final = 0.84


class TbpsaMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        centre, step, parents = np.zeros(cube.width), 1.0, cube.width
        generations = []
        while True:
            count = OFFSPRING * parents
            steps = step * np.exp(rng.normal(size=count) / math.sqrt(cube.width))
            points = inside(centre + steps[:, None] * rng.normal(size=(count, cube.width)))
            costs = cube.costs(points)
            best = np.argsort(costs, kind="stable")[:parents]
            centre = points[best].mean(axis=0)
            step = float(np.exp(np.log(steps[best]).mean()))
            generations.append(costs)
            if len(generations) == TESTED:
                first, last = generations[0], generations[-1]
                error = math.hypot(*(each.std() / math.sqrt(count - 1) for each in (first, last)))
                gained = first.mean() - last.mean() >= SIGNIFICANT * error
                parents = max(cube.width, int(SHRINKING * parents)) if gained else 2 * parents
                generations = []


Vectors = npt.NDArray[np.float64]
"""Shape ``[n, latent.width]``, from 0 to 1."""


class Latent:
    """The cube of one table: ``width`` coordinates from 0 to 1, two per job.

    They are its core, in even shares of those that can run it, and its priority.
    """

    def __init__(self, table: JobTable) -> None:
        self._table: Final = table
        self.width: Final = 2 * table.jobs

    def decode(self, vectors: Vectors) -> Population:
        """Mappings of vectors; what is outside of the cube is cut."""
        shares, priority = np.split(np.clip(vectors, 0, 1), 2, axis=1)
        return Population(core=random_cores(self._table, shares), priority=priority.copy())


class CmaEsMapper(GroupMapper):
    """Minimises the logarithm of the makespan."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        from tilewright.tuner.search.libraries.cma_restarts import minimise  # noqa: PLC0415  (an extra)

        latent = Latent(probe.instance.table)
        minimise(lambda at: np.log(probe.makespans(latent.decode(at))), latent.width, rng)
