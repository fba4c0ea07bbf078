# SPDX-License-Identifier: Apache-2.0
"""`Experience`: what was measured on another layer or configuration, for a tuner to start from.

Features are matched by name. Those of `FeatureEncoder` are comparable across spaces as they are:
``tile_h.log2`` is the size itself, ``tile_h.position`` its share of the layer's extent, and
``loop_order=...`` an indicator. A feature that only one of the two spaces has is missing (NaN)
on the other side, which boosted trees take as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.features import FeatureEncoder, Features
from tilewright.tuner.search.space import Space
from tilewright.tuner.search.tuner import Result, TunerError

Costs = npt.NDArray[np.float64]
"""Shape (points,): what was measured, to be minimised; infinite where a trial failed."""


@dataclass(frozen=True, kw_only=True)
class Experience:
    """Measured points of one task.

    Attributes:
        task: what was measured; costs compare only inside a task.
        names: of the features.
        features: shape (points, len(names)).
        costs: shape (points,), infinite where a trial failed.

    Example:
        >>> import tilewright as tw
        >>> space = tw.schedule_space("C8", kind="vta")
        >>> results = [tw.Result(index=i, value=1e5) for i in list(space.enumerate())[:3]]
        >>> past = tw.Experience.of("C8 on pynq-16x16", space, results)
        >>> tuner = tw.make_tuner("autotvm", tw.schedule_space("C9"), experience=[past])
        >>> past.costs.shape
        (3,)
    """

    task: str
    names: tuple[str, ...]
    features: Features
    costs: Costs

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit together."""
        if self.features.shape != (len(self.costs), len(self.names)):
            raise TunerError(
                "an experience needs a cost a point and a feature a name",
                field=self.task,
                value=f"features {self.features.shape}, costs {self.costs.shape}",
            )

    @classmethod
    def of(cls, task: str, space: Space[object], results: Sequence[Result]) -> Experience:
        """The experience that results of a space are.

        Args:
            task: a name of layer and configuration.
            space: where the results' indices point.
            results: as told to a tuner; failures are kept, they teach what to avoid.
        """
        encoder = FeatureEncoder(space)
        return cls(
            task=task,
            names=encoder.names,
            features=encoder.encode([result.index for result in results]),
            costs=costs_of(results),
        )

    def columns(self, names: Sequence[str]) -> Features:
        """The features of these names, NaN where this task has none; shape (points, names)."""
        found = np.full((len(self.costs), len(names)), np.nan, dtype=np.float32)
        here = {name: column for column, name in enumerate(self.names)}
        for column, name in enumerate(names):
            if name in here:
                found[:, column] = self.features[:, here[name]]
        return found


def costs_of(results: Sequence[Result]) -> Costs:
    """The values of results, infinite where there is none."""
    return np.array([np.inf if r.value is None else r.value for r in results], dtype=np.float64)
