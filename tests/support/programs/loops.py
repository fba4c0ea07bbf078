# SPDX-License-Identifier: Apache-2.0
"""The loops of the instructions, one step after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

Values = Mapping[str, int]


def tiles(v: Values) -> Iterator[tuple[int, int | None, int]]:
    """(scratchpad tile, DRAM tile or None for padding, row) of each tile of LOAD or STORE."""
    left, right, top, bottom = (
        v.get(f"pad_{side}", 0) for side in ("left", "right", "top", "bottom")
    )
    tile = v["sram_base"]
    for z in range(v["z_size"]):
        for y in range(-top, v["y_size"] + bottom):
            for x in range(-left, v["x_size"] + right):
                inside = 0 <= y < v["y_size"] and 0 <= x < v["x_size"]
                place = z * v["z_stride"] + y * v["y_stride"] + x if inside else None
                yield tile, place, z * v["y_size"] + y
                tile += 1


def nest(v: Values) -> Iterator[tuple[int, int]]:
    return product(range(v["iter_outer"]), range(v["iter_inner"]))


def places(v: Values, names: Sequence[str], o: int, i: int) -> tuple[int, ...]:
    """The tile of each operand in an iteration."""
    return tuple(v[f"{n}_base"] + o * v[f"{n}_outer"] + i * v[f"{n}_inner"] for n in names)


def products(v: Values, uops: Sequence[Values]) -> Iterator[tuple[int, int, int, bool]]:
    """Tiles of ACC, INP and WGT of each product of GEMM, and whether it starts from zero."""
    names = ("acc", "inp", "wgt")
    for o, i in nest(v):
        for uop in uops:
            acc, inp, wgt = (
                at + uop[n] for n, at in zip(names, places(v, names, o, i), strict=True)
            )
            yield acc, inp, wgt, bool(v["overwrite"] and uop["first"])
