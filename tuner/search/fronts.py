# SPDX-License-Identifier: Apache-2.0
"""Points that no other beats in several objectives at once, and how much they dominate.

All objectives are minimised. A point beats another one if it is nowhere worse and somewhere
better; of equal points the first one counts. The hypervolume of points is the volume of what they
beat inside a reference point, exactly: no point that is not below the reference in every objective
adds anything (Zitzler and Thiele, PPSN 1998).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def front(values: Floats) -> Ints:
    """Rows that no other row beats, in the order of their values.

    Args:
        values: shape (points, objectives).
    """
    order: Ints = np.lexsort(values.T[::-1])  # whatever beats a row comes before it
    if values.shape[1] == 2:  # of rows in order, those that are less in the second value
        second = values[order, 1]
        before = np.minimum.accumulate(np.concatenate([[np.inf], second[:-1]]))
        better: Ints = order[second < before]
        return better
    kept: list[int] = []
    best = np.empty_like(values)
    for row in order:
        if not (best[: len(kept)] <= values[row]).all(axis=1).any():
            best[len(kept)] = values[row]
            kept.append(int(row))
    return np.array(kept, dtype=np.int64)


def hypervolume(values: Floats, reference: Floats) -> float:
    """Volume that points dominate inside the reference point, of shape (objectives,)."""
    values = values[(values < reference).all(axis=1)]
    if not len(values):
        return 0.0
    if values.shape[1] == 1:
        return float(reference[0] - values.min())
    # Slices along the last objective: what is dominated grows from one to the next.
    values = values[front(values)]
    values = values[np.argsort(values[:, -1], kind="stable")]
    ends = np.append(values[1:, -1], reference[-1])
    thickness = ends - values[:, -1]
    return float(
        sum(
            hypervolume(values[: place + 1, :-1], reference[:-1]) * thick
            for place, thick in enumerate(thickness)
            if thick > 0
        )
    )


def gain(values: Floats, reference: Floats, point: Floats) -> float:
    """Hypervolume that a point adds to others."""
    if not (point < reference).all():
        return 0.0
    shared = hypervolume(np.maximum(values, point), reference)
    return float(np.prod(reference - point)) - shared
