# SPDX-License-Identifier: Apache-2.0
"""MAGMA: a genetic algorithm whose crossovers know what cores and priorities are.

Source: Kao and Krishna, "MAGMA: An Optimization Framework for Mapping Multiple DNNs on Multiple
Accelerator Cores", HPCA 2022, section V. The best mappings stay and breed. Two parents have two
children; each crossover applies to a pair with a rate of its own:

- `crossover_gen`: the genes of one genome, from a random place on, change sides;
- `crossover_rg`: both genomes of a random range of jobs change sides;
- `crossover_accel`: the jobs of one core, with their order, change sides.

Mutation redraws genes. Every crossover is a true swap: what one child has of a parent, the other
child does not have.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.tuner.multicore.encoding import Population, joined, random_cores, random_population
from tilewright.tuner.multicore.job_table import JobTable, Numbers
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

RECORD: Final = Path(__file__).with_name("magma_tuned.yaml")
"""Hyper-parameters that `bench.multicore.tune_magma` found, and how."""

Pair = tuple[Population, Population]
"""First and second children of as many pairs."""

Rows = npt.NDArray[np.bool_]
"""Shape ``[pairs]``: to which pairs an operator applies."""


@dataclass(frozen=True, kw_only=True)
class MagmaSettings:
    """Hyper-parameters; each share and rate from 0 to 1.

    The defaults are those of the program that the authors published (`scheuler_GA.py` of
    maestro-project/magma at f25ef66); its population is the number of jobs of a group.

    Attributes:
        crossover_gen, crossover_rg, crossover_accel: chance of a pair to be crossed so.
    """

    population: int = 100  # mappings of a generation
    elite: float = 0.05  # share of them that stays
    parents: float = 0.1  # share of them, the best, that breeds
    mutation: float = 0.05  # chance of a gene to be redrawn
    crossover_gen: float = 0.9
    crossover_rg: float = 0.1
    crossover_accel: float = 0.1

    def __post_init__(self) -> None:
        """Validate."""
        if type(self.population) is not int or self.population < 4:
            raise ConfigError(
                "must be an integer of 4 or more", field="population", value=self.population
            )
        for name in ("elite", "parents", "mutation", *CROSSOVERS):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ConfigError("must be from 0 to 1", field=name, value=value)

    def count(self, share: float, least: int) -> int:
        """Mappings of a share of the population, but for two, which are always bred anew."""
        return min(max(least, round(share * self.population)), self.population - 2)


CROSSOVERS: Final = ("crossover_gen", "crossover_rg", "crossover_accel")


class MagmaMapper(GroupMapper):
    """Generations of mappings."""

    def __init__(self, **settings: float) -> None:
        self._settings: Final = MagmaSettings(**settings)  # type: ignore[arg-type]  # it validates

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        first = random_population(probe.instance.table, self._settings.population, rng)
        evolve(probe, first, probe.makespans(first), self._settings, rng)


class TunedMagmaMapper(MagmaMapper):
    """MAGMA with `tuned_settings`."""

    def __init__(self) -> None:
        super().__init__(**asdict(tuned_settings()))


def tuned_settings() -> MagmaSettings:
    """The hyper-parameters of `RECORD`."""
    return MagmaSettings(**read_yaml_mapping(RECORD, "a record of settings")["settings"])


def evolve(
    probe: Probe,
    population: Population,
    costs: Numbers,
    settings: MagmaSettings,
    rng: np.random.Generator,
    *,
    left: int = 0,
) -> Population:
    """Breed generations until so many samples are left."""
    elite = settings.count(settings.elite, 1)
    parents = settings.count(settings.parents, 2)
    while probe.left > left:
        ranked = np.argsort(costs, kind="stable")
        best = population.take(ranked[:parents])
        children = bred(probe.instance.table, best, settings.population - elite, settings, rng)
        found = probe.makespans(children)
        population = joined(population.take(ranked[:elite]), children)
        costs = np.concatenate([costs[ranked[:elite]], found])
    return population.take([int(np.argmin(costs))])


def bred(
    table: JobTable,
    parents: Population,
    count: int,
    settings: MagmaSettings,
    rng: np.random.Generator,
) -> Population:
    """Children of random pairs of parents."""
    pairs = -(-count // 2)
    first, second = (parents.take(rng.integers(len(parents), size=pairs)) for _ in range(2))
    crossed = (first, second)
    for name in CROSSOVERS:
        rows = rng.random(pairs) < getattr(settings, name)
        crossed = _CROSS[name](table, crossed, rows, rng)
    children = joined(*crossed).take(slice(0, count))
    return mutated(table, children, settings.mutation, rng)


def mutated(
    table: JobTable, population: Population, rate: float, rng: np.random.Generator
) -> Population:
    """Mappings with some genes redrawn, each with the chance ``rate``."""
    new = random_population(table, len(population), rng)
    cores, priorities = rng.random((2, *population.core.shape)) < rate
    return Population(
        core=np.where(cores, new.core, population.core),
        priority=np.where(priorities, new.priority, population.priority),
    )


def crossover_gen(table: JobTable, pair: Pair, rows: Rows, rng: np.random.Generator) -> Pair:
    """One genome, drawn for each pair, changes sides from a random job on."""
    pivot = rng.integers(table.jobs, size=len(rows))
    swapped = rows[:, None] & (np.arange(table.jobs) >= pivot[:, None])
    of_cores = rng.random(len(rows)) < 0.5
    return _swapped(pair, swapped & of_cores[:, None], swapped & ~of_cores[:, None])


def crossover_rg(table: JobTable, pair: Pair, rows: Rows, rng: np.random.Generator) -> Pair:
    """Cores and priorities of a range of jobs change sides."""
    ends = np.sort(rng.integers(table.jobs, size=(2, len(rows), 1)), axis=0)
    jobs = np.arange(table.jobs)
    swapped = rows[:, None] & (jobs >= ends[0]) & (jobs <= ends[1])
    return _swapped(pair, swapped, swapped)


def crossover_accel(table: JobTable, pair: Pair, rows: Rows, rng: np.random.Generator) -> Pair:
    """The jobs of one core, drawn for each pair, change sides with their priorities.

    A job that was on the core and is not one of those that come goes to a random core, as its old
    place would unbalance the child.
    """
    chosen = rng.integers(table.cores, size=(len(rows), 1))
    children = []
    for own, other in (pair, pair[::-1]):
        comes = rows[:, None] & (other.core == chosen)
        leaves = rows[:, None] & (own.core == chosen) & ~comes
        fresh = random_cores(table, rng.random(own.core.shape))
        core = np.where(comes, chosen, np.where(leaves, fresh, own.core)).astype(np.int32)
        children.append(
            Population(core=core, priority=np.where(comes, other.priority, own.priority))
        )
    return children[0], children[1]


def _swapped(pair: Pair, cores: npt.NDArray[np.bool_], priorities: npt.NDArray[np.bool_]) -> Pair:
    """Both children with some genes exchanged."""
    one, two = pair
    first, second = (
        Population(
            core=np.where(cores, there.core, here.core),
            priority=np.where(priorities, there.priority, here.priority),
        )
        for here, there in ((one, two), (two, one))
    )
    return first, second


_CROSS: Final = {
    "crossover_gen": crossover_gen,
    "crossover_rg": crossover_rg,
    "crossover_accel": crossover_accel,
}
