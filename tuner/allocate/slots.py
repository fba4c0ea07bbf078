# SPDX-License-Identifier: Apache-2.0
"""Run a network's searches slot by slot, as an allocator decides, over any search tuner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.tuner.allocate._base import Allocator, Slot
from tilewright.tuner.search import Result, Tuner, TunerError

Floats = npt.NDArray[np.float64]

Outcome = tuple[float | None, float]
"""Value (cycles; None: no valid measurement) and price of one trial."""


class Pull(Protocol):
    """Gives one arm a slot."""

    def __call__(self, arm: int, length: float) -> Slot:
        """Search until trials of at least ``length`` are paid, or nothing is left."""
        ...


class SearchPull:
    """Gives slots to search tuners: ask, measure, tell until the slot is paid for.

    A trial that begins inside the slot is finished: a slot costs at least its length, and at
    least one trial.
    """

    def __init__(
        self,
        tuners: Sequence[Tuner[Any]],
        measure: Callable[[int, Sequence[Any]], Sequence[Outcome]],
        *,
        batch: int = 1,
    ) -> None:
        if batch < 1:
            raise TunerError("must be at least 1", field="batch", value=batch)
        self.tuners: Final = tuple(tuners)
        self._measure: Final = measure
        self._batch: Final = batch

    def __call__(self, arm: int, length: float) -> Slot:
        """One slot of an arm (see `Pull`)."""
        tuner = self.tuners[arm]
        prices: list[float] = []
        values: list[float | None] = []
        while sum(prices) < length:
            candidates = tuner.ask(self._batch)
            if not candidates:
                break
            outcomes = self._measure(arm, [c.point for c in candidates])
            tuner.tell(
                [
                    Result(index=candidate.index, value=value)
                    for candidate, (value, _) in zip(candidates, outcomes, strict=True)
                ]
            )
            values += [value for value, _ in outcomes]
            prices += [price for _, price in outcomes]
        return Slot(prices=tuple(prices), values=tuple(values), exhausted=tuner.exhausted)


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a run went.

    Attributes:
        costs: cost of the network then, shape (trials,); infinite while a task has no
            valid measurement.
    """

    times: Floats  # price paid after each trial, shape (trials,)
    costs: Floats
    overheads: Floats  # seconds of deciding until then, shape (trials,)
    choices: tuple[int, ...]  # the arm of each slot

    def time_to(self, cost: float, *, overhead: float = 0.0) -> float:
        """Price paid when the network first cost at most ``cost``; infinite if it never did."""
        reached = np.flatnonzero(self.costs <= cost)
        if not len(reached):
            return float("inf")
        return float(self.times[reached[0]] + overhead * self.overheads[reached[0]])

    def cost_at(self, when: float) -> float:
        """Cost of the network when the price ``when`` was paid; infinite before any trial."""
        done = int(np.searchsorted(self.times, when, side="right"))
        return float(self.costs[done - 1]) if done else float("inf")


def run_slots(
    allocator: Allocator,
    pull: Pull,
    *,
    budget: float,
    until: Callable[[float], bool] = lambda _: False,
) -> Course:
    """Give slots until the budget is paid."""
    if not budget > 0:
        raise TunerError("must be positive", field="budget", value=budget)
    now, deciding = 0.0, 0.0
    times: list[float] = []
    costs: list[float] = []
    overheads: list[float] = []
    choices: list[int] = []
    while now < budget:
        started = time.perf_counter()
        arm = allocator.choose()
        deciding += time.perf_counter() - started
        if arm is None:
            break
        others, best = _rest(allocator, arm)
        slot = pull(arm, allocator.slot)
        for price, value in zip(slot.prices, slot.values, strict=True):
            now += price
            best = min(best, np.inf if value is None else value)
            times.append(now)
            costs.append(others + allocator.arms[arm].count * best)
            overheads.append(deciding)
        started = time.perf_counter()
        allocator.tell(arm, slot)
        deciding += time.perf_counter() - started
        choices.append(arm)
        if costs and until(costs[-1]):
            break
    return Course(
        times=np.array(times),
        costs=np.array(costs),
        overheads=np.array(overheads),
        choices=tuple(choices),
    )


def _rest(allocator: Allocator, arm: int) -> tuple[float, float]:
    """Cost of the network without an arm, and the arm's own best."""
    bests = [np.inf if track.best is None else track.best for track in allocator.tracks]
    others = sum(a.count * bests[k] for k, a in enumerate(allocator.arms) if k != arm)
    return float(others), float(bests[arm])
