# SPDX-License-Identifier: Apache-2.0
"""Allocators that look at no result: the static baselines of DynaTune's comparison.

Static allocation with early stopping: only tasks that still improve take part.

DynaTune's comparison calls them dynamic allocation with random and with round-robin selection.
What its text leaves open is chosen here: a task stops after ``patience`` trials without an
improvement, and all take part again when every one has stopped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from tilewright.tuner.allocate._base import Allocator, Arm
from tilewright.tuner.search import TunerError

PATIENCE = 48
"""Trials without an improvement after which a task stops."""


class _Dynamic(Allocator):
    """Keeps the tasks that still improve."""

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


class Headroom(Allocator):
    """The arm with the largest count x (best - bound) / (1 + stale slots)^2.

    The bound says where a search is nearly done, which no black-box allocator can know. The
    discount keeps a bound that no schedule reaches from drawing all the time. An arm whose bound
    is unknown has all of its cost to lose.
    """

    def _choose(self, available: list[int]) -> int:
        def left(arm: int) -> float:
            track, known = self.tracks[arm], self.arms[arm]
            stale = track.stale / max(1.0, track.trials / max(1, track.slots))
            gap = (track.best or 0.0) - (known.bound or 0.0)
            return known.count * max(0.0, gap) / (1.0 + stale) ** 2

        return max(available, key=left)


class Sequential(Allocator):
    """One task after the other, in network order, an equal number of trials each.

    This is how AutoTVM tunes a network (Chen et al., NeurIPS 2018): a loop over its tasks. Time
    that is left after the last task goes round in turn.
    """

    def __init__(
        self, arms: Sequence[Arm], *, trials: int = 128, patience: int | None = None, **options: Any
    ) -> None:
        super().__init__(arms, **options)
        for name, value in (("trials", trials), ("patience", patience)):
            if value is not None and value < 1:
                raise TunerError("must be at least 1", field=name, value=value)
        self._trials: Final = trials
        self._patience: Final = patience

    def _choose(self, available: list[int]) -> int:
        for arm in available:
            track = self.tracks[arm]
            stopped = self._patience is not None and track.stale >= self._patience
            coming = (self.slots_of(arm) - track.slots) * self.slot
            if track.trials + coming < self._trials and not stopped:
                return arm
        return self.fewest_slots(available)


class Random(Allocator):
    """Any task, drawn uniformly for each slot."""

    def _choose(self, available: list[int]) -> int:
        return available[int(self.rng.integers(len(available)))]


class RoundRobin(Allocator):
    """Each task in turn."""

    def _choose(self, available: list[int]) -> int:
        return self.fewest_slots(available)


class _Proportional(Allocator):
    """Slots in proportion to a claim that does not change.

    The next slot goes where claim / (slots + 1) is largest (D'Hondt's apportionment), so that the
    proportion holds at any time and not only at the end.
    """

    @abstractmethod
    def _claim(self, arm: int) -> float:
        """What an arm's part of the slots is in proportion to."""

    def _choose(self, available: list[int]) -> int:
        return max(available, key=lambda arm: self._claim(arm) / (self.slots_of(arm) + 1))


class Linear(_Proportional):
    """Slots in proportion to each task's operations, count included (DynaTune's baseline)."""

    def _claim(self, arm: int) -> float:
        return self.arms[arm].count * self.arms[arm].work


class LinearLatency(_Proportional):
    """Slots in proportion to what each task costs untuned, count included.

    A task whose untuned schedule was not measured claims its best cost so far.
    """

    def _claim(self, arm: int) -> float:
        known = self.arms[arm].start or self.tracks[arm].best or 0.0
        return self.arms[arm].count * known
