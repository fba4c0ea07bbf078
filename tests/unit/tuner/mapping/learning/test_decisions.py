# SPDX-License-Identifier: Apache-2.0
"""Decisions with their chances, and roles by correlation."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.learning.clustering import Linkage, cluster, tree_of
from tilewright.tuner.mapping.learning.decisions import CHOICES, Decisions, offered
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest
from tilewright.tuner.mapping.space import ORDERS, MappingSpace
from tilewright.tuner.search.space import Knob

SPACE = MappingSpace(
    LoopNest(name="conv", sizes=(64, 64, 28, 28, 3, 1)), load_architecture("flexible-256")
)
NAMES = [knob.name for knob in SPACE.knobs]
K, C = NAMES.index("outer_tile_K"), NAMES.index("outer_tile_C")
CLUSTER_ORDERS = NAMES.index("outer_order"), NAMES.index("inner_order")


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
    indices[:, CLUSTER_ORDERS[1]] = indices[:, CLUSTER_ORDERS[0]]
    found = cluster(SPACE, planted(indices), np.ones(len(indices)), kept=1.0)
    assert association(found, *CLUSTER_ORDERS) == pytest.approx(1)
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


def merged(rows, height):
    """Heights of a tree by definition: each time the two branches whose union costs the least."""
    left, heights = [[row] for row in range(len(rows))], []
    while len(left) > 1:
        pairs = [(a, b) for a in range(len(left)) for b in range(a)]
        costs = [height(rows, left[a], left[b]) for a, b in pairs]
        heights.append(min(costs))
        a, b = pairs[int(np.argmin(costs))]
        left[b] += left.pop(a)
    return heights


def ward(rows, one, other):
    def spread(of):
        return np.square(rows[of] - rows[of].mean(axis=0)).sum()

    return (2 * (spread(one + other) - spread(one) - spread(other))) ** 0.5


def average(rows, one, other):
    return np.mean([1 - rows[a, b] for a in one for b in other])


@pytest.mark.parametrize("by", list(Linkage))
def test_branches_merge_at_the_heights_of_their_definition(by):
    found = np.abs(np.corrcoef(fresh_rng().normal(size=(7, 12))))
    height = ward if by is Linkage.WARD else average
    np.testing.assert_allclose(tree_of(found, by)[:, 2], merged(found, height), atol=1e-9)


def test_refuses_too_few_samples_and_no_agent():
    rows = SPACE.decode_batch(SPACE.sample_batch(fresh_rng(), 10))
    with pytest.raises(ConfigError, match="at least 2 legal samples"):
        cluster(SPACE, rows, np.full(10, np.inf))
    with pytest.raises(ConfigError, match="agents"):
        cluster(SPACE, rows, np.ones(10), kept=1.0).roles(0)


# -- Decisions: what is offered, that it makes up mappings, and that draws have their chances
FLEXIBLE = load_architecture("flexible-256")
DECIDED = MappingSpace(LoopNest(name="conv", sizes=(512, 24, 14, 13, 3, 1)), FLEXIBLE)


def knob(size):
    return Knob(name="tile", values=tuple(range(1, size + 1)))


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 97, 512, 720, 4096, 25088])
def test_offers_both_ends_and_no_more_than_it_may(size):
    positions = offered(knob(size))
    assert positions[0] == 0
    assert positions[-1] == size - 1
    assert (np.diff(positions) > 0).all()
    assert len(positions) == size if size <= CHOICES else len(positions) <= CHOICES


@pytest.mark.parametrize("size", [96, 512, 900])
def test_offers_the_smallest_tile_for_each_number_of_repeats(size):
    tiles = set((offered(knob(size)) + 1).tolist())
    assert {-(-size // m) for m in range(1, size + 1)} <= tiles


def test_thins_by_ratio():
    tiles = offered(knob(25088)) + 1
    ratios = tiles[1:] / tiles[:-1]
    assert ratios[tiles[:-1] >= 8].max() < 1.6


def test_every_order_can_be_chosen():
    decisions = Decisions(DECIDED)
    choices = np.zeros((len(ORDERS), decisions.count), dtype=np.int64)
    order = DECIDED.knobs.index(next(k for k in DECIDED.knobs if k.name == "inner_order"))
    choices[:, decisions.knobs == order] = ORDERS[:, :-1]
    outer = order - 1
    choices[:, decisions.knobs == outer] = ORDERS[::-1, :-1]
    indices = decisions.indices(choices)
    assert indices[:, order].tolist() == list(range(720))
    assert indices[:, outer].tolist() == list(range(719, -1, -1))
    masks = decisions.masks(choices)
    assert np.take_along_axis(masks, choices[:, :, None], axis=2).all()
    assert masks[:, decisions.knobs == order].sum(axis=2).tolist() == [[6, 5, 4, 3, 2]] * 720


def test_a_loop_of_720_iterations_is_no_order():
    space = MappingSpace(LoopNest(name="wide", sizes=(720, 3, 1, 1, 1, 1)), FLEXIBLE)
    assert (Decisions(space).knobs == 0).sum() == 1


def test_draws_have_their_chances():
    decisions, rng, n = Decisions(DECIDED), fresh_rng(), 10_000
    logits = rng.normal(size=(1, decisions.count, decisions.width)).astype(np.float32)
    choices, _, _ = decisions.draw(np.repeat(logits, n, axis=0), rng)
    first, second = np.flatnonzero(decisions.knobs == 12)[:2]
    weights = np.exp(logits[0, :, : len(DIMENSIONS)].astype(np.float64))
    for loop in range(len(DIMENSIONS)):
        then = np.delete(np.arange(len(DIMENSIONS)), loop)
        for follower in then:
            expected = (
                weights[first, loop] / weights[first].sum()
                * weights[second, follower] / weights[second, then].sum()
            )  # fmt: skip
            seen = ((choices[:, first] == loop) & (choices[:, second] == follower)).mean()
            assert abs(seen - expected) < 6 * np.sqrt(expected / n) + 5 / n
