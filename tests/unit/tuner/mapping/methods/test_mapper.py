# SPDX-License-Identifier: Apache-2.0
"""The probe charges each sample once, and the registry names every mapper."""

import numpy as np
import pytest
from support.randomness import SEED, fresh_rng, where

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.methods.baselines import plain_orders
from tilewright.tuner.mapping.methods.mapper import Mapper, MapperError, Probe
from tilewright.tuner.mapping.methods.registry import MAPPERS, make_mapper
from tilewright.tuner.mapping.nest import LoopNest, NestKind
from tilewright.tuner.mapping.space import MappingSpace
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


# -- every mapper keeps the contract --------------------------------------------------------------

FLEXIBLE = load_architecture("flexible-256")
NESTS = (
    LoopNest(name="conv", sizes=(32, 24, 14, 13, 3, 3), stride_y=2, stride_x=2),
    LoopNest(name="depthwise", kind=NestKind.DEPTHWISE, sizes=(1, 96, 14, 14, 3, 3)),
    LoopNest(name="one", sizes=(1, 1, 1, 1, 1, 1)),
)
BUDGET = 173
CASES = [*MAPPERS, "tuner-genetic", "tuner-coordinate"]


def run(name, nest, objective=Objective.EDP, budget=BUDGET, seed=SEED):
    return make_mapper(name).run(CostModel(nest, FLEXIBLE), objective, budget, seed)


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
@pytest.mark.parametrize("name", CASES)
def test_keeps_its_budget_and_tells_a_legal_best(name, nest):
    trace = run(name, nest)
    about = where(mapper=name, nest=nest.name)
    assert len(trace.best) == BUDGET, about
    assert 0 < trace.samples <= BUDGET, about
    assert np.isfinite(trace.value), about
    assert (np.diff(trace.best) <= 0).all(), about
    cost = CostModel(nest, FLEXIBLE).cost(trace.mapping)  # refuses what is not legal
    assert cost["energy"] * cost["cycles"] == trace.value, about


@pytest.mark.parametrize("name", CASES)
def test_repeats_with_the_seed(name):
    first, again = (run(name, NESTS[0]) for _ in range(2))
    np.testing.assert_array_equal(first.best, again.best)
    np.testing.assert_array_equal(first.rows, again.rows)


@pytest.mark.parametrize("budget", [1, 2, 40])
@pytest.mark.parametrize("name", CASES)
def test_never_samples_beyond_a_small_budget(name, budget):
    trace = run(name, NESTS[1], Objective.LATENCY, budget)
    assert len(trace.best) == budget
    assert trace.samples <= budget


@pytest.mark.parametrize("name", CASES)
def test_minimises_each_objective(name):
    for objective in Objective:
        trace = run(name, NESTS[0], objective)
        assert trace.value < trace.best[0] or trace.best[0] == trace.best.min()


# -- pruning passes by what costs the same, and nothing else --------------------------------------

NEST = LoopNest(name="conv", sizes=(24, 12, 14, 7, 3, 1))


def test_mappings_with_the_same_plain_orders_cost_the_same():
    space = MappingSpace(NEST, FLEXIBLE)
    batch = space.decode_batch(space.sample_batch(fresh_rng(), 5000))
    plain = plain_orders(space, batch)
    assert (plain != batch).any()
    np.testing.assert_array_equal(space.model.costs(plain).values, space.model.costs(batch).values)
