# SPDX-License-Identifier: Apache-2.0
"""The probe charges each sample once, Ctrl-C keeps the best, every mapper has a name."""

import numpy as np
import pytest
from support.randomness import SEED, fresh_rng, generator, where
from support.search.multicore import random_instance

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.bounds import lower_bound
from tilewright.tuner.multicore.encoding import random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods import mapper
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS, MANUAL, make_group_mapper
from tilewright.tuner.multicore.methods.tilewright import ai_mt_queues
from tilewright.tuner.search.samples import BudgetSpentError


class Patient(mapper.GroupMapper):
    """Samples in fives; Ctrl-C comes after some of them."""

    def __init__(self, batches):
        self.batches = batches

    def _search(self, probe, rng):
        for _ in range(self.batches):
            probe.makespans(random_population(probe.instance.table, 5, rng))
        raise KeyboardInterrupt


def test_ctrl_c_keeps_the_best():
    instance = random_instance(fresh_rng())
    trace = Patient(3).run(instance, 100, 1)
    assert trace.stopped
    assert trace.samples == 15
    assert trace.makespan == instance.makespans(trace.mapping)[0]
    assert (trace.best[15:] == trace.makespan).all()


def test_ctrl_c_before_the_first_sample_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        Patient(0).run(random_instance(fresh_rng()), 100, 1)


def test_the_last_batch_is_counted_as_far_as_it_fits():
    rng = fresh_rng()
    instance = random_instance(rng)
    probe = mapper.Probe(instance, 7, None)
    first = probe.makespans(random_population(instance.table, 5, rng))
    with pytest.raises(BudgetSpentError):
        probe.makespans(random_population(instance.table, 5, rng))
    assert probe.left == 0
    assert probe.lowest <= first.min()
    assert probe.lowest == instance.makespans(probe.best)[0]


def test_a_found_mapping_is_not_changed_by_the_mapper():
    rng = fresh_rng()
    instance = random_instance(rng)
    probe = mapper.Probe(instance, 9, None)
    drawn = random_population(instance.table, 3, rng)
    probe.makespans(drawn)
    drawn.core[:] = 0
    probe.best.core[:] = 0
    assert probe.lowest == instance.makespans(probe.best)[0]


def test_refuses_a_budget_of_none_and_a_trace_without_a_mapping():
    instance = random_instance(fresh_rng())
    with pytest.raises(ConfigError, match="positive integer"):
        make_group_mapper("random").run(instance, 0, 0)
    probe = mapper.Probe(instance, 3)
    with pytest.raises(mapper.GroupMapperError, match="no sample"):
        _ = mapper.Trace(mappings=probe.improved(), seed=0, **probe.told()).mapping


# -- every group mapper keeps the contract --------------------------------------------------------

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


# -- manual mappers place jobs as they say: worked examples ---------------------------------------


def test_ai_mt_puts_a_frugal_job_beside_a_hungry_one():
    table = JobTable(np.full((4, 2), 10.0), [[4, 4], [4, 4], [1, 1], [1, 1]])
    assert ai_mt_queues(Instance(table=table, bandwidth=5.0)) == [[0, 1], [2, 3]]
