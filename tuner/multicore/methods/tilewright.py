# SPDX-License-Identifier: Apache-2.0
"""Our own group mapper: bound, placement, pairing, annealing, then breeding.

1. The manual mappers' mappings are sampled: nothing that they find is missed.
2. The linear program of `bounds` is rounded to a placement. `balance` improves it, and the manual
   ones, without samples; `pairing` orders each placement in several ways, one sample each.
3. Chains of simulated annealing change one thing of a mapping at a time, most often on the longest
   queue.
4. Generations of MAGMA begin with what the chains found.

It ends before its budget where a makespan reaches the bound: nothing is better.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.bounds import SLACK, Bound, Loads, loads_of, lower_bound
from tilewright.tuner.multicore.encoding import (
    Population,
    joined,
    population_of,
    random_cores,
    random_population,
)
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable, Numbers
from tilewright.tuner.multicore.methods.ai_mt import ai_mt_queues
from tilewright.tuner.multicore.methods.balance import Placement, balanced
from tilewright.tuner.multicore.methods.herald import herald_queues
from tilewright.tuner.multicore.methods.magma import MagmaSettings, evolve
from tilewright.tuner.multicore.methods.manual import Order, placed
from tilewright.tuner.multicore.methods.manual import Placement as Rules
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.multicore.methods.pairing import Rule, mean_need, paired

ROUNDS: Final = 40
"""Descents of `balanced` per placement."""

PLACEMENTS: Final = 4
"""Manual mappings, the best, whose placements are improved beside that of the bound."""

LEVELS: Final = (0.5, 0.75, 0.9, 1.0, 1.1, 1.5)
"""Levels of `paired`, as shares of the bandwidth, and of the mean need."""

CHAINS: Final = 2
ANNEALED: Final = 0.7
"""Share of the budget until which the chains run."""

HOT: Final = 3e-4
COLD: Final = 1e-5
"""Temperatures at the start and the end, in the logarithm of the makespan."""

LONGEST: Final = 0.5
"""Chance of a change to begin on the longest queue."""

BREEDING: Final = MagmaSettings()

Mask = npt.NDArray[np.bool_]
"""Shape ``[n, jobs]``."""


class TilewrightMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        instance = probe.instance
        bound = lower_bound(instance)
        probe.notes["bound"] = bound.makespan
        goal = bound.makespan * (1 + 2 * SLACK)
        known = manual_mappings(instance)
        costs = probe.makespans(known)
        starts = _placements(loads_of(instance), bound, known, costs, goal, rng)
        orders = population_of([q for start in starts for q in _orders(instance, start)])
        if probe.lowest > goal:
            costs = np.concatenate([costs, probe.makespans(orders)])
            chains = _Chains(probe, joined(known, orders), costs, rng)
            while probe.lowest > goal and probe.left > (1 - ANNEALED) * probe.budget:
                chains.step()
            if probe.lowest > goal:
                _breed(probe, chains, rng)


def manual_mappings(instance: Instance) -> Population:
    """What every manual mapper gives."""
    table = instance.table
    queues = [placed(table, order, rule) for order in Order for rule in Rules]
    return population_of([*queues, herald_queues(table), ai_mt_queues(instance)])


def _placements(
    loads: Loads,
    bound: Bound,
    known: Population,
    costs: Numbers,
    goal: float,
    rng: np.random.Generator,
) -> list[Placement]:
    """Improved placements, without equal ones."""
    rounded = bound.shares.argmax(axis=1).astype(np.int32)
    best = known.core[np.argsort(costs, kind="stable")[:PLACEMENTS]]
    found = [balanced(loads, start, goal, ROUNDS, rng) for start in (rounded, *best)]
    return list({start.tobytes(): start for start in found}.values())


def _orders(instance: Instance, core: Placement) -> list[list[list[int]]]:
    """Queues of one placement in several orders."""
    table = instance.table
    needs = (instance.bandwidth, mean_need(table, core))
    return [
        paired(table, core, level * need, rule)
        for need in needs
        for level in LEVELS
        for rule in Rule
    ]


class _Chains:
    """Simulated annealing side by side.

    Args:
        probe: takes the samples.
        known: mappings to begin with.
        costs: their makespans.
        rng: all randomness.

    Attributes:
        here: where the chains are.
        costs: their makespans.
    """

    def __init__(
        self, probe: Probe, known: Population, costs: Numbers, rng: np.random.Generator
    ) -> None:
        best = np.argsort(costs, kind="stable")[:CHAINS]
        rows = best[np.arange(CHAINS) % len(best)]
        self._probe: Final = probe
        self._rng: Final = rng
        self._busy: Final = loads_of(probe.instance).busy
        self.here = ranked(known.take(rows))
        self.costs = costs[rows]
        self._first: Final = probe.left

    def step(self) -> None:
        """One change of each chain."""
        probe, rng = self._probe, self._rng
        last = (1 - ANNEALED) * probe.budget
        done = (self._first - probe.left) / max(1.0, self._first - last)
        temperature = HOT * (COLD / HOT) ** done
        there = changed(probe.instance.table, self._busy, self.here, rng)
        found = probe.makespans(there)
        rise = np.log(found / self.costs)
        taken = rng.random(len(found)) < np.exp(-np.maximum(rise, 0) / temperature)
        self.here.core[taken] = there.core[taken]
        self.here.priority[taken] = there.priority[taken]
        self.costs = np.where(taken, found, self.costs)


def ranked(population: Population) -> Population:
    """The same mappings with priorities spread evenly from 0 to 1, all different."""
    order = np.argsort(population.priority, axis=1, kind="stable")
    places = np.argsort(order, axis=1, kind="stable")
    return Population(core=population.core, priority=(places + 0.5) / places.shape[1])


def changed(
    table: JobTable, busy: Numbers, population: Population, rng: np.random.Generator
) -> Population:
    """Each mapping with one change.

    A job goes to another core, two jobs exchange their cores, a job gets a new priority, or two
    jobs of one core exchange theirs.
    """
    there = population.take(slice(None))
    n, jobs = there.core.shape
    rows = np.arange(n)
    queues = np.stack(
        [np.where(there.core == c, busy[:, c], 0.0).sum(axis=1) for c in range(table.cores)]
    )
    anywhere: Mask = rng.random((n, 1)) >= LONGEST
    on_longest: Mask = there.core == queues.argmax(axis=0)[:, None]
    one = _drawn(on_longest | anywhere, rng)
    kind = rng.integers(4, size=n)
    own = there.core[rows, one]
    same: Mask = there.core == own[:, None]
    able = np.isfinite(table.latency)
    fits = able[np.arange(jobs), own[:, None]] & able[one[:, None], there.core]
    other = _drawn(np.where((kind == 1)[:, None], ~same & fits, same), rng)
    fresh = random_cores(table, rng.random((n, jobs)))[rows, one]
    their = there.core[rows, other]
    there.core[rows, one] = np.choose(
        kind, [fresh, np.where(fits[rows, other], their, own), own, own]
    )
    there.core[rows, other] = np.where(
        (kind == 1) & fits[rows, other], own, there.core[rows, other]
    )
    mine, yours = there.priority[rows, one], there.priority[rows, other]
    drawn = rng.random(n)
    there.priority[rows, one] = np.choose(kind, [mine, mine, drawn, yours])
    there.priority[rows, other] = np.where(kind == 3, mine, there.priority[rows, other])
    return there


def _drawn(among: Mask, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """One true position of each row, drawn evenly; any position of a row without one."""
    scores = rng.random(among.shape)
    drawn: npt.NDArray[np.intp] = np.where(among, scores, scores - 1).argmax(axis=1)
    return drawn


def _breed(probe: Probe, chains: _Chains, rng: np.random.Generator) -> None:
    """MAGMA on what the chains found."""
    more = BREEDING.population - len(chains.costs) - 1
    new = random_population(probe.instance.table, more, rng)
    first = joined(ranked(probe.best), chains.here, new)
    costs = np.concatenate([[probe.lowest], chains.costs, probe.makespans(new)])
    evolve(probe, first, costs, BREEDING, rng)
