# SPDX-License-Identifier: Apache-2.0
"""Mappings as points of a cube, for optimisers of continuous functions.

A coordinate from 0 to 1 per tile (the outer one: logarithm as a share of the loop's; the inner one:
of the outer tile's), one per loop and order (loops sort by it), one per loop that may be parallel
(the highest is), one for the PEs of a cluster and one for the clusters, logarithms as shares of
what there is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.mapping import COLUMNS, Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import INNER, OUTER, MappingSpace
from tilewright.tuner.search.libraries.cma_restarts import minimise

Vectors = npt.NDArray[np.float64]
"""Shape ``[n, latent.width]``, from 0 to 1."""

_D: Final = len(DIMENSIONS)


class Latent:
    """The cube of one space.

    Attributes:
        width: coordinates.
    """

    def __init__(self, space: MappingSpace) -> None:
        self._space: Final = space
        arch = space.model.arch
        self._parallels: Final = [
            np.array([DIMENSIONS.index(d) for d in loops], dtype=np.int32)
            for loops in (arch.outer_parallel, arch.inner_parallel)
        ]
        outer, inner = map(len, self._parallels)
        self._ends: Final = np.cumsum([_D, _D, _D, _D, outer, inner, 1, 1])
        self.width: Final = int(self._ends[-1])

    def decode(self, vectors: Vectors) -> Batch:
        """Legal mappings of vectors, repaired where the buffers refuse one."""
        outer, inner, order2, order1, parallel2, parallel1, size, clusters = np.split(
            np.clip(vectors, 0, 1), self._ends[:-1], axis=1
        )
        arch = self._space.model.arch
        sizes = np.array(self._space.model.nest.sizes)
        batch = np.empty((len(vectors), len(COLUMNS)), dtype=np.int32)
        batch[:, OUTER.tile] = np.rint(sizes**outer)
        batch[:, INNER.tile] = np.rint(batch[:, OUTER.tile] ** inner)
        batch[:, OUTER.order] = np.argsort(order2, axis=1)
        batch[:, INNER.order] = np.argsort(order1, axis=1)
        batch[:, OUTER.parallel] = self._parallels[0][parallel2.argmax(axis=1)]
        batch[:, INNER.parallel] = self._parallels[1][parallel1.argmax(axis=1)]
        most = len(self._space.knobs[-1])
        batch[:, INNER.units] = np.rint(most ** size[:, 0])
        left = np.minimum(len(self._space.knobs[-2]), arch.pes // batch[:, INNER.units])
        batch[:, OUTER.units] = np.rint(left ** clusters[:, 0])
        return self._space.repair(batch)


class CmaEsMapper(Mapper):
    """Minimises the logarithm of the cost."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.space)
        minimise(lambda at: np.log(probe.values(latent.decode(at))), latent.width, rng)
