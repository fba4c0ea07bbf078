# SPDX-License-Identifier: Apache-2.0
"""A tuner in twenty lines: a neighbour of the best point, or the likeliest of a few new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilewright as tw

Index = tuple[int, ...]
"""A point of a space: one position per knob."""

NEW_POINTS = 8
"""New points of which the one with the least predicted cost is measured."""


class BestNeighbour(tw.Tuner[Any]):
    """Moves one knob of the best point; every third proposal is a new point."""

    takes = frozenset({"prior"})
    ablations = {"prior": {"prior": None}}  # noqa: RUF012  (read only)

    def __init__(
        self,
        space: tw.Space[Any],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        prior: Callable[[Any], float] | None = None,
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._prior = prior

    def _propose(self) -> Index | None:
        if self.best is None or self.asked % 3 == 0:
            return self._new_point()
        index = list(self.best.index)
        knob = int(self.rng.integers(len(index)))
        index[knob] += int(self.rng.choice([-1, 1]))
        return tuple(index) if 0 <= index[knob] < len(self.space.knobs[knob]) else None

    def _new_point(self) -> Index | None:
        drawn = [self.sample_new() for _ in range(NEW_POINTS if self._prior else 1)]
        known = [index for index in drawn if index is not None]
        if not known or self._prior is None:
            return known[0] if known else None
        prior = self._prior
        return min(known, key=lambda index: prior(self.space.decode(index)))

    def _learn(self, result: tw.Result) -> None:
        """The base class keeps the best result; nothing else is learned."""
