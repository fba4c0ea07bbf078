# SPDX-License-Identifier: Apache-2.0
"""The default tuner: a calibrated analytic prior, expected improvement, coordinate descent.

1. *Prior.* Every point of the space (or of a sub-grid of it) is judged in closed form at once;
   the most promising ones become the candidates (`tuner.schedule.layer_model`).
2. *Calibration.* A Gaussian process learns log(measured / predicted), pooled over the tasks of a
   study (`tuner.search.gaussian.residual`); a candidate's cost is log-normal with that mean and
   variance.
3. *Choice.* The candidate with the largest expected improvement (Jones, Schonlau and Welch, 1998),
   then, inside a batch, as if it had come out as expected.
4. *Descent.* Neighbours of every new best point join the candidates; when no candidate promises
   an improvement any more, the best point's own neighbours are measured, nearest prediction
   first, until none is better.

When measurements fail (points that neither a mask nor the prior rules out) a second process learns
which do (`feasibility`); the expected improvement is multiplied by the probability that it gives.
Without a prior the same search runs on the points' own features and a flat prior, and on random
candidates that are drawn anew for every batch (`candidates`); every value of an unordered knob,
such as the configuration, is tried first.

Candidates of a tuner that judges many points before it measures one, and random ones of them.

A surrogate can only choose among the points it is shown. Shown one random set for good, it ends
at the best of that set and its neighbourhood; drawn anew for every batch, none is out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.black_box import repair
from tilewright.tuner.search.blas_threads import one_blas_thread
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.gaussian.feasibility import Feasibility, expected_improvement
from tilewright.tuner.search.gaussian.residual import (
    Floats,
    KernelShape,
    Observation,
    Posterior,
    ResidualPool,
    fit_kernel_shape,
)
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Candidate, Offer, Result, SpacePrior, Tuner

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

    ``prior`` is the log of their predicted cost, ``features`` has shape (candidates, features), and
    ``left`` says which are neither proposed nor found invalid.
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

    Values of an unordered knob tell nothing of each other, so each is tried `COVERED` times before
    the others are judged by it. ``left`` and the result are bool of shape (candidates,).
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


P = TypeVar("P")

GRID_LIMIT: Final = 400_000
"""Raw points that are judged at once; larger spaces are thinned, then sampled."""

POOL_LIMIT: Final = 2_048
"""Candidates kept: the best by the prior ..."""

STRUCTURE_LIMIT: Final = 64
"""... and so many of each value of a knob with at most `STRUCTURE_VALUES` values."""

STRUCTURE_VALUES: Final = 4

JUDGED: Final = 640
"""Candidates whose posterior is worked out for a batch: those left with the least prior."""

NEIGHBOUR_STEPS: Final = (1, 2, 3, 4, 6, 8)

REFIT: Final = 1.3
"""Growth of the observations after which the hyper-parameters are fitted again."""

NEGLIGIBLE: Final = 3e-4
"""Expected improvement (relative) below which the descent takes over."""


class _Round:
    """What a batch is chosen by.

    Args:
        places: of the candidates in question, ascending, shape (candidates,).
        prior: log of their predicted cost.
        chances: that they are feasible.
        near: they are neighbours of the best point.
        posterior: of their residuals.
        goal: log of the best cost so far, on the scale of ``prior``; None: nothing valid yet.
    """

    def __init__(
        self,
        *,
        places: npt.NDArray[np.int64],
        prior: Floats,
        chances: Floats,
        near: npt.NDArray[np.bool_],
        posterior: Posterior,
        goal: float | None,
    ) -> None:
        self._places: Final = places
        self._chances: Final = chances
        self._near: Final = near
        self._posterior: Final = posterior
        self._goal: Final = goal
        self._expected: Final = prior + posterior.mean

    def choose(self, left: npt.NDArray[np.bool_]) -> int:
        """Place of the candidate to take, of those that are left."""
        here = left[self._places]
        if not here.any():
            return int(np.flatnonzero(left)[0])
        if self._goal is None:
            return int(self._places[_least(self._expected - np.log(self._chances), here)])
        spread = np.sqrt(self._posterior.variance)
        gain = expected_improvement(self._goal - self._expected, spread) * self._chances
        best = int(np.where(here, gain, -1.0).argmax())
        if gain[best] < NEGLIGIBLE and (self._near & here).any():
            best = _least(self._expected, self._near & here)
        return int(self._places[best])

    def expect(self, place: int) -> None:
        """A candidate was chosen: judge the others as if it had come out as expected."""
        number = int(np.searchsorted(self._places, place))
        if number < len(self._places) and self._places[number] == place:
            self._posterior.expect(number)


class TilewrightTuner(Tuner[P]):
    """Searches by a prior that it calibrates while it measures."""

    takes: ClassVar = frozenset({Offer.PRIOR, Offer.POOL})
    positive: ClassVar = True
    ablations: ClassVar = {
        "prior": {"prior": None},
        "calibration": {"calibrate": False},
        "pooling": {"pool": None},
        "descent": {"descend": False},
    }

    @classmethod
    def new_pool(cls) -> ResidualPool:
        """What the tuners of one study learn of the prior's residual."""
        return ResidualPool()

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        prior: SpacePrior | Callable[[P], float] | None = None,
        pool: ResidualPool | None = None,
        calibrate: bool = True,
        descend: bool = True,
        feasibility: bool = True,
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._prior: Final = prior
        self._shared: Final = ResidualPool() if pool is None else pool
        self._task: Final = getattr(prior, "task", "task")
        self._calibrate: Final = calibrate
        self._descend: Final = descend
        self._feasibility: Final = Feasibility() if feasibility else None
        self._encoder: Final = FeatureEncoder(cast("Space[object]", space))
        self._candidates: Candidates | None = None
        self._round: _Round | None = None
        self._level: float | None = None
        self._around: list[Index] = []
        self._shape = KernelShape()
        self._fitted = 1

    def ask(self, n: int) -> list[Candidate[P]]:
        """See `Tuner.ask`; the posterior is worked out once a batch."""
        self._round = None
        if self._prior is None:
            self._candidates = None
        with one_blas_thread():
            return super().ask(n)

    def _propose(self) -> Index | None:
        pool = self._pool()
        while pool.left.any():
            place = self._choose(pool)
            pool.left[place] = False
            if self.is_new(pool.indices[place]):
                if self._round is not None:
                    self._round.expect(place)
                return pool.indices[place]
        return None

    def _learn(self, result: Result) -> None:
        prior, features = self._judge([result.index])
        if self._feasibility is not None:
            self._feasibility.add(features[0], valid=result.value is not None)
        if result.value is None:
            return
        log_cost = math.log(result.value)
        if self._level is None:
            self._level = 0.0 if self._prior is not None else log_cost
        residual = log_cost - self._level - float(prior[0])
        observation = Observation(
            features=features[0],
            residual=residual,
            log_cost=log_cost,
            variance=(result.noise / result.value) ** 2,
        )
        self._shared.add(self._task, observation)
        if self._descend and self.best is result:
            self._around = self._neighbours(result.index)

    # -- choice -----------------------------------------------------------------------------

    def _choose(self, pool: Candidates) -> int:
        """Place of the most promising candidate that is left."""
        if not self._calibrate or not self._shared.tasks:
            return _least(pool.prior, pool.left)
        if self._round is None:
            self._round = self._new_round(pool)
        left = pool.left
        if self._prior is None:
            left = least_covered(self.space, self._seen, pool.indices, left)
        return self._round.choose(left)

    def _new_round(self, pool: Candidates) -> _Round:
        """The candidates that a batch chooses from, with what is expected of them."""
        places = np.flatnonzero(pool.left)
        if len(places) > JUDGED:
            places = places[np.argpartition(pool.prior[places], JUDGED)[:JUDGED]]
        around = [pool.places[index] for index in self._around if index in pool.places]
        around = [place for place in around if pool.left[place]]
        places = np.union1d(places, np.array(around, dtype=np.int64))
        own, others = self._shared.near(self._task, pool.features.shape[1])
        if len(own) + len(others) >= self._fitted * REFIT:
            self._fitted = len(own) + len(others)
            self._shape = fit_kernel_shape(own, others)
        goal = None
        if self.best is not None and self.best.value is not None:
            goal = math.log(self.best.value) - (self._level or 0.0)
        return _Round(
            places=places,
            prior=pool.prior[places],
            chances=self._chances(pool.features[places]),
            near=np.isin(places, around) & self._descend,
            posterior=Posterior(own, others, pool.features[places], self._shape),
            goal=goal,
        )

    def _chances(self, features: Floats) -> Floats:
        """Probability that points can be measured."""
        if self._feasibility is None:
            return np.ones(len(features))
        return self._feasibility.chances(features)

    # -- candidates -------------------------------------------------------------------------

    def _pool(self) -> Candidates:
        """The candidates, the neighbours of the best point among them."""
        if self._candidates is None:
            self._candidates = Candidates(*self._first())
        pool = self._candidates
        new = [i for i in self._around if i not in pool.places and i not in self._seen]
        if new:
            pool.add(new, *self._judge(new))
            self._round = None
        return pool

    def _first(self) -> tuple[list[Index], Floats, Floats]:
        """Candidates with their prior and features: the most promising, or random ones."""
        prior = _of_arrays(self._prior)
        if prior is None:
            drawn = draw_candidates(self.space, self.rng)
            indices = [index for index in drawn if index not in self._seen]
            return indices, *self._judge(indices)
        positions = self._grid()
        judged = prior.judge(self.space.knobs, positions, masked=True)
        legal = np.flatnonzero(judged.legal)
        order = legal[np.argsort(judged.cycles[legal], kind="stable")]
        kept = dict.fromkeys(order[:POOL_LIMIT].tolist())
        for column, knob in enumerate(self.space.knobs):
            for value in range(len(knob)) if len(knob) <= STRUCTURE_VALUES else ():
                best = order[positions[order, column] == value][:STRUCTURE_LIMIT]
                kept.update(dict.fromkeys(best.tolist()))
        chosen = np.array(list(kept), dtype=np.int64)
        indices = [tuple(row) for row in positions[chosen].tolist()]
        return indices, np.log(judged.cycles[chosen]), judged.features[chosen]

    def _grid(self) -> npt.NDArray[np.int64]:
        """Positions to judge: all, or those that cut an extent evenly, or a sample of them."""
        choices = [np.arange(len(knob)) for knob in self.space.knobs]
        if math.prod(map(len, choices)) > GRID_LIMIT:
            choices = [
                even_cuts(len(knob)) if knob.ordered else np.arange(len(knob))
                for knob in self.space.knobs
            ]
        shape = tuple(map(len, choices))
        size = math.prod(shape)
        flat = np.arange(size)
        if size > GRID_LIMIT:
            flat = np.unique(self.rng.integers(size, size=GRID_LIMIT))
        places = np.unravel_index(flat, shape)
        return np.stack([c[p] for c, p in zip(choices, places, strict=True)], axis=1)

    def _judge(self, indices: Sequence[Index]) -> tuple[Floats, Floats]:
        """Log of the predicted cost, and features, of some points."""
        prior = _of_arrays(self._prior)
        if prior is not None:
            positions = np.array(indices, dtype=np.int64).reshape(-1, len(self.space.knobs))
            judged = prior.judge(self.space.knobs, positions, masked=False)
            return np.log(np.maximum(judged.cycles, 1.0)), judged.features
        features = self._encoder.encode(indices).astype(np.float64)
        if self._prior is None:
            return np.zeros(len(indices)), features
        costs = [self._prior(self.space.decode(index)) for index in indices]
        return np.log(np.maximum(np.array(costs), 1e-9)), features

    def _neighbours(self, centre: Index) -> list[Index]:
        """Points that differ in one knob; the prior leaves out what it knows to be illegal."""
        found = [
            index
            for knob in range(len(self.space.knobs))
            for index in self.space.line(centre, knob, steps=NEIGHBOUR_STEPS)
        ]
        prior = _of_arrays(self._prior)
        if prior is None or not found:
            return found
        judged = prior.judge(self.space.knobs, np.array(found, dtype=np.int64), masked=True)
        return [index for index, legal in zip(found, judged.legal.tolist(), strict=True) if legal]


def _of_arrays(prior: object) -> SpacePrior | None:
    """The prior, if it judges whole arrays of points."""
    return cast("SpacePrior", prior) if hasattr(prior, "judge") else None


def _least(values: Floats, left: npt.NDArray[np.bool_]) -> int:
    """Place of the least value among those left."""
    return int(np.where(left, values, np.inf).argmin())


def even_cuts(count: int) -> npt.NDArray[np.int64]:
    """Positions of the smallest sizes that cut ``count`` units into 1, 2, 3, ... parts.

    A larger tile that gives the same number of parts needs more memory for the same work.
    """
    sizes = sorted({-(-count // parts) for parts in range(1, count + 1)})
    return np.array(sizes, dtype=np.int64) - 1
