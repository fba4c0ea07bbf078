# SPDX-License-Identifier: Apache-2.0
"""Differential evolution of Nevergrad as a tuner.

Source: Storn and Price, "Differential Evolution", Journal of Global Optimization 1997, as
Nevergrad's `DE` runs it: population 30, ordered knobs as rounded numbers, unordered ones as
weights of which the largest wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import nevergrad
import numpy as np

from tilewright.tuner.search.black_box import BlackBoxTuner
from tilewright.tuner.search.space import Index, Space

P = TypeVar("P")

FAILED: Final = 1e18
"""What a failed trial costs: more than any measurement."""


class DifferentialEvolutionTuner(BlackBoxTuner[P, Any]):
    """Nevergrad's differential evolution; arguments as `BlackBoxTuner`."""

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        ordered = [k for k, knob in enumerate(space.knobs) if knob.ordered and len(knob) > 1]
        unordered = [k for k, knob in enumerate(space.knobs) if not knob.ordered]
        if not ordered and not unordered:
            unordered = [0]  # the library refuses to search where there is nothing to choose
        self._ordered: Final = ordered
        self._unordered: Final = unordered
        axes = nevergrad.p.Tuple(
            *_grid([len(space.knobs[k]) for k in ordered]),
            *(
                nevergrad.p.Choice(list(range(len(space.knobs[k]))), deterministic=True)
                for k in unordered
            ),
        )
        axes.random_state.seed(int(self.rng.integers(2**31)))
        self._optimiser: Final = nevergrad.optimizers.registry["DE"](parametrization=axes)

    def _library_ask(self) -> tuple[Any, Index]:
        candidate = self._optimiser.ask()
        chosen = np.concatenate([np.atleast_1d(part) for part in candidate.value])
        positions = [0] * len(self.space.knobs)
        for knob, position in zip(self._ordered + self._unordered, chosen.tolist(), strict=True):
            positions[knob] = int(position)
        return candidate, tuple(positions)

    def _library_tell(self, token: Any, value: float | None) -> None:
        self._optimiser.tell(token, FAILED if value is None else value)

    def _library_add(self, index: Index, value: float | None) -> None:
        grid = [np.array([index[knob] for knob in self._ordered])] if self._ordered else []
        child = self._optimiser.parametrization.spawn_child(
            new_value=(*grid, *(index[knob] for knob in self._unordered))
        )
        self._optimiser.tell(child, FAILED if value is None else value)


def _grid(sizes: list[int]) -> list[Any]:
    """Positions of ordered knobs of these sizes, as one rounded array; none without knobs."""
    if not sizes:
        return []
    upper = np.array(sizes, dtype=np.float64) - 1
    return [nevergrad.p.Array(init=upper / 2, lower=0 * upper, upper=upper).set_integer_casting()]
