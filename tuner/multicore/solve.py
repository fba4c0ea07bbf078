# SPDX-License-Identifier: Apache-2.0
"""One way to solve an instance, whatever the method: proven, or by a mapper within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tilewright.tuner.multicore.exact import best_mapping
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.methods.mapper import Listener, Trace
from tilewright.tuner.multicore.methods.registry import make_group_mapper

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
