# SPDX-License-Identifier: Apache-2.0
"""A steady-state genetic algorithm: tournaments, uniform crossover, step mutation.

Sources: tournament selection (Goldberg and Deb, FOGA 1991), uniform crossover (Syswerda, ICGA
1989), steady-state replacement of the worst (Whitley's GENITOR, ICGA 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Result, Tuner

P = TypeVar("P")

POPULATION: Final = 16
TOURNAMENT: Final = 3
CROSSOVER: Final = 0.8
BREEDING_ATTEMPTS: Final = 64


class GeneticTuner(Tuner[P]):
    """Breeds new points from the best `POPULATION` measured ones."""

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._population: list[Result] = []

    def _propose(self) -> Index | None:
        if len(self._population) < POPULATION and self.asked < 2 * POPULATION:
            return self.sample_new()
        if len(self._population) < 2:
            return self.sample_new()
        for _ in range(BREEDING_ATTEMPTS):
            child = self._breed()
            if self.is_new(child):
                return child
        return self.sample_new()

    def _learn(self, result: Result) -> None:
        if result.value is None:
            return
        self._population.append(result)
        self._population.sort(key=_cost)
        del self._population[POPULATION:]

    def _breed(self) -> Index:
        child = self._select()
        if self.rng.random() < CROSSOVER:
            other = self._select()
            take = self.rng.random(len(child)) < 0.5
            child = tuple(b if t else a for a, b, t in zip(child, other, take, strict=True))
        return self._mutate(child)

    def _select(self) -> Index:
        picks = self.rng.integers(len(self._population), size=TOURNAMENT)
        return self._population[int(picks.min())].index

    def _mutate(self, index: Index) -> Index:
        """Change each knob with probability 1/knobs, and at least one when a step is left."""
        positions = list(index)
        free = [k for k, knob in enumerate(self.space.knobs) if len(knob) > 1]
        if not free:
            return index
        chosen = [k for k in free if self.rng.random() < 1.0 / len(free)]
        for k in chosen or [free[int(self.rng.integers(len(free)))]]:
            knob = self.space.knobs[k]
            if knob.ordered:
                reach = 2 ** int(self.rng.integers(max(1, (len(knob) - 1).bit_length())))
                step = reach if self.rng.random() < 0.5 else -reach
                positions[k] = min(len(knob) - 1, max(0, positions[k] + step))
            else:
                positions[k] = int(self.rng.integers(len(knob)))
        return tuple(positions)


def _cost(result: Result) -> float:
    return float("inf") if result.value is None else result.value
