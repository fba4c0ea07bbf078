# SPDX-License-Identifier: Apache-2.0
"""The environments pass the checkers of the libraries whose interfaces they are."""

import doctest
import sys
import warnings

import numpy as np
import pytest

from tilewright.host.common.errors import TilewrightError
from tilewright.tuner.mapping.environments.game import Reward
from tilewright.tuner.mapping.environments.registration import (
    ENVIRONMENT,
    parallel_env,
    register_environments,
)

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")
from gymnasium.utils.env_checker import check_env  # noqa: E402  (after importorskip)
from pettingzoo.test import parallel_api_test  # noqa: E402  (after importorskip)

import tilewright.environments  # noqa: E402  (after importorskip)

LAYER = "resnet18:C11"


@pytest.fixture(autouse=True)
def _registered():
    register_environments()
    register_environments()


@pytest.mark.parametrize("reward", Reward)
def test_passes_the_checker_of_gymnasium(reward):
    env = gymnasium.make(ENVIRONMENT, layer=LAYER, reward=reward, optimum=1.0, steps=7).unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.parametrize("roles", [None, 2])
def test_passes_the_checker_of_pettingzoo(roles, capsys):
    env = parallel_env(layer=LAYER)
    if roles:
        names = env.possible_agents
        env = parallel_env(layer=LAYER, roles={"even": names[::2], "odd": names[1::2]})
        assert env.possible_agents == ["even", "odd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(env, num_cycles=250)
    assert "Passed" in capsys.readouterr().out


def test_lanes_are_single_environments_side_by_side():
    arguments = {"layer": LAYER, "reward": "improvement", "steps": 3}
    fast = gymnasium.make_vec(ENVIRONMENT, num_envs=4, **arguments)
    slow = gymnasium.make_vec(ENVIRONMENT, num_envs=4, vectorization_mode="sync", **arguments)
    assert type(fast).__name__ == "MappingVectorEnv"
    assert fast.action_space == slow.action_space
    fast.action_space.seed(5)
    (seen, _), (other, _) = fast.reset(seed=0), slow.reset(seed=0)
    np.testing.assert_array_equal(seen, other)
    for _ in range(9):
        action = fast.action_space.sample()
        *found, info = fast.step(action)
        *expected, told = slow.step(action)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two)
        assert info.keys() == told.keys()
        for name in info:
            np.testing.assert_array_equal(info[name], told[name])


def test_a_team_and_one_agent_are_paid_alike():
    single = gymnasium.make(ENVIRONMENT, layer=LAYER, steps=4)
    team = parallel_env(layer=LAYER, steps=4)
    single.action_space.seed(1)
    single.reset()
    team.reset()
    for step in range(4):
        action = single.action_space.sample()
        seen, reward, _, cut, info = single.step(action)
        joint = dict(zip(team.agents, action[:, None], strict=True))
        observations, rewards, _, truncations, infos = team.step(joint)
        assert set(rewards.values()) == {reward}
        assert set(truncations.values()) == {cut} == {step == 3}
        assert all(each == info for each in infos.values())
        assert all((each == seen).all() for each in observations.values())
        np.testing.assert_array_equal(team.state(), seen)
    assert team.agents == []


def test_the_example_of_the_public_module_runs():
    result = doctest.testmod(tilewright.environments)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"layer": "resnet18:C99"}, "layer"),
        ({"layer": "gone:C2"}, "network"),
        ({"objective": "speed"}, "objective"),
        ({"reward": "regret"}, "optimum"),
        ({"reward": "more"}, "reward"),
        ({"steps": 0}, "steps"),
        ({"hardware": "gone"}, "hardware"),
        ({"layer": 5}, "layer"),
        ({"reward": "regret", "optimum": "low"}, "optimum"),
        ({"roles": 5}, "roles"),
        ({"roles": {"a": 5}}, "roles"),
    ],
)
def test_refuses_what_stands_for_nothing(arguments, field):
    with pytest.raises(TilewrightError) as error:
        parallel_env(**arguments)
    assert error.value.field == field


@pytest.mark.parametrize("gone", [0, None])
def test_refuses_a_step_in_which_an_agent_does_not_act(gone):
    team = parallel_env(layer=LAYER)
    if gone is not None:
        team.reset()
    actions = {agent: np.zeros(1, dtype=int) for agent in team.agents[1:]}
    with pytest.raises(TilewrightError, match="every agent must act"):
        team.step(actions)


@pytest.mark.parametrize(
    ("module", "make"), [("gymnasium.envs", register_environments), ("pettingzoo", parallel_env)]
)
def test_a_missing_library_is_named_with_its_extra(module, make, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(
        sys.modules, "tilewright.tuner.mapping.environments.multi_agent", raising=False
    )
    with pytest.raises(TilewrightError, match=r"pip install 'tilewright\[rl\]'"):
        make()
