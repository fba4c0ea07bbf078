# SPDX-License-Identifier: Apache-2.0
"""A chain changes one thing at a time, tells true makespans, and is as greedy as it is cold."""

import numpy as np
import pytest
from support.multicore import random_instance
from support.randomness import fresh_rng, where

from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.annealing import anneal
from tilewright.tuner.multicore.encoding import random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable

COLD = np.full(400, 1e-300)  # takes no rise, however small


@pytest.mark.parametrize("policy", [Policy.PROPORTIONAL, Policy.PRIORITY])
def test_each_step_changes_one_thing_and_tells_its_makespan(policy):
    rng = fresh_rng()
    ports = (0, 1, 0, 1) if rng.random() < 0.5 else ()
    instance = random_instance(rng, 20, 4, 0.6, policy, ports, unable=0.3)
    start = random_population(instance.table, 1, rng)
    walk = anneal(instance, start, COLD, 7)
    np.testing.assert_array_equal(walk.makespans, instance.makespans(walk.tried))
    at, value, changes = start, instance.makespans(start)[0], set()
    for step, makespan in enumerate(walk.makespans):
        there = walk.tried.take([step])
        cores = np.flatnonzero(there.core != at.core)
        priorities = np.flatnonzero(there.priority != at.priority)
        assert len(set(cores) | set(priorities)) <= 2, where(step=step)
        changes.add((len(cores), len(priorities)))
        if makespan <= value:
            at, value = there, makespan
    np.testing.assert_array_equal(walk.left.core, at.core)
    np.testing.assert_array_equal(walk.left.priority, at.priority)
    # A job moves, with or without its place; two of two cores, too; one place is new; two change.
    assert changes >= {(1, 0), (1, 1), (2, 0), (2, 2), (0, 1), (0, 2)}


def test_a_hot_chain_goes_anywhere():
    rng = fresh_rng()
    instance = random_instance(rng, 20, 3)
    start = random_population(instance.table, 1, rng)
    walk = anneal(instance, start, np.full(50, 1e9), 7)
    np.testing.assert_array_equal(walk.left.core, walk.tried.core[-1:])
    assert (np.diff(walk.makespans) > 0).any()


def test_the_start_stays_as_it_is_and_the_seed_decides():
    rng = fresh_rng()
    instance = random_instance(rng, 20, 3)
    start = random_population(instance.table, 1, rng)
    kept = start.take([0])
    first, again, other = (anneal(instance, start, COLD, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(start.core, kept.core)
    np.testing.assert_array_equal(start.priority, kept.priority)
    np.testing.assert_array_equal(first.makespans, again.makespans)
    assert (first.makespans != other.makespans).any()


def test_orders_are_left_alone_where_nobody_waits():
    rng = fresh_rng()
    table = JobTable(rng.uniform(1, 9, (20, 3)), np.full((20, 3), 0.1))
    walk = anneal(Instance(table=table, bandwidth=9.0), random_population(table, 1, rng), COLD, 7)
    before = np.concatenate([walk.left.core[:0], walk.tried.core[:-1]])
    moved = (walk.tried.core[1:] != before).any(axis=1)
    assert moved.mean() > 0.9


def test_one_job_and_one_core_are_enough():
    for table in (JobTable([[3, 2]], [[1, 1]]), JobTable([[3], [2]], [[9], [9]])):
        instance = Instance(table=table, bandwidth=1.0)
        start = random_population(table, 1, fresh_rng())
        assert np.isfinite(anneal(instance, start, COLD, 3).makespans).all()
