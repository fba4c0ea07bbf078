# SPDX-License-Identifier: Apache-2.0
"""Static allocation with early stopping: only tasks that still improve take part.

DynaTune's comparison calls them dynamic allocation with random and with round-robin selection.
What its text leaves open is chosen here: a task stops after ``patience`` trials without an
improvement, and all take part again when every one has stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.tuner.allocate._base import Allocator, Arm
from tilewright.tuner.search import TunerError

PATIENCE = 48
"""Trials without an improvement after which a task stops."""


class _Dynamic(Allocator):
    """Keeps the tasks that still improve.

    Args:
        patience: trials without an improvement after which a task stops.
        options: of `Allocator`.

    Raises:
        TunerError: ``patience`` is below 1.
    """

    def __init__(self, arms: Sequence[Arm], *, patience: int = PATIENCE, **options: Any) -> None:
        super().__init__(arms, **options)
        if patience < 1:
            raise TunerError("must be at least 1", field="patience", value=patience)
        self._patience = patience


class DynamicRandom(_Dynamic):
    """Any task that still improves, drawn uniformly."""

    def _choose(self, available: list[int]) -> int:
        moving = self.moving(available, self._patience)
        return moving[int(self.rng.integers(len(moving)))]


class DynamicRoundRobin(_Dynamic):
    """Each task that still improves in turn."""

    def _choose(self, available: list[int]) -> int:
        return self.fewest_slots(self.moving(available, self._patience))
