# SPDX-License-Identifier: Apache-2.0
"""Fresh random numbers whose seed a failing test shows."""

from __future__ import annotations

import sys

import numpy as np


def fresh_rng() -> np.random.Generator:
    """A generator with a new seed; pytest prints what is written when the test fails."""
    seed = np.random.SeedSequence().entropy
    sys.stdout.write(f"seed {seed}\n")
    return np.random.default_rng(seed)
