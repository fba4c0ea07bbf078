# SPDX-License-Identifier: Apache-2.0
"""A one-step policy without a critic: REINFORCE over knobs.

Source: Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist
Reinforcement Learning", Machine Learning 8, 1992. The hardest question to DCOC: an optimum is a
place and not a path, so what do steps, discount and critic add? Here an episode is one step. From
a start the agent gives every knob a new value at once, under the same masks, and the score of the
point is the return; the mean of the walkers is the baseline.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import torch

from tilewright.tuner.search.features import Features
from tilewright.tuner.search.learning.planned import PlannedTuner
from tilewright.tuner.search.learning.policy import Moves, Team, single_agent
from tilewright.tuner.search.learning.rollout import Rollout, Walkers
from tilewright.tuner.search.learning.surrogate import Scores
from tilewright.tuner.search.space import Index, Space

P = TypeVar("P")

HIDDEN: Final = 32
LEARNING_RATE: Final = 1e-2
ENTROPY: Final = 0.01
WALKERS: Final = 48
ROUNDS: Final = 10
"""Episodes of `WALKERS`, each followed by one gradient step, in a plan."""


class OneStepTuner(PlannedTuner[P]):
    """Critic-free policy gradient."""

    def __init__(
        self,
        space: Space[P],
        *,
        walkers: int = WALKERS,
        rounds: int = ROUNDS,
        **options: Any,
    ) -> None:
        super().__init__(space, **options)
        self._shape: Final = (walkers, rounds)
        moves = Moves(space.knobs, jump=True)
        self._walkers: Final = Walkers(space, self._encoder, moves)
        self._team: Final = Team(
            single_agent(space),
            choices=moves.count,
            hidden=HIDDEN,
            generator=torch.Generator().manual_seed(int(self.rng.integers(2**31))),
        )
        self._optimizer: Final = torch.optim.Adam(self._team.parameters(), lr=LEARNING_RATE)

    def _explore(self) -> tuple[Index, ...]:
        walkers, rounds = self._shape
        visited: dict[Index, None] = {}
        for _ in range(rounds):
            episode = self._walkers.walk(
                self._team,
                self._surrogate.scores,
                self._starts(walkers),
                steps=1,
                rng=self.rng,
            )
            self._reinforce(episode)
            visited.update(dict.fromkeys(episode.visited))
        return tuple(visited)

    def _reinforce(self, episode: Rollout) -> None:
        """One step up the gradient of the expected return."""
        rewards = episode.rewards[0]
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        log_probabilities = self._team.log_probabilities(
            torch.from_numpy(episode.features[0]), torch.from_numpy(episode.masks[0])
        )
        moves = torch.from_numpy(episode.moves[0][..., np.newaxis])
        chosen = log_probabilities.gather(-1, moves).sum(dim=(1, 2))
        entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=-1).mean()
        loss = -(torch.from_numpy(advantages) * chosen).mean() - ENTROPY * entropy
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._optimizer.step()

    def _confidence(self, features: Features, scores: Scores) -> Scores:
        del features
        return scores
