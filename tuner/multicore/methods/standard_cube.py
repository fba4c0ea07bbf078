# SPDX-License-Identifier: Apache-2.0
"""The cube of `latent` in coordinates whose spread is 1, as Nevergrad's optimisers get it."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.methods.latent import Latent, Vectors
from tilewright.tuner.multicore.methods.mapper import Probe

SPREADS: Final = 6.0
"""Sides of the cube: 3 to either side of its middle, which is 0."""


class StandardCube:
    """Judges points by the logarithm of their makespans.

    Attributes:
        width: coordinates.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe: Final = probe
        self._latent: Final = Latent(probe.instance.table)
        self.width: Final = self._latent.width

    def costs(self, points: Vectors) -> Vectors:
        """Logarithms of the makespans, shape ``[n]``; points as `inside` gives them."""
        mappings = self._latent.decode(points / SPREADS + 0.5)
        costs: Vectors = np.log(self._probe.makespans(mappings))
        return costs

    def drawn(self, n: int, rng: np.random.Generator) -> Vectors:
        """First points: normal around the middle."""
        return inside(rng.normal(size=(n, self.width)))


def inside(points: Vectors) -> Vectors:
    """Points outside are reflected at the sides, once; then they are cut."""
    side = SPREADS / 2
    reflected = 2 * np.clip(points, -side, side) - points
    found: Vectors = np.clip(reflected, -side, side)
    return found
