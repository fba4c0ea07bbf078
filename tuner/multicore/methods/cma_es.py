# SPDX-License-Identifier: Apache-2.0
"""CMA-ES over the cube of `latent`, with restarts (`search.libraries.cma_restarts`)."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.multicore.methods.latent import Latent
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.libraries.cma_restarts import minimise


class CmaEsMapper(GroupMapper):
    """Minimises the logarithm of the makespan."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.instance.table)
        minimise(lambda at: np.log(probe.makespans(latent.decode(at))), latent.width, rng)
