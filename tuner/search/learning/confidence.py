# SPDX-License-Identifier: Apache-2.0
"""Which of the visited points are measured: confidence sampling and what it is compared with.

Confidence sampling (DCO-Comp): draw candidates with the softmax of the critic's value, keep those
at or above a dynamic threshold, the median of the drawn, replace the others by the per-knob mode
of the kept ones, and drop what was measured before. Its code is not public: who is a candidate,
the temperature, the median and the filling of empty places are ours (docs/explanation/dcoc.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.features import Features
from tilewright.tuner.search.space import Index

TEMPERATURE: Final = 1.0
"""Of the softmax, in standard deviations of the candidates' values."""

LEADERS: Final = 2
"""Leaders a place, the most confident points of the pool: confident draws are made of them alone.

Walkers visit hundreds of points for a plan of eight, and the softmax of all of them gives most of
its probability to mediocre ones, because they are so many.
"""


class Selection(StrEnum):
    """How points are chosen for measuring."""

    CONFIDENCE = "confidence"
    TOP = "top"
    KMEANS = "kmeans"
    THOMPSON = "thompson"


@dataclass(frozen=True, kw_only=True)
class CandidatePool:
    """Candidates: distinct points that were not measured."""

    indices: tuple[Index, ...]  # of the points
    features: Features  # shape (points, features)
    scores: npt.NDArray[np.float64]  # shape (members, points), the surrogate's; higher is better
    values: npt.NDArray[np.float64]  # shape (points,), the critic's; higher is better

    def __len__(self) -> int:
        return len(self.indices)

    def leaders(self, count: int) -> CandidatePool:
        """The points of the highest values, highest first; all when there are not so many."""
        first = np.argsort(-self.values, kind="stable")[:count]
        return CandidatePool(
            indices=tuple(self.indices[i] for i in first),
            features=self.features[first],
            scores=self.scores[:, first],
            values=self.values[first],
        )


Accept = Callable[[Index], bool]
"""Whether a point may be measured: legal, and new."""


def select(
    kind: Selection, pool: CandidatePool, count: int, *, accept: Accept, rng: np.random.Generator
) -> list[Index]:
    """Up to ``count`` points to measure, fewer only if the pool is smaller."""
    if len(pool) <= count:
        return list(pool.indices)
    if kind is Selection.CONFIDENCE:
        return confidence_sampling(pool, count, accept=accept, rng=rng)
    choose = {
        Selection.TOP: _top,
        Selection.KMEANS: _clusters,
        Selection.THOMPSON: _thompson,
    }[kind]
    return [pool.indices[i] for i in choose(pool, count, rng)]


def confidence_sampling(
    pool: CandidatePool, count: int, *, accept: Accept, rng: np.random.Generator
) -> list[Index]:
    """The points that confidence sampling measures.

    The synthesised mode is one point, measured once: the places that it leaves are filled with
    draws of the softmax of the whole pool, whatever their confidence, so that the surrogate is
    corrected elsewhere too. (Confident points alone are one corner of the space:
    docs/explanation/dcoc.md.)
    """
    leaders = pool.leaders(LEADERS * count)
    drawn = softmax_order(leaders.values, rng)[:count]
    threshold = np.median(leaders.values[drawn])
    kept = [leaders.indices[i] for i in drawn if leaders.values[i] >= threshold]
    chosen = list(kept)
    mode = knob_modes(kept)
    if len(chosen) < count and mode not in chosen and accept(mode):
        chosen.append(mode)
    rest = (pool.indices[i] for i in softmax_order(pool.values, rng))
    chosen.extend(islice((i for i in rest if i not in kept and i != mode), count - len(chosen)))
    return chosen


def softmax_order(values: npt.NDArray[np.float64], rng: np.random.Generator) -> list[int]:
    """Draws without replacement with the softmax of standardised values (Gumbel top-k)."""
    logits = (values - values.mean()) / (values.std() + 1e-9) / TEMPERATURE
    return [int(i) for i in np.argsort(-(logits + rng.gumbel(size=len(values))), kind="stable")]


def knob_modes(indices: Sequence[Index]) -> Index:
    """The most frequent position of each knob; of equally frequent ones the first met."""
    return tuple(Counter(column).most_common(1)[0][0] for column in zip(*indices, strict=True))


def _top(pool: CandidatePool, count: int, rng: np.random.Generator) -> Sequence[int]:
    """Those with the best scores."""
    del rng
    return [int(i) for i in np.argsort(-pool.scores.mean(axis=0), kind="stable")[:count]]


def _clusters(pool: CandidatePool, count: int, rng: np.random.Generator) -> Sequence[int]:
    """The point closest to the centre of each of ``count`` clusters (CHAMELEON's sampler).

    Lloyd's iterations from centres drawn as in k-means++ (Arthur and Vassilvitskii, SODA 2007).
    """
    points = (pool.features - pool.features.mean(axis=0)) / (pool.features.std(axis=0) + 1e-6)
    centres = points[[int(rng.integers(len(points)))]]
    while len(centres) < count:
        far = _squares(points, centres).min(axis=1)
        far = far / far.sum() if far.sum() > 0 else np.full(len(far), 1 / len(far))
        centres = np.vstack([centres, points[int(rng.choice(len(points), p=far))]])
    for _ in range(10):
        nearest = _squares(points, centres).argmin(axis=1)
        filled = np.unique(nearest)
        centres[filled] = [points[nearest == c].mean(axis=0) for c in filled]
    distances = _squares(points, centres)
    chosen: list[int] = []
    for c in range(count):
        order = np.argsort(distances[:, c], kind="stable")
        chosen.append(next(int(i) for i in order if int(i) not in chosen))
    return chosen


def _squares(points: Features, centres: Features) -> npt.NDArray[np.float64]:
    """Squared distances: shape (points, centres)."""
    gaps = points[:, None, :].astype(np.float64) - centres[None, :, :]
    distances: npt.NDArray[np.float64] = (gaps**2).sum(axis=-1)
    return distances


def _thompson(pool: CandidatePool, count: int, rng: np.random.Generator) -> Sequence[int]:
    """The favourite of a random member of the ensemble, ``count`` times, without repetition."""
    scores = pool.scores.copy()
    chosen: list[int] = []
    for _ in range(count):
        favourite = int(scores[int(rng.integers(len(scores)))].argmax())
        chosen.append(favourite)
        scores[:, favourite] = -np.inf
    return chosen
