# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's outer loop: measure a plan, refit the cost model, plan again.

Source: TVM's `model_based_tuner.py`, which CHAMELEON shares. Points are random until `plan` of
them are measured. Then the model is fitted to everything measured, an explorer looks for the
points that it scores highest, and these are measured, except for the last 5 % of each plan, which
are random (epsilon-greedy). 5 % of a plan of 16 is less than a point: what a plan leaves of it is
carried to the next, so that every size of plan has its share. What differs between the tuners is
the explorer, the model's objective, and what is made of the explorer's points before they are
measured.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol, TypeVar, cast

import numpy as np

from tilewright.tuner.search.experience import Experience, costs_of
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.model_based.cost_model import CostModel, Objective, Scores
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Result, Tuner, TunerError

ROUNDING: Final = 1e-9
"""Twenty times 0.05 is a point, whatever the sum of floats says."""


class RandomShare:
    """Whole points of each plan, what is left of a point being carried to the next plan.

    5 % of a plan of 16 is 0.8: cut off, such plans would never hold a random point.
    """

    def __init__(self, share: float) -> None:
        self._share: Final = share
        self._due = 0.0

    def of(self, plan: int) -> int:
        """Random points of the next plan of so many points."""
        self._due += self._share * plan
        points = int(self._due + ROUNDING)
        self._due -= points
        return points


P = TypeVar("P")

PLAN: Final = 64
RANDOM_SHARE: Final = 0.05

Score = Callable[[Sequence[Index]], Scores]
"""Predicted merit of points, higher is better."""


class Leaders:
    """The highest-scored new points met so far."""

    def __init__(self, size: int, wanted: Callable[[Index], bool]) -> None:
        self._size: Final = size
        self._wanted: Final = wanted
        self._heap: list[tuple[float, Index]] = []
        self._held: set[Index] = set()

    def offer(self, points: Sequence[Index], scores: Scores) -> bool:
        """Take in scored points; whether any was good enough to be kept."""
        taken = False
        for point, merit in zip(points, scores.tolist(), strict=True):
            full = len(self._heap) == self._size
            if (full and merit <= self._heap[0][0]) or point in self._held:
                continue
            if not self._wanted(point):
                continue
            if full:
                self._held.remove(heapq.heapreplace(self._heap, (merit, point))[1])
            else:
                heapq.heappush(self._heap, (merit, point))
            self._held.add(point)
            taken = True
        return taken

    def ranked(self) -> list[Index]:
        """The points, best first."""
        return [point for _, point in sorted(self._heap, reverse=True)]


class Explorer(Protocol):
    """Looks for the points that a cost model scores highest."""

    def maximise(self, score: Score, leaders: Leaders) -> None:
        """Walk through valid points and offer what it meets to ``leaders``."""
        ...


class ModelBasedTuner(Tuner[P]):
    """A tuner that measures what an explorer finds on a cost model.

    Args:
        space: where to search.
        seed: entropy of the generator.
        initial: points to propose first; they count as measurements of the first plan.
        plan: points in a plan, and random ones before the first.
        objective: of the cost model.
        experience: measured points of other tasks; with it the first plan is not random.

    Raises:
        TunerError: ``plan`` is below 1.
    """

    positive: ClassVar = True

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        plan: int = PLAN,
        objective: Objective = "rank",
        experience: Sequence[Experience] = (),
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        if plan < 1:
            raise TunerError("a plan needs at least 1 point", field="plan", value=plan)
        self._plan_size: Final = plan
        self._encoder: Final = FeatureEncoder(cast("Space[object]", space))
        self._model: Final = CostModel(
            self._encoder.names,
            objective=objective,
            recall_at=plan,
            seed=int(self.rng.integers(2**31)),
            experience=experience,
        )
        self._results: list[Result] = []
        self._plan: list[Index] = []
        self._random: Final = RandomShare(RANDOM_SHARE)
        self._random_tail = 0
        self._next_fit = 0 if self._model.ready else plan
        self._next_ask = 0
        """Proposals after which the plan is used up, though its results may be on their way."""
        self._untold_to_model = 0

    # -- what a tuner of this kind defines --------------------------------------------------

    @abstractmethod
    def _explorer(self) -> Explorer:
        """Who searches the model."""

    def _select(self, points: list[Index]) -> list[Index]:
        """What to measure of the points found, given best first; all of them by default."""
        return points

    # -- the loop ---------------------------------------------------------------------------

    def _propose(self) -> Index | None:
        asked_all = self._model.ready and self.asked >= self._next_ask
        if len(self._results) >= self._next_fit or (asked_all and self._untold_to_model):
            self._make_plan()
        while len(self._plan) > self._random_tail:
            index = self._plan.pop(0)
            if self.is_new(index):
                return index
        return None

    def _learn(self, result: Result) -> None:
        self._results.append(result)
        self._untold_to_model += 1

    def _make_plan(self) -> None:
        """Fit the model to all results and replace the plan by the best points it knows."""
        costs = costs_of(self._results)
        if np.isfinite(costs).any():
            self._model.fit(self._encoder.encode([r.index for r in self._results]), costs)
        if self._model.ready:
            leaders = Leaders(self._plan_size, self.is_new)
            self._explorer().maximise(self._score, leaders)
            self._plan = self._select(leaders.ranked())
            self._random_tail = self._random.of(self._plan_size)
        length = len(self._plan) or self._plan_size
        self._next_fit, self._next_ask = len(self._results) + length, self.asked + length
        self._untold_to_model = 0

    def _score(self, points: Sequence[Index]) -> Scores:
        return self._model.score(self._encoder.encode(points))
