"""Pruning passes by what costs the same, and nothing else."""

import numpy as np
from tests.support.randomness import fresh_rng

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.methods.baselines import plain_orders
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import LoopNest
from tilewright.tuner.mapping.space import INNER_TILE, OUTER_TILE, MappingSpace

FLEXIBLE = load_architecture("flexible-256")
NEST = LoopNest(name="conv", sizes=(24, 12, 14, 7, 3, 1))


def test_mappings_with_the_same_plain_orders_cost_the_same():
    space = MappingSpace(NEST, FLEXIBLE)
    batch = space.decode_batch(space.sample_batch(fresh_rng(), 5000))
    plain = plain_orders(space, batch)
    assert (plain != batch).any()
    np.testing.assert_array_equal(space.model.costs(plain).values, space.model.costs(batch).values)


def test_samples_tiles_that_divide_and_no_mapping_twice():
    trace = make_mapper("pruned-random").run(
        CostModel(NEST, FLEXIBLE), Objective.EDP, budget=3000, seed=1
    )
    assert (np.array(NEST.sizes) % trace.rows[:, OUTER_TILE] == 0).all()
    assert (trace.rows[:, OUTER_TILE] % trace.rows[:, INNER_TILE] == 0).all()


def test_ends_when_a_small_space_is_used_up():
    tiny = LoopNest(name="tiny", sizes=(2, 1, 1, 1, 1, 1))
    trace = make_mapper("pruned-random").run(
        CostModel(tiny, FLEXIBLE), Objective.EDP, budget=100_000, seed=1
    )
    assert 2 <= trace.samples < 100_000
