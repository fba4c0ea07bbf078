# SPDX-License-Identifier: Apache-2.0
"""Decisions: what is offered, that it makes up mappings, and that draws have their chances."""

import numpy as np
import pytest
import torch
from tests.support.randomness import fresh_rng

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.learning.decisions import CHOICES, Decisions, offered
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest
from tilewright.tuner.mapping.space import ORDERS, MappingSpace
from tilewright.tuner.search.learning.policy import FORBIDDEN
from tilewright.tuner.search.space import Knob

FLEXIBLE = load_architecture("flexible-256")
SPACE = MappingSpace(LoopNest(name="conv", sizes=(512, 24, 14, 13, 3, 1)), FLEXIBLE)


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
    decisions = Decisions(SPACE)
    choices = np.zeros((len(ORDERS), decisions.count), dtype=np.int64)
    order = SPACE.knobs.index(next(k for k in SPACE.knobs if k.name == "inner_order"))
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


def test_knobs_without_a_choice_are_no_decisions():
    decisions = Decisions(SPACE)
    idle = [k for k, each in enumerate(SPACE.knobs) if len(each) == 1]
    assert [SPACE.knobs[k].name for k in idle] == ["outer_tile_S", "inner_tile_S"]
    assert decisions.of_knobs(idle) == ()
    assert decisions.count == 10 + 2 * 5 + 4
    every = [d for k in range(len(SPACE.knobs)) for d in decisions.of_knobs([k])]
    assert sorted(every) == list(range(decisions.count))


def test_draws_keep_to_the_masks_with_the_probabilities_that_a_learner_computes():
    decisions, rng = Decisions(SPACE), fresh_rng()
    logits = rng.normal(size=(300, decisions.count, decisions.width)).astype(np.float32)
    choices, masks, chances = decisions.draw(logits, rng)
    np.testing.assert_array_equal(masks, decisions.masks(choices))
    masked = torch.from_numpy(logits).masked_fill(~torch.from_numpy(masks), FORBIDDEN)
    expected = torch.log_softmax(masked, dim=-1).gather(-1, torch.from_numpy(choices)[..., None])
    np.testing.assert_allclose(chances, expected.squeeze(-1), atol=1e-5)
    rules = SPACE.model.costs(SPACE.repair(SPACE.decode_batch(decisions.indices(choices)))).legal
    assert rules.all()


def test_draws_have_their_chances():
    decisions, rng, n = Decisions(SPACE), fresh_rng(), 10_000
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
