# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's cost model: gradient-boosted trees that score points, the higher the better.

Source: Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, sections 3 and 4, with
the settings of TVM's `xgboost_cost_model.py`: trees of depth 3, step 0.3, at most 8,000 rounds,
stopped when the average recall of the best points has not risen for 20 rounds. The target is the
relative speed best/cost, 0 for a failed trial. Experience of other tasks becomes a base model
whose score is the starting point of the new one; its weight halves every 50 measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.experience import Costs, Experience
from tilewright.tuner.search.features import Features

Objective = Literal["rank", "regression"]

Scores = npt.NDArray[np.float32]
"""Shape (points,): predicted merit, higher is better; only its order has a meaning."""

ROUNDS: Final = 8000
PATIENCE: Final = 20
"""Boosting stops after this many rounds without a better recall."""

HALF_LIFE: Final = 50.0
"""Measurements after which the base model counts half."""

LEAST_WEIGHT: Final = 0.05
"""The base model is dropped when it counts less."""

_XGBOOST: Final[dict[Objective, dict[str, Any]]] = {
    # One random partner a point, as XGBoost formed pairs when AutoTVM was published.
    "rank": {
        "objective": "rank:pairwise",
        "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": 1,
    },
    "regression": {"objective": "reg:squarederror"},
}
_TREES: Final = {
    "max_depth": 3,
    "eta": 0.3,
    "gamma": 1e-4,
    "min_child_weight": 1,
    "lambda": 1.0,
    "tree_method": "hist",
    "nthread": 1,
    "verbosity": 0,
    "disable_default_eval_metric": True,  # its metric of ranks takes integer labels only
}


class CostModel:
    """Learns to order the points of one space."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        objective: Objective = "rank",
        recall_at: int = 64,
        seed: int = 0,
        experience: Sequence[Experience] = (),
    ) -> None:
        self._settings: Final = {**_XGBOOST[objective], **_TREES, "seed": seed}
        self._recall_at: Final = recall_at
        self._base = self._learn_base(names, experience)
        self._weight = 0.0 if self._base is None else 1.0
        self._booster: Any = None

    @property
    def ready(self) -> bool:
        """Whether it can score: something was learnt here or elsewhere."""
        return self._booster is not None or self._base is not None

    def fit(self, features: Features, costs: Costs) -> None:
        """Learn this task's measurements, all of them, from scratch.

        Args:
            features: shape (points, features).
            costs: shape (points,), infinite where a trial failed; one at least is finite.
        """
        self._weight = 0.5 ** (len(costs) / HALF_LIFE) if self._base is not None else 0.0
        if self._weight < LEAST_WEIGHT:
            self._base, self._weight = None, 0.0
        self._booster = self._boost(features, relative_speed(costs), [len(costs)])

    def score(self, features: Features) -> Scores:
        """Merit of points of shape (points, features)."""
        if self._booster is None:
            return self._margin(features)
        found = self._booster.inplace_predict(
            features, predict_type="margin", base_margin=self._margin(features)
        )
        return np.asarray(found, dtype=np.float32)

    def _learn_base(self, names: Sequence[str], experience: Sequence[Experience]) -> Any:
        useful = [e for e in experience if np.isfinite(e.costs).any()]
        if not useful:
            return None
        self._base, self._weight = None, 0.0
        return self._boost(
            np.concatenate([e.columns(names) for e in useful]),
            np.concatenate([relative_speed(e.costs) for e in useful]),
            [len(e.costs) for e in useful],
        )

    def _margin(self, features: Features) -> Scores:
        """What the base model contributes to a score."""
        if self._base is None:
            return np.zeros(len(features), dtype=np.float32)
        found = self._base.inplace_predict(features, predict_type="margin")
        return np.asarray(self._weight * found, dtype=np.float32)

    def _boost(self, features: Features, speeds: Costs, groups: list[int]) -> Any:
        import xgboost  # noqa: PLC0415 - an optional dependency

        data = xgboost.DMatrix(
            features,
            label=speeds,
            qid=np.repeat(np.arange(len(groups)), groups),
            base_margin=self._margin(features),
            nthread=1,
        )
        return xgboost.train(
            self._settings,
            data,
            ROUNDS,
            evals=[(data, "measured")],
            custom_metric=_recall_metric(speeds, groups, self._recall_at),
            callbacks=[
                xgboost.callback.EarlyStopping(
                    rounds=PATIENCE, metric_name="recall", maximize=True, save_best=True
                )
            ],
            verbose_eval=False,
        )


def relative_speed(costs: Costs) -> Costs:
    """Best cost over each cost: 1 for the best point, 0 for a failed trial; shape (points,)."""
    finite = costs[np.isfinite(costs)]
    return (finite.min() if len(finite) else 1.0) / costs


def average_recall(scores: Scores, speeds: Costs, top: int) -> float:
    """Mean over n = 1 ... top of the share of the n best points among the n highest scores."""
    n = min(top, len(scores))
    worst = np.maximum(_places(scores), _places(speeds))
    hits = np.cumsum(np.bincount(worst, minlength=n)[:n])
    return float(np.mean(hits / np.arange(1, n + 1)))


def _places(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Place of each value in the descending order."""
    places = np.empty(len(values), dtype=np.int64)
    places[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return places


def _recall_metric(
    speeds: Costs, groups: list[int], top: int
) -> Callable[[Scores, object], tuple[str, float]]:
    """XGBoost's form of `average_recall`: its mean over the tasks."""
    cuts = np.cumsum(groups)[:-1]

    def metric(scores: Scores, _: object) -> tuple[str, float]:
        pairs = zip(np.split(scores, cuts), np.split(speeds, cuts), strict=True)
        return "recall", float(np.mean([average_recall(s, t, top) for s, t in pairs]))

    return metric
