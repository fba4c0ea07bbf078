# SPDX-License-Identifier: Apache-2.0
"""Mapping search for one agent, as Gymnasium's `Env` and, for whole batches, its `VectorEnv`.

An action gives every knob a position. An episode has no goal state: it is cut after ``steps``
proposals.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tilewright.tuner.mapping.environments.game import MappingGame, Outcome
from tilewright.tuner.mapping.environments.problem import (
    STEPS,
    episode_steps,
    game_of,
    observed_box,
)

Observation = npt.NDArray[np.float32]
Action = npt.NDArray[np.int64]


def _spaces(game: MappingGame) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    low, high = observed_box()
    actions = spaces.MultiDiscrete([len(knob) for knob in game.space.knobs])
    return spaces.Box(low, high, dtype=np.float32), actions


def _info(game: MappingGame, outcome: Outcome) -> dict[str, Any]:
    return {"cost": outcome.costs, "best": game.best, "repaired": outcome.repaired}


class MappingEnv(gymnasium.Env[Observation, Action]):
    """One proposal per step.

    Args:
        steps: proposals of an episode.
        render_mode: None; there is nothing to see.
        problem: arguments of `problem.game_of`, such as ``layer`` and ``objective``.

    Raises:
        TilewrightError: an argument stands for nothing.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(
        self, *, steps: int = STEPS, render_mode: str | None = None, **problem: Any
    ) -> None:
        self.game: Final = game_of(**problem, lanes=1)
        self._steps: Final = episode_steps(steps)
        self._made = 0
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(self.game)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; nothing is proposed yet, so zeros are seen."""
        super().reset(seed=seed, options=options)
        self._made = 0
        return self.game.reset()[0], {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pay for one proposal."""
        outcome = self.game.propose(np.asarray(action)[None])
        self._made += 1
        info = {name: each[0].item() for name, each in _info(self.game, outcome).items()}
        reward = float(outcome.rewards[0])
        return outcome.observations[0], reward, False, self._made >= self._steps, info


class MappingVectorEnv(VectorEnv[Observation, Action, npt.NDArray[Any]]):
    """One proposal per lane and step; the native cost model takes all lanes at once.

    Args:
        num_envs: lanes.
        steps: proposals of an episode, per lane.
        render_mode: None; there is nothing to see.
        problem: arguments of `problem.game_of`.

    Raises:
        TilewrightError: an argument stands for nothing.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  (as Gymnasium declares it)
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self, num_envs: int = 1, *, steps: int = STEPS, render_mode: str | None = None,
        **problem: Any,
    ) -> None:  # fmt: skip
        self.game: Final = game_of(**problem, lanes=num_envs)
        self._steps: Final = episode_steps(steps)
        self._made = 0
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space, self.single_action_space = _spaces(self.game)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every lane."""
        del seed, options  # the game draws nothing
        self._made = 0
        return self.game.reset(), {}

    def step(
        self, actions: Action
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Pay for one proposal per lane; after the last one of an episode, begin the next."""
        flags = np.zeros(self.num_envs, dtype=np.bool_)
        if self._made >= self._steps:
            return self.reset()[0], np.zeros(self.num_envs), flags, flags.copy(), {}
        outcome = self.game.propose(actions)
        self._made += 1
        truncated = np.full(self.num_envs, self._made >= self._steps)
        known = np.ones(self.num_envs, dtype=np.bool_)
        info = _info(self.game, outcome)
        masks = {f"_{name}": known for name in info}
        return outcome.observations, outcome.rewards, flags, truncated, {**info, **masks}
