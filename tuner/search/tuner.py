# SPDX-License-Identifier: Apache-2.0
"""`Tuner`, the contract of every search algorithm.

`ask(n)` returns up to n new valid candidates. `tell(results)` reports their costs, in the order in
which they were proposed.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import TilewrightError
from tilewright.tuner.search.space import Index, Knob, Space

Positions = npt.NDArray[np.int64]
"""Shape (points, knobs): one position a knob."""


class Judgement:
    """What a prior says of an array of positions.

    Attributes:
        legal: bool of shape (points,).
        cycles: float64 of shape (points,); 0 where not legal.
        features: float64 of shape (points, features); 0 where not legal.
    """

    def __init__(self, count: int, width: int) -> None:
        self.legal: Final = np.zeros(count, dtype=bool)
        self.cycles: Final = np.zeros(count)
        self.features: Final = np.zeros((count, width))


class SpacePrior(Protocol):
    """Predicts points of a space."""

    @property
    def task(self) -> str:
        """Identity of what is tuned: observations of equal tasks belong together."""
        ...

    def __call__(self, point: Any) -> float:
        """Predicted cost of one legal point."""
        ...

    def judge(self, knobs: Sequence[Knob], positions: Positions, *, masked: bool) -> Judgement:
        """Predict many points; ``masked``: leave out what does not lower."""
        ...


P = TypeVar("P")

PROPOSAL_ATTEMPTS: Final = 32
"""Duplicates that a tuner may propose in a row before the base class steps in."""

SCAN_LIMIT: Final = 50_000
"""Largest raw space that is scanned to prove that it is exhausted."""


class TunerError(TilewrightError):
    """A tuner was used against its contract."""


class Offer(StrEnum):
    """What a study has for a tuner that takes it, by the name of the keyword argument."""

    PRIOR = "prior"
    """Predicted cost of a point before it is measured: a `SpacePrior`, or a function of a point."""
    POOL = "pool"
    """What the tuners of one study share: the object that the class's `new_pool` made for it."""
    EXPERIENCE = "experience"
    """List of `Experience`: trials of earlier studies, when the study has a warm start."""


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[P]):
    """A proposed point."""

    index: Index  # its coded form
    point: P  # what to measure


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a candidate.

    Attributes:
        index: the candidate's index.
        value: cost to minimise (cycles), or None when there is no valid measurement.
        noise: standard error of ``value`` in its unit; 0: it would be the same again.

    Example:
        >>> import tilewright as tw
        >>> space = tw.schedule_space(tw.dense("fc", 1, 64, 16), "tiny-4x4")
        >>> tuner = tw.make_tuner("random", space, seed=0)
        >>> [candidate] = tuner.ask(1)
        >>> tuner.tell([tw.Result(index=candidate.index, value=1200.0)])
        >>> tuner.best.value
        1200.0
    """

    index: Index
    value: float | None
    noise: float = 0.0


class Tuner(ABC, Generic[P]):
    """Proposes points of a space and learns from their costs.

    The base class holds what every algorithm must keep: initial points come first, no invalid
    and no repeated proposal, an end when the space is exhausted. Proposals depend on the seed,
    the sizes of the asks, the results told and the suggestions, in order; on nothing else.

    Args:
        space: where to search.
        seed: entropy of the generator (an integer or a tuple of integers).
        initial: indices to propose first; invalid and repeated ones are left out.

    A subclass declares which further keyword arguments its constructor has:

    Attributes:
        takes: members of `Offer` that a study hands to the constructor.
        ablations: parts of the algorithm that a study can switch off (``tune --without``): by the
            name of a part, the keyword arguments of the constructor that do it.
        positive: costs must be above 0, because the algorithm learns their ratios.

    A subclass defines `_propose` and `_learn`, and may use ``self.rng``, ``self.best``,
    `is_new`, `sample_new` and ``self.space``.

    Example:
        >>> import tilewright as tw
        >>> class Neighbours(tw.Tuner):
        ...     def _propose(self):
        ...         if self.best is None:
        ...             return None  # the base class samples
        ...         near = [i for i in self.space.neighbours(self.best.index) if self.is_new(i)]
        ...         return near[0] if near else None
        ...     def _learn(self, result):
        ...         pass  # self.best is enough
        >>> space = tw.schedule_space(tw.dense("fc", 1, 64, 16), "tiny-4x4")
        >>> tuner = tw.make_tuner(Neighbours, space, seed=0)
        >>> len(tuner.ask(3))
        3
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    ablations: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    positive: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a declaration that no study can keep.

        Raises:
            TunerError: the class takes what no study has.
        """
        super().__init_subclass__(**more)
        if unknown := sorted(set(cls.takes) - set(Offer)):
            raise TunerError(
                f"must be some of {', '.join(Offer)}",
                field=f"{cls.__name__}.takes",
                value=", ".join(unknown),
            )

    @classmethod
    def new_pool(cls) -> Any:
        """What all tuners of one study share, made once per study; for those that take it.

        Raises:
            TunerError: the class takes a pool and does not say what it is.
        """
        raise TunerError("a tuner that takes a pool defines new_pool", field=cls.__name__)

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        self.space: Final = space
        self.rng: Final = np.random.default_rng(seed)
        self.best: Result | None = None
        self._initial = [i for i in dict.fromkeys(initial) if space.valid(i)]
        self._seen: set[Index] = set()
        self._proposed_points: list[Index] = []
        self._searched_around = 0
        """Proposals, in order, next to which nothing new is left."""
        self._pending: set[Index] = set()
        self._exhausted = False

    @property
    def exhausted(self) -> bool:
        """True when no unseen valid point is known to remain."""
        return self._exhausted

    @property
    def asked(self) -> int:
        """Candidates proposed so far."""
        return len(self._seen)

    def ask(self, n: int) -> list[Candidate[P]]:
        """Up to ``n`` new candidates; none when the space is exhausted.

        Raises:
            TunerError: ``n`` is no whole number, or below 1.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise TunerError("must ask for at least 1 candidate", field="n", value=n)
        batch: list[Candidate[P]] = []
        while len(batch) < n and not self._exhausted:
            index = self._next()
            if index is None:
                self._exhausted = True
                break
            self._seen.add(index)
            self._proposed_points.append(index)
            self._pending.add(index)
            batch.append(Candidate(index=index, point=self.space.decode(index)))
        return batch

    def suggest(self, index: Index) -> bool:
        """Propose a point found elsewhere next; False when it is invalid or not new."""
        if not self.is_new(index) or index in self._initial:
            return False
        self._initial.append(index)
        self._exhausted = False
        return True

    def tell(self, results: Sequence[Result]) -> None:
        """Learn outcomes, in proposal order.

        Raises:
            TunerError: a result for a point that is not awaited, a value or noise that is not
                finite, or a value that is not above 0 for a tuner that needs it (`positive`).
        """
        for result in results:
            if result.index not in self._pending:
                raise TunerError(
                    "results are told once for candidates that were asked",
                    field="index",
                    value=result.index,
                )
            if result.value is not None and not _is_finite(result.value):
                raise TunerError(
                    "a value must be a finite number; None stands for no measurement",
                    field="value",
                    value=result.value,
                )
            if not _is_finite(result.noise) or result.noise < 0:
                raise TunerError(
                    "must be a finite number of at least 0; 0 stands for an exact value",
                    field="noise",
                    value=result.noise,
                )
            if result.value is not None and self.positive and result.value <= 0:
                raise TunerError(
                    f"must be above 0 for {type(self).__name__}, which learns ratios of costs",
                    field="value",
                    value=result.value,
                    remedy="add a constant to every cost, or use a tuner that takes any number, "
                    "such as dcoc, genetic or optuna-tpe",
                )
            self._pending.remove(result.index)
            if result.value is not None and (
                self.best is None or self.best.value is None or result.value < self.best.value
            ):
                self.best = result
            self._learn(result)

    # -- what an algorithm defines ----------------------------------------------------------

    @abstractmethod
    def _propose(self) -> Index | None:
        """A point to try next; a repeated or invalid one is refused and asked again.

        None means that the algorithm has nothing of its own; the base class then samples.
        """

    @abstractmethod
    def _learn(self, result: Result) -> None:
        """Take in one result (called once a result, in proposal order)."""

    # -- what algorithms may use ------------------------------------------------------------

    def is_new(self, index: Index) -> bool:
        """Whether a point is valid and was not proposed before."""
        return index not in self._seen and self.space.valid(index)

    def sample_new(self) -> Index | None:
        """A random valid point that was not proposed before, or None.

        Where drawing finds nothing new any more, a space of up to `SCAN_LIMIT` raw points is
        scanned; in a larger one, points are tried that differ from a proposed one in one knob.
        """
        for _ in range(PROPOSAL_ATTEMPTS):
            index = self.space.sample(self.rng)
            if index is not None and index not in self._seen:
                return index
        if self.space.raw_size > SCAN_LIMIT:
            return self._beside()
        rest = [i for i in self.space.enumerate(limit=SCAN_LIMIT) if i not in self._seen]
        return rest[int(self.rng.integers(len(rest)))] if rest else None

    def _beside(self) -> Index | None:
        """A new valid point that differs from a proposed one in one knob, or None."""
        while self._searched_around < len(self._proposed_points):
            centre = self._proposed_points[self._searched_around]
            for knob in range(len(self.space.knobs)):
                line = self.space.line(centre, knob)
                if new := [index for index in line if index not in self._seen]:
                    return new[int(self.rng.integers(len(new)))]
            self._searched_around += 1
        return None

    def _next(self) -> Index | None:
        while self._initial:
            index = self._initial.pop(0)
            if index not in self._seen:
                return index
        for _ in range(PROPOSAL_ATTEMPTS):
            proposal = self._propose()
            if proposal is None:
                break
            try:
                index = tuple(operator.index(position) for position in proposal)
            except TypeError as error:
                raise TunerError(
                    "must propose one integer per knob",
                    field=f"tuner {type(self).__name__}",
                    value=proposal,
                    remedy="return a tuple of positions, or None",
                ) from error
            if self.is_new(index):
                return index
        return self.sample_new()


def _is_finite(value: object) -> bool:
    """Whether a value is a real number that is neither infinite nor NaN."""
    return isinstance(value, Real) and math.isfinite(value)
