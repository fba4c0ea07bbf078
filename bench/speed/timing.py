# SPDX-License-Identifier: Apache-2.0
"""How much of everything `bench execution` times, and how."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """How much is measured."""

    layers: tuple[str, ...]
    trials: int
    jobs: int
    commits: int
    writers: tuple[int, ...]
    rows: tuple[int, ...]
    repeats: int


def timed(action: Callable[[], object]) -> float:
    """Wall-clock seconds of a call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
