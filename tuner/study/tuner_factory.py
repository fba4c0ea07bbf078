# SPDX-License-Identifier: Apache-2.0
"""The tuner of one search: given what it takes, less what an ablation takes away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tilewright.tuner.search import TUNERS, Offer, Tuner
from tilewright.tuner.search.experience import Experience
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import SpacePrior

if TYPE_CHECKING:
    from tilewright.tuner.study.session import Session


class TunerFactory:
    """Makes tuners that search together."""

    def __init__(
        self,
        name: str,
        *,
        seed: int = 0,
        without: Sequence[str] = (),
        experience: Callable[[], Sequence[Experience]] = tuple,
    ) -> None:
        self._name: Final = name
        self._kind: Final = TUNERS.load(name)
        self._seed: Final = seed
        self._without: Final = without
        self._offered: Final[dict[str, Any]] = {}
        if Offer.POOL in self._kind.takes:
            with TUNERS.running(self._kind):
                self._offered[Offer.POOL] = self._kind.new_pool()
        if Offer.EXPERIENCE in self._kind.takes:
            self._offered[Offer.EXPERIENCE] = list(experience())

    @classmethod
    def of(cls, session: Session) -> TunerFactory:
        """The factory of a study: tuner, seed, ablations and warm start are its settings."""
        settings = session.settings
        warm = settings.warm_start
        return cls(
            settings.tuner,
            seed=settings.seed,
            without=settings.without,
            experience=lambda: (
                () if warm is None else warm.experience(session.rules, settings.space)
            ),
        )

    def make(
        self,
        space: Space[Any],
        *,
        seed: tuple[int, ...] = (),
        initial: Sequence[Index] = (),
        prior: SpacePrior | Callable[[Any], float],
    ) -> Tuner[Any]:
        """A tuner; those of one factory share the pool of their class."""
        options = dict(self._offered)
        if Offer.PRIOR in self._kind.takes:
            options[Offer.PRIOR] = prior
        for part in self._without:
            options |= self._kind.ablations[part]
        return TUNERS.make(self._name, space, seed=(self._seed, *seed), initial=initial, **options)
