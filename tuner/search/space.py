# SPDX-License-Identifier: Apache-2.0
"""Search spaces: named discrete knobs, a validity test, and the point that an index stands for.

A tuner sees only indices (one integer a knob) and the `Space` interface, so every tuner works on
schedules, on configurations and on both at once. Spaces own no rule: a schedule is valid when
`host.lowering.legal` says so, a configuration when `HwConfig` accepts it and it fits the board.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np

from tilewright.host.common.errors import TilewrightError

Index = tuple[int, ...]
"""One position a knob: the coded form of a point."""

P = TypeVar("P")

SAMPLE_ATTEMPTS: Final = 48
"""Raw draws before a draw is repaired instead of rejected."""


class SpaceError(TilewrightError):
    """A space is empty, too large to enumerate, or does not contain a point."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One discrete choice.

    Attributes:
        name: as the literature names it.
        values: the legal values, ascending when ``ordered``.
        ordered: neighbours are adjacent values; otherwise every other value is a neighbour.

    Example:
        >>> import tilewright as tw
        >>> knob = tw.Knob(name="order", values=("rows", "columns"), ordered=False)
        >>> len(knob), knob.position("columns")
        (2, 1)
    """

    name: str
    values: tuple[Any, ...]
    ordered: bool = True

    def __post_init__(self) -> None:
        """Refuse an empty knob and duplicate values."""
        if not self.values or len(set(self.values)) != len(self.values):
            raise SpaceError("a knob needs distinct values", field=self.name, value=self.values)

    def __len__(self) -> int:
        return len(self.values)

    def position(self, value: object) -> int:
        """Position of a value.

        Raises:
            SpaceError: the knob does not offer it.
        """
        try:
            return self.values.index(value)
        except ValueError as error:
            raise SpaceError(
                "the knob does not offer this value",
                field=self.name,
                value=value,
                remedy=f"values: {', '.join(map(str, self.values))}",
            ) from error

    def draw(self, rng: np.random.Generator) -> int:
        """A position: log-uniform over the positions of an ordered knob, else uniform.

        Sizes matter by ratio, and most products of large tiles fit no scratchpad: a log-uniform
        draw spends its rejections where a uniform one would waste them. Every position has a
        positive probability.
        """
        n = len(self.values)
        if not self.ordered or n < 4:
            return int(rng.integers(n))
        return min(n - 1, int(math.exp(rng.random() * math.log(n + 1))) - 1)


class Space(ABC, Generic[P]):
    """A finite set of valid points coded as indices.

    A point is coded by one position per knob. `schedule_space` makes the space of a layer's
    schedules; a tuner searches any space.

    Args:
        knobs: the choices, in the order of an index.

    Example:
        >>> import numpy as np
        >>> import tilewright as tw
        >>> space = tw.schedule_space(tw.dense("fc", 1, 64, 16), "tiny-4x4", kind="vta")
        >>> isinstance(space, tw.Space), [knob.name for knob in space.knobs][-2:]
        (True, ['h_threading', 'oc_threading'])
        >>> index = space.sample(np.random.default_rng(0))
        >>> space.encode(space.decode(index)) == index
        True
    """

    def __init__(self, knobs: Sequence[Knob]) -> None:
        self.knobs: Final = tuple(knobs)
        self._verdicts: dict[Index, str] = {}

    # -- what a space defines ---------------------------------------------------------------

    @abstractmethod
    def decode(self, index: Index) -> P:
        """The point of an index.

        Raises:
            TilewrightError: the point cannot even be constructed.
        """

    @abstractmethod
    def encode(self, point: P) -> Index:
        """The index of a point; inverse of `decode`.

        Raises:
            SpaceError: the space does not contain the point.
        """

    @abstractmethod
    def _refusal(self, index: Index) -> str:
        """Why an index is not valid, or an empty text."""

    # -- what follows from it ---------------------------------------------------------------

    @property
    def raw_size(self) -> int:
        """Points before constraints: the product of the knobs' sizes."""
        return math.prod(len(knob) for knob in self.knobs)

    def refusal(self, index: Index) -> str:
        """Why an index is not valid, or an empty text. Verdicts are remembered."""
        known = self._verdicts.get(index)
        if known is None:
            known = self._verdicts[index] = self._outside(index) or self._refusal(index)
        return known

    def _outside(self, index: Index) -> str:
        """Why an index names no point at all; a negative position is none, too."""
        if len(index) != len(self.knobs):
            return f"must have {len(self.knobs)} positions, not {len(index)}"
        for knob, position in zip(self.knobs, index, strict=True):
            if not 0 <= position < len(knob):
                return f"{knob.name}: must be a position from 0 to {len(knob) - 1}, not {position}"
        return ""

    def valid(self, index: Index) -> bool:
        """Whether the index stands for a point that may be measured."""
        return not self.refusal(index)

    def values(self, index: Index) -> dict[str, Any]:
        """Knob names to values."""
        return {
            knob.name: knob.values[position]
            for knob, position in zip(self.knobs, index, strict=True)
        }

    def index_of(self, values: dict[str, Any]) -> Index:
        """Inverse of `values`.

        Raises:
            SpaceError: a knob does not offer its value.
        """
        return tuple(knob.position(values[knob.name]) for knob in self.knobs)

    def sample(self, rng: np.random.Generator) -> Index | None:
        """A valid index, or None when none was found.

        Rejection with the knobs' proposals; after `SAMPLE_ATTEMPTS` failures a draw is repaired
        by halving ordered positions, one random knob at a time, until it is valid. Every valid
        index has a positive probability.
        """
        for _ in range(SAMPLE_ATTEMPTS):
            index = tuple(knob.draw(rng) for knob in self.knobs)
            if self.valid(index):
                return index
        for _ in range(SAMPLE_ATTEMPTS):
            index = tuple(knob.draw(rng) for knob in self.knobs)
            repaired = self._shrink(index, rng)
            if repaired is not None:
                return repaired
        return None

    def _shrink(self, index: Index, rng: np.random.Generator) -> Index | None:
        positions = list(index)
        while not self.valid(tuple(positions)):
            large = [i for i, k in enumerate(self.knobs) if k.ordered and positions[i] > 0]
            if not large:
                return None
            knob = large[int(rng.integers(len(large)))]
            positions[knob] //= 2
        return tuple(positions)

    def line(self, index: Index, knob: int, *, steps: Sequence[int] = ()) -> list[Index]:
        """Valid indices that differ from ``index`` in one knob.

        Args:
            index: where the line starts.
            knob: the knob that varies.
            steps: distances in positions, both directions, for an ordered knob; empty means all
                positions. An unordered knob always offers all.
        """
        size, here = len(self.knobs[knob]), index[knob]
        if self.knobs[knob].ordered and steps:
            wanted = [here + sign * step for step in steps for sign in (1, -1)]
        else:
            wanted = [*range(here + 1, size), *range(here)]
        line = []
        for position in dict.fromkeys(wanted):
            if 0 <= position < size and position != here:
                other = (*index[:knob], position, *index[knob + 1 :])
                if self.valid(other):
                    line.append(other)
        return line

    def neighbours(self, index: Index) -> list[Index]:
        """Valid indices one knob step away."""
        found = []
        for knob in range(len(self.knobs)):
            found += self.line(index, knob, steps=(1,))
        return found

    def enumerate(self, *, limit: int = 1_000_000) -> Iterator[Index]:
        """Every valid index, in lexicographic order.

        Raises:
            SpaceError: the raw space exceeds ``limit`` points.
        """
        if self.raw_size > limit:
            raise SpaceError(
                f"only spaces of up to {limit} raw points are enumerated",
                field="space",
                value=self.raw_size,
                remedy="use the space kind 'vta', or sample",
            )
        for index in itertools.product(*(range(len(knob)) for knob in self.knobs)):
            if self.valid(index):
                yield index
