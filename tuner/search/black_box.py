# SPDX-License-Identifier: Apache-2.0
"""The frame of an adapter: a library's own ask and tell behind the `Tuner` contract.

Libraries of black-box optimisation search a box; ours has invalid points, and a point is never
measured twice. So a library minimises the cost of the *repaired* point: what it asks for is
shrunk until the mask accepts it, and what was measured before is answered from memory. When it
keeps asking for what is known, a random new point is measured and told to it instead.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Result, Tuner

P = TypeVar("P")
T = TypeVar("T")

REPEATS: Final = 4
"""Known points that a library may ask for in a row before a random one is measured."""


def repair(space: Space[Any], index: Index) -> Index | None:
    """A valid point near a point of the box, or None when shrinking finds none.

    While the point is not valid, the ordered knob that stands highest above its smallest value
    is halved: tiles shrink until they fit, the largest first.
    """
    positions = list(index)
    while not space.valid(tuple(positions)):
        ordered = [k for k, knob in enumerate(space.knobs) if knob.ordered and positions[k] > 0]
        if not ordered:
            return None
        positions[max(ordered, key=positions.__getitem__)] //= 2
    return tuple(positions)


class BlackBoxTuner(Tuner[P], Generic[P, T]):
    """Forwards to a library's optimiser, whose proposals are tokens of type T.

    Args:
        space: where to search.
        seed: entropy of the generator; the library's seed is drawn from it.
        initial: points to propose first; the library is told their costs.
    """

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._tokens: dict[Index, T] = {}
        self._values: dict[Index, float | None] = {}

    # -- what an adapter defines ------------------------------------------------------------

    @abstractmethod
    def _library_ask(self) -> tuple[T, Index]:
        """The library's next proposal and the point of the box that it stands for."""

    @abstractmethod
    def _library_tell(self, token: T, value: float | None) -> None:
        """The cost of a proposal; None: it failed, or there was nothing to measure."""

    @abstractmethod
    def _library_add(self, index: Index, value: float | None) -> None:
        """The cost of a point that the library did not ask for; None: it failed."""

    # -- the contract -----------------------------------------------------------------------

    def _propose(self) -> Index | None:
        for _ in range(REPEATS):
            token, wanted = self._library_ask()
            index = repair(self.space, wanted)
            if index is not None and self.is_new(index):
                self._tokens[index] = token
                return index
            self._library_tell(token, None if index is None else self._values.get(index))
        return None

    def _learn(self, result: Result) -> None:
        self._values[result.index] = result.value
        if result.index in self._tokens:
            self._library_tell(self._tokens.pop(result.index), result.value)
        else:
            self._library_add(result.index, result.value)
