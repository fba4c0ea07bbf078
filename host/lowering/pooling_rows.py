# SPDX-License-Identifier: Apache-2.0
"""Which input rows a pool's tile loads at a time, and which output rows they go into.

The vector instructions that gather maxima or sums from loaded rows.

Scratchpad layouts, with B interleaved blocks of a stored block: RES [batches][stored blocks]
[loaded rows][loaded columns][B], ACC [blocks][batches][rows][columns].
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tilewright.host.lowering.geometry import Span
from tilewright.host.lowering.vector_loops import ITERATIONS_MAX, ONCE, Pass, VectorLoop, passes
from tilewright.host.network.layout import blocks_of


class Window(NamedTuple):
    """Output pixels of a tile, and what they see of a piece of input rows."""

    blocks: int
    batches: int
    rows: int
    columns: int
    image: int  # ACC tiles of one block and batch tile of the whole output tile
    row_step: int  # loaded rows from one output row to the next
    column_step: int
    loaded_rows: int  # of the piece
    loaded_columns: int
    interleave: int  # blocks of a stored block
    kernel_h: int  # kernel rows that see the piece; may be 0
    kernel_w: int
    fresh: bool  # nothing was gathered into these pixels before


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


class Use(NamedTuple):
    """Output rows of a tile, the first and how many, that gather from the rows of a piece."""

    out: int
    outs: int
    row: int  # the piece's row that the first kernel row of the first output row sees
    taps: int  # kernel rows; 0 for an output row that sees padding alone
    fresh: bool  # nothing was gathered into these output rows before


class Piece(NamedTuple):
    """Input rows that are loaded at once."""

    span: Span  # the rows, without an output side; none if there is nothing to load
    uses: tuple[Use, ...]  # what is gathered from them, in order

    @property
    def loads(self) -> bool:
        """Whether there is anything to load."""
        return self.span.loaded > 0


def whole_window(row: Span, kernel: int) -> tuple[Piece, ...]:
    """All input rows of a tile at once, padding included."""
    return (Piece(replace(row, out=0, count=0), (Use(0, row.count, 0, kernel, fresh=True),)),)


@lru_cache(maxsize=4096)
def streamed_rows(
    first: int, count: int, *, height: int, stride: int, pad: int, kernel: int, most: int
) -> tuple[Piece, ...]:
    """Each stored input row of a tile once, in pieces of what an output row adds, or less."""
    seen = [_seen(out, height, stride, pad, kernel) for out in range(first, first + count)]
    blank = [Use(out, 1, 0, 0, fresh=True) for out, rows in enumerate(seen) if not rows]
    length = min(kernel, stride)
    length = -(-length // -(-length // most))
    pieces = []
    for run in _runs(seen):
        for start in range(run.start, run.stop, length):
            rows = range(start, min(start + length, run.stop))
            uses = []
            low, high = (rows.start + pad - kernel) // stride + 1, (rows.stop - 1 + pad) // stride
            for out in range(max(low - first, 0), min(high - first, count - 1) + 1):
                begin, end = max(rows.start, seen[out].start), min(rows.stop, seen[out].stop)
                fresh = begin == seen[out].start
                uses.append(Use(out, 1, begin - rows.start, end - begin, fresh))
            pieces.append(Piece(_stored(rows), tuple(uses)))
    if not blank:
        return tuple(pieces)
    if not pieces:
        return (Piece(_stored(range(0)), tuple(blank)),)
    return (pieces[0]._replace(uses=(*blank, *pieces[0].uses)), *pieces[1:])


def _seen(out: int, height: int, stride: int, pad: int, kernel: int) -> range:
    """Stored rows that an output row sees."""
    top = out * stride - pad
    return range(min(max(top, 0), height), max(min(top + kernel, height), 0))


def _runs(seen: list[range]) -> list[range]:
    """Runs of consecutive rows that some output row sees."""
    runs: list[range] = []
    for rows in seen:
        if not rows:
            continue
        if runs and rows.start <= runs[-1].stop:
            runs[-1] = range(runs[-1].start, rows.stop)
        else:
            runs.append(rows)
    return runs


def _stored(rows: range) -> Span:
    return Span(
        out=0,
        count=0,
        loaded=len(rows),
        pad_low=0,
        pad_high=0,
        source=rows.start,
        size=len(rows),
    )
