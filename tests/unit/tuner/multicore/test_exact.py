# SPDX-License-Identifier: Apache-2.0
"""The exact method is as good as all mappings of a group together."""

import itertools

import numpy as np
import pytest
from support.randomness import fresh_rng, where
from support.search.multicore import random_instance

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.allocation import Policy
from tilewright.tuner.multicore.bounds import loads_of, lower_bound
from tilewright.tuner.multicore.encoding import Population, random_population
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


# -- bounds ---------------------------------------------------------------------------------------


def every_mapping(jobs, cores):
    """All placements with all orders; a queue's order is that of the whole."""
    found = [
        (core, order)
        for core in itertools.product(range(cores), repeat=jobs)
        for order in itertools.permutations(range(jobs))
    ]
    return Population(
        core=np.array([core for core, _ in found], dtype=np.int32),
        priority=np.array([order for _, order in found], dtype=np.float64),
    )


@pytest.mark.parametrize("ports", [(), (0, 1)], ids=["one-port", "two-ports"])
@pytest.mark.parametrize("policy", list(Policy))
def test_no_mapping_of_a_small_group_is_below_the_bounds(policy, ports):
    rng = fresh_rng()
    mappings = every_mapping(4, 2)
    for case in range(12):
        instance = random_instance(
            rng, 4, 2, float(np.exp(rng.normal(0, 1))), policy, ports, unable=0.2 * (case % 2)
        )
        least = instance.makespans(mappings).min()
        about = where(case=case)
        assert lower_bound(instance).makespan <= least * (1 + 1e-12), about
        closed = loads_of(instance).makespans(mappings.core)
        assert (closed <= instance.makespans(mappings) * (1 + 1e-12)).all(), about


def test_no_mapping_of_a_large_group_is_below_the_bound():
    rng = fresh_rng()
    for case, policy in enumerate(Policy):
        ports = (0, 1, 1, 0, 1) if rng.random() < 0.5 else ()
        instance = random_instance(rng, 60, 5, 0.6, policy, ports)
        mappings = random_population(instance.table, 2000, rng)
        assert lower_bound(instance).makespan <= instance.makespans(mappings).min(), where(
            case=case
        )


def test_the_bound_is_the_longest_job_where_one_dominates():
    table = JobTable([[100, 100], [7, 7], [9, 9]], np.full((3, 2), 0.1))
    assert lower_bound(Instance(table=table, bandwidth=1.0)).makespan == pytest.approx(100)


def test_bytes_of_a_port_do_not_pass_the_memory_of_another():
    """Jobs that only core 0 can run, beside an idle port: half of a common memory would do."""
    table = JobTable([[10, np.inf]] * 4, np.full((4, 2), 8.0))
    one, two = (Instance(table=table, bandwidth=4.0, ports=ports) for ports in ((), (0, 1)))
    assert lower_bound(one).makespan == lower_bound(two).makespan == pytest.approx(80)
    free = JobTable([[10, 10]] * 4, np.full((4, 2), 8.0))
    one, two = (Instance(table=free, bandwidth=4.0, ports=ports) for ports in ((), (0, 1)))
    assert lower_bound(one).makespan == pytest.approx(80)
    assert lower_bound(two).makespan == pytest.approx(40)


@pytest.mark.parametrize("policy", list(Policy))
def test_numbers_of_any_size_have_a_bound(policy):
    """As far apart as a table allows: more than a solver takes."""
    rng = fresh_rng()
    mappings = every_mapping(4, 2)
    for case in range(12):
        latency, need = np.exp(rng.uniform(-200, 200, (2, 4, 2)))
        table = JobTable(latency, need)
        bandwidth = float(np.exp(rng.uniform(-200, 200)))
        instance = Instance(table=table, bandwidth=bandwidth, policy=policy)
        least = instance.makespans(mappings).min()
        assert 0 < lower_bound(instance).makespan <= least * (1 + 1e-12), where(case=case)


def test_the_bound_is_the_memory_where_everything_waits_for_it():
    table = JobTable(np.full((8, 4), 10.0), np.full((8, 4), 2.0))
    assert lower_bound(Instance(table=table, bandwidth=4.0)).makespan == pytest.approx(40)
    assert lower_bound(Instance(table=table, bandwidth=4.0)).gap(44.0) == pytest.approx(0.1)


def test_the_bound_cuts_jobs():
    instance = Instance(table=JobTable([[10, 10]] * 3, [[1, 1]] * 3), bandwidth=4.0)
    assert lower_bound(instance).makespan == pytest.approx(15)  # whole, they take 20


@pytest.mark.parametrize("policy", [Policy.PROPORTIONAL, Policy.EQUAL])
def test_a_job_on_a_core_lifts_the_bound_by_at_least_its_charge(policy):
    rng = fresh_rng()
    lifted = 0
    for case in range(300):  # few have such a charge
        instance = random_instance(rng, 60, 3, float(rng.uniform(0.5, 2)), policy)
        bound = lower_bound(instance)
        if loads_of(instance).own.max() > bound.makespan:
            continue  # some pairs are forbidden, and the charge is what the job takes alone
        job, core = np.unravel_index(int(np.argmax(bound.charges)), bound.charges.shape)
        latency = instance.table.latency.copy()
        latency[job, np.arange(3) != core] = np.inf
        there = JobTable(latency, instance.table.bandwidth)
        least = lower_bound(Instance(table=there, bandwidth=instance.bandwidth, policy=policy))
        expected = bound.makespan + bound.charges[job, core]
        assert least.makespan >= expected * (1 - 1e-6), where(case=case)
        lifted += bound.charges[job, core] > 1e-3 * bound.makespan
        if lifted == 3:
            return
    pytest.fail(f"{lifted} charges of 3 could be looked at")


# -- annealing ------------------------------------------------------------------------------------


def test_no_mapping_is_below_the_bound_where_some_jobs_are_hungry():
    """Needs from a tenth of the bandwidth to ten times it."""
    rng = fresh_rng()
    mappings = every_mapping(4, 3)
    for case in range(25):
        latency = np.exp(rng.normal(3, 1, (4, 1))) * np.array([1, 1, np.exp(rng.normal())])
        need = np.exp(rng.uniform(-2.3, 2.3, (4, 1))) * np.array([1, 1, np.exp(rng.normal())])
        instance = Instance(table=JobTable(latency, need), bandwidth=1.0)
        least = instance.makespans(mappings).min()
        assert lower_bound(instance).makespan <= least * (1 + 1e-12), where(case=case)
