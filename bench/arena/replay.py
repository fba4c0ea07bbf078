# SPDX-License-Identifier: Apache-2.0
"""One tuner against one table: what it found after how many measurements, and what it cost.

The tuner sees a `TableSpace`: the knobs of the task, with legality looked up. Every trial is
charged, the first ones too; no point is measured twice. A run ends at its budget, when the tuner
has nothing left to ask for, or (without noise) when it has found the exact optimum, after which
nothing can change but its bill.

Two arms. *masked*: only legal points are valid, for every tuner alike. *as-published*: every point
is valid, the tuner is told None for an illegal one and pays for it, as the seeds' own code does.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.bench.arena.tables import Table
from tilewright.bench.arena.tasks import Task
from tilewright.host.machine.board import load_memory
from tilewright.tuner.schedule.space_prior import JointPrior, SchedulePrior
from tilewright.tuner.search import TUNERS, Offer, Result, Tuner, make_tuner, taken_by
from tilewright.tuner.search.experience import Experience
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import SpacePrior

P = TypeVar("P")

ARMS: Final = ("masked", "as-published")

INITIAL: Final = 8
"""Random points that every tuner measures first; the same for all on a task and seed."""

BATCH: Final = 8
"""Candidates of an ask: eight boards or worker processes at work at once."""

PAST_POINTS: Final = 64
"""Measurements of another task that a tuner with experience is told."""

BUDGETS: Final = (16, 32, 64, 128, 256, 512, 1000)
"""Measurements after which the state of a run is kept, so that runs of different budgets can be
compared at the smaller one."""


class TableSpace(Space[P]):
    """A space whose legality is known."""

    def __init__(self, inner: Space[P], valid: npt.NDArray[np.bool_]) -> None:
        super().__init__(inner.knobs)
        self.inner: Final = inner
        self._valid: Final = valid

    def decode(self, index: Index) -> P:
        """The point of an index."""
        return self.inner.decode(index)

    def encode(self, point: P) -> Index:
        """The index of a point."""
        return self.inner.encode(point)

    def valid(self, index: Index) -> bool:
        """Whether the point may be measured."""
        return bool(self._valid[index])

    def enumerate(self, *, limit: int = 1_000_000) -> Iterator[Index]:
        """Every valid index, in lexicographic order; the limit is the table's own."""
        del limit
        for index in np.argwhere(self._valid):
            yield tuple(int(position) for position in index)

    def _refusal(self, index: Index) -> str:
        return "" if self.valid(index) else "not legal in the table"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one run is."""

    task: str  # `Task.id`
    tuner: str  # a name in `TUNERS`
    seed: int  # of the initial points and of the tuner
    arm: str = "masked"  # of `ARMS`
    noise: float = 0.0  # standard deviation of a measurement's logarithm; 0: exact
    budget: int = 256  # measurements
    prior: bool = True  # a tuner that takes a predicted cost gets one (the grey-box track)
    ideal: bool = False  # the predicted cost takes the memory for an ideal one
    options: Mapping[str, Any] = field(default_factory=dict)  # of the tuner's class (ablations)
    # tasks of which `PAST_POINTS` measurements are told beforehand (transfer)
    past: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Event:
    """The state of a run when its incumbent changes, after each of `BUDGETS`, and at its end."""

    trial: int  # measurements so far, this one included
    cycles: int  # true cycles of the incumbent
    flat: int  # position of the incumbent in the table
    tuner_seconds: float  # core-seconds inside the tuner so far
    measured_cycles: int  # sum of the cycles of all legal measurements so far
    invalid: int  # illegal measurements so far


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    trial: Trial  # what was run
    # by `Event.trial`: from the first legal measurement, if there is one, to the end
    events: tuple[Event, ...]
    trials: int  # measurements made
    tuner_seconds: float  # core-seconds inside the tuner


def initial_points(space: Space[Any], task: str, seed: int) -> list[Index]:
    """The points that every tuner measures first on a task and seed."""
    rng = np.random.default_rng([seed, _number(task), 1])
    drawn = [space.sample(rng) for _ in range(4 * INITIAL)]
    return list(dict.fromkeys(index for index in drawn if index is not None))[:INITIAL]


def noise_of(trial: Trial, flat: int) -> float:
    """The factor that a measurement of a point is off by: the same for every tuner."""
    if not trial.noise:
        return 1.0
    rng = np.random.default_rng([trial.seed, _number(trial.task), 2, flat])
    return float(np.exp(trial.noise * rng.standard_normal()))


def prior_of(task: Task, *, ideal: bool = False) -> SpacePrior:
    """The closed form that the grey-box tuners are offered: no measurement, and not free."""
    memory = load_memory("ideal") if ideal else task.memory
    if len(task.configs) == 1:
        return SchedulePrior(task.configs[0], task.workload, memory)
    return JointPrior(task.configs, task.workload, memory)


def experience_of(table: Table, seed: int) -> Experience:
    """What a tuner is told of another task: points of it, drawn at random, and their cycles."""
    task = table.task
    space: TableSpace[Any] = TableSpace(task.space, table.legal)
    rng = np.random.default_rng([seed, _number(task.id), 3])
    drawn = dict.fromkeys(space.sample(rng) for _ in range(PAST_POINTS))
    results = [Result(index=i, value=table.measure(i)) for i in drawn if i is not None]
    return Experience.of(task.id, space, results)


def replay(table: Table, trial: Trial, past: Sequence[Table] = ()) -> Run:
    """Run a tuner against a table."""
    valid = table.legal if trial.arm == "masked" else np.ones_like(table.legal)
    space: TableSpace[Any] = TableSpace(table.task.space, valid)
    initial = initial_points(space, trial.task, trial.seed)
    TUNERS.load(trial.tuner)  # an import is not part of a search
    known = [experience_of(other, trial.seed) for other in past]
    grey = trial.prior and Offer.PRIOR in taken_by(trial.tuner)
    bill = _Bill()
    with bill:
        tuner: Tuner[Any] = make_tuner(
            trial.tuner,
            space,
            seed=(trial.seed, _number(trial.task)),
            initial=initial,
            prior=prior_of(table.task, ideal=trial.ideal) if grey else None,
            **({"experience": known} if known else {}),
            **trial.options,
        )
    log = _Log(table, trial, bill)
    while log.trials < trial.budget and not log.finished:
        with bill:
            batch = tuner.ask(min(BATCH, trial.budget - log.trials))
        if not batch:
            break
        results = [Result(index=c.index, value=log.measure(c.index)) for c in batch]
        with bill:
            tuner.tell(results)
    return log.run()


class _Bill:
    """Adds up the core-seconds of this process inside `with` blocks, all threads together."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._started


