# SPDX-License-Identifier: Apache-2.0
"""Loop nests on the vector unit: many axes in few instructions of two loops each."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

ITERATIONS_MAX: Final = (1 << 16) - 1
"""Most iterations of a hardware loop."""


class VectorLoop(NamedTuple):
    """A loop: its trip count and the steps of accumulator and operand, in tiles."""

    trips: int
    acc: int
    res: int


ONCE: Final = VectorLoop(1, 0, 0)


class Pass(NamedTuple):
    """One instruction: its two loops, and its first accumulator and operand tile."""

    outer: VectorLoop
    inner: VectorLoop
    acc: int
    res: int

    @property
    def acc_span(self) -> int:
        """Tiles from its first accumulator to behind its last."""
        return 1 + sum(axis.acc * (axis.trips - 1) for axis in (self.outer, self.inner))


@lru_cache(maxsize=4096)
def passes(axes: tuple[VectorLoop, ...], acc: int, res: int) -> tuple[Pass, ...]:
    """Cover a nest with as few instructions as two loops each allow.

    Neighbouring axes that are one affine loop together are joined. The two longest run in
    hardware; each iteration of the others is an instruction.
    """
    longest = sorted(_joined(axes), key=lambda axis: -axis.trips)
    inner, outer, *others = (*longest, ONCE, ONCE)
    return tuple(
        Pass(
            outer,
            inner,
            acc + sum(axis.acc * step for axis, step in zip(others, steps, strict=True)),
            res + sum(axis.res * step for axis, step in zip(others, steps, strict=True)),
        )
        for steps in product(*(range(axis.trips) for axis in others))
    )


def _joined(axes: tuple[VectorLoop, ...]) -> list[VectorLoop]:
    joined: list[VectorLoop] = []
    for axis in axes:
        if axis.trips == 1:
            continue
        if joined:
            last = joined[-1]
            trips = last.trips * axis.trips
            follows = axis[1:] == (last.trips * last.acc, last.trips * last.res)
            if follows and trips <= ITERATIONS_MAX:
                joined[-1] = last._replace(trips=trips)
                continue
        joined.append(axis)
    return joined
