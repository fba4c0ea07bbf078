# SPDX-License-Identifier: Apache-2.0
"""Candidates of a tuner that judges many points before it measures one, and random ones of them.

A surrogate can only choose among the points it is shown. Shown one random set for good, it ends
at the best of that set and its neighbourhood; drawn anew for every batch, none is out of reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.black_box import repair
from tilewright.tuner.search.gaussian.residual import Floats
from tilewright.tuner.search.space import Index, Space

DRAWN: Final = 256
"""Points drawn by the space's own proposals for a batch ..."""

DRAWN_OF_A_VALUE: Final = 32
"""... and so many of each value of an unordered knob."""

COVERED: Final = 4
"""Proposals that every value of an unordered knob gets before expected improvement decides."""

COVERED_VALUES: Final = 16
"""Unordered knobs of more values get no candidates of their own and are not covered."""


class Candidates:
    """Points that may be proposed, as parallel arrays.

    Attributes:
        indices: the points.
        prior: float64 of shape (candidates,): log of the predicted cost.
        features: float64 of shape (candidates, features).
        left: bool of shape (candidates,): neither proposed nor found invalid.
        places: positions of the points.
    """

    def __init__(self, indices: Sequence[Index], prior: Floats, features: Floats) -> None:
        self.indices: Final[list[Index]] = []
        self.prior: Floats = np.zeros(0)
        self.features: Floats = np.zeros((0, features.shape[1]))
        self.left: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.places: Final[dict[Index, int]] = {}
        self.add(indices, prior, features)

    def add(self, indices: Sequence[Index], prior: Floats, features: Floats) -> None:
        """Add points that are not there yet."""
        for index in indices:
            self.places[index] = len(self.indices)
            self.indices.append(index)
        self.prior = np.concatenate([self.prior, prior])
        self.features = np.concatenate([self.features, features])
        self.left = np.concatenate([self.left, np.ones(len(prior), dtype=bool)])


def draw_candidates(space: Space[Any], rng: np.random.Generator) -> list[Index]:
    """Distinct random valid points of a space.

    Most are proposals of the space itself. The others hold one value of an unordered knob (a
    configuration with few legal points would hardly come up by chance), sizes drawn evenly and
    shrunk until they fit: such points lie where tiles fill their memory.
    """
    drawn = [space.sample(rng) for _ in range(DRAWN)]
    for column in unordered_knobs(space):
        for value in range(len(space.knobs[column])):
            for _ in range(DRAWN_OF_A_VALUE):
                positions = [int(rng.integers(len(knob))) for knob in space.knobs]
                positions[column] = value
                drawn.append(repair(space, tuple(positions)))
    return list(dict.fromkeys(index for index in drawn if index is not None))


def least_covered(
    space: Space[Any],
    proposed: Collection[Index],
    candidates: Sequence[Index],
    left: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Candidates of the values of unordered knobs that were proposed least; all when all were.

    Values of an unordered knob tell nothing of each other, so each is tried `COVERED` times
    before the others are judged by it.

    Args:
        space: of the points.
        proposed: points proposed so far.
        candidates: points in question.
        left: bool of shape (candidates,): those that may be chosen.

    Returns:
        Bool of shape (candidates,): which of those left come into question now.
    """
    tries = np.full(len(candidates), COVERED)
    for column in unordered_knobs(space):
        counts = np.zeros(len(space.knobs[column]), dtype=np.int64)
        np.add.at(counts, [index[column] for index in proposed], 1)
        tries = np.minimum(tries, counts[[index[column] for index in candidates]])
    least: npt.NDArray[np.bool_] = left & (tries == tries[left].min())
    return least


def unordered_knobs(space: Space[Any]) -> Iterator[int]:
    """Positions of the unordered knobs that offer a choice of few values."""
    for column, knob in enumerate(space.knobs):
        if not knob.ordered and 1 < len(knob) <= COVERED_VALUES:
            yield column
