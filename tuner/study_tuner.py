# SPDX-License-Identifier: Apache-2.0
"""The tuner of one search of a study: prior, shared knowledge, and what an ablation takes away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tilewright.tuner.residual import ResidualPool
from tilewright.tuner.search import Tuner, make_tuner
from tilewright.tuner.settings import DEFAULT_TUNER, StudySettings
from tilewright.tuner.space import Index, Space
from tilewright.tuner.space_prior import SpacePrior


class TunerFactory:
    """Makes the tuners of one study.

    Args:
        settings: name, seed and ablations.
    """

    def __init__(self, settings: StudySettings) -> None:
        self._settings: Final = settings
        self._pool: Final = ResidualPool()

    def make(
        self,
        space: Space[Any],
        *,
        seed: tuple[int, ...],
        initial: Sequence[Index],
        prior: SpacePrior | Callable[[Any], float],
    ) -> Tuner[Any]:
        """A tuner; those of one factory share what the default tuner learns."""
        settings = self._settings
        options: dict[str, Any] = {}
        if settings.tuner == DEFAULT_TUNER:
            options = {
                "pool": ResidualPool() if "pooling" in settings.without else self._pool,
                "calibrate": "calibration" not in settings.without,
                "descend": "descent" not in settings.without,
            }
        return make_tuner(
            settings.tuner,
            space,
            seed=(settings.seed, *seed),
            initial=initial,
            prior=None if "prior" in settings.without else prior,
            **options,
        )
