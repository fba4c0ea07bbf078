# SPDX-License-Identifier: Apache-2.0
"""Mappings as points of a cube, for optimisers of continuous functions.

Two coordinates from 0 to 1 per job: its core, in even shares of those that can run it, and its
priority.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.encoding import Population, random_cores
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.libraries.cma_restarts import minimise

Vectors = npt.NDArray[np.float64]
"""Shape ``[n, latent.width]``, from 0 to 1."""


class Latent:
    """The cube of one table.

    Attributes:
        width: coordinates.
    """

    def __init__(self, table: JobTable) -> None:
        self._table: Final = table
        self.width: Final = 2 * table.jobs

    def decode(self, vectors: Vectors) -> Population:
        """Mappings of vectors; what is outside of the cube is cut."""
        shares, priority = np.split(np.clip(vectors, 0, 1), 2, axis=1)
        return Population(core=random_cores(self._table, shares), priority=priority.copy())


class CmaEsMapper(GroupMapper):
    """Minimises the logarithm of the makespan."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.instance.table)
        minimise(lambda at: np.log(probe.makespans(latent.decode(at))), latent.width, rng)
