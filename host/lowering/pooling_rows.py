# SPDX-License-Identifier: Apache-2.0
"""Which input rows a pool's tile loads at a time, and which output rows they go into."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tilewright.host.lowering.geometry import Span


class Use(NamedTuple):
    """Output rows that gather from the rows of a piece.

    Attributes:
        out, outs: output rows of the tile: the first one, and how many.
        row: the piece's row that the first kernel row of the first output row sees.
        taps: kernel rows; 0 for an output row that sees padding alone.
        fresh: nothing was gathered into these output rows before.
    """

    out: int
    outs: int
    row: int
    taps: int
    fresh: bool


class Piece(NamedTuple):
    """Input rows that are loaded at once.

    Attributes:
        span: the rows, without an output side; none if there is nothing to load.
        uses: what is gathered from them, in order.
    """

    span: Span
    uses: tuple[Use, ...]

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
