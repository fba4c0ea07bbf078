# SPDX-License-Identifier: Apache-2.0
"""Our own group mapper: bound, placement, pairing, breeding, annealing.

1. The manual mappers' mappings are sampled: nothing that they find is missed.
2. The linear program of `bounds` is rounded to a placement. `balance` improves it, and the manual
   ones, without samples; `pairing` orders each placement in several ways, one sample each.
3. Generations of MAGMA look for what is far from all these.
4. Chains of simulated annealing (`annealing`) begin with the best order of each placement, and with
   what MAGMA found.
5. Chains without the dear cores: the bound's weights say what each job costs more on each core than
   on its best. A mapping that is better by half the gap has no job where that is more than half the
   gap. A chain that may not use such cores leaves valleys in which a large job is misplaced.
6. The best mapping of all chains is annealed on, from a lower temperature.

It ends before its budget where a makespan reaches the bound: nothing is better.

A mapper in the manner of Herald: each job to the core that suits it, while loads stay balanced.

Source: Kwon et al., "Heterogeneous Dataflow Accelerators for Multi-DNN Workloads", HPCA 2021,
section on scheduling: a layer prefers the sub-accelerator whose data flow runs it best; where that
unbalances the loads by more than a factor, the next one of its preference is taken. Built from that
description; dependencies, which a group does not have, are left out, and so is the pass that moves
layers into idle time, which a core with a queue does not have either.

A mapper in the manner of AI-MT: memory-intensive jobs run beside compute-intensive ones.

Source: Baek, Kwon and Kim, "A Multi-Neural Network Acceleration Architecture", ISCA 2020: blocks of
different networks are paired so that the fetches of one hide behind the arithmetic of another, on
cores that are all alike. Built from that description: the core that is free first takes, of the
jobs that wait, the one that needs the most bandwidth of what the running ones leave, or the least
demanding one where none fits. That cores differ is nothing it looks at.

Orders for a placement that pair memory-hungry jobs of one core with frugal ones of the others.

Jobs are put into their queues in the order of time. The core that is free first takes one of its
jobs so that what all cores need together stays at a level: below the bandwidth where the jobs allow
it, and near their mean where they do not. Two rules choose: the hungriest job that still fits
below the level, or the one that comes closest to it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.bounds import SLACK, Bound, Loads, loads_of, lower_bound
from tilewright.tuner.multicore.encoding import Population, joined, population_of, random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable, Numbers
from tilewright.tuner.multicore.methods.balance import Placement, balanced
from tilewright.tuner.multicore.methods.magma import evolve, tuned_settings
from tilewright.tuner.multicore.methods.manual import Order, placed
from tilewright.tuner.multicore.methods.manual import Placement as Rules
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

UNBALANCE: Final = 1.25
"""Most that the load of a core may be of the mean load when it is given a job it prefers."""


class HeraldMapper(GroupMapper):
    """One sample."""

    def __init__(self, *, unbalance: float = UNBALANCE) -> None:
        self._unbalance: Final = unbalance

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        del rng
        probe.makespans(population_of([herald_queues(probe.instance.table, self._unbalance)]))


def herald_queues(table: JobTable, unbalance: float = UNBALANCE) -> list[list[int]]:
    """The jobs of each core, first to last."""
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    busy = np.zeros(table.cores)
    for job, latency in enumerate(table.latency):
        after = busy + latency
        limit = unbalance * (busy.sum() + latency.min()) / table.cores
        liked = (c for c in np.argsort(latency, kind="stable") if after[c] <= limit)
        core = int(next(liked, np.argmin(after)))
        queues[core].append(job)
        busy[core] += latency[core]
    return queues


class AiMtMapper(GroupMapper):
    """One sample."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        del rng
        probe.makespans(population_of([ai_mt_queues(probe.instance)]))


def ai_mt_queues(instance: Instance) -> list[list[int]]:
    """The jobs of each core, first to last."""
    table = instance.table
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    waiting = np.ones(table.jobs, dtype=np.bool_)
    free, demand = np.zeros(table.cores), np.zeros(table.cores)
    while waiting.any():
        able = waiting[:, None] & np.isfinite(table.latency)
        core = int(np.argmin(np.where(able.any(axis=0), free, np.inf)))
        beside = demand[(free > free[core]) & (instance.port == instance.port[core])].sum()
        room = instance.bandwidth - beside
        job = best_fit(np.flatnonzero(able[:, core]), table.bandwidth[:, core], room)
        waiting[job] = False
        queues[core].append(job)
        free[core] += table.latency[job, core]
        demand[core] = table.bandwidth[job, core]
    return queues


def best_fit(jobs: npt.NDArray[np.intp], needs: Numbers, room: float) -> int:
    """The job that needs most of what fits into a bandwidth, or the least where none fits."""
    wanted = needs[jobs]
    return int(jobs[np.argmax(np.where(wanted <= room, wanted, -wanted))])


class Rule(StrEnum):
    """Which job a free core takes."""

    FIT = "fit"
    """The hungriest that stays below the level; else the most frugal."""
    CLOSEST = "closest"
    """Which brings the sum closest to the level."""


def mean_need(table: JobTable, core: Placement) -> float:
    """Bytes per cycle that all cores need together, on average over the longest queue."""
    jobs = np.arange(table.jobs)
    latency = table.latency[jobs, core]
    longest = np.bincount(core, latency, minlength=table.cores).max()
    return float(table.bytes[jobs, core].sum() / longest)


