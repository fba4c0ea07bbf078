# SPDX-License-Identifier: Apache-2.0
"""A space in which every index is valid and stands for itself."""

from tilewright.tuner.search.space import Index, Knob, Space


class Grid(Space[Index]):
    """Every index is valid and stands for itself."""

    def __init__(self, *sizes: int, ordered: bool = True) -> None:
        super().__init__(
            [
                Knob(name=f"k{n}", values=tuple(range(s)), ordered=ordered)
                for n, s in enumerate(sizes)
            ]
        )

    def decode(self, index: Index) -> Index:
        return index

    def encode(self, point: Index) -> Index:
        return point

    def _refusal(self, index: Index) -> str:
        return ""
