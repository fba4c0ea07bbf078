# SPDX-License-Identifier: Apache-2.0
"""The learner behind DCOC, PPO and IPPO, and the one-step policy."""

import numpy as np
import pytest

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning.dcoc import IppoTuner, PpoTuner
from tilewright.tuner.search.learning.mappo import Mappo, MappoSettings, ValueNorm
from tilewright.tuner.search.learning.onestep import OneStepTuner
from tilewright.tuner.search.learning.policy import Moves, View, divide_knobs
from tilewright.tuner.search.learning.rollout import Walkers
from tilewright.tuner.search.torch_threads import one_thread

GROUPS = {"channels": ("tile_ci", "tile_co"), "pixels": ("tile_h", "tile_w")}


def test_value_norm_restores_what_it_normalises() -> None:
    norm, rng = ValueNorm(), np.random.default_rng(0)
    assert norm.moments == (0.0, 1.0)
    for _ in range(50):
        norm.update(rng.normal(7.0, 3.0, size=(16, 16)))
    assert norm.moments == pytest.approx((7.0, 3.0), abs=0.3)
    returns = np.array([1.0, 7.0, 20.0])
    assert norm.restore(norm.normalise(returns)) == pytest.approx(returns)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def trained(*, independent=False, view=View.POINT, rounds=12):
    """A learner on a score that wants the third knob low, and mean rewards by rollout."""
    space = full_space()
    encoder, moves, rng = FeatureEncoder(space), Moves(space.knobs), np.random.default_rng(3)
    learner = Mappo(
        divide_knobs(space, GROUPS, rest="channels", view=view),
        features=encoder.width,
        choices=moves.count,
        settings=MappoSettings(learning_rate=5e-3),
        seed=1,
        independent=independent,
    )
    walkers = Walkers(space, encoder, moves)
    rewards = []
    for _ in range(rounds):
        starts = [space.sample(rng) for _ in range(32)]
        rollout = walkers.walk(
            learner.team,
            lambda indices: np.array([-float(abs(i[2] - 2)) for i in indices]),
            starts,
            steps=12,
            rng=rng,
        )
        learner.update(rollout)
        rewards.append(float(rollout.rewards.mean()))
    return space, encoder, learner, rewards


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("view", list(View))
def test_training_raises_the_reward(independent, view) -> None:
    *_, rewards = trained(independent=independent, view=view)
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.25 * abs(np.mean(rewards[:3]))


def test_the_critic_expects_more_of_better_points() -> None:
    space, encoder, learner, _ = trained()
    rng = np.random.default_rng(9)
    points = [space.sample(rng) for _ in range(100)]
    values = learner.values(encoder.encode(points))
    near = np.array([abs(p[2] - 2) <= 1 for p in points])
    assert values[near].mean() > values[~near].mean()


def test_a_central_critic_sees_everything_and_independent_ones_what_their_actors_see() -> None:
    for independent, changed in ((False, True), (True, False)):
        space, encoder, learner, _ = trained(independent=independent, view=View.OWN, rounds=2)
        index = space.sample(np.random.default_rng(0))
        other = (*index[:1], index[1] + 1, *index[2:])
        values = [learner._value(0, encoder.encode([i]))[0] for i in (index, other)]
        # Knob 1 (tile_h) is not of the first agent.
        assert (values[0] != values[1]) == changed


def test_ppo_has_one_agent_and_ippo_three_that_do_not_see_each_other() -> None:
    space = full_space()
    ppo = PpoTuner(space, seed=0)._learner
    assert len(ppo.team.agents) == len(ppo._critics) == 1
    ippo = IppoTuner(space, seed=0)._learner
    assert len(ippo.team.agents) == len(ippo._critics) == 3
    assert all(set(a.columns) < set(range(ippo_width(space))) for a in ippo.team.agents)


def ippo_width(space) -> int:
    return FeatureEncoder(space).width


def test_the_one_step_policy_learns_from_the_mean_of_its_walkers() -> None:
    space = full_space()
    tuner = OneStepTuner(space, seed=0)
    rng = np.random.default_rng(0)

    def reward() -> float:
        starts = [space.sample(rng) for _ in range(48)]
        episode = tuner._walkers.walk(
            tuner._team,
            lambda indices: np.array([-float(abs(i[2] - 2)) for i in indices]),
            starts,
            steps=1,
            rng=rng,
        )
        tuner._reinforce(episode)
        return float(episode.rewards.mean())

    rewards = [reward() for _ in range(40)]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5])
