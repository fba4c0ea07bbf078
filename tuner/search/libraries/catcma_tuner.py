# SPDX-License-Identifier: Apache-2.0
"""CatCMA with margin: ordered knobs as integers, unordered ones as categories.

Source: Hamano et al., "CatCMA with Margin: Stochastic Optimization for Mixed-Variable Problems",
GECCO 2025. The library is ``cmaes``, with its own settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from cmaes import CatCMAwM

from tilewright.tuner.search.black_box import BlackBoxTuner
from tilewright.tuner.search.space import Index, Space

P = TypeVar("P")


class CatCmaTuner(BlackBoxTuner[P, Any]):
    """A distribution over the positions of the knobs, moved once a generation.

    A generation is told when all of it is known; what failed ranks behind everything measured.
    Points that it did not ask for do not belong to a generation and are not told.
    """

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        free = [column for column, knob in enumerate(space.knobs) if len(knob) > 1]
        self._ordered: Final = [column for column in free if space.knobs[column].ordered]
        self._named: Final = [column for column in free if not space.knobs[column].ordered]
        self._optimiser: Final = (
            CatCMAwM(
                z_space=[list(range(len(space.knobs[column]))) for column in self._ordered] or None,
                c_space=[len(space.knobs[column]) for column in self._named] or None,
                seed=int(self.rng.integers(2**31)),
            )
            if free
            else None
        )
        self._generation: list[tuple[Any, float]] = []

    def _propose(self) -> Index | None:
        return None if self._optimiser is None else super()._propose()

    def _library_ask(self) -> tuple[Any, Index]:
        assert self._optimiser is not None
        asked, index = self._optimiser.ask(), [0] * len(self.space.knobs)
        for column, value in zip(self._ordered, () if asked.z is None else asked.z, strict=True):
            index[column] = int(value)
        for column, row in zip(self._named, () if asked.c is None else asked.c, strict=True):
            index[column] = int(np.argmax(row))
        return asked, tuple(index)

    def _library_tell(self, token: Any, value: float | None) -> None:
        assert self._optimiser is not None
        self._generation.append((token, np.inf if value is None else value))
        size = self._optimiser.population_size
        if len(self._generation) < size:
            return
        told, self._generation = self._generation[:size], self._generation[size:]
        finite = [cost for _, cost in told if np.isfinite(cost)]
        worst = max(finite, default=1.0)
        self._optimiser.tell([(t, c if np.isfinite(c) else 2 * worst) for t, c in told])

    def _library_add(self, index: Index, value: float | None) -> None:
        del index, value
