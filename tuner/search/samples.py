# SPDX-License-Identifier: Apache-2.0
"""Searches that spend a budget of samples: what is counted of them, and the trace that they leave.

Mappers of loop nests and of groups of jobs (`tuner.mapping.methods`, `tuner.multicore.methods`)
differ in what a sample is. A search samples through a probe until that raises `BudgetSpentError`,
or returns early when it has no more to try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.registry import make_tuner
from tilewright.tuner.search.space import Space
from tilewright.tuner.search.tuner import Candidate, Result

Values = npt.NDArray[np.float64]
"""Costs of a batch, shape ``[n]``; infinite for what is not legal."""

Seed = int | tuple[int, ...]


class BudgetSpentError(Exception):
    """Every sample of the budget is used; ends a search from within its probe."""


@dataclass(frozen=True, kw_only=True)
class SampleTrace:
    """What one run of a search found, but for the points."""

    best: Values  # the lowest cost after each sample, shape ``[budget]``; infinite before the first
    steps: npt.NDArray[np.int64]  # samples that improved on it, ascending, counted from 0
    samples: int  # that were used of the budget; a capped search stops early
    seconds: float = 0.0  # wall time of the run
    stopped: bool = False  # Ctrl-C ended it
    notes: Mapping[str, Any] = field(default_factory=dict)  # more that a mapper tells, plain values

    @property
    def value(self) -> float:
        """The lowest cost."""
        return float(self.best[-1])


class SampleProbe:
    """Charges samples and keeps the lowest cost; a mapper may set ``notes``."""

    def __init__(self, budget: int) -> None:
        self.budget: Final = budget
        self.left = budget
        self.lowest = np.inf
        self.notes: dict[str, Any] = {}
        self._steps: Final[list[int]] = []
        self._curve: Final = np.full(budget, np.inf)

    @property
    def found(self) -> bool:
        """Whether a legal point was among the samples."""
        return bool(self._steps)

    @property
    def since_improved(self) -> int:
        """Samples after the one that improved last."""
        return self.budget - self.left - (self._steps[-1] + 1 if self._steps else 0)

    def count(self, values: Values) -> npt.NDArray[np.intp]:
        """Count the costs of samples, in order, at most as many as are left; which improved."""
        start = self.budget - self.left
        best = np.minimum(np.minimum.accumulate(values), self.lowest)
        before = np.concatenate([[self.lowest], best[:-1]])
        improved = np.flatnonzero(best < before)
        self._steps.extend((start + improved).tolist())
        self._curve[start : start + len(values)] = best
        self.left -= len(values)
        if len(values):
            self.lowest = float(best[-1])
        return improved

    def charge(self, samples: int) -> None:
        """Count samples of another model that took the place of this one's."""
        start = self.budget - self.left
        self.left -= min(samples, self.left)
        self._curve[start : self.budget - self.left] = self.lowest
        self.end_if_spent()

    def end_if_spent(self) -> None:
        """End the search when no sample is left."""
        if not self.left:
            raise BudgetSpentError

    def told(self) -> dict[str, Any]:
        """The fields of a `SampleTrace` so far; after an early end, the best stays what it was."""
        self._curve[self.budget - self.left :] = self.lowest
        return {
            "best": self._curve,
            "steps": np.array(self._steps, dtype=np.int64),
            "samples": self.budget - self.left,
            "notes": self.notes,
        }


def spend(probe: SampleProbe, search: Callable[[], None], *, keep: bool = True) -> dict[str, Any]:
    """Search until the budget is spent: the fields of its `SampleTrace`.

    ``keep``: Ctrl-C ends the search early and keeps what it found, if that is anything.
    """
    started, stopped = time.perf_counter(), False
    try:
        with suppress(BudgetSpentError):
            search()
    except KeyboardInterrupt:
        if not (keep and probe.found):
            raise
        stopped = True
    return {**probe.told(), "seconds": time.perf_counter() - started, "stopped": stopped}


class AskTell:
    """Any tuner as a search: asks it for ``batch`` points at a time and tells it their costs."""

    def __init__(self, tuner: str, *, batch: int = 16) -> None:
        self._tuner: Final = tuner
        self._batch: Final = batch

    def _drive(
        self, space: Space[Any], probe: SampleProbe, rng: np.random.Generator,
        costs: Callable[[list[Candidate[Any]]], Values],
    ) -> None:  # fmt: skip
        tuner = make_tuner(self._tuner, space, seed=int(rng.integers(2**31)))
        while asked := tuner.ask(min(self._batch, probe.left)):
            told = zip(asked, costs(asked).tolist(), strict=True)
            tuner.tell([Result(index=each.index, value=value) for each, value in told])
