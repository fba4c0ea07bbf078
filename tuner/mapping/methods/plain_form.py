# SPDX-License-Identifier: Apache-2.0
"""Which mappings are worth sampling: order classes, ceiling-efficient tiles, no idle PEs.

Of the 720 orders of a level, three classes matter. Each loop indexes two tensors and leaves one as
it is; a tensor stays in its buffer while the innermost loops are ones that leave it. To have all
loops that leave one tensor innermost is at least as good as any order that keeps the same tensor.
Of the tiles of a loop, those matter that are the smallest for their number of tiles. Clusters and
PEs beyond the tiles that there are do nothing.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from typing import Final

import numpy as np

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.nest import DIMENSIONS, RELEVANT, LoopNest, NestKind
from tilewright.tuner.mapping.space import INNER, OUTER

_D: Final = len(DIMENSIONS)


@functools.cache
def order_classes(kind: NestKind) -> tuple[tuple[int, ...], ...]:
    """One order for each tensor that may stay: the loops that do not index it are innermost."""
    found = []
    for relevant in RELEVANT[kind].values():
        innermost = [d for d, name in enumerate(DIMENSIONS) if name not in relevant]
        found.append((*(d for d in range(_D) if d not in innermost), *innermost))
    return tuple(found)


@functools.lru_cache(maxsize=1 << 14)
def efficient_tiles(extent: int) -> tuple[int, ...]:
    """The smallest tile for each number of tiles, ascending: about 2 sqrt(extent) of them."""
    found, tiles = set(), 1
    while tiles <= extent:
        tile = -(-extent // tiles)
        found.add(tile)
        # The next number of tiles that makes them smaller.
        tiles = extent if tile == 1 else -(-extent // (tile - 1))
        if tile == 1:
            break
    return tuple(sorted(found))


def step_tile(extent: int, tile: int, steps: int) -> int:
    """The efficient tile some steps larger (or smaller) than the one at ``tile``."""
    tiles = efficient_tiles(extent)
    place = bisect_left(tiles, min(tile, extent)) + steps
    return tiles[max(0, min(len(tiles) - 1, place))]


def without_idle(nest: LoopNest, batch: Batch) -> Batch:
    """Mappings with no more clusters and PEs than there are tiles for them; in place."""
    rows = np.arange(len(batch))
    sizes = np.broadcast_to(np.array(nest.sizes, dtype=np.int32), (len(batch), _D))
    for extent, tile, parallel, wide in (
        (sizes, batch[:, OUTER.tile], batch[:, OUTER.parallel], OUTER.units),
        (batch[:, OUTER.tile], batch[:, INNER.tile], batch[:, INNER.parallel], INNER.units),
    ):
        tiles = -(-extent[rows, parallel] // tile[rows, parallel])
        np.minimum(batch[:, wide], tiles, out=batch[:, wide])
    return batch
