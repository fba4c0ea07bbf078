# SPDX-License-Identifier: Apache-2.0
"""AutoTVM: a learned ranking of points, searched by simulated annealing.

Source: Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, with the settings of
TVM 0.8's `XGBTuner`: rank objective, plan of 64, 128 chains of 500 steps, 5 % random. Instead of
the features of a loop nest the model sees the knobs (TVM's feature type ``knob``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

from tilewright.tuner.search.model_based.annealing import SimulatedAnnealing
from tilewright.tuner.search.model_based.planned_search import Explorer, ModelBasedTuner
from tilewright.tuner.search.space import Space
from tilewright.tuner.search.tuner import Offer

P = TypeVar("P")


class AutoTvmTuner(ModelBasedTuner[P]):
    """XGBoost rank model with parallel simulated annealing; arguments as `ModelBasedTuner`."""

    takes: ClassVar = frozenset({Offer.EXPERIENCE})

    def __init__(self, space: Space[P], **options: Any) -> None:
        super().__init__(space, **options)
        self._annealing: Final = SimulatedAnnealing(space, self.rng)

    def _explorer(self) -> Explorer:
        return self._annealing
