# SPDX-License-Identifier: Apache-2.0
"""Walkers: many points of a space that a team of agents moves in parallel, scored by a surrogate.

A step resolves the knobs one after the other: the mask of a knob is made of the point as the
knobs before it have left it, so the joint move of all agents is legal although every agent
decides alone. What becomes of illegal points is the `Legality` of the walk, an ablation:

- ``mask``: a move into an illegal point has no probability (the space's own verdicts);
- ``penalty``: agents walk into illegal points and are paid the excess of resources there;
- ``both``: such a step is paid the excess and then undone: walkers stay on legal points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.features import FeatureEncoder, Features
from tilewright.tuner.search.learning.policy import NO_MOVE, Moves, Positions, Team
from tilewright.tuner.search.learning.surrogate import Scores
from tilewright.tuner.search.space import Index, Space

Score = Callable[[Sequence[Index]], Scores]
"""Expected scores of legal points, higher is better."""

Excess = Callable[[Index], float]
"""By how much an illegal point exceeds its resources; 1 costs a reward of `PENALTY`."""

PENALTY: Final = 3.0
"""In the surrogate's unit, standard deviations: an illegal point is worse than a bad one."""


class Legality(StrEnum):
    """How agents learn what is legal."""

    MASK = "mask"
    PENALTY = "penalty"
    BOTH = "both"


def unit_excess(index: Index) -> float:
    """The excess of a point of which nothing but its illegality is known."""
    del index
    return 1.0


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What was done: T steps of W walkers."""

    features: Features  # float32 of shape (T + 1, W, features), before each step and at the end
    moves: npt.NDArray[np.int64]  # int64 of shape (T, W, knobs): the number of each knob's move
    masks: npt.NDArray[np.bool_]  # bool of shape (T, W, knobs, moves)
    log_probabilities: npt.NDArray[np.float32]  # float32 of shape (T, W, knobs), of the moves made
    rewards: npt.NDArray[np.float32]  # float32 of shape (T, W)


@dataclass(frozen=True, kw_only=True)
class Rollout(Steps):
    """What walkers did in a space."""

    visited: tuple[Index, ...]  # legal points in the order of their first visit, without repetition


class Walkers:
    """Lets a team walk through a space."""

    def __init__(
        self,
        space: Space[Any],
        encoder: FeatureEncoder,
        moves: Moves,
        *,
        legality: Legality = Legality.MASK,
        excess: Excess = unit_excess,
    ) -> None:
        self._space: Final = space
        self._encoder: Final = encoder
        self._moves: Final = moves
        self._legality: Final = legality
        self._excess: Final = excess

    def walk(
        self,
        team: Team,
        score: Score,
        starts: Sequence[Index],
        *,
        steps: int,
        rng: np.random.Generator,
    ) -> Rollout:
        """Walk from some points; the reward of a step is the score of where it leads."""
        positions = np.array(starts, dtype=np.int64)
        visited: dict[Index, None] = dict.fromkeys(starts)
        features, taken, masks, chances, rewards = [self._encode(positions)], [], [], [], []
        for _ in range(steps):
            before = positions
            positions, moves, mask, chance = self._step(team, features[-1], before, rng)
            indices = _indices(positions)
            legal = self._legal(indices)
            rewards.append(self._rewards(indices, legal, score))
            if self._legality is Legality.BOTH:
                positions = np.where(legal[:, None], positions, before)
            visited.update(dict.fromkeys(i for i, ok in zip(indices, legal, strict=True) if ok))
            features.append(self._encode(positions))
            taken.append(moves)
            masks.append(mask)
            chances.append(chance)
        return Rollout(
            features=np.stack(features),
            moves=np.stack(taken),
            masks=np.stack(masks),
            log_probabilities=np.stack(chances),
            rewards=np.stack(rewards),
            visited=tuple(visited),
        )

    def _step(
        self, team: Team, features: Features, positions: Positions, rng: np.random.Generator
    ) -> tuple[Positions, npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
        """New positions, moves, masks and log-probabilities of one step of all walkers."""
        logits = team.logits(features)
        positions = positions.copy()
        walkers = np.arange(len(positions))
        moves = np.zeros(positions.shape, dtype=np.int64)
        masks = np.zeros(logits.shape, dtype=np.bool_)
        chances = np.zeros(positions.shape, dtype=np.float32)
        for knob in team.turn:
            targets = self._moves.targets(knob, positions[:, knob])
            allowed = self._mask(positions, knob, targets)
            chance = _softmax(logits[:, knob], allowed)
            move = _draw(chance, allowed, rng)
            positions[:, knob] = targets[walkers, move]
            moves[:, knob], masks[:, knob] = move, allowed
            chances[:, knob] = np.log(chance[walkers, move])
        return positions, moves, masks, chances

    def _mask(
        self, positions: Positions, knob: int, targets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which moves of a knob are allowed, the other knobs as they are."""
        allowed: npt.NDArray[np.bool_] = targets != NO_MOVE
        if self._legality is not Legality.MASK:
            return allowed
        walker, move = np.nonzero(allowed & (targets != positions[:, knob, None]))
        moved = positions[walker]
        moved[:, knob] = targets[walker, move]
        allowed[walker, move] = self._legal(_indices(moved))
        return allowed

    def _rewards(
        self, indices: Sequence[Index], legal: npt.NDArray[np.bool_], score: Score
    ) -> npt.NDArray[np.float32]:
        rewards = score(indices)
        for walker in np.flatnonzero(~legal):
            rewards[walker] = -PENALTY * self._excess(indices[int(walker)])
        return rewards.astype(np.float32)

    def _legal(self, indices: Sequence[Index]) -> npt.NDArray[np.bool_]:
        return np.fromiter(map(self._space.valid, indices), dtype=np.bool_, count=len(indices))

    def _encode(self, positions: Positions) -> Features:
        return self._encoder.encode(_indices(positions))


def _indices(positions: Positions) -> list[Index]:
    return [tuple(row) for row in positions.tolist()]


def _softmax(
    logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Probabilities of moves, 0 where not allowed: shape (walkers, moves)."""
    shifted = np.where(allowed, logits.astype(np.float64), -np.inf)
    weights = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    chances: npt.NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return chances


def _draw(
    chances: npt.NDArray[np.float64], allowed: npt.NDArray[np.bool_], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """One move a walker: shape (walkers,)."""
    edges = chances.cumsum(axis=1)
    drawn = (rng.random(len(chances))[:, None] * edges[:, -1:] >= edges).sum(axis=1)
    # Rounding may leave a draw beyond the last allowed move.
    last = allowed.shape[1] - 1 - allowed[:, ::-1].argmax(axis=1)
    moves: npt.NDArray[np.int64] = np.minimum(drawn, last)
    return moves
