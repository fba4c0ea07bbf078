# SPDX-License-Identifier: Apache-2.0
"""Spaces in which an index stands for itself."""

from tilewright.tuner.search.space import Index, Knob, Space


class Points(Space[Index]):
    """Every index of some knobs is valid and stands for itself."""

    def decode(self, index: Index) -> Index:
        return index

    def encode(self, point: Index) -> Index:
        return point

    def _refusal(self, index: Index) -> str:
        return ""


class Grid(Points):
    """Every place of a grid."""

    def __init__(self, *sizes: int, ordered: bool = True) -> None:
        super().__init__(
            [
                Knob(name=f"k{n}", values=tuple(range(s)), ordered=ordered)
                for n, s in enumerate(sizes)
            ]
        )
