# SPDX-License-Identifier: Apache-2.0
"""Allocators that look at no result: the static baselines of DynaTune's comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.search import TunerError


class Sequential(Allocator):
    """One task after the other, in network order, an equal number of trials each.

    This is how AutoTVM tunes a network (Chen et al., NeurIPS 2018): a loop over its tasks. Time
    that is left after the last task goes round in turn.

    Args:
        arms, seed, slot: see `Allocator`.
        trials: of each task.

    Raises:
        TunerError: ``trials`` is below 1.
    """

    def __init__(self, arms: Sequence[Arm], *, seed: Seed, slot: float, trials: int = 128) -> None:
        super().__init__(arms, seed=seed, slot=slot)
        if trials < 1:
            raise TunerError("must be at least 1", field="trials", value=trials)
        self._trials: Final = trials

    def _choose(self, available: list[int]) -> int:
        for arm in available:
            if self.tracks[arm].trials < self._trials:
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


class Linear(Allocator):
    """Slots in proportion to what each task costs untuned, count included.

    The next slot goes where share / (slots + 1) is largest (D'Hondt's apportionment), so that the
    proportion holds at any time and not only at the end.
    """

    def _choose(self, available: list[int]) -> int:
        def claim(arm: int) -> float:
            known = self.arms[arm].start or self.tracks[arm].best or 0.0
            return self.arms[arm].count * known / (self.tracks[arm].slots + 1)

        return max(available, key=claim)
