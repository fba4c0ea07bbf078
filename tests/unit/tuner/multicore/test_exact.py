"""The exact method is as good as all mappings of a group together."""

import itertools

import numpy as np
import pytest
from support.multicore import random_instance
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.solve import best_mapping


def least_of_all(instance):
    table = instance.table
    orders = np.array(list(itertools.permutations(range(table.jobs))), dtype=float)
    return min(
        instance.makespans(
            Population(
                core=np.broadcast_to(np.array(core, dtype=np.int32), orders.shape), priority=orders
            )
        ).min()
        for core in itertools.product(range(table.cores), repeat=table.jobs)
    )


@pytest.mark.parametrize("policy", list(Policy))
def test_equals_the_least_of_all_mappings(policy):
    rng = fresh_rng()
    for case in range(8):
        kinds = {"alike": case % 2 == 0, "unable": 0.3 * (case % 4 == 3)}
        cores = 3 if case < 6 else 2
        ports = tuple(range(2)) + (0,) * (cores - 2) if case % 3 == 2 else ()
        instance = random_instance(rng, 5, cores, 0.6, policy, ports, **kinds)
        found = best_mapping(instance)
        about = where(case=case)
        assert found.makespan == instance.makespans(found.mapping)[0], about
        assert found.makespan == pytest.approx(least_of_all(instance), rel=1e-9), about
        assert lower_bound(instance).makespan <= found.makespan, about


def test_by_priority_the_order_of_jobs_on_different_cores_counts():
    # Each is alone on its core. With the second one first, neither waits as long as the other way.
    table = JobTable([[10, 90], [90, 10]], [[3, 1], [1, 2]])
    instance = Instance(table=table, bandwidth=4.0, policy=Policy.PRIORITY)
    found = best_mapping(instance)
    assert found.mapping.core.tolist() == [[0, 1]]
    assert found.makespan == pytest.approx(40 / 3, rel=1e-12)
    assert found.makespan == pytest.approx(least_of_all(instance), rel=1e-12)


def test_a_group_by_priority_is_smaller():
    with pytest.raises(ConfigError, match="only groups of up to 7 jobs"):
        best_mapping(random_instance(fresh_rng(), 8, 2, policy=Policy.PRIORITY))


def test_tries_a_part_of_the_mappings():
    rng = fresh_rng()
    tried = [best_mapping(random_instance(rng, 7, 2, 0.9)).tried for _ in range(5)]
    assert sum(tried) < 5 * 2**7 * 5040 / 4


def test_refuses_a_group_that_is_too_large():
    with pytest.raises(ConfigError, match="jobs"):
        best_mapping(random_instance(fresh_rng(), 24, 4))
