# SPDX-License-Identifier: Apache-2.0
"""Placements whose closed form is low: the longest queue and the bytes, whatever the order.

Local search: one job of any core goes to another core, or one of the longest queue and one of
another queue change places; the best of all such steps is taken until none helps. A few jobs are
then placed at random, and it begins again (iterated local search: Lourenço, Martin and Stützle,
2003).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.bounds import Loads
from tilewright.tuner.multicore.job_table import Numbers

Placement = npt.NDArray[np.int32]
"""Core of each job, ``[jobs]``."""

EVENNESS: Final = 1e-3
"""Weight of the queues' root mean square: of placements of one makespan the even one leads on."""

PERTURBED: Final = 4
"""Most jobs that are placed at random before a new descent."""


def balanced(
    loads: Loads, start: Placement, goal: float, rounds: int, rng: np.random.Generator
) -> Placement:
    """A placement that is good for the closed form."""
    best = _descent(loads, start)
    value = _value(loads, best)
    for _ in range(rounds):
        if value <= goal:
            break
        trial = best.copy()
        jobs = rng.integers(len(best), size=rng.integers(2, PERTURBED + 1))
        for job in jobs:
            able = np.flatnonzero(np.isfinite(loads.busy[job]))
            trial[job] = able[rng.integers(len(able))]
        trial = _descent(loads, trial)
        found = _value(loads, trial)
        if found <= value:
            best, value = trial, found
    return best


def _value(loads: Loads, core: Placement) -> float:
    return float(loads.makespans(core[None])[0])


def _descent(loads: Loads, start: Placement) -> Placement:
    """The nearest placement that no step improves."""
    core = start.copy()
    jobs, cores = loads.busy.shape
    every = np.arange(jobs)
    while True:
        queues = np.bincount(core, loads.busy[every, core], minlength=cores).astype(np.float64)
        excess = loads.everywhere[every, core].sum()
        memory = loads.memory[every, core].sum()
        here = float(_score(queues, excess, memory))
        # One job to any core.
        change = np.zeros((jobs, cores, cores))
        change[every, :, core] -= loads.busy[every, core][:, None]
        change[:, np.arange(cores), np.arange(cores)] += loads.busy
        moves = _score(
            queues + change,
            excess + _difference(loads.everywhere, core),
            memory + _difference(loads.memory, core),
        )
        job, target = np.unravel_index(int(np.argmin(moves)), moves.shape)
        # One of the longest queue and one of another.
        longest = int(np.argmax(queues))
        mine, others = np.flatnonzero(core == longest), np.flatnonzero(core != longest)
        if len(mine) and len(others):
            swaps = _swaps(loads, core, mine, others, queues, excess, memory)
            one, two = np.unravel_index(int(np.argmin(swaps)), swaps.shape)
            swapped = float(swaps[one, two])
        else:
            swapped = np.inf
        least = min(float(moves[job, target]), swapped)
        if not least < here * (1 - 1e-12):
            return core
        if swapped == least:
            core[mine[one]], core[others[two]] = core[others[two]], longest
        else:
            core[job] = target


def _swaps(
    loads: Loads,
    core: Placement,
    mine: npt.NDArray[np.intp],
    others: npt.NDArray[np.intp],
    queues: Numbers,
    excess: float,
    memory: float,
) -> Numbers:
    """Scores after a job of ``mine``, all on one core, and one of ``others`` change places."""
    here, there = int(core[mine[0]]), core[others]
    change = np.zeros((len(mine), len(others), len(queues)))
    change[:, :, here] = loads.busy[others, here] - loads.busy[mine, here][:, None]
    change[:, np.arange(len(others)), there] = (
        loads.busy[np.ix_(mine, np.arange(len(queues)))][:, there] - loads.busy[others, there]
    )
    terms = []
    for base, per_job in ((excess, loads.everywhere), (memory, loads.memory)):
        gone = per_job[mine, here][:, None] + per_job[others, there]
        terms.append(base + per_job[mine][:, there] + per_job[others, here] - gone)
    return _score(queues + change, terms[0], terms[1])


def _difference(per_job: Numbers, core: Placement) -> Numbers:
    """What each job adds more on each core than where it is, ``[jobs, cores]``."""
    return per_job - per_job[np.arange(len(core)), core][:, None]


def _score(queues: Numbers, excess: Numbers | float, memory: Numbers | float) -> Numbers:
    """What a descent minimises; queues ``[..., cores]``."""
    longest = queues.max(axis=-1) + excess
    even = np.sqrt(np.square(queues).mean(axis=-1))
    score: Numbers = np.maximum(longest, memory) + EVENNESS * (even + memory)
    return score
