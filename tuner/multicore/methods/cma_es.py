# SPDX-License-Identifier: Apache-2.0
"""CMA-ES over the cube of `latent`, restarted with a larger population when it stands still.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772; restarts: Auger and
Hansen, CEC 2005. The library is ``cmaes``, with its own settings.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from cmaes import CMA

from tilewright.tuner.multicore.methods.latent import Latent
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.blas_threads import one_blas_thread

SIGMA: Final = 0.25
"""First step size, as a share of the cube."""


class CmaEsMapper(GroupMapper):
    """Minimises the logarithm of the makespan."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.instance.table)
        population: int | None = None
        with one_blas_thread():
            while True:
                optimiser = CMA(
                    mean=rng.random(latent.width),
                    sigma=SIGMA,
                    bounds=np.tile([0.0, 1.0], (latent.width, 1)),
                    n_max_resampling=1,  # a draw outside is cut; in so many dimensions most are
                    seed=int(rng.integers(2**31)),
                    population_size=population,
                )
                while not optimiser.should_stop():
                    asked = [optimiser.ask() for _ in range(optimiser.population_size)]
                    costs = np.log(probe.makespans(latent.decode(np.array(asked))))
                    optimiser.tell(list(zip(asked, costs.tolist(), strict=True)))
                population = 2 * optimiser.population_size
