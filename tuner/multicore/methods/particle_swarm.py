# SPDX-License-Identifier: Apache-2.0
"""Particle swarm optimisation, the whole swarm at once.

Source: Kennedy and Eberhart, ICNN 1995; weights of Zambrano-Bigiarini, Clerc and Rojas (SPSO 2011,
CEC 2013), with the settings of Nevergrad's ``PSO``, which M3E runs. Particles fly in a cube of side
1 that an arctangent maps all coordinates into.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tilewright.tuner.multicore.methods.latent import Vectors
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.multicore.methods.standard_cube import StandardCube, inside

SWARM: Final = 40
INERTIA: Final = 0.5 / math.log(2)
PULL: Final = 0.5 + math.log(2)
"""To the best place of the particle, and to that of the swarm."""


class ParticleSwarmMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        at = _boxed(cube.drawn(SWARM, rng))
        costs = cube.costs(_unboxed(at))
        speed = rng.uniform(-1, 1, at.shape)
        own, lowest = at.copy(), costs
        while True:
            swarm = own[np.argmin(lowest)]
            to_own, to_swarm = rng.random((2, *at.shape))
            speed = INERTIA * speed + PULL * (to_own * (own - at) + to_swarm * (swarm - at))
            at = _boxed(inside(_unboxed(np.clip(at + speed, 0, 1))))
            costs = cube.costs(_unboxed(at))
            better = costs <= lowest
            own[better], lowest = at[better], np.where(better, costs, lowest)


def _boxed(points: Vectors) -> Vectors:
    boxed: Vectors = 0.5 + np.arctan(points) / math.pi
    return boxed


def _unboxed(boxed: Vectors) -> Vectors:
    points: Vectors = np.tan(math.pi * (boxed - 0.5))
    return points
