# SPDX-License-Identifier: Apache-2.0
"""How far two models agree on the order of what they predict."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LEAST = 3
"""Pairs: of fewer an order says nothing."""


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike, digits: int = 4) -> float | None:
    """Spearman's coefficient, ties averaged; None where it has no value.

    It has none for fewer than `LEAST` pairs, and where one side is the same throughout.
    """
    from scipy.stats import rankdata  # noqa: PLC0415  (slow to import)

    ranks = [rankdata(side) for side in (first, second)]
    if len(ranks[0]) < LEAST or any(np.ptp(side) == 0 for side in ranks):
        return None
    return round(float(np.corrcoef(*ranks)[0, 1]), digits)
