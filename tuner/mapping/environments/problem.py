# SPDX-License-Identifier: Apache-2.0
"""What the environments take: a layer and hardware by name, because ids of environments do."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.str_enum import StrEnum
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.mapping import architecture
from tilewright.tuner.mapping.cost import Objective
from tilewright.tuner.mapping.environments.game import OBSERVED, MappingGame, Reward
from tilewright.tuner.mapping.nest import LoopNest, nest_of
from tilewright.tuner.mapping.space import MappingSpace

Layer = LoopNest | Workload | str
"""``NETWORK:LAYER`` of a built-in network, such as ``resnet18:C2``; or the layer itself."""

E = TypeVar("E", bound=StrEnum)

DEFAULT_LAYER: Final = "resnet18:C2"
STEPS: Final = 100
"""Proposals of an episode, as many as in the environment of Krishnan et al."""

OBSERVED_BOUND: Final = 100.0
"""Beyond every logarithm that a player sees."""


def space_of(layer: Layer, hardware: str | Path | architecture.Architecture) -> MappingSpace:
    """The space of a layer on hardware."""
    if not isinstance(layer, (str, Workload, LoopNest)):
        raise ConfigError(
            "must be NETWORK:LAYER, a Workload or a LoopNest", field="layer", value=layer
        )
    if isinstance(layer, str):
        network, _, name = layer.partition(":")
        layer = load_network(network)[name]
    nest = nest_of(layer) if isinstance(layer, Workload) else layer
    return MappingSpace(nest, architecture.load_architecture(hardware))


def game_of(
    *,
    layer: Layer = DEFAULT_LAYER,
    hardware: str | Path | architecture.Architecture = architecture.DEFAULT_ARCHITECTURE,
    objective: Objective | str = Objective.EDP,
    reward: Reward | str = Reward.INVERSE,
    optimum: float | None = None,
    lanes: int = 1,
) -> MappingGame:
    """The game that an environment's arguments ask for."""
    return MappingGame(
        space_of(layer, hardware),
        member(Objective, "objective", objective),
        reward=member(Reward, "reward", reward),
        optimum=optimum,
        lanes=lanes,
    )


def member(kind: type[E], field: str, value: str) -> E:
    """The member of an enumeration that a user names."""
    try:
        return kind(value)
    except ValueError as error:
        raise ConfigError(f"must be one of {', '.join(kind)}", field=field, value=value) from error


def episode_steps(steps: int) -> int:
    """The length of an episode."""
    if type(steps) is not int or steps < 1:
        raise ConfigError("must be a positive integer", field="steps", value=steps)
    return steps


def observed_box(*shape: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Least and greatest observations, shape ``[*shape, len(OBSERVED)]``."""
    high = np.full((*shape, len(OBSERVED)), OBSERVED_BOUND, dtype=np.float32)
    return -high, high
