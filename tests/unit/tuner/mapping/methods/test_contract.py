"""Every mapper keeps the contract: seeded, exact budget, legal result, best as re-evaluated."""

import numpy as np
import pytest
from tests.support.randomness import SEED, where

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.mapping import batch_of
from tilewright.tuner.mapping.methods.registry import MAPPERS, make_mapper
from tilewright.tuner.mapping.nest import LoopNest, NestKind

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
def test_records_each_improvement_with_its_mapping(name):
    trace = run(name, NESTS[0])
    values = CostModel(NESTS[0], FLEXIBLE).costs(trace.rows).of(Objective.EDP)
    np.testing.assert_array_equal(values, trace.best[trace.steps])
    assert (np.diff(trace.steps) > 0).all()
    assert (np.diff(values) < 0).all()
    np.testing.assert_array_equal(batch_of([trace.mapping])[0], trace.rows[-1])


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
