# SPDX-License-Identifier: Apache-2.0
"""The game: legal whatever is proposed, floors that hold, and what each reward pays."""

import dataclasses

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import Objective
from tilewright.tuner.mapping.environments.game import MappingGame, Reward, floors_of
from tilewright.tuner.mapping.nest import LoopNest, NestKind
from tilewright.tuner.mapping.space import MappingSpace

FLEXIBLE = load_architecture("flexible-256")
UNBOUNDED = dataclasses.replace(FLEXIBLE, l1_bytes=0, l2_bytes=0)
CONV = LoopNest(name="conv", sizes=(64, 32, 28, 28, 3, 3), stride_y=2, stride_x=2)
DEPTHWISE = LoopNest(name="dw", kind=NestKind.DEPTHWISE, sizes=(1, 96, 14, 14, 3, 3))
POINT = LoopNest(name="point", sizes=(1, 1, 1, 1, 1, 1))
N = 500


def game(nest=CONV, arch=FLEXIBLE, objective=Objective.EDP, **more):
    return MappingGame(MappingSpace(nest, arch), objective, lanes=N, **more)


def drawn(game):
    return game.space.draw_batch(fresh_rng(), game.lanes)


@pytest.mark.parametrize("arch", [FLEXIBLE, UNBOUNDED])
@pytest.mark.parametrize("nest", [CONV, DEPTHWISE, POINT])
@pytest.mark.parametrize("objective", Objective)
def test_no_mapping_goes_below_the_floors(nest, arch, objective):
    playing = game(nest, arch, objective)
    outcome = playing.propose(drawn(playing))
    assert (outcome.costs >= floors_of(playing.space.model).of(objective)).all()
    assert (outcome.rewards > 0).all()
    assert (outcome.rewards <= 1).all()
    assert np.isfinite(outcome.observations).all()


def test_each_reward_pays_what_it_says():
    floor = floors_of(game().space.model).of(Objective.EDP)
    paid = {}
    for reward in Reward:
        playing = game(reward=reward, optimum=2 * floor)
        proposals = playing.space.sample_batch(np.random.default_rng(3), N)
        first, second = playing.propose(proposals), playing.propose(proposals[::-1])
        paid[reward] = first.rewards
    np.testing.assert_allclose(paid[Reward.INVERSE], floor / first.costs)
    np.testing.assert_allclose(paid[Reward.LOG], np.log(floor / first.costs))
    np.testing.assert_allclose(paid[Reward.REGRET], 1 - first.costs / (2 * floor))
    assert (paid[Reward.IMPROVEMENT] == 0).all()
    playing = game(reward=Reward.IMPROVEMENT)
    first, second = playing.propose(proposals), playing.propose(proposals[::-1])
    np.testing.assert_allclose(second.rewards, np.maximum(np.log(first.costs / second.costs), 0))
    np.testing.assert_array_equal(playing.best, np.minimum(first.costs, second.costs))
    playing.reset()
    assert np.isinf(playing.best).all()


@pytest.mark.parametrize("change", [-1, 10**6])
def test_refuses_positions_that_no_knob_has(change):
    playing = game()
    proposals = drawn(playing)
    proposals[7, 3] = change
    with pytest.raises(ConfigError, match="positions of the 18 knobs"):
        playing.propose(proposals)
    with pytest.raises(ConfigError, match="positions of the 18 knobs"):
        playing.propose(drawn(playing)[:-1])


def test_refuses_positions_that_are_no_integers():
    playing = game()
    for value in (0.5, np.nan):
        with pytest.raises(ConfigError, match="positions of the 18 knobs"):
            playing.propose(np.full((N, 18), value))


@pytest.mark.parametrize("reward", [Reward.INVERSE, Reward.LOG, Reward.IMPROVEMENT])
@pytest.mark.parametrize(
    ("only", "objectives"),
    [
        ({}, {Objective.LATENCY}),
        ({"noc_energy": 1, "l1_area": 1}, set(Objective)),
        ({"l2_energy": 1, "l2_area": 1}, set(Objective)),
    ],
)
def test_prices_of_zero_leave_every_number_finite(only, objectives, reward):
    prices = {f.name: 0 for f in dataclasses.fields(FLEXIBLE)}
    prices = {name: 0 for name in prices if name.endswith(("_energy", "_area"))}
    for base in (FLEXIBLE, UNBOUNDED):
        arch = dataclasses.replace(base, **{**prices, **only})
        for objective in Objective:
            if objective not in objectives:
                with pytest.raises(ConfigError, match="nothing to minimise"):
                    game(CONV, arch, objective, reward=reward)
                continue
            playing = game(CONV, arch, objective, reward=reward)
            outcome = playing.propose(drawn(playing))
            assert np.isfinite(outcome.observations).all()
            assert np.isfinite(outcome.rewards).all()
            assert (outcome.costs >= playing.floors.of(objective) * (1 - 1e-9)).all()
            assert playing.floors.of(objective) > 0


def test_a_regret_needs_an_optimum():
    with pytest.raises(ConfigError, match="optimum"):
        game(reward=Reward.REGRET)
    with pytest.raises(ConfigError, match="lanes"):
        MappingGame(MappingSpace(CONV, FLEXIBLE), Objective.AREA, lanes=0)
