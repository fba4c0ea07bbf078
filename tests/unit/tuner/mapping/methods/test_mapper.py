"""The probe charges each sample once, and the registry names every mapper."""

import numpy as np
import pytest
from tests.support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.methods.mapper import Mapper, MapperError, Probe
from tilewright.tuner.mapping.methods.registry import MAPPERS, make_mapper
from tilewright.tuner.mapping.nest import LoopNest
from tilewright.tuner.search import TunerError
from tilewright.tuner.search.samples import BudgetSpentError

MODEL = CostModel(
    LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1)), load_architecture("flexible-256")
)


class Stubborn(Mapper):
    """Offers illegal mappings before legal ones, and more of them than it may."""

    def _search(self, probe, rng):
        batch = probe.space.decode_batch(probe.space.sample_batch(rng, 50))
        batch[:3, 0] = 65
        probe.values(batch)


class Early(Mapper):
    def _search(self, probe, rng):
        probe.values(probe.space.decode_batch(probe.space.sample_batch(rng, 5)))


class Interrupted(Mapper):
    def __init__(self, samples):
        self.samples = samples

    def _search(self, probe, rng):
        if self.samples:
            probe.values(probe.space.decode_batch(probe.space.sample_batch(rng, self.samples)))
        raise KeyboardInterrupt


def test_ctrl_c_keeps_the_best_if_there_is_one():
    trace = Interrupted(5).run(MODEL, Objective.ENERGY, 20, 0)
    assert trace.stopped
    assert trace.samples == 5
    assert trace.value == MODEL.cost(trace.mapping)["energy"]
    with pytest.raises(KeyboardInterrupt):
        Interrupted(0).run(MODEL, Objective.ENERGY, 20, 0)


def test_counts_illegal_samples_and_stops_within_a_batch():
    trace = Stubborn().run(MODEL, Objective.ENERGY, 20, 0)
    assert np.isinf(trace.best[:3]).all()
    assert np.isfinite(trace.best[3:]).all()
    assert (trace.samples, len(trace.best), trace.steps[0]) == (20, 20, 3)
    assert trace.samples_to(trace.best[10]) <= 11
    assert trace.samples_to(0.0) is None


def test_keeps_the_best_of_a_mapper_that_ends_early():
    trace = Early().run(MODEL, Objective.ENERGY, 20, 0)
    assert trace.samples == 5
    assert (trace.best[5:] == trace.best[4]).all()


def test_refuses_a_trace_without_a_legal_mapping_and_a_budget_of_none():
    with pytest.raises(MapperError, match="larger budget"):
        _ = Stubborn().run(MODEL, Objective.ENERGY, 2, 0).mapping
    with pytest.raises(ConfigError, match="integer from 1 to"):
        Early().run(MODEL, Objective.ENERGY, 0, 0)
    with pytest.raises(ConfigError, match="integer from 1 to"):
        Early().run(MODEL, Objective.ENERGY, 10**30, 0)


def test_values_of_a_probe_are_the_models():
    probe = Probe(MODEL, Objective.AREA, 10)
    batch = probe.space.decode_batch(probe.space.sample_batch(fresh_rng(), 9))
    np.testing.assert_array_equal(probe.values(batch), MODEL.costs(batch)["area"])
    with pytest.raises(BudgetSpentError):
        probe.values(batch)


def test_samples_of_another_model_are_charged_and_change_nothing_else():
    probe = Probe(MODEL, Objective.AREA, 10)
    values = probe.values(probe.space.decode_batch(probe.space.sample_batch(fresh_rng(), 4)))
    probe.charge(5)
    assert probe.left == 1
    with pytest.raises(BudgetSpentError):
        probe.charge(5)
    told = probe.told()
    assert told["samples"] == 10
    assert (told["best"][4:] == values.min()).all()


def test_names_every_mapper_and_refuses_others():
    for name in MAPPERS:
        assert MAPPERS.summary(name)
        assert isinstance(make_mapper(name), Mapper)
    with pytest.raises(MapperError, match="no mapper of that name"):
        make_mapper("simulated")
    with pytest.raises(TunerError, match="no tuner of that name"):
        make_mapper("tuner-simulated")
