# SPDX-License-Identifier: Apache-2.0
"""Roles by correlation: planted structure is found, and the best samples alone count."""

import numpy as np
import pytest
from tests.support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import Objective
from tilewright.tuner.mapping.learning.clustering import cluster
from tilewright.tuner.mapping.nest import LoopNest
from tilewright.tuner.mapping.roles import owned_knobs
from tilewright.tuner.mapping.space import MappingSpace

SPACE = MappingSpace(
    LoopNest(name="conv", sizes=(64, 64, 28, 28, 3, 1)), load_architecture("flexible-256")
)
NAMES = [knob.name for knob in SPACE.knobs]
K, C = NAMES.index("outer_tile_K"), NAMES.index("outer_tile_C")
ORDERS = NAMES.index("outer_order"), NAMES.index("inner_order")


def samples(n=2000):
    rng = fresh_rng()
    lengths = [len(knob) for knob in SPACE.knobs]
    return (rng.random((n, len(lengths))) * lengths).astype(np.int32), rng


def association(found, one, other):
    names = found.knobs
    return found.correlation[names.index(NAMES[one]), names.index(NAMES[other])]


def planted(indices):
    rows = SPACE.decode_batch(indices)
    rows[:, 6:12] = 1 + indices[:, 6:12]  # uncut, so that nothing but the plant correlates
    rows[:, -2:] = 1 + indices[:, -2:]
    return rows


def test_finds_knobs_that_move_together():
    indices, _ = samples()
    indices[:, C] = 63 - indices[:, K]
    indices[:, ORDERS[1]] = indices[:, ORDERS[0]]
    found = cluster(SPACE, planted(indices), np.ones(len(indices)), kept=1.0)
    assert association(found, *ORDERS) == pytest.approx(1)
    logs = np.log(1 + indices[:, [K, C]].T)
    assert association(found, K, C) == pytest.approx(abs(np.corrcoef(logs)[0, 1]))
    others = found.correlation[~np.eye(len(found.knobs), dtype=bool)]
    assert (others > 0.4).sum() == 4
    owned = found.roles(len(found.knobs) - 2)
    assert sorted(len(own) for own in owned.values())[-3:] in ([1, 2, 4], [2, 2, 2], [2, 2, 3])
    assert any({NAMES[K], NAMES[C]} <= set(own) for own in owned.values())
    assert any({"outer_order", "inner_order"} <= set(own) for own in owned.values())


def test_only_the_best_samples_count():
    indices, rng = samples()
    costs = rng.random(len(indices))
    best = costs < np.quantile(costs, 0.15)
    indices[best, C] = indices[best, K]
    rows = planted(indices)
    assert association(cluster(SPACE, rows, costs), K, C) > 0.9
    assert association(cluster(SPACE, rows, -costs), K, C) < 0.3
    costs[~best] = np.inf
    assert association(cluster(SPACE, rows, costs, kept=1.0), K, C) > 0.9


@pytest.mark.parametrize("agents", [1, 2, 3, 6, 9, 10])
def test_gives_every_knob_to_one_of_so_many_agents(agents):
    rows = SPACE.decode_batch(SPACE.sample_batch(fresh_rng(), 1000))
    found = cluster(SPACE, rows, SPACE.model.costs(rows).of(Objective.EDP))
    roles = found.roles(agents)
    assert len(roles) == agents
    assert len(owned_knobs(NAMES, roles)) == agents
    assert found.idle == ("outer_tile_S", "inner_tile_S")
    assert ((found.correlation >= 0) & (found.correlation <= 1 + 1e-9)).all()
    np.testing.assert_allclose(found.correlation, found.correlation.T)


def test_a_parameter_that_never_changes_belongs_to_nobody():
    indices, _ = samples(100)
    indices[:, K] = 7
    found = cluster(SPACE, planted(indices), np.ones(100), kept=1.0)
    assert np.delete(found.correlation[K], K).max() == 0


def test_refuses_too_few_samples_and_no_agent():
    rows = SPACE.decode_batch(SPACE.sample_batch(fresh_rng(), 10))
    with pytest.raises(ConfigError, match="at least 2 legal samples"):
        cluster(SPACE, rows, np.full(10, np.inf))
    with pytest.raises(ConfigError, match="agents"):
        cluster(SPACE, rows, np.ones(10), kept=1.0).roles(0)
