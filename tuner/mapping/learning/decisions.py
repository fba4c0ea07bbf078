# SPDX-License-Identifier: Apache-2.0
"""Decisions: what agents choose, one categorical choice each, and the mapping that they make up.

Most knobs of `MappingSpace` are one decision. A loop order is one decision per place, outermost
first, among the loops that are left: 6 + 5 + ... choices instead of one among 720. A knob of more
than `CHOICES` values offers some of them: those that change how often a loop repeats, and powers
of two, thinned to even ratios. A knob of one value is no decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import ORDERS, Indices, MappingSpace
from tilewright.tuner.search.space import Knob

Choices = npt.NDArray[np.int64]
"""Shape ``[n, decisions]``: the number of what was chosen."""

Masks = npt.NDArray[np.bool_]
"""Shape ``[n, decisions, width]``: what may be chosen."""

CHOICES: Final = 64
"""Most values of an ordered knob that are offered."""

_PLACES: Final = len(DIMENSIONS)


def offered(knob: Knob) -> npt.NDArray[np.int64]:
    """Positions of an ordered knob that an agent may choose, ascending; both ends are among them.

    Positions stand for the numbers from 1 to the knob's size. A tile of ceil(size / m) makes a
    loop repeat m times, and any other tile that does so is larger: these come first.
    """
    size = len(knob)
    if size <= CHOICES:
        return np.arange(size)
    repeats = np.arange(1, size + 1)
    useful = np.union1d(-(-size // repeats), 1 << np.arange(size.bit_length()))
    useful = useful[useful <= size]
    while len(useful) > CHOICES:
        ratios = [large / small for small, large in pairwise(useful)]
        # The inner value whose neighbours are closest goes.
        gaps = [one * two for one, two in pairwise(ratios)]
        useful = np.delete(useful, 1 + int(np.argmin(gaps)))
    return useful - 1


@dataclass(frozen=True, kw_only=True)
class _Order:
    """Decisions of one order knob."""

    knob: int
    decisions: slice


class Decisions:
    """The decisions of one space; masks cut off the choices up to ``width`` that one has not."""

    def __init__(self, space: MappingSpace) -> None:
        self._space: Final = space
        knobs: list[int] = []
        tables: list[npt.NDArray[np.int64]] = []
        orders: list[_Order] = []
        for number, knob in enumerate(space.knobs):
            if not knob.ordered and len(knob) == len(ORDERS):
                places = _PLACES - 1  # the innermost loop is the one that is left
                orders.append(_Order(knob=number, decisions=slice(len(knobs), len(knobs) + places)))
                knobs += [number] * places
                tables += [np.arange(_PLACES)] * places
            elif len(knob) > 1:
                knobs.append(number)
                tables.append(offered(knob) if knob.ordered else np.arange(len(knob)))
        self.knobs: Final = np.array(knobs)
        self.width: Final = max(len(table) for table in tables)
        self._orders: Final = tuple(orders)
        self._tables: Final = np.stack(
            [np.pad(table, (0, self.width - len(table))) for table in tables]
        )
        self._offered: Final = np.arange(self.width) < np.array([[len(t)] for t in tables])

    @property
    def count(self) -> int:
        """Decisions of a mapping."""
        return len(self.knobs)

    def of_knobs(self, knobs: list[int]) -> tuple[int, ...]:
        """Decisions on some knobs."""
        return tuple(np.flatnonzero(np.isin(self.knobs, knobs)).tolist())

    def masks(self, choices: Choices) -> Masks:
        """What may be chosen where the decisions before it are as given."""
        masks = np.broadcast_to(self._offered, (len(choices), *self._offered.shape)).copy()
        for order in self._orders:
            taken = np.eye(self.width, dtype=np.int64)[choices[:, order.decisions]]
            before = np.cumsum(taken, axis=1) - taken
            masks[:, order.decisions] &= before == 0
        return masks

    def draw(
        self, logits: npt.NDArray[np.float32], rng: np.random.Generator
    ) -> tuple[Choices, Masks, npt.NDArray[np.float32]]:
        """Choices, masks and log-probabilities by logits of shape ``[n, decisions, width]``."""
        # The greatest of logit + Gumbel noise is a draw from the softmax; over loops that are left,
        # the noise may stay as it is drawn.
        noisy = logits + rng.gumbel(size=logits.shape).astype(np.float32)
        noisy = np.where(self._offered, noisy, -np.inf)
        choices = noisy.argmax(axis=2)
        rows = np.arange(len(choices))
        for order in self._orders:
            for place in range(order.decisions.start, order.decisions.stop):
                choices[:, place] = noisy[:, place].argmax(axis=1)
                noisy[rows[:, None], np.arange(place + 1, order.decisions.stop),
                      choices[:, place, None]] = -np.inf  # fmt: skip
        masks = self.masks(choices)
        allowed = np.where(masks, logits.astype(np.float64), -np.inf)
        shifted = allowed - allowed.max(axis=2, keepdims=True)
        totals = np.log(np.exp(shifted).sum(axis=2))
        chosen = np.take_along_axis(shifted, choices[:, :, None], axis=2)[:, :, 0]
        return choices, masks, (chosen - totals).astype(np.float32)

    def indices(self, choices: Choices) -> Indices:
        """Positions of the knobs, shape ``[n, len(space.knobs)]``."""
        found = np.zeros((len(choices), len(self._space.knobs)), dtype=np.int32)
        positions = np.take_along_axis(self._tables[None], choices[:, :, None], axis=2)[:, :, 0]
        found[:, self.knobs] = positions
        for order in self._orders:
            found[:, order.knob] = _order_positions(choices[:, order.decisions])
        return found


def _order_positions(loops: Choices) -> Indices:
    """Positions in `ORDERS`, which is in lexicographic order, of orders given but for the last.

    A place counts the loops before its own that are left, times the orders of what follows.
    """
    places = loops.shape[1]
    position = np.zeros(len(loops), dtype=np.int32)
    for place in range(places):
        earlier = (loops[:, :place] < loops[:, place, None]).sum(axis=1)
        left = places + 1 - place
        position = position * left + loops[:, place] - earlier
    return position
