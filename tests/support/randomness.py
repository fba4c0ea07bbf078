# SPDX-License-Identifier: Apache-2.0
"""All randomness of the tests: one seed for a run, which TILEWRIGHT_SEED repeats.

Each test draws from a generator of its own, made of the seed and a name, so that neither the
choice nor the order of tests matters. `conftest.py` gives hypothesis the same seed. Workers and
what a test starts inherit the seed; a run that fails ends with it.
"""

from __future__ import annotations

import math
import os
from collections import Counter

import numpy as np
import pytest

from tilewright.testing.randomness import SEED, generator

__all__ = ["SEED", "VARIABLE", "fresh_rng", "generator", "sample", "where"]

VARIABLE = "TILEWRIGHT_SEED"

os.environ[VARIABLE] = str(SEED)

_drawn: Counter[str] = Counter()
"""Generators that `fresh_rng` has made for a test so far."""


def fresh_rng() -> np.random.Generator:
    """The next generator of the test that runs."""
    test = os.environ["PYTEST_CURRENT_TEST"]
    _drawn[test] += 1
    return generator(f"{test} {_drawn[test]}")


def sample(fast: int, full: int) -> list:
    """Numbers of random cases: the first ``fast`` in every run, others in slow runs.

    Slow runs draw a fresh share of the others, so that they end within an hour or two: a quarter,
    or as many percent as ``TILEWRIGHT_SLOW_CASES`` says.
    """
    share = int(os.environ.get("TILEWRIGHT_SLOW_CASES", "25")) / 100
    end = fast + math.ceil((full - fast) * share)
    slow = (pytest.param(n, marks=pytest.mark.slow) for n in range(fast, end))
    return [*range(fast), *slow]


def where(**facts: object) -> str:
    """What failed, for an assertion's message."""
    return ", ".join([f"{VARIABLE}={SEED}", *(f"{k} {v}" for k, v in facts.items())])
