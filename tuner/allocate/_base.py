# SPDX-License-Identifier: Apache-2.0
"""The contract of every allocator: `choose()` an arm, `tell()` what its slot brought.

An arm is the search of one task on one configuration. The arms are rested: a search stands still
while others run, so its curve depends on the time it was given and on nothing else. A slot is a
length of time in any unit of price: seconds of measuring, or trials at a price of 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tilewright.tuner.search import TunerError

Seed = int | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is known of a task before its search begins.

    Attributes:
        start: cost of the untuned schedule (cycles); None when it was not measured.
    """

    name: str  # of the task
    count: int = 1  # occurrences in the network; a cost of the task weighs that often
    start: float | None = None
    bound: float | None = None  # no schedule costs less (cycles); None when unknown
    work: float = 1.0  # operations of one occurrence (MACs)
    group: str = ""  # tasks of equal group are alike (Ansor's similar tasks)

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("count", "start", "bound", "work"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise TunerError(
                    "must be positive and finite", field=f"{self.name}.{name}", value=value
                )


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one slot brought, trial by trial.

    Attributes:
        values: cost of each trial (cycles); None when there is no valid measurement.
    """

    prices: tuple[float, ...]  # of each trial, in the unit of the slot length
    values: tuple[float | None, ...]
    exhausted: bool = False  # the search has nothing left to propose

    def __post_init__(self) -> None:
        """Validate."""
        if len(self.prices) != len(self.values):
            raise TunerError(
                "a slot has one price a value",
                field="prices",
                value=(len(self.prices), len(self.values)),
            )
        if not self.prices and not self.exhausted:
            raise TunerError("only an exhausted search leaves a slot empty", field="exhausted")
        for number in (*self.prices, *(v for v in self.values if v is not None)):
            if not (math.isfinite(number) and number > 0):
                raise TunerError(
                    "prices and values must be positive and finite; None stands for no measurement",
                    field="slot",
                    value=number,
                )


@dataclass(kw_only=True)
class Track:
    """What an arm's slots have brought so far.

    Attributes:
        times, bests: the best-so-far curve: price spent and least cost after each trial with a
            known best.
        ends: (price spent, best) at the end of each slot.
    """

    best: float | None = None  # least cost; None before the first valid measurement
    slots: int = 0  # slots given
    spent: float = 0.0  # price of all its trials
    trials: int = 0
    stale: int = 0  # trials since the last improvement
    exhausted: bool = False  # the search has nothing left to propose
    times: list[float] = field(default_factory=list)
    bests: list[float] = field(default_factory=list)
    ends: list[tuple[float, float | None]] = field(default_factory=list)

    def add(self, slot: Slot) -> None:
        """Take in a slot."""
        for price, value in zip(slot.prices, slot.values, strict=True):
            self.spent += price
            self.trials += 1
            self.stale += 1
            if value is not None and (self.best is None or value < self.best):
                self.best, self.stale = value, 0
            if self.best is not None:
                self.times.append(self.spent)
                self.bests.append(self.best)
        self.slots += 1
        self.exhausted = slot.exhausted
        self.ends.append((self.spent, self.best))


class Allocator(ABC):
    """Decides which arm gets the next slot.

    The base class keeps the tracks, gives a slot to arms without any valid measurement before all
    others (a network has no latency without them), and ends when every search is exhausted.
    Choices depend on the arms, the options, the seed, the slots told and those that are open; on
    nothing else. Of a slot that is open nothing is known but its arm.

    Args:
        arms: the tasks.
        seed: entropy of the generator.
        slot: length of a slot, in the unit of its prices.

    Raises:
        TunerError: no arms, equal names, or a slot length that is not positive.

    A subclass defines `_choose`, and may use ``self.tracks``, ``self.share``,
    ``self.fewest_slots``, ``self.slots_of`` and ``self.rng``.

    Example:
        >>> import tilewright as tw
        >>> class Costliest(tw.Allocator):
        ...     def _choose(self, available):
        ...         return max(available, key=self.share)
        >>> issubclass(Costliest, tw.Allocator)
        True
    """

    def __init__(self, arms: Sequence[Arm], *, seed: Seed, slot: float) -> None:
        if not arms or len({arm.name for arm in arms}) != len(arms):
            raise TunerError("needs arms of distinct names", field="arms", value=len(arms))
        if not (math.isfinite(slot) and slot > 0):
            raise TunerError("must be positive and finite", field="slot", value=slot)
        self.arms: Final = tuple(arms)
        self.slot: Final = slot
        self.seed: Final = (seed,) if isinstance(seed, int) else tuple(seed)
        self.rng: Final = np.random.default_rng(self.seed)
        self.tracks: Final = tuple(Track(best=arm.start) for arm in arms)
        self._open: Final = [0] * len(arms)
        """Slots of each arm that were chosen and not told."""

    def choose(self) -> int | None:
        """The arm that gets the next slot; None when every search is exhausted.

        Slots may overlap: what an earlier one brought need not be told before.
        """
        available = self.available
        if not available:
            return None
        chosen = self._first_or(available)
        if chosen not in available:
            raise TunerError(
                "must choose one of the available arms",
                field=f"allocator {type(self).__name__}",
                value=chosen,
                remedy=f"return one of {available}",
            )
        self._open[chosen] += 1
        return chosen

    def _first_or(self, available: list[int]) -> int:
        """An arm without a valid measurement; else the algorithm's choice.

        An arm that has a slot open comes after all others: what it brings is not known yet.
        """
        free = [k for k in available if not self._open[k]]
        known = free or [k for k in available if self.tracks[k].slots]
        blank = [k for k in known if self.tracks[k].best is None] if known else available
        return min(blank, key=self.slots_of) if blank else self._choose(known)

    def tell(self, arm: int, slot: Slot) -> None:
        """Take in what a chosen arm's slot brought.

        Raises:
            TunerError: no slot of this arm is open.
        """
        if not (arm in range(len(self.arms)) and self._open[arm]):
            raise TunerError(
                "a slot is told once, by the arm that was chosen", field="arm", value=arm
            )
        self._open[arm] -= 1
        self.tracks[arm].add(slot)
        self._learn(arm)

    # -- what an algorithm defines ----------------------------------------------------------

    @abstractmethod
    def _choose(self, available: list[int]) -> int:
        """One of the available arms, each of which has a best cost.

        None of them has its first slot open.
        """

    def _learn(self, arm: int) -> None:
        """Take in the arm's track after a slot; by default nothing: tracks are kept anyway."""
        del arm

    # -- what algorithms may use ------------------------------------------------------------

    @property
    def available(self) -> list[int]:
        """Arms whose search is not exhausted, ascending."""
        return [k for k, track in enumerate(self.tracks) if not track.exhausted]

    @property
    def slots(self) -> int:
        """Slots told so far."""
        return sum(track.slots for track in self.tracks)

    @property
    def network(self) -> float | None:
        """Cost of the network: the arms' best times count; None while one has none."""
        total = 0.0
        for arm, track in zip(self.arms, self.tracks, strict=True):
            if track.best is None:
                return None
            total += arm.count * track.best
        return total

    def share(self, arm: int) -> float:
        """An arm's part of the network's cost, times count, at its best so far."""
        return self.arms[arm].count * (self.tracks[arm].best or 0.0)

    def gains(self, arm: int, window: int) -> float:
        """Cost that an arm saved in its last slots, times count, a slot.

        Args:
            arm: which.
            window: slots looked back at most.
        """
        track = self.tracks[arm]
        back = min(window, track.slots)
        if not back:
            return 0.0
        before = self.arms[arm].start if back == track.slots else track.ends[-back - 1][1]
        if before is None or track.best is None:
            return 0.0
        return self.arms[arm].count * (before - track.best) / back

    def fewest_slots(self, arms: Sequence[int]) -> int:
        """The arm with the fewest slots so far, open ones too; the first of several."""
        return min(arms, key=self.slots_of)

    def moving(self, arms: Sequence[int], patience: int) -> list[int]:
        """Arms whose last improvement is less than ``patience`` trials old; all when none is.

        This is AutoTVM's early stopping, with a second chance: time that is left when every arm
        has stopped goes to all again.
        """
        moving = [k for k in arms if self.tracks[k].stale < patience]
        return moving or list(arms)

    def slots_of(self, arm: int) -> int:
        """Slots that an arm was given, open ones too."""
        return self.tracks[arm].slots + self._open[arm]
