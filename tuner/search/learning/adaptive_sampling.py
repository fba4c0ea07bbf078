# SPDX-License-Identifier: Apache-2.0
"""Adaptive sampling: which few of many promising points are worth a measurement.

Source: Ahn et al., "CHAMELEON: Adaptive Code Optimization for Expedited Deep Neural Network
Compilation", ICLR 2020, section 4.2 and algorithm 1; the step and the threshold of the knee are
those of its public code. The points are clustered with k = 8, 16, ... until one more step of k no
longer lowers the loss much, and the centroids stand for them. A centroid that cannot be measured
is replaced by a synthesised point: in each knob the most frequent value (mode).

Two choices are ours. Clusters are formed over all knobs, each scaled to [0, 1] (the public code
takes the raw positions of the two largest knobs); and a replacement is the mode of the cluster
first, then of all points, then the cluster's first point, since the mask refuses some modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.space import Index, Space

STEP: Final = 8
LIMIT: Final = 64

KNEE: Final = 2.5
"""k grows while each step divides the loss by more than this."""

Positions = npt.NDArray[np.int64]


def adaptive_sample(
    space: Space[Any],
    points: Sequence[Index],
    *,
    wanted: Callable[[Index], bool],
    seed: int,
    limit: int = LIMIT,
    knee: float = KNEE,
) -> list[Index]:
    """Points that stand for ``points``: at most ``limit``, all wanted, without repetition."""
    if len(points) <= STEP:
        return [point for point in points if wanted(point)]
    positions = np.array(points, dtype=np.int64)
    extent = np.maximum(1, np.array([len(knob) for knob in space.knobs]) - 1)
    centres, labels = _cluster(positions / extent, seed=seed, limit=limit, knee=knee)
    common = mode(positions)
    chosen: dict[Index, None] = {}
    for cluster, centre in enumerate(np.rint(centres * extent).astype(np.int64)):
        members = positions[labels == cluster]
        for candidate in (centre, mode(members), common, members[0]):
            index = tuple(int(position) for position in candidate)
            if index not in chosen and wanted(index):
                chosen[index] = None
                break
    return list(chosen)


def mode(positions: Positions) -> Positions:
    """The most frequent position of each knob (the lowest of equals), shape (knobs,)."""
    return np.array([np.bincount(column).argmax() for column in positions.T], dtype=np.int64)


def _cluster(
    scaled: npt.NDArray[np.float64], *, seed: int, limit: int, knee: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Centres, shape (k, knobs), and the cluster of each point, at the knee of the loss."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - an optional dependency

    # threadpoolctl comes with scikit-learn and has no types.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # noqa: PLC0415  (optional)

    distinct = len(np.unique(scaled, axis=0))
    last_loss = np.inf
    with threadpool_limits(limits=1):  # sums in another order may change a label
        for k in range(STEP, max(STEP, min(limit, distinct)) + 1, STEP):
            found = KMeans(n_clusters=min(k, distinct), n_init=1, random_state=seed).fit(scaled)
            if found.inertia_ >= last_loss / knee:
                break
            last_loss = found.inertia_
    return found.cluster_centers_, found.labels_
