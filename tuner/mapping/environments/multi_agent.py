# SPDX-License-Identifier: Apache-2.0
"""Mapping search for a team, as PettingZoo's `ParallelEnv`: each agent owns some knobs.

All agents propose one mapping together, see what it costs, and share its reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.environments.problem import (
    STEPS,
    episode_steps,
    game_of,
    observed_box,
)
from tilewright.tuner.mapping.roles import Roles, owned_knobs

Observation = npt.NDArray[np.float32]
Action = npt.NDArray[np.int64] | int


class MappingParallelEnv(
    ParallelEnv[str, Observation, Action]  # type: ignore[misc]  # PettingZoo has no types
):
    """One joint proposal per step.

    Args:
        roles: names of agents, with the knobs that each decides on; together all of them, once.
            Left out: one agent per knob, fully decentralised.
        steps: proposals of an episode.
        render_mode: None; there is nothing to see.
        problem: arguments of `problem.game_of`, such as ``layer`` and ``objective``.

    Raises:
        TilewrightError: an argument stands for nothing, or a knob has no owner or two.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "tilewright_mapping_v0", "render_modes": []}

    def __init__(
        self,
        *,
        roles: Roles | None = None,
        steps: int = STEPS,
        render_mode: str | None = None,
        **problem: Any,
    ) -> None:
        self.game: Final = game_of(**problem, lanes=1)
        self._steps: Final = episode_steps(steps)
        self._made = 0
        self.render_mode = render_mode
        knobs = self.game.space.knobs
        self._owned: Final = owned_knobs([knob.name for knob in knobs], roles)
        self.possible_agents = list(self._owned)
        self.agents: list[str] = []
        low, high = observed_box()
        self.observation_spaces = {
            agent: spaces.Box(low, high, dtype=np.float32) for agent in self._owned
        }
        self.action_spaces = {
            agent: spaces.MultiDiscrete([len(knobs[k]) for k in own])
            for agent, own in self._owned.items()
        }
        self._last: Observation = np.zeros(len(low), dtype=np.float32)

    def observation_space(self, agent: str) -> spaces.Space[Observation]:
        """What an agent may see."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Action]:
        """What an agent may do: one position per knob that it owns."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode; nothing is proposed yet, so zeros are seen."""
        del seed, options  # the game draws nothing
        self._made = 0
        self._last = self.game.reset()[0]
        self.agents = self.possible_agents[:]
        return self._to_all(self._last), self._to_all({})

    def step(
        self, actions: Mapping[str, Action]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Pay for the mapping that the agents propose together; every agent must act."""
        if not self.agents or not set(actions) >= set(self.agents):
            raise ConfigError(
                "every agent must act, from a reset to the end of its episode",
                field="actions",
                value=sorted(actions),
                remedy=f"agents: {', '.join(self.agents) or 'none before a reset'}",
            )
        proposal = np.full(len(self.game.space.knobs), -1, dtype=np.int64)
        for agent in self.agents:
            own = np.asarray(actions[agent])
            if np.issubdtype(own.dtype, np.integer) and own.size == len(self._owned[agent]):
                proposal[self._owned[agent]] = own.reshape(-1)
        indices = proposal[None]
        outcome = self.game.propose(indices)
        self._last = outcome.observations[0]
        self._made += 1
        over = self._made >= self._steps
        info = {
            "cost": outcome.costs[0].item(),
            "best": self.game.best[0].item(),
            "repaired": outcome.repaired[0].item(),
        }
        told = (
            self._to_all(self._last),
            self._to_all(float(outcome.rewards[0])),
            self._to_all(False),
            self._to_all(over),
            self._to_all(info),
        )
        if over:
            self.agents = []
        return told

    def state(self) -> Observation:
        """What a central critic may see: the last observation, all that there is."""
        return self._last

    def render(self) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing is held open."""

    def _to_all(self, value: Any) -> dict[str, Any]:
        copies = isinstance(value, (dict, np.ndarray))
        return {agent: value.copy() if copies else value for agent in self.agents}
