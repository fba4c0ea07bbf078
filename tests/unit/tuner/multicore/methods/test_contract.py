"""Every group mapper keeps the contract: seeded, within its budget, best as re-evaluated."""

import numpy as np
import pytest
from support.multicore import random_instance
from support.randomness import SEED, generator, where

from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS, MANUAL, make_group_mapper

BUDGET = 230
CASES = [*GROUP_MAPPERS, *MANUAL, "tuner-genetic"]
INSTANCES = {
    "unlike": random_instance(generator("unlike"), 15, 3, 0.7),
    "alike": random_instance(generator("alike"), 12, 4, 0.4, alike=True),
    "unable": random_instance(generator("unable"), 10, 5, 1.5, unable=0.4),
    "one job": Instance(table=JobTable([[3, 2]], [[1, 1]]), bandwidth=1.0),
    "one core": Instance(table=JobTable([[3], [2], [4]], [[1], [5], [1]]), bandwidth=2.0),
}


def run(name, instance, budget=BUDGET, seed=SEED):
    return make_group_mapper(name).run(instance, budget, seed)


@pytest.mark.parametrize("kind", INSTANCES)
@pytest.mark.parametrize("name", CASES)
def test_keeps_its_budget_and_tells_a_mapping_that_is_as_good_as_it_says(name, kind):
    instance = INSTANCES[kind]
    trace = run(name, instance)
    about = where(mapper=name, instance=kind)
    assert len(trace.best) == BUDGET, about
    assert 0 < trace.samples <= BUDGET, about
    assert np.isfinite(trace.makespan), about
    assert (np.diff(trace.best) <= 0).all(), about
    assert trace.makespan == instance.makespans(trace.mapping)[0], about
    assert trace.makespan >= lower_bound(instance).makespan, about
    values = instance.makespans(trace.mappings)
    np.testing.assert_array_equal(values, trace.best[trace.steps], about)
    assert (np.diff(values) < 0).all(), about
    assert trace.seed == SEED, about


@pytest.mark.parametrize("name", CASES)
def test_repeats_with_the_seed(name):
    first, again = (run(name, INSTANCES["unlike"]) for _ in range(2))
    np.testing.assert_array_equal(first.best, again.best)
    np.testing.assert_array_equal(first.mappings.core, again.mappings.core)
    np.testing.assert_array_equal(first.mappings.priority, again.mappings.priority)


@pytest.mark.parametrize("budget", [1, 2, 40])
@pytest.mark.parametrize("name", CASES)
def test_never_samples_beyond_a_small_budget(name, budget):
    trace = run(name, INSTANCES["alike"], budget)
    assert len(trace.best) == budget
    assert trace.samples <= budget
