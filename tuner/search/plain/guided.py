# SPDX-License-Identifier: Apache-2.0
"""Guided search: measure what a cheap prior ranks best, refine around what measures best.

The prior is a closed-form cost (for schedules the `model` fidelity); it is never told as a
result. A pool of valid samples is scored, then improved by descent on the prior along knobs.
Proposals come in order of their prior; each improvement told adds its one-knob neighbours to
the pool. Every `EXPLORE_EVERY`-th proposal is a fresh valid sample, so that a wrong prior costs a
constant factor and not the optimum. Without a prior the pool is in order of discovery.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Offer, Result, Tuner

P = TypeVar("P")

POOL_SAMPLES: Final = 96
"""Valid samples that are scored before the first proposal of its own."""

STRUCTURAL_VALUES: Final = 4
"""The prior is descended from the best sample of each value of each knob with so few values."""

DESCENT_SCORES: Final = 400
"""New scores that the descents may spend together."""

LINE_STEPS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Distances of a line's points from its centre, in positions of the knob."""

EXPLORE_EVERY: Final = 8

EXPLORE_ATTEMPTS: Final = 8
EXPLORE_WITHIN: Final = 2.0
"""An exploring sample is redrawn while its prior is above this multiple of the best prior."""


class GuidedTuner(Tuner[P]):
    """Best-first search by a prior with local refinement."""

    takes: ClassVar = frozenset({Offer.PRIOR})

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        prior: Callable[[P], float] | None = None,
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._prior = prior
        self._scores: dict[Index, float] = {}
        self._queue: list[tuple[float, int, Index]] = []
        self._filled = False
        self._proposals = 0
        self._best_value = float("inf")

    def _propose(self) -> Index | None:
        if not self._filled:
            self._fill()
        self._proposals += 1
        if self._proposals % EXPLORE_EVERY == 0:
            return self._explore()
        while self._queue:
            index = heapq.heappop(self._queue)[2]
            if self.is_new(index):
                return index
        return self.sample_new()

    def _learn(self, result: Result) -> None:
        if result.value is None or result.value >= self._best_value:
            return
        self._best_value = result.value
        if self._filled:
            for index in self._neighbours(result.index):
                self._score(index)

    def _fill(self) -> None:
        self._filled = True
        for _ in range(POOL_SAMPLES):
            index = self.space.sample(self.rng)
            if index is not None:
                self._score(index)
        if self._prior is None:
            return
        if self.best is not None:
            self._score(self.best.index)
        limit = len(self._scores) + DESCENT_SCORES
        for start in self._starts():
            self._descend(start, limit)
        if self.best is not None:
            for index in self._neighbours(self.best.index):
                self._score(index)

    def _starts(self) -> list[Index]:
        """Good points of every structure, best first."""
        best: dict[tuple[int, int], Index] = {}
        for index in sorted(self._scores, key=self._scores.__getitem__):
            for knob, position in enumerate(index):
                if len(self.space.knobs[knob]) <= STRUCTURAL_VALUES:
                    best.setdefault((knob, position), index)
        return list(
            dict.fromkeys([min(self._scores, key=self._scores.__getitem__), *best.values()])
        )

    def _descend(self, centre: Index, limit: int) -> None:
        """Coordinate descent on the prior until no line improves or `limit` points are scored."""
        moved = True
        while moved:
            moved = False
            for knob in self.rng.permutation(len(self.space.knobs)):
                if len(self._scores) >= limit:
                    return
                line = self.space.line(centre, int(knob), steps=LINE_STEPS)
                best = min(line, key=self._score, default=centre)
                if self._score(best) < self._score(centre):
                    centre, moved = best, True

    def _explore(self) -> Index | None:
        """A new random point, preferably one that the prior does not rule out."""
        index = self.sample_new()
        best = min(self._scores.values(), default=float("inf"))
        for _ in range(EXPLORE_ATTEMPTS):
            if index is None or self._score(index) <= EXPLORE_WITHIN * best:
                break
            index = self.sample_new()
        return index

    def _score(self, index: Index) -> float:
        """The prior of a valid point; a new one joins the queue."""
        if index not in self._scores:
            prior = 0.0 if self._prior is None else self._prior(self.space.decode(index))
            self._scores[index] = prior
            heapq.heappush(self._queue, (prior, len(self._scores), index))
        return self._scores[index]

    def _neighbours(self, centre: Index) -> list[Index]:
        return [
            index
            for knob in range(len(self.space.knobs))
            for index in self.space.line(centre, knob, steps=(1, 2))
        ]
