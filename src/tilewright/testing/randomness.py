# SPDX-License-Identifier: Apache-2.0
"""The seed of a run's random tests: fresh in every run, repeated by ``TILEWRIGHT_SEED``."""

from __future__ import annotations

import os
import secrets
import zlib
from typing import Final

import numpy as np


def _seed() -> int:
    if own := os.environ.get("TILEWRIGHT_SEED"):
        return int(own)
    if run := os.environ.get("PYTEST_XDIST_TESTRUNUID"):  # one seed for all workers of a run
        return zlib.crc32(run.encode()) >> 1
    return secrets.randbits(31)


SEED: Final = _seed()


def generator(name: str) -> np.random.Generator:
    """The generator of a test; prints how to get it again (pytest shows it on failure)."""
    print(f"TILEWRIGHT_SEED={SEED}")  # noqa: T201  (pytest captures it)
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])
