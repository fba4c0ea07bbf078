# SPDX-License-Identifier: Apache-2.0
"""The cut into stages: as good as the best of all, and what it prefers among equals."""

from itertools import combinations, permutations

import numpy as np
import pytest
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import WorkloadError
from tilewright.tuner.multicore.pipeline import best_cut


def slowest(costs, places, cores):
    edges = [0, *places, costs.shape[1]]
    return max(costs[core, edges[n] : edges[n + 1]].sum() for n, core in enumerate(cores))


def every_cut(costs, moved, fixed):
    """(slowest stage, bytes) of every legal cut."""
    count, operators = costs.shape
    orders = [tuple(fixed)] if fixed else [
        order for n in range(1, count + 1) for order in permutations(range(count), n)
    ]  # fmt: skip
    for cores in orders:
        for places in combinations(range(1, operators), len(cores) - 1):
            yield slowest(costs, places, cores), sum(moved[p] for p in places)


@pytest.mark.parametrize("fixed", [None, (2, 0)])
def test_no_cut_is_better(fixed):
    rng = fresh_rng()
    for _ in range(20):
        operators = int(rng.integers(3, 7))
        costs = rng.integers(0, 9, (3, operators)).astype(float)
        if rng.random() < 0.5:
            costs[1] = costs[0]
        moved = rng.integers(0, 100, operators).tolist()
        found = best_cut(costs, moved, fixed)
        best = min(every_cut(costs, moved, fixed))
        assert (found.cycles, found.moved) == pytest.approx(best), where(costs=costs, moved=moved)
        assert slowest(costs, found.places, found.cores) == found.cycles
        assert sum(moved[p] for p in found.places) == found.moved


def test_a_core_that_would_be_the_slowest_stage_is_left_out():
    found = best_cut(np.array([[1.0, 1.0, 1.0], [9.0, 9.0, 9.0]]), [0, 1, 1])
    assert (found.cores, found.places, found.cycles) == ((0,), (), 3.0)


def test_more_fixed_cores_than_operators_are_refused():
    with pytest.raises(WorkloadError, match="no more stages than that"):
        best_cut(np.ones((2, 1)), [0], (0, 1))
