# SPDX-License-Identifier: Apache-2.0
"""A DRAM whose timing differs from run to run, as that of a board whose CPU uses it too."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from tilewright.host.machine.board import MemoryModel

LATENCY_SPREAD: Final = 0.1
"""Standard deviation of the logarithm of a run's latencies."""

DISTURBED: Final = 0.05
"""Share of runs beside which the CPU moves much data ..."""

DISTURBANCE: Final = 3
"""... and what latencies are multiplied by then."""


class NoisyMemory:
    """Draws the timing of one run after the other; its median is the timing that it is given."""

    def __init__(self, timing: MemoryModel, seed: int) -> None:
        self._timing: Final = timing
        self._rng: Final = np.random.default_rng(seed)

    def draw(self) -> MemoryModel:
        """The timing of the next run."""
        factor = math.exp(self._rng.normal(0.0, LATENCY_SPREAD))
        if self._rng.random() < DISTURBED:
            factor *= DISTURBANCE
        return replace(
            self._timing,
            read_latency=max(1, round(self._timing.read_latency * factor)),
            write_latency=max(1, round(self._timing.write_latency * factor)),
        )
