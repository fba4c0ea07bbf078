# SPDX-License-Identifier: Apache-2.0
"""CHAMELEON: a learning walker over the cost model, and clustering of what it finds.

Source: Ahn et al., "CHAMELEON: Adaptive Code Optimization for Expedited Deep Neural Network
Compilation", ICLR 2020. `ChameleonTuner` is the method as published. `ChameleonCodeTuner` is what
the public code runs: its tuner builds the sampler but never hands it to the loop, so that the
points with the highest scores are measured without clustering, and its walks end where most knobs
settle. Both fit the relative speed itself (regression) and keep the best 64 points of a search, as
that code does.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

from tilewright.tuner.search.learning.adaptive_sampling import KNEE, adaptive_sample
from tilewright.tuner.search.learning.exploration import AdaptiveExploration
from tilewright.tuner.search.model_based.cost_model import Objective
from tilewright.tuner.search.model_based.planned_search import Explorer, ModelBasedTuner
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Offer

P = TypeVar("P")


class ChameleonCodeTuner(ModelBasedTuner[P]):
    """Adaptive exploration alone; arguments as `ModelBasedTuner`."""

    takes: ClassVar = frozenset({Offer.EXPERIENCE})
    SETTLING: ClassVar[bool] = True

    def __init__(
        self, space: Space[P], *, objective: Objective = "regression", **options: Any
    ) -> None:
        super().__init__(space, objective=objective, **options)
        self._exploration: Final = AdaptiveExploration(space, self.rng, settling=self.SETTLING)

    def _explorer(self) -> Explorer:
        return self._exploration


class ChameleonTuner(ChameleonCodeTuner[P]):
    """Adaptive exploration and adaptive sampling: fewer measurements between two fits.

    Args:
        knee: of the clustering's loss, see `adaptive_sampling`; the others as `ModelBasedTuner`.
    """

    SETTLING: ClassVar[bool] = False

    def __init__(self, space: Space[P], *, knee: float = KNEE, **options: Any) -> None:
        super().__init__(space, **options)
        self._knee: Final = knee

    def _select(self, points: list[Index]) -> list[Index]:
        return adaptive_sample(
            self.space,
            points,
            wanted=self.is_new,
            seed=int(self.rng.integers(2**31)),
            limit=self._plan_size,
            knee=self._knee,
        )
