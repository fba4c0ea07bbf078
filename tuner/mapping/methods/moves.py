# SPDX-License-Identifier: Apache-2.0
"""Random changes of mappings, for whole batches; what several mappers share.

Each function takes a `Batch` and a mask of the rows that it changes, shape ``[n]``, in place. What
it makes may be no mapping until `MappingSpace.repair` has cut it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import INNER, OUTER, MappingSpace

Mask = npt.NDArray[np.bool_]

_D: Final = len(DIMENSIONS)


def redraw_tile(space: MappingSpace, batch: Batch, rows: Mask, rng: np.random.Generator) -> None:
    """One tile, outer or inner, drawn anew."""
    chosen = np.flatnonzero(rows)
    column = rng.integers(2 * _D, size=len(chosen))
    batch[chosen, column] = space.draw_batch(rng, len(chosen))[np.arange(len(chosen)), column] + 1


def scale_tile(space: MappingSpace, batch: Batch, rows: Mask, rng: np.random.Generator) -> None:
    """One tile, up to a factor of 2 larger or smaller, and at least by one."""
    chosen = np.flatnonzero(rows)
    column = rng.integers(2 * _D, size=len(chosen))
    tile = batch[chosen, column]
    scaled = np.rint(tile * 2.0 ** rng.uniform(-1, 1, len(chosen)))
    step = np.where(rng.random(len(chosen)) < 0.5, 1, -1)
    scaled = np.where(scaled == tile, tile + step, scaled)
    size = np.array(space.model.nest.sizes)[column % _D]
    batch[chosen, column] = np.clip(scaled, 1, size)


def swap_loops(batch: Batch, rows: Mask, rng: np.random.Generator) -> None:
    """Two loops of one order change places."""
    chosen = np.flatnonzero(rows)
    start = np.where(rng.random(len(chosen)) < 0.5, OUTER.order.start, INNER.order.start)
    pair = np.argsort(rng.random((len(chosen), _D)), axis=1)[:, :2]
    one, other = start + pair[:, 0], start + pair[:, 1]
    batch[chosen, one], batch[chosen, other] = batch[chosen, other], batch[chosen, one]


def redraw_parallel(
    space: MappingSpace, batch: Batch, rows: Mask, rng: np.random.Generator
) -> None:
    """The parallel loop of one level, drawn anew."""
    chosen = np.flatnonzero(rows)
    drawn = space.decode_batch(space.draw_batch(rng, len(chosen)))
    column = np.where(rng.random(len(chosen)) < 0.5, OUTER.parallel, INNER.parallel)
    batch[chosen, column] = drawn[np.arange(len(chosen)), column]


def redraw_clusters(
    space: MappingSpace, batch: Batch, rows: Mask, rng: np.random.Generator
) -> None:
    """Clusters, their size, or both as many as fit around a new size."""
    chosen = np.flatnonzero(rows)
    drawn = space.draw_batch(rng, len(chosen))[:, -2:] + 1
    kind = rng.integers(3, size=len(chosen))
    most = len(space.knobs[-2])
    fill = np.minimum(most, space.model.arch.pes // drawn[:, 1])
    clusters = np.select([kind == 0, kind == 1], [drawn[:, 0], batch[chosen, OUTER.units]], fill)
    batch[chosen, OUTER.units] = clusters
    batch[chosen, INNER.units] = np.where(kind == 0, batch[chosen, INNER.units], drawn[:, 1])


def any_move(space: MappingSpace, batch: Batch, rng: np.random.Generator) -> Batch:
    """Neighbours of mappings: one random change each, repaired."""
    moved = batch.copy()
    kind = rng.choice(len(_SHARES), size=len(batch), p=_SHARES)
    for number, move in enumerate(_MOVES):
        move(space, moved, kind == number, rng)
    return space.repair(moved, rng)


_MOVES: Final[tuple[Callable[[MappingSpace, Batch, Mask, np.random.Generator], None], ...]] = (
    scale_tile,
    redraw_tile,
    lambda _, batch, rows, rng: swap_loops(batch, rows, rng),
    redraw_parallel,
    redraw_clusters,
)
_SHARES: Final = (0.4, 0.2, 0.15, 0.1, 0.15)
