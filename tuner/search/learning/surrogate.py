# SPDX-License-Identifier: Apache-2.0
"""The surrogate: gradient-boosted trees that stand for the accelerator while agents are trained.

It predicts a *score*, the negative logarithm of the cost in units of its spread over what was
measured: 0 is a typical measurement, 1 a standard deviation better. Scores of different layers are
on one scale, so the rewards made of them need no tuning. A trial without a valid measurement gets
a score below every other.

Source: trees as the model of a tuner, AutoTVM (Chen et al., NeurIPS 2018); XGBoost (Chen and
Guestrin, KDD 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import xgboost

from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.space import Index

Scores = npt.NDArray[np.float64]
"""Shape (points,)."""

FAILED_MARGIN: Final = 1.0
"""How far below the worst measurement the score of a failed trial is, in deviations."""

ROUNDS: Final = 80
"""Trees of a member."""

PARAMETERS: Final = {
    "objective": "reg:squarederror",
    "tree_method": "exact",
    "max_depth": 6,
    "eta": 0.2,
    "nthread": 1,
    "verbosity": 0,
}


class Surrogate:
    """Scores of points, learned from measurements."""

    def __init__(self, encoder: FeatureEncoder, *, members: int = 1) -> None:
        self._encoder: Final = encoder
        self._members: Final = members
        self._boosters: list[xgboost.Booster] = []

    def fit(self, costs: Mapping[Index, float | None]) -> None:
        """Forget everything and learn from the measurements."""
        scores = scores_of(list(costs.values()))
        data = xgboost.DMatrix(self._encoder.encode(list(costs)), label=scores, nthread=1)
        sampled = 1.0 if self._members == 1 else 0.7
        self._boosters = [
            xgboost.train({**PARAMETERS, "subsample": sampled, "seed": member}, data, ROUNDS)
            for member in range(self._members)
        ]

    def scores(self, indices: Sequence[Index]) -> Scores:
        """Expected scores of some points, higher is better."""
        scores: Scores = self.member_scores(indices).mean(axis=0)
        return scores

    def member_scores(self, indices: Sequence[Index]) -> npt.NDArray[np.float64]:
        """What each member expects: shape (members, points)."""
        features = self._encoder.encode(indices)
        return np.stack(
            [np.asarray(b.inplace_predict(features), dtype=np.float64) for b in self._boosters]
        )


def scores_of(costs: Sequence[float | None]) -> Scores:
    """The scores that the surrogate learns."""
    measured = [cost for cost in costs if cost is not None]
    if not measured:
        return np.zeros(len(costs))
    # A cost may be 0 or negative in a space that is not of cycles: logarithms need a shift there.
    shift = 1.0 - min(measured) if min(measured) <= 0 else 0.0
    merit = np.array([np.nan if c is None else -np.log(c + shift) for c in costs], dtype=np.float64)
    scores = (merit - np.nanmean(merit)) / (np.nanstd(merit) + 1e-9)
    filled: Scores = np.where(np.isnan(scores), np.nanmin(scores) - FAILED_MARGIN, scores)
    return filled
