# SPDX-License-Identifier: Apache-2.0
"""What a network's CPU part asks of its caller and tells it, whatever process it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RegionRunner = Callable[[int, Sequence[npt.NDArray[np.int8]]], Sequence[npt.NDArray[np.int8]]]
"""Runs a region: its number and its int8 inputs in the model's shapes; returns its outputs."""


@dataclass(kw_only=True)
class HostTimes:
    """Seconds of one run: in the CPU's operators, and in regions."""

    cpu: float = 0.0
    regions: float = 0.0
