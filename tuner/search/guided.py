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
from typing import Final, TypeVar

from tilewright.tuner.search._base import Result, Tuner
from tilewright.tuner.space import Index, Space

P = TypeVar("P")

POOL_SAMPLES: Final = 160
"""Valid samples that are scored before the first proposal of its own."""

DESCENTS: Final = 4
"""Best samples from which the prior is descended."""

DESCENT_SCORES: Final = 160
"""Scores that the descents may spend together."""

EXPLORE_EVERY: Final = 8


class GuidedTuner(Tuner[P]):
    """Best-first search by a prior with local refinement.

    Args:
        space: where to search.
        seed: entropy of the generator.
        initial: points to propose first.
        prior: predicted cost of a point, lower is better; None: no knowledge.
    """

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
            return self.sample_new()
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
        budget = len(self._scores) + DESCENT_SCORES
        for start in heapq.nsmallest(DESCENTS, self._scores, key=self._scores.__getitem__):
            centre = start
            while len(self._scores) < budget:
                best = min(self._neighbours(centre), key=self._score, default=centre)
                if self._score(best) >= self._score(centre):
                    break
                centre = best
        if self.best is not None:
            for index in self._neighbours(self.best.index):
                self._score(index)

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
            if self.space.valid(index)
        ]
