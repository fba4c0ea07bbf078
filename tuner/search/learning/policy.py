# SPDX-License-Identifier: Apache-2.0
"""Agents, their moves and their networks: what every policy-gradient tuner is built of.

An agent owns some knobs of a space. In a step it makes one move for each of them: lower, keep or
raise an ordered knob, choose a value of another. Its network (the actor) sees the features of a
point, all or those of its own knobs, and gives one row of logits a knob; a move that the mask
forbids has no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tilewright.tuner.search.features import FeatureEncoder, Features
from tilewright.tuner.search.space import Knob, Space

Positions = npt.NDArray[np.int64]
"""Positions of knobs: shape (walkers, knobs)."""

NO_MOVE: Final = -1
"""Target of a move that a knob does not have."""

JUMP_LIMIT: Final = 16
"""Values of an ordered knob that are all offered to an agent that jumps."""

FORBIDDEN: Final = -1e9
"""Logit of a move that the mask forbids."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Who decides on which knobs."""

    name: str  # what the agent is called
    knobs: tuple[int, ...]  # their numbers in the space
    columns: tuple[int, ...]  # features of a point that it sees


class View(StrEnum):
    """What an agent sees of a point."""

    POINT = "point"
    OWN = "own"


def single_agent(space: Space[Any]) -> tuple[Agent, ...]:
    """One agent that owns and sees everything."""
    return divide_knobs(space, {"all": ()}, rest="all", view=View.POINT)


def divide_knobs(
    space: Space[Any], groups: Mapping[str, Sequence[str]], *, rest: str, view: View
) -> tuple[Agent, ...]:
    """One agent a group of knobs that the space has; agents without a knob vanish."""
    owner = {knob: name for name, knobs in groups.items() for knob in knobs}
    columns = FeatureEncoder(space).columns
    agents = []
    for name in groups:
        own = tuple(k for k, knob in enumerate(space.knobs) if owner.get(knob.name, rest) == name)
        if own:
            seen = range(len(space.knobs)) if view is View.POINT else own
            agents.append(
                Agent(name=name, knobs=own, columns=tuple(c for k in seen for c in columns[k]))
            )
    return tuple(agents)


class Moves:
    """The moves of each knob, as a table of targets; rows of knobs with fewer end in `NO_MOVE`."""

    def __init__(self, knobs: Sequence[Knob], *, jump: bool = False) -> None:
        rows = [_targets(knob, jump=jump) for knob in knobs]
        self.count: Final = max(row.shape[1] for row in rows)
        self._tables: Final = [
            np.pad(row, ((0, 0), (0, self.count - row.shape[1])), constant_values=NO_MOVE)
            for row in rows
        ]

    def targets(self, knob: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where each move leads a knob at positions (walkers,): (walkers, count), or `NO_MOVE`."""
        return self._tables[knob][positions]


def strides(size: int) -> tuple[int, ...]:
    """Step lengths of an ordered knob: 1, and 4 and 16 while half of the knob is longer."""
    return tuple(stride for stride in (1, 4, 16) if stride == 1 or stride < size / 2)


def _targets(knob: Knob, *, jump: bool) -> npt.NDArray[np.int64]:
    """Shape (positions, moves): where each move leads from each position."""
    size = len(knob)
    here = np.arange(size)[:, None]
    if not knob.ordered or (jump and size <= JUMP_LIMIT):
        return np.broadcast_to(np.arange(size), (size, size)).copy()
    reach = tuple(2**k for k in range((size - 1).bit_length())) if jump else strides(size)
    steps = np.array([*(-stride for stride in reversed(reach)), 0, *reach])
    there = here + steps
    return np.where((there >= 0) & (there < size), there, NO_MOVE)


def network(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    """Two hidden layers with tanh; orthogonal weights, small in the last layer.

    The initialisation is what "The 37 implementation details of PPO" (Huang et al., ICLR blog
    track 2022) found to matter.
    """
    widths, gains = (inputs, hidden, hidden, outputs), (2**0.5, 2**0.5, 0.01)
    layers: list[nn.Module] = []
    for fan_in, fan_out, gain in zip(widths[:-1], widths[1:], gains, strict=True):
        layer = _blank_layer(fan_in, fan_out)
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def _blank_layer(inputs: int, outputs: int) -> nn.Linear:
    """A layer without its default weights, which would be drawn from torch's global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]  # untyped
    return layer


class Team(nn.Module):
    """The actors of all agents; ``turn`` lists the knobs as a step moves them, agent by agent."""

    def __init__(
        self,
        agents: Sequence[Agent],
        *,
        choices: int,
        hidden: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.agents: Final = tuple(agents)
        self.turn: Final = tuple(knob for agent in agents for knob in agent.knobs)
        self._choices: Final = choices
        self._place: Final = torch.tensor(np.argsort(self.turn))
        self.actors = nn.ModuleList(
            network(len(agent.columns), hidden, len(agent.knobs) * choices, generator)
            for agent in agents
        )

    def forward(self, features: Tensor) -> Tensor:
        """Logits, shape (points, knobs, moves), for features of shape (points, features)."""
        rows = [
            actor(features[:, agent.columns]).unflatten(-1, (len(agent.knobs), self._choices))
            for agent, actor in zip(self.agents, self.actors, strict=True)
        ]
        return torch.cat(rows, dim=1)[:, self._place]

    def logits(self, features: Features) -> npt.NDArray[np.float32]:
        """`forward` without gradients, as an array."""
        with torch.no_grad():
            logits: npt.NDArray[np.float32] = self(torch.from_numpy(features)).numpy()
        return logits

    def log_probabilities(self, features: Tensor, masks: Tensor) -> Tensor:
        """Logits' log-probabilities under masks (points, knobs, moves); `FORBIDDEN` at false."""
        return torch.log_softmax(self(features).masked_fill(~masks, FORBIDDEN), dim=-1)
