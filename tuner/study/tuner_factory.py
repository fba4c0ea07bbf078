# SPDX-License-Identifier: Apache-2.0
"""The tuner of one search of a study: prior, shared knowledge, and what an ablation takes away."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from tilewright.tuner.search import Tuner, make_tuner, tuner_class
from tilewright.tuner.search.experience import Experience
from tilewright.tuner.search.gaussian.residual import ResidualPool
from tilewright.tuner.search.prior import SpacePrior
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.study.session import Session
from tilewright.tuner.study.settings import DEFAULT_TUNER


class TunerFactory:
    """Makes the tuners of one study.

    Args:
        session: of the study: name, seed, ablations and warm start are its settings.
    """

    def __init__(self, session: Session) -> None:
        self._settings: Final = session.settings
        self._experience: Final = _experience(session)
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
        if self._experience:
            options["experience"] = self._experience
        return make_tuner(
            settings.tuner,
            space,
            seed=(settings.seed, *seed),
            initial=initial,
            prior=None if "prior" in settings.without else prior,
            **options,
        )


def _experience(session: Session) -> list[Experience]:
    """What the warm start's trials teach a tuner that takes experience of other tasks."""
    settings = session.settings
    if settings.warm_start is None:
        return []
    taken = inspect.signature(tuner_class(settings.tuner).__init__).parameters
    if "experience" not in taken:
        return []
    return settings.warm_start.experience(session.rules, settings.space)
