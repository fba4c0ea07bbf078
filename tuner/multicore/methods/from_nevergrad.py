# SPDX-License-Identifier: Apache-2.0
"""Optimisers of Nevergrad over the cube of `latent`, as M3E runs them: DE, PSO and TBPSA.

Sources: differential evolution (Storn and Price, 1997), particle swarms (Kennedy and Eberhart,
1995), test-based population-size adaptation (Hellwig and Beyer, PPSN 2016). Settings are
Nevergrad's.
"""

from __future__ import annotations

from typing import ClassVar, Final

import nevergrad
import numpy as np

from tilewright.tuner.multicore.methods.latent import Latent
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

BATCH: Final = 30
"""Mappings that are asked for before their makespans are told; Nevergrad's populations."""


class NevergradMapper(GroupMapper):
    """One of Nevergrad's.

    Attributes:
        name: in its registry.
    """

    name: ClassVar[str]

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.instance.table)
        axes = nevergrad.p.Array(shape=(latent.width,), lower=0.0, upper=1.0)
        axes.random_state.seed(int(rng.integers(2**31)))
        optimiser = nevergrad.optimizers.registry[self.name](
            parametrization=axes, budget=probe.budget, num_workers=BATCH
        )
        while True:
            asked = [optimiser.ask() for _ in range(min(BATCH, probe.left))]
            costs = probe.makespans(latent.decode(np.array([each.value for each in asked])))
            for candidate, cost in zip(asked, np.log(costs).tolist(), strict=True):
                optimiser.tell(candidate, cost)


class DifferentialEvolutionMapper(NevergradMapper):
    """Differential evolution."""

    name = "DE"


class ParticleSwarmMapper(NevergradMapper):
    """Particle swarm optimisation."""

    name = "PSO"


class TbpsaMapper(NevergradMapper):
    """Test-based population-size adaptation."""

    name = "TBPSA"
