# SPDX-License-Identifier: Apache-2.0
"""Random sampling: what every other group mapper has to beat."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.multicore.encoding import random_population
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe

CHUNK: Final = 1024
"""Mappings drawn at once."""


class RandomMapper(GroupMapper):
    """Draws cores and priorities evenly."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        while True:
            probe.makespans(random_population(probe.instance.table, min(CHUNK, probe.left), rng))