class _Log:
    """Answers measurements and keeps the events of a run."""

    def __init__(self, table: Table, trial: Trial, bill: _Bill) -> None:
        self.trials = 0
        self._table, self._trial, self._bill = table, trial, bill
        self._events: list[Event] = []
        self._measured_cycles = self._invalid = 0
        self._best = float("inf")
        self._incumbent: tuple[int, int] | None = None

    @property
    def finished(self) -> bool:
        """Whether the exact optimum is found and known to be."""
        exact = self._incumbent is not None and self._incumbent[0] == self._table.optimum
        return exact and not self._trial.noise

    def measure(self, index: Index) -> float | None:
        """The value that the tuner is told."""
        self.trials += 1
        value = self._answer(index)
        better = value is not None and value < self._best
        if value is not None and better:
            self._best = value
            self._incumbent = (int(self._table.cycles[index]), self._flat(index))
        if better or (self.trials in BUDGETS and self._incumbent is not None):
            self._events.append(self._event())
        return value

    def run(self) -> Run:
        """The finished run."""
        if self._incumbent is not None:
            if self._events[-1].trial == self.trials:
                self._events.pop()
            self._events.append(self._event())
        return Run(
            trial=self._trial,
            events=tuple(self._events),
            trials=self.trials,
            tuner_seconds=self._bill.seconds,
        )

    def _answer(self, index: Index) -> float | None:
        cycles = self._table.measure(index)
        if cycles is None:
            self._invalid += 1
            return None
        self._measured_cycles += cycles
        return cycles * noise_of(self._trial, self._flat(index))

    def _flat(self, index: Index) -> int:
        return int(np.ravel_multi_index(index, self._table.cycles.shape))

    def _event(self) -> Event:
        cycles, flat = self._incumbent or (0, 0)
        return Event(
            trial=self.trials,
            cycles=cycles,
            flat=flat,
            tuner_seconds=round(self._bill.seconds, 6),
            measured_cycles=self._measured_cycles,
            invalid=self._invalid,
        )


def _number(text: str) -> int:
    """A number that depends on a text alone, in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
