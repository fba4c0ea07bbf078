# SPDX-License-Identifier: Apache-2.0
"""The loop that all policy-gradient tuners share: measure, refit the surrogate, explore it, choose.

A tuner of this kind measures `warm_up` random points, then works in plans: fit the surrogate to
everything measured, let walkers explore it while the policy learns (`_explore`, the algorithm),
and choose a batch of the points that they visited. The next plan is made when the batch is
measured, so the real accelerator is asked seldom and the surrogate often.

Sources of the loop: CHAMELEON (Ahn et al., ICLR 2020), DCO-Comp.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeVar, cast

from tilewright.tuner.search.features import FeatureEncoder, Features
from tilewright.tuner.search.learning.confidence import CandidatePool, Selection, select
from tilewright.tuner.search.learning.surrogate import Scores, Surrogate
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.torch_threads import one_thread
from tilewright.tuner.search.tuner import Result, Tuner, TunerError

P = TypeVar("P")
E = TypeVar("E", bound=StrEnum)

WARM_UP: Final = 16
"""Random points measured before the first plan."""

BATCH: Final = 8
"""Points of a plan."""

THOMPSON_MEMBERS: Final = 8


class PlannedTuner(Tuner[P]):
    """A tuner that plans batches on a surrogate.

    Args:
        space: where to search.
        seed: entropy of the generator.
        initial: points to propose first; they count as warm-up.
        selection: which of the visited points are measured.
        warm_up: measurements before the first plan.
        batch: measurements of a plan.

    Raises:
        TunerError: no such selection.
    """

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        selection: Selection | str = Selection.CONFIDENCE,
        warm_up: int = WARM_UP,
        batch: int = BATCH,
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._selection: Final = one_of(Selection, selection, "selection")
        self._warm_up: Final = warm_up
        self._batch: Final = batch
        self._encoder: Final = FeatureEncoder(cast("Space[object]", space))
        members = THOMPSON_MEMBERS if self._selection is Selection.THOMPSON else 1
        self._surrogate: Final = Surrogate(self._encoder, members=members)
        self._costs: dict[Index, float | None] = {}
        self._untold = 0
        self._visited: tuple[Index, ...] = ()
        self._plan: deque[Index] = deque()

    # -- what an algorithm defines ----------------------------------------------------------

    @abstractmethod
    def _explore(self) -> tuple[Index, ...]:
        """Explore the surrogate, fitted to all results, and learn; legal points visited."""

    @abstractmethod
    def _confidence(self, features: Features, scores: Scores) -> Scores:
        """How sure the algorithm is of candidates, shape (points,); only differences count."""

    # -- the loop ---------------------------------------------------------------------------

    def _propose(self) -> Index | None:
        if len(self._costs) < self._warm_up or self.best is None:
            return self.sample_new()
        if not self._plan or self._untold >= self._batch:
            with one_thread():
                self._make_plan()
        return self._plan.popleft() if self._plan else self.sample_new()

    def _learn(self, result: Result) -> None:
        self._costs[result.index] = result.value
        self._untold += 1

    def _make_plan(self) -> None:
        """Choose the next points; explore first when a batch of results is there to learn from."""
        if self._untold >= self._batch or not self._visited:
            self._untold = 0
            self._surrogate.fit(self._costs)
            self._visited = self._explore()
        fresh = tuple(i for i in self._visited if i not in self._seen)
        if not fresh:
            return
        features = self._encoder.encode(fresh)
        scores = self._surrogate.member_scores(fresh)
        pool = CandidatePool(
            indices=fresh,
            features=features,
            scores=scores,
            values=self._confidence(features, scores.mean(axis=0)),
        )
        self._plan = deque(self._chosen(pool))

    def _chosen(self, pool: CandidatePool) -> list[Index]:
        """The next points to measure, of the candidates that were visited."""
        return select(self._selection, pool, self._batch, accept=self.is_new, rng=self.rng)

    def _starts(self, count: int) -> list[Index]:
        """Where walkers start: half at the best measured points, half at random legal ones."""
        measured = {i: cost for i, cost in self._costs.items() if cost is not None}
        best = sorted(measured, key=measured.__getitem__)[: count // 2]
        drawn = (self.space.sample(self.rng) for _ in range(count - len(best)))
        starts = best + [index for index in drawn if index is not None]
        return [starts[i % len(starts)] for i in range(count)]


def one_of(kind: type[E], value: str, field: str) -> E:
    """The member of an enumeration that an option names."""
    try:
        return kind(value)
    except ValueError as error:
        raise TunerError(
            "the option has no such value",
            field=field,
            value=value,
            remedy=f"use one of {', '.join(kind)}",
        ) from error
