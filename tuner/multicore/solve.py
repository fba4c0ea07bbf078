# SPDX-License-Identifier: Apache-2.0
"""One way to solve an instance, whatever the method: proven, or by a mapper within a budget.

The best mapping of a small group, proven: every placement by its bound, then every order.

Placements are taken in the order of a closed form that no order goes below. As long as it is below
the best makespan known, every order of its queues is tried; then no better mapping is left. It is
exact for the model itself, under any policy. A solver of integer programs would need time cut
into steps, or the bandwidth left out: the model's clock depends on what runs together.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.bounds import SLACK, loads_of
from tilewright.tuner.multicore.encoding import Cores, Population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers
from tilewright.tuner.multicore.methods.mapper import Listener, Trace
from tilewright.tuner.multicore.methods.registry import make_group_mapper

MOST_JOBS: Final = 9
"""Jobs of a group that is small enough: the orders of one queue are listed."""

MOST_ORDERED: Final = 7
"""The same under `Policy.PRIORITY`, where the order of the whole group counts and is listed."""

MOST_PLACEMENTS: Final = 1 << 20
"""Placements of a group that is small enough."""

BATCH: Final = 1 << 14
"""Mappings whose makespans are computed at once."""


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """A best mapping."""

    mapping: Population  # a population of one
    makespan: float  # cycles
    tried: int  # mappings whose makespans were computed


def best_mapping(instance: Instance) -> Optimum:
    """The mapping of least makespan.

    Example:
        >>> from tilewright.tuner.multicore.job_table import JobTable
        >>> table = JobTable([[10, 10]] * 3, [[1, 1]] * 3)
        >>> best_mapping(Instance(table=table, bandwidth=4.0)).makespan
        20.0
    """
    placements = _placements(instance)
    floors = loads_of(instance).makespans(placements)
    best, least, tried = None, np.inf, 0
    for row in np.argsort(floors, kind="stable"):
        if floors[row] >= least * (1 - SLACK):
            break
        for priority in _orders(placements[row], instance):
            core = np.broadcast_to(placements[row], priority.shape)
            values = instance.makespans(Population(core=core, priority=priority))
            tried += len(values)
            place = int(np.argmin(values))
            if values[place] < least:
                least = float(values[place])
                best = Population(core=core[[place]].copy(), priority=priority[[place]])
            if least <= floors[row] * (1 + SLACK):
                break
    assert best is not None  # some placement has a finite makespan: every job has a core
    return Optimum(mapping=best, makespan=least, tried=tried)


def _placements(instance: Instance) -> Cores:
    """Every placement on cores that can run the jobs, one of each set of equal ones, ``[n, jobs]``.

    Placements are equal when cores of equal columns change places.
    """
    table = instance.table
    able = [np.flatnonzero(row) for row in np.isfinite(table.latency)]
    count = math.prod(len(cores) for cores in able)
    most = MOST_ORDERED if instance.policy is Policy.PRIORITY else MOST_JOBS
    if table.jobs > most or count > MOST_PLACEMENTS:
        raise ConfigError(
            f"only groups of up to {most} jobs and {MOST_PLACEMENTS:,} placements are solved "
            "exactly",
            field="jobs",
            value=table.jobs,
            remedy="take fewer jobs or cores, or a group mapper",
        )
    grid = np.meshgrid(*able, indexing="ij")
    every = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int32)
    return every[_first_of_alike(instance, every)]


def _first_of_alike(instance: Instance, every: Cores) -> npt.NDArray[np.bool_]:
    """Which placements stay when cores of a port with equal columns are exchangeable, ``[n]``.

    Of two such cores, the one with the lower number has the first job that either of them has.
    """
    table = instance.table
    stay = np.ones(len(every), dtype=np.bool_)
    for one, two in itertools.combinations(range(table.cores), 2):
        alike = instance.port[one] == instance.port[two] and all(
            np.array_equal(each[:, one], each[:, two]) for each in (table.latency, table.bandwidth)
        )
        if alike:
            first = [
                np.where((every == c).any(axis=1), (every == c).argmax(axis=1), table.jobs)
                for c in (one, two)
            ]
            stay &= first[0] <= first[1]
    return stay


def _orders(core: Cores, instance: Instance) -> Iterator[Numbers]:
    """Priorities for every order of one placement that counts, in batches ``[n, jobs]``.

    Queues count one by one, but for `Policy.PRIORITY`, which weighs jobs of different cores.
    """
    if instance.policy is Policy.PRIORITY:
        queues = [np.arange(len(core))]
    else:
        queues = [np.flatnonzero(core == c) for c in range(instance.table.cores)]
    each = [np.array(list(itertools.permutations(range(len(queue))))) for queue in queues]
    sizes = [len(orders) for orders in each]
    total = math.prod(sizes)
    for start in range(0, total, BATCH):
        picks = np.unravel_index(np.arange(start, min(start + BATCH, total)), sizes)
        priority = np.empty((len(picks[0]), len(core)))
        for queue, orders, pick in zip(queues, each, picks, strict=True):
            priority[:, queue] = orders[pick]
        yield priority


EXACT: Final = "exact"
"""The method that proves; any other name is a mapper's."""

Solver = Callable[[Instance, Listener | None], Trace]


def solver(method: str, *, budget: int, seed: int) -> Solver:
    """What solves an instance; ``method`` is looked up here, before any work."""
    if method == EXACT:
        return _proven
    mapper = make_group_mapper(method)
    return lambda instance, listener: mapper.run(instance, budget, seed, listener)


def _proven(instance: Instance, listener: Listener | None) -> Trace:
    """The optimum as a run of one step."""
    del listener
    started = time.perf_counter()
    found = best_mapping(instance)
    return Trace(
        best=np.array([found.makespan]),
        steps=np.array([0]),
        mappings=found.mapping,
        samples=found.tried,
        seed=0,
        seconds=time.perf_counter() - started,
    )
