# SPDX-License-Identifier: Apache-2.0
"""MAPPO: proximal policy optimisation for a team of actors with a central critic.

Source: Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", NeurIPS
2022 (value normalisation, few epochs, no mini-batches, masks); Schulman et al., PPO, 2017 (clipped
objective). One agent with one critic makes it PPO; a critic for each agent, that sees what its
actor sees and learns alone, makes it IPPO (de Witt et al., 2020).

Generalised advantage estimation: how much better a step was than the critic expected.

Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
Estimation", ICLR 2016, equation 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tilewright.tuner.search.features import Features
from tilewright.tuner.search.learning.policy import Agent, Team, network
from tilewright.tuner.search.learning.rollout import Steps

Reals = npt.NDArray[np.float32]


def generalised_advantages(
    rewards: Reals,
    values: Reals,
    *,
    discount: float,
    trace: float,
    walking: npt.NDArray[np.bool_] | None = None,
) -> Reals:
    """Advantages (T, W) of walks side by side, with gamma ``discount`` and lambda ``trace``.

    Values are (T + 1, W), of the points before each step and of the last one, and 0 where a walk
    has ended, because nothing follows. ``walking`` (T, W): which walks made a step; None: all did.
    """
    made = np.ones(rewards.shape, dtype=np.bool_) if walking is None else walking
    surprises = rewards + discount * values[1:] - values[:-1]
    advantages = np.zeros_like(rewards)
    later = np.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        later = np.where(made[step], surprises[step] + discount * trace * later, 0.0)
        advantages[step] = later
    return advantages


Values = npt.NDArray[np.float32]
"""Shape (points,) or (steps, walkers): in units of return."""


@dataclass(frozen=True, kw_only=True)
class MappoSettings:
    """Hyper-parameters."""

    hidden: int = 32  # width of the two hidden layers of every network
    learning_rate: float = 3e-3  # of Adam
    discount: float = 0.9  # gamma
    trace: float = 0.95  # lambda of generalised advantage estimation
    clip: float = 0.2  # how far a probability ratio counts from 1
    epochs: int = 4  # passes over a rollout
    entropy: float = 0.3  # weight of the entropy bonus
    gradient_norm: float = 10.0  # gradients are scaled down to this norm


class ValueNorm:
    """Running mean and deviation of returns, so that a critic learns numbers around 0 and 1."""

    DECAY: Final = 0.9

    def __init__(self) -> None:
        self._mean = self._square = self._weight = 0.0

    def update(self, returns: Values) -> None:
        """Take in the returns of a rollout."""
        keep, take = self.DECAY, 1 - self.DECAY
        self._mean = keep * self._mean + take * float(returns.mean())
        self._square = keep * self._square + take * float((returns**2).mean())
        self._weight = keep * self._weight + take

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation, without the bias of the start; (0, 1) before an update."""
        if self._weight == 0.0:
            return 0.0, 1.0
        mean, square = self._mean / self._weight, self._square / self._weight
        return mean, max(square - mean * mean, 1e-4) ** 0.5

    def normalise(self, returns: Values) -> Values:
        """Returns to what the critic learns."""
        mean, deviation = self.moments
        return (returns - mean) / deviation

    def restore(self, outputs: Values) -> Values:
        """What the critic says, as returns."""
        mean, deviation = self.moments
        return outputs * deviation + mean


class Mappo:
    """A team and its critics, trained on rollouts."""

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        features: int,
        choices: int,
        settings: MappoSettings,
        seed: int,
        independent: bool = False,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        hidden = settings.hidden
        self.settings: Final = settings
        self.team: Final = Team(agents, choices=choices, hidden=hidden, generator=generator)
        views = [agent.columns for agent in agents] if independent else [tuple(range(features))]
        self._views: Final = views
        self._critics: Final = nn.ModuleList(
            network(len(view), hidden, 1, generator) for view in views
        )
        self._norms: Final = [ValueNorm() for _ in self._critics]
        self._parameters: Final = [*self.team.parameters(), *self._critics.parameters()]
        self._optimizer: Final = torch.optim.Adam(
            self._parameters, lr=settings.learning_rate, eps=1e-5
        )

    def values(self, features: Features) -> Values:
        """The critics' mean estimate of the return from some points on.

        Args:
            features: shape (points, features).
        """
        estimates = [self._value(number, features) for number in range(len(self._critics))]
        mean: Values = np.mean(estimates, axis=0)
        return mean

    def update(self, rollout: Steps) -> None:
        """Improve the actors on a rollout, and the critics' estimate of its returns."""
        steps, walkers = rollout.rewards.shape
        samples = steps * walkers
        features = torch.from_numpy(rollout.features[:-1].reshape(samples, -1))
        masks = torch.from_numpy(rollout.masks.reshape(samples, *rollout.masks.shape[2:]))
        moves = torch.from_numpy(rollout.moves.reshape(samples, -1, 1))
        old = torch.from_numpy(rollout.log_probabilities.reshape(samples, -1))
        advantages, targets = self._learn_returns(rollout)
        for _ in range(self.settings.epochs):
            log_probabilities = self.team.log_probabilities(features, masks)
            chosen = log_probabilities.gather(-1, moves).squeeze(-1)
            loss = self._value_loss(features, targets) - self.settings.entropy * _entropy(
                log_probabilities
            )
            for number, agent in enumerate(self.team.agents):
                knobs = list(agent.knobs)
                ratio = (chosen[:, knobs] - old[:, knobs]).sum(dim=1).exp()
                advantage = advantages[number % len(advantages)]
                loss = loss - self._clipped(ratio, advantage)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            nn.utils.clip_grad_norm_(self._parameters, self.settings.gradient_norm)
            self._optimizer.step()

    def _learn_returns(self, rollout: Steps) -> tuple[list[Tensor], list[Tensor]]:
        """Standardised advantages and normalised returns, one of each a critic: (samples,)."""
        advantages, targets = [], []
        for number, norm in enumerate(self._norms):
            values = self._value(number, rollout.features)
            advantage = generalised_advantages(
                rollout.rewards,
                values,
                discount=self.settings.discount,
                trace=self.settings.trace,
            )
            returns = advantage + values[:-1]
            norm.update(returns)
            spread = advantage.std() + 1e-6
            advantages.append(torch.from_numpy(((advantage - advantage.mean()) / spread).ravel()))
            targets.append(torch.from_numpy(norm.normalise(returns).ravel()))
        return advantages, targets

    def _value(self, number: int, features: Features) -> Values:
        with torch.no_grad():
            seen = torch.from_numpy(features[..., self._views[number]])
            outputs: Values = self._critics[number](seen).squeeze(-1).numpy()
        return self._norms[number].restore(outputs)

    def _value_loss(self, features: Tensor, targets: Sequence[Tensor]) -> Tensor:
        losses = [
            nn.functional.huber_loss(critic(features[:, view]).squeeze(-1), target)
            for critic, view, target in zip(self._critics, self._views, targets, strict=True)
        ]
        return torch.stack(losses).sum()

    def _clipped(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """The objective of PPO, equation 7."""
        low, high = 1 - self.settings.clip, 1 + self.settings.clip
        return torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage).mean()


def _entropy(log_probabilities: Tensor) -> Tensor:
    """Mean entropy of a knob's moves; forbidden moves add nothing."""
    return -(log_probabilities.exp() * log_probabilities).sum(dim=-1).mean()