def paired(table: JobTable, core: Placement, level: float, rule: Rule) -> list[list[int]]:
    """The jobs of each core, first to last."""
    waiting = [np.flatnonzero(core == c) for c in range(table.cores)]
    queues: list[list[int]] = [[] for _ in range(table.cores)]
    free, demand = np.zeros(table.cores), np.zeros(table.cores)
    for _ in range(table.jobs):
        left = np.array([len(jobs) > 0 for jobs in waiting])
        mine = int(np.argmin(np.where(left, free, np.inf)))
        beside = float(demand[free > free[mine]].sum())
        jobs, needs = waiting[mine], table.bandwidth[:, mine]
        if rule is Rule.FIT:
            job = best_fit(jobs, needs, level - beside)
        else:
            job = int(jobs[np.argmin(np.abs(needs[jobs] + beside - level))])
        waiting[mine] = jobs[jobs != job]
        queues[mine].append(job)
        free[mine] += table.latency[job, mine]
        demand[mine] = table.bandwidth[job, mine]
    return queues


ROUNDS: Final = 10
"""Descents of `balanced` per placement."""

PLACEMENTS: Final = 4
"""Manual mappings, the best, whose placements are improved beside that of the bound."""

LEVELS: Final = (0.5, 0.75, 0.9, 1.0, 1.1, 1.5)
"""Levels of `paired`, as shares of the bandwidth, and of the mean need."""

BRED: Final = 0.15
"""Share of the budget for MAGMA."""

CHAINS: Final = 4
"""Chains from placements; one more begins with MAGMA's mapping."""
ANNEALED: Final = 0.5
"""Share of what is then left of the budget that the chains use together."""

CONFINED: Final = 0.2
"""Share of what is then left for the chains without the dear cores."""

HOT: Final = 1e-3
WARM: Final = 3e-4
COLD: Final = 1e-6
"""Temperatures at the start of the chains, at the start of the last one, and at the end of all, in
the logarithm of the makespan. These and the shares were found on groups that no test and no study
uses: random tables, and tasks with seeds of 3000 and 3001."""

BLOCK: Final = 250
"""Steps between two looks at whether the bound is reached."""


class TilewrightMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        instance = probe.instance
        bound = lower_bound(instance)
        probe.notes["bound"] = bound.makespan
        goal = bound.makespan * (1 + 2 * SLACK)
        known = manual_mappings(instance)
        costs = probe.makespans(known)
        if probe.lowest <= goal:
            return
        starts = _placements(loads_of(instance), bound, known, costs, goal, rng)
        orders = population_of([q for start in starts for q in _orders(instance, start)])
        costs = np.concatenate([costs, probe.makespans(orders)])
        begin = joined(_distinct(joined(known, orders), costs), _bred(probe, rng))
        steps = max(1, int(ANNEALED * probe.left / len(begin)))
        for row in range(len(begin)):
            _anneal(probe, ranked(begin.take([row])), HOT, steps, goal, rng)
        confined = int(CONFINED * probe.left / PLACEMENTS)
        for start in starts[:PLACEMENTS]:
            _confine(probe, bound, start, confined, goal, rng)
        _anneal(probe, ranked(probe.best), WARM, probe.left, goal, rng)


def _distinct(population: Population, costs: Numbers) -> Population:
    """The best order of each placement: of the best `CHAINS` placements."""
    best: dict[bytes, int] = {}
    for row in np.argsort(costs, kind="stable").tolist():
        best.setdefault(population.core[row].tobytes(), row)
    return population.take(list(best.values())[:CHAINS])


def _bred(probe: Probe, rng: np.random.Generator) -> Population:
    """What MAGMA finds: a population of one."""
    settings = tuned_settings()
    left = int(probe.left - BRED * probe.budget)
    first = random_population(probe.instance.table, settings.population, rng)
    return evolve(probe, first, probe.makespans(first), settings, rng, left=left)


def _anneal(
    probe: Probe,
    at: Population,
    hot: float,
    steps: int,
    goal: float,
    rng: np.random.Generator,
    table: JobTable | None = None,
) -> None:
    """One chain, unless the goal is reached."""
    temperatures = hot * (COLD / hot) ** np.linspace(0, 1, steps)
    for first in range(0, steps, BLOCK):
        if probe.lowest <= goal:
            return
        piece = temperatures[first : first + BLOCK]
        at = probe.anneal(at, piece, int(rng.integers(2**63)), table)


def _confine(
    probe: Probe,
    bound: Bound,
    start: Placement,
    steps: int,
    goal: float,
    rng: np.random.Generator,
) -> None:
    """A chain from a placement, on the cores that leave room below the middle of the gap."""
    table = probe.instance.table
    half = (probe.lowest - bound.makespan) / 2
    dear = (bound.charges > half) & np.isfinite(table.latency)
    if not dear.any():
        return
    cheap = JobTable(np.where(dear, np.inf, table.latency), table.bandwidth, table.names)
    jobs = np.arange(table.jobs)
    core = np.where(dear[jobs, start], bound.charges.argmin(axis=1), start).astype(np.int32)
    orders = population_of(_orders(probe.instance, core))
    at = ranked(orders.take([int(np.argmin(probe.makespans(orders)))]))
    _anneal(probe, at, HOT, steps, goal, rng, cheap)


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


def ranked(population: Population) -> Population:
    """The same mappings with priorities spread evenly from 0 to 1, all different."""
    order = np.argsort(population.priority, axis=1, kind="stable")
    places = np.argsort(order, axis=1, kind="stable")
    return Population(core=population.core, priority=(places + 0.5) / places.shape[1])
