# SPDX-License-Identifier: Apache-2.0
"""Environments of reinforcement learning; importing this gives them their ids in Gymnasium.

Example:
    >>> import gymnasium
    >>> import tilewright.environments
    >>> env = gymnasium.make("tilewright/Mapping-v0", layer="resnet18:C11", objective="latency")
    >>> _ = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    >>> sorted(info)
    ['best', 'cost', 'repaired']
    >>> team = tilewright.environments.parallel_env(layer="resnet18:C11")
    >>> len(team.possible_agents)
    18
"""

from __future__ import annotations

from tilewright.tuner.mapping.environments.registration import parallel_env, register_environments

__all__ = ["parallel_env", "register_environments"]

register_environments()
