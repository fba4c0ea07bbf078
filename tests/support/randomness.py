# SPDX-License-Identifier: Apache-2.0
"""All randomness of the tests: one seed for a run, which TILEWRIGHT_SEED repeats.

Each test draws from a generator of its own, made of the seed and a name, so that neither the
choice nor the order of tests matters. `conftest.py` gives hypothesis the same seed. Workers and
what a test starts inherit the seed; a run that fails ends with it.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from tilewright.testing.randomness import SEED, generator

__all__ = [
    "SEED",
    "SLOW_SHARE",
    "VARIABLE",
    "drawn",
    "fresh_rng",
    "generator",
    "often",
    "rarely",
    "sample",
    "where",
]

VARIABLE = "TILEWRIGHT_SEED"
T = TypeVar("T")

os.environ[VARIABLE] = str(SEED)

SLOW_SHARE = int(os.environ.get("TILEWRIGHT_SLOW_CASES", "10")) / 100
"""Share of the slowest cases that a slow run draws afresh, so that it ends within two hours."""

_drawn: Counter[str] = Counter()
"""Generators that `fresh_rng` has made for a test so far."""


def fresh_rng() -> np.random.Generator:
    """The next generator of the test that runs."""
    test = os.environ["PYTEST_CURRENT_TEST"]
    _drawn[test] += 1
    return generator(f"{test} {_drawn[test]}")


def sample(fast: int, full: int) -> list:
    """Numbers of random cases: the first ``fast`` in every run, a share of the others in slow runs.

    What a number stands for is drawn from the seed, so these are other cases in each run.
    """
    end = fast + math.ceil((full - fast) * SLOW_SHARE)
    slow = (pytest.param(n, marks=pytest.mark.slow) for n in range(fast, end))
    return [*range(fast), *slow]


def drawn(name: str, cases: Iterable[T]) -> list[T]:
    """Those of fixed ``cases`` that this slow run takes: a share drawn by the seed, not none."""
    cases = list(cases)
    count = max(1, round(len(cases) * SLOW_SHARE))
    chosen = generator(f"drawn {name}").permutation(len(cases))[:count]
    return [cases[i] for i in sorted(chosen)]


def often(name: str, cases: Iterable[object], count: int) -> list:
    """All ``cases``; a fast run takes ``count`` of them, drawn by the seed, a slow run takes all.

    TILEWRIGHT_SLOW_CASES=100 makes the fast run take all too. A case of several values, or one
    with an id, is a ``pytest.param``.
    """
    cases = list(cases)
    if SLOW_SHARE == 1:
        return cases
    chosen = set(generator(f"often {name}").permutation(len(cases))[:count].tolist())
    return [case if i in chosen else _slow(case) for i, case in enumerate(cases)]


def _slow(case: object) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return case._replace(marks=(*case.marks, pytest.mark.slow))
    return pytest.param(case, marks=pytest.mark.slow)


def rarely(name: str) -> pytest.MarkDecorator:
    """Mark of one very slow test: as many slow runs take it as `SLOW_SHARE` says."""
    taken = generator(f"rarely {name}").random() < SLOW_SHARE
    return pytest.mark.skipif(not taken, reason="not drawn: TILEWRIGHT_SLOW_CASES=100 runs it")


def where(**facts: object) -> str:
    """What failed, for an assertion's message."""
    return ", ".join([f"{VARIABLE}={SEED}", *(f"{k} {v}" for k, v in facts.items())])
