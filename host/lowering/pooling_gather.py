# SPDX-License-Identifier: Apache-2.0
"""The vector instructions that gather maxima or sums from loaded rows.

Scratchpad layouts, with B interleaved blocks of a stored block: RES [batches][stored blocks]
[loaded rows][loaded columns][B], ACC [blocks][batches][rows][columns].
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tilewright.host.lowering.vector_loops import ITERATIONS_MAX, ONCE, Pass, VectorLoop, passes
from tilewright.host.network.layout import blocks_of


class Window(NamedTuple):
    """Output pixels of a tile, and what they see of a piece of input rows.

    Attributes:
        blocks, batches, rows, columns: output blocks, batch tiles, rows and columns.
        image: ACC tiles of one block and batch tile of the whole output tile.
        row_step, column_step: loaded rows (columns) from one output row (column) to the next.
        loaded_rows, loaded_columns: of the piece.
        interleave: blocks of a stored block.
        kernel_h, kernel_w: kernel rows that see the piece, and kernel columns; kernel_h may be 0.
        fresh: nothing was gathered into these pixels before.
    """

    blocks: int
    batches: int
    rows: int
    columns: int
    image: int
    row_step: int
    column_step: int
    loaded_rows: int
    loaded_columns: int
    interleave: int
    kernel_h: int
    kernel_w: int
    fresh: bool


class Gather(NamedTuple):
    """An instruction: MOV of the first value into its pixels, or MAX or ADD of further ones."""

    first: bool
    part: Pass


@lru_cache(maxsize=4096)
def gather(window: Window) -> tuple[Gather, ...]:
    """Instructions that bring a window into ACC, in order; without kernel rows a MOV alone.

    Their tiles count from the first pixel in ACC, and from the first one that it sees in RES.
    """
    line = window.loaded_columns * window.interleave
    plane = window.loaded_rows * line
    planes = blocks_of(window.blocks, window.interleave)
    pixels = (
        VectorLoop(window.columns, 1, window.column_step * window.interleave),
        VectorLoop(window.rows, window.columns, window.row_step * line),
        VectorLoop(window.batches, window.image, planes * plane),
    )
    further = _further_taps(window, line)
    found: list[Gather] = []
    for blocks, acc, res in _block_axes(window, plane):
        axes = (*pixels, *blocks)
        if window.fresh:
            found += (Gather(True, part) for part in passes(axes, acc, res))
        for taps, skipped in further:
            found += (Gather(False, part) for part in passes((*axes, *taps), acc, res + skipped))
    return tuple(found)


def _block_axes(window: Window, plane: int) -> list[tuple[tuple[VectorLoop, ...], int, int]]:
    """Axes over the output blocks, with the tiles in ACC and RES before them.

    A stored block of which the tile has only a part has axes of its own.
    """
    pixels, interleave = window.batches * window.image, window.interleave
    full, rest = divmod(window.blocks, interleave)
    found: list[tuple[tuple[VectorLoop, ...], int, int]] = []
    if full:
        axes = VectorLoop(interleave, pixels, 1), VectorLoop(full, interleave * pixels, plane)
        found.append((axes, 0, 0))
    if rest:
        found.append(((VectorLoop(rest, pixels, 1),), full * interleave * pixels, full * plane))
    return found


def _further_taps(window: Window, line: int) -> list[tuple[tuple[VectorLoop, ...], int]]:
    """Axes over the kernel positions that MAX takes, and the RES tiles that they skip.

    These are all positions, or all but the first of fresh pixels.
    """
    column, row = (
        VectorLoop(window.kernel_w, 0, window.interleave),
        VectorLoop(window.kernel_h, 0, line),
    )
    trips = column.trips * row.trips
    if line == column.trips * column.res and 0 < trips <= ITERATIONS_MAX:
        column, row = column._replace(trips=trips), ONCE
    if not window.fresh:
        return [((column, row), 0)]
    further: list[tuple[tuple[VectorLoop, ...], int]] = []
    if row.trips > 0 and column.trips > 1:
        further.append(((column._replace(trips=column.trips - 1),), column.res))
    if row.trips > 1:
        further.append(((column, row._replace(trips=row.trips - 1)), row.res))
    return further
