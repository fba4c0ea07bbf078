# SPDX-License-Identifier: Apache-2.0
"""Simulated annealing: many chains side by side, cooled as the budget is used.

Source: Kirkpatrick et al., "Optimization by Simulated Annealing", Science 220, 1983. A move changes
one thing (`moves.any_move`); a temperature is a factor of cost, as costs span orders of magnitude.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.moves import any_move

CHAINS: Final = 16
HOT: Final = 0.3
COLD: Final = 0.001
"""Temperatures at the start and the end, in the logarithm of the cost."""


class AnnealingMapper(Mapper):
    """Chains that start from random mappings and never meet."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        here = space.decode_batch(space.sample_batch(rng, CHAINS))
        costs = np.log(probe.values(here))
        while True:
            done = 1 - probe.left / probe.budget
            temperature = HOT * (COLD / HOT) ** done
            there = any_move(space, here, rng)
            found = np.log(probe.values(there))
            accepted = rng.random(CHAINS) < np.exp(np.minimum(0, (costs - found) / temperature))
            here[accepted], costs[accepted] = there[accepted], found[accepted]
