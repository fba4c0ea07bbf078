"""The probe charges each sample once, Ctrl-C keeps the best, every mapper has a name."""

import numpy as np
import pytest
from support.multicore import random_instance
from support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.encoding import population_of, random_population
from tilewright.tuner.multicore.methods.mapper import GroupMapper, GroupMapperError, Probe, Trace
from tilewright.tuner.multicore.methods.registry import GROUP_MAPPERS, MANUAL, make_group_mapper
from tilewright.tuner.search import TunerError
from tilewright.tuner.search.samples import BudgetSpentError


class Patient(GroupMapper):
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


def test_a_listener_hears_of_every_batch():
    heard = []
    Patient(3).run(random_instance(fresh_rng()), 12, 1, lambda *told: heard.append(told))
    assert [samples for samples, _ in heard] == [5, 10, 12]
    assert np.isfinite([lowest for _, lowest in heard]).all()


def test_the_last_batch_is_counted_as_far_as_it_fits():
    rng = fresh_rng()
    instance = random_instance(rng)
    probe = Probe(instance, 7, None)
    first = probe.makespans(random_population(instance.table, 5, rng))
    with pytest.raises(BudgetSpentError):
        probe.makespans(random_population(instance.table, 5, rng))
    assert probe.left == 0
    assert probe.lowest <= first.min()
    assert probe.lowest == instance.makespans(probe.best)[0]


def test_a_found_mapping_is_not_changed_by_the_mapper():
    rng = fresh_rng()
    instance = random_instance(rng)
    probe = Probe(instance, 9, None)
    drawn = random_population(instance.table, 3, rng)
    probe.makespans(drawn)
    drawn.core[:] = 0
    probe.best.core[:] = 0
    assert probe.lowest == instance.makespans(probe.best)[0]


def test_refuses_a_budget_of_none_and_a_trace_without_a_mapping():
    instance = random_instance(fresh_rng())
    with pytest.raises(ConfigError, match="positive integer"):
        make_group_mapper("random").run(instance, 0, 0)
    probe = Probe(instance, 3)
    with pytest.raises(GroupMapperError, match="no sample"):
        _ = Trace(mappings=probe.improved(), seed=0, **probe.told()).mapping


def test_names_every_mapper_and_refuses_others():
    for name in GROUP_MAPPERS:
        assert GROUP_MAPPERS.summary(name)
        assert isinstance(make_group_mapper(name), GroupMapper)
    assert len(MANUAL) == 9
    with pytest.raises(GroupMapperError, match="no group mapper of that name"):
        make_group_mapper("simulated")
    with pytest.raises(GroupMapperError, match="did you mean heft-greedy"):
        make_group_mapper("heft-gredy")
    with pytest.raises(TunerError, match="no tuner of that name"):
        make_group_mapper("tuner-simulated")


def test_one_sample_is_one_mapping():
    instance = random_instance(fresh_rng(), jobs=3, cores=2)
    probe = Probe(instance, 5, None)
    probe.makespans(population_of([[[0, 1], [2]], [[2], [1, 0]]]))
    assert probe.left == 3
