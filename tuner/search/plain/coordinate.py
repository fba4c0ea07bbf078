# SPDX-License-Identifier: Apache-2.0
"""Coordinate descent: line searches along one knob at a time, restarted when no line improves.

Each line offers steps of 1, 2, 4, ... positions in both directions (and every value of an
unordered knob), so a line costs a logarithm of the knob's size. The centre moves to the best
result told; the improving knob is searched again from there, then the next one. Knobs with few
values come first: their lines are cheap and they choose the structure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeVar

from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Result, Tuner

P = TypeVar("P")


class CoordinateTuner(Tuner[P]):
    """Greedy descent along knobs with restarts from random points."""

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._steps: Final = [
            tuple(2**k for k in range(max(1, (len(knob) - 1).bit_length()))) for knob in space.knobs
        ]
        self._centre: Index | None = None
        self._centre_value = float("inf")
        self._line: deque[Index] = deque()
        self._order: list[int] = []
        self._lines_left = 0

    def _propose(self) -> Index | None:
        while True:
            while self._line:
                index = self._line.popleft()
                if self.is_new(index):
                    return index
            if self._centre is None:
                return self.sample_new()
            if self._lines_left == 0:
                if self._pending:
                    return self._explore()
                self._centre, self._centre_value = None, float("inf")
                continue
            self._lines_left -= 1
            knob = self._order[0]
            self._order.append(self._order.pop(0))
            self._line.extend(self.space.line(self._centre, knob, steps=self._steps[knob]))

    def _explore(self) -> Index | None:
        """Every line from the centre is proposed but not yet told: fill the ask with a sample."""
        return self.sample_new()

    def _learn(self, result: Result) -> None:
        if result.value is None or result.value >= self._centre_value:
            return
        moved = self._moved_knob(result.index)
        self._centre, self._centre_value = result.index, result.value
        self._line.clear()
        if not self._order:
            shuffled = [int(k) for k in self.rng.permutation(len(self.space.knobs))]
            self._order = sorted(shuffled, key=lambda k: len(self.space.knobs[k]))
        if moved is not None:
            self._order.remove(moved)
            self._order.insert(0, moved)
        self._lines_left = len(self._order)

    def _moved_knob(self, index: Index) -> int | None:
        if self._centre is None:
            return None
        changed = [k for k, (a, b) in enumerate(zip(self._centre, index, strict=True)) if a != b]
        return changed[0] if len(changed) == 1 else None
