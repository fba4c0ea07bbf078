# SPDX-License-Identifier: Apache-2.0
"""Random-pruned search, as Timeloop's mapper does it.

Source: Parashar et al., "Timeloop: A Systematic Approach to DNN Accelerator Evaluation", ISPASS
2019, section V, and the ``random-pruned`` strategy of its public code. Tiles are factors of what
they cut. Of mappings that differ in loops of one step alone, or were seen before, only one is
sampled; the others are passed by without a sample.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import (
    CLUSTER_SIZE,
    CLUSTERS,
    INNER_ORDER,
    INNER_PARALLEL,
    INNER_TILE,
    OUTER_ORDER,
    OUTER_PARALLEL,
    OUTER_TILE,
    MappingSpace,
)

CHUNK: Final = 2048
BARREN: Final = 20
"""Draws without anything new in a row that end the search: the space is used up."""

_D: Final = len(DIMENSIONS)


class PrunedRandomMapper(Mapper):
    """Draws tiles that divide, and samples each distinct mapping once."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space, seen, barren = probe.space, set[bytes](), 0
        divisors = _divisor_table(space.model.nest.sizes)
        while barren < BARREN:
            batch = _draw(space, divisors, rng)
            batch = batch[space.model.costs(batch).legal]
            keys = [row.tobytes() for row in plain_orders(space, batch)]
            fresh = []
            for place, key in enumerate(keys):
                if key not in seen:
                    seen.add(key)
                    fresh.append(place)
            barren = 0 if fresh else barren + 1
            if fresh:
                probe.values(batch[fresh])


def _divisor_table(sizes: tuple[int, ...]) -> dict[int, npt.NDArray[np.int32]]:
    """Divisors of each size and of each of its divisors."""
    found = {}
    for size in set(sizes):
        small = [d for d in range(1, int(size**0.5) + 1) if size % d == 0]
        every = sorted({*small, *(size // d for d in small)})
        for d in every:
            found[d] = np.array([e for e in every if d % e == 0], dtype=np.int32)
    return found


def _draw(
    space: MappingSpace, divisors: dict[int, npt.NDArray[np.int32]], rng: np.random.Generator
) -> Batch:
    """Mappings with tiles that divide, and no more clusters or PEs than there are tiles."""
    batch = space.decode_batch(space.draw_batch(rng, CHUNK))
    sizes = space.model.nest.sizes
    for d, size in enumerate(sizes):
        outer = divisors[size][rng.integers(len(divisors[size]), size=CHUNK)]
        counts = {tile: len(divisors[tile]) for tile in divisors[size].tolist()}
        pick = (rng.random(CHUNK) * [counts[tile] for tile in outer.tolist()]).astype(int)
        batch[:, d] = outer
        batch[:, _D + d] = [
            divisors[tile][p] for tile, p in zip(outer.tolist(), pick.tolist(), strict=True)
        ]
    rows = np.arange(CHUNK)
    parallel2, parallel1 = batch[:, OUTER_PARALLEL], batch[:, INNER_PARALLEL]
    tiles2 = np.array(sizes)[parallel2] // batch[rows, parallel2]
    tiles1 = batch[rows, parallel1] // batch[rows, _D + parallel1]
    np.minimum(batch[:, CLUSTERS], tiles2, out=batch[:, CLUSTERS])
    np.minimum(batch[:, CLUSTER_SIZE], tiles1, out=batch[:, CLUSTER_SIZE])
    return batch


def plain_orders(space: MappingSpace, batch: Batch) -> Batch:
    """The same mappings with all loops of one step outermost, in the order of `DIMENSIONS`.

    Mappings that differ in where such loops stand cost the same, and become equal here.
    """
    plain = batch.copy()
    sizes = np.broadcast_to(space.model.nest.sizes, (len(batch), _D))
    for order, extent, tile, parallel, wide in (
        (OUTER_ORDER, sizes, batch[:, OUTER_TILE], OUTER_PARALLEL, CLUSTERS),
        (INNER_ORDER, batch[:, OUTER_TILE], batch[:, INNER_TILE], INNER_PARALLEL, CLUSTER_SIZE),
    ):
        span = tile.astype(np.int64)
        rows = np.arange(len(batch))
        span[rows, batch[:, parallel]] *= batch[:, wide]
        still = np.take_along_axis(span >= extent, batch[:, order], axis=1)
        key = np.where(still, batch[:, order], _D + np.arange(_D))
        plain[:, order] = np.take_along_axis(batch[:, order], np.argsort(key, axis=1), axis=1)
    return plain
