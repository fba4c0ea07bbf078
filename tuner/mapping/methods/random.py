# SPDX-License-Identifier: Apache-2.0
"""Random sampling: what every other mapper has to beat."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe

CHUNK: Final = 4096
"""Mappings drawn at once."""


class RandomMapper(Mapper):
    """Draws legal mappings: tiles and PEs log-uniform, orders and parallel loops uniform."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        while True:
            indices = probe.space.sample_batch(rng, min(CHUNK, probe.left))
            probe.values(probe.space.decode_batch(indices))
