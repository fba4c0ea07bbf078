# SPDX-License-Identifier: Apache-2.0
"""CMA-ES over the cube of `latent`, with restarts (`search.libraries.cma_restarts`)."""

from __future__ import annotations

import numpy as np

from tilewright.tuner.mapping.methods.latent import Latent
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.search.libraries.cma_restarts import minimise


class CmaEsMapper(Mapper):
    """Minimises the logarithm of the cost."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.space)
        minimise(lambda at: np.log(probe.values(latent.decode(at))), latent.width, rng)
