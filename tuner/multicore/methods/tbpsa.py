# SPDX-License-Identifier: Apache-2.0
"""Test-based population-size adaptation: an evolution strategy whose populations follow the noise.

Source: Hellwig and Beyer, "Evolution under Strong Noise", PPSN 2016 (pcCMSA-ES), as Nevergrad's
``TBPSA``, which M3E runs, has it: one centre, one step size that adapts itself, no covariances.
Every `TESTED` generations the first and the last are compared. Where nothing has been gained, the
population doubles; otherwise it shrinks, never below its first size.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.multicore.methods.standard_cube import StandardCube, inside

OFFSPRING: Final = 4
"""Per parent; at first there are as many parents as coordinates."""
TESTED: Final = 5
SIGNIFICANT: Final = 2.0
"""Gain in standard errors from which on the population shrinks."""
SHRINKING: Final = 0.84


class TbpsaMapper(GroupMapper):
    """See the module."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        cube = StandardCube(probe)
        centre, step, parents = np.zeros(cube.width), 1.0, cube.width
        generations = []
        while True:
            count = OFFSPRING * parents
            steps = step * np.exp(rng.normal(size=count) / math.sqrt(cube.width))
            points = inside(centre + steps[:, None] * rng.normal(size=(count, cube.width)))
            costs = cube.costs(points)
            best = np.argsort(costs, kind="stable")[:parents]
            centre = points[best].mean(axis=0)
            step = float(np.exp(np.log(steps[best]).mean()))
            generations.append(costs)
            if len(generations) == TESTED:
                first, last = generations[0], generations[-1]
                error = math.hypot(*(each.std() / math.sqrt(count - 1) for each in (first, last)))
                gained = first.mean() - last.mean() >= SIGNIFICANT * error
                parents = max(cube.width, int(SHRINKING * parents)) if gained else 2 * parents
                generations = []
