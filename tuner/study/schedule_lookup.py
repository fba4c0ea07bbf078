# SPDX-License-Identifier: Apache-2.0
"""`ScheduleLookup`: the schedule of every layer of a network on one configuration.

What a store has measured comes first. A workload that it does not know is searched for on the
twin with a few measurements of the default tuner, which learns across the layers. Without any
measurement it has the schedule that the closed form predicts to be the fastest.

A short layer takes the twin a millisecond, less than a tuner thinks, and the closed form knows it
least: what it waits for at its ends weighs most. So some dozens of schedules are measured in either
case: the first ones of the closed form, and from the best of them one knob after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tilewright.host.lowering import default_schedule, legal, lower
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import folds
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.device import Twin
from tilewright.tuner.measure.measurement import Request, hw_key
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.network_prior import legal_places, predicted_places
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import SchedulePrior
from tilewright.tuner.schedule.spaces import ScheduleSpace, shape_of
from tilewright.tuner.search import Result
from tilewright.tuner.search.space import Index
from tilewright.tuner.study.options import SEARCH_BUDGET
from tilewright.tuner.study.settings import DEFAULT_TUNER
from tilewright.tuner.study.tuner_factory import TunerFactory

if TYPE_CHECKING:
    from tilewright.tuner.store.store import Store

_BATCH: Final = 4
_CYCLE_LIMIT: Final = 1_000_000_000
_SHORT: Final = 20_000
"""Predicted cycles below which a layer is short."""
_FIRST: Final = 8
"""Schedules of the closed form that a short layer begins with."""
_ROUNDS: Final = 6
"""Of a descent at most."""


class Origin(StrEnum):
    """Where a schedule comes from."""

    STORE = "store"
    SEARCHED = "searched"
    PREDICTED = "predicted"
    DEFAULT = "default"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A workload's schedule.

    Attributes:
        cycles: of the workload alone, on the twin or as stored; None if it was not measured.
    """

    schedule: Schedule  # legal on the lookup's configuration
    origin: Origin  # where it comes from
    cycles: int | None


class ScheduleLookup:
    """Schedules of workloads on one configuration and memory."""

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        budget: int = SEARCH_BUDGET,
        store: Store | None = None,
    ) -> None:
        self._hw: Final = hw
        self._memory: Final = memory
        self._budget: Final = budget
        self._by_key: dict[str, Entry] = {}
        self._by_shape: dict[str, Entry] = {}
        if store is not None:
            from tilewright.tuner.store.store import values_from  # noqa: PLC0415  (slow to import)

            with values_from(store.name):
                self._by_key, self._by_shape = _best_stored(store, hw, memory)
        self._entries: dict[str, Entry] = {}
        self._tuners: Final = TunerFactory(DEFAULT_TUNER)
        self._oracle: TwinOracle | None = None

    def __call__(self, workload: Workload) -> Schedule:
        """The schedule of a workload."""
        return self.entry(workload).schedule

    def entry(self, workload: Workload) -> Entry:
        """The schedule of a workload, and where it comes from."""
        known = self._entries.get(workload.key)
        if known is None:
            known = self._entries[workload.key] = self._find(workload)
        return known

    @property
    def origins(self) -> dict[str, int]:
        """How many workloads have a schedule of each origin."""
        found = [entry.origin for entry in self._entries.values()]
        return {origin.value: found.count(origin) for origin in Origin if origin in found}

    def close(self) -> None:
        """Release the twin."""
        if self._oracle is not None:
            self._oracle.close()
            self._oracle = None

    def __enter__(self) -> ScheduleLookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, workload: Workload) -> Entry:
        for stored in (
            self._by_key.get(workload.key),
            self._by_shape.get(_shape_on(self._hw, workload)),
        ):
            if stored is not None and legal(self._hw, workload, stored.schedule).ok:
                return stored
        untuned = default_schedule(self._hw, workload)
        if not workload.kind.alone:
            return Entry(schedule=untuned, origin=Origin.DEFAULT, cycles=None)
        if not workload.kind.weighs:
            cycles = self._alone(workload, untuned) if self._budget else None
            return Entry(schedule=untuned, origin=Origin.DEFAULT, cycles=cycles)
        return self._judged(workload, untuned)

    def _judged(self, workload: Workload, untuned: Schedule) -> Entry:
        space = ScheduleSpace(workload, self._hw, host_rules(), "full")
        prior = SchedulePrior(self._hw, workload, self._memory)
        first = predicted_places(space, self._memory, _FIRST)
        best = space.decode(first[0]) if first else untuned
        if first and prior(best) < _SHORT:
            found = self._descend(space, first, untuned)
        elif self._budget:
            found = self._search(space, prior)
        elif prior(best) < prior(untuned):
            found = Entry(schedule=best, origin=Origin.PREDICTED, cycles=None)
        else:
            found = None
        return found or Entry(schedule=untuned, origin=Origin.DEFAULT, cycles=None)

    def _descend(
        self, space: ScheduleSpace, first: Sequence[Index], untuned: Schedule
    ) -> Entry | None:
        """Coordinate descent from the fastest of some schedules, as the twin measures them."""
        known: dict[Index, int] = {}
        fastest, waiting = None, list(first)
        for _ in range(_ROUNDS):
            points = [space.decode(place) for place in waiting]
            for position, cycles in self._measured(space.workload, points):
                known[waiting[position]] = _CYCLE_LIMIT if cycles is None else cycles
            best = min(known, key=lambda place: (known[place], place))
            if best == fastest:
                break
            fastest = best
            waiting = legal_places(space, [n for n in _near(space, best) if n not in known])
        if fastest is None or known[fastest] == _CYCLE_LIMIT:
            return None
        ((_, plain),) = self._measured(space.workload, [untuned])
        if plain is not None and plain < known[fastest]:
            return Entry(schedule=untuned, origin=Origin.SEARCHED, cycles=plain)
        schedule = space.decode(fastest)
        return Entry(schedule=schedule, origin=Origin.SEARCHED, cycles=known[fastest])

    def _measured(
        self, workload: Workload, schedules: Sequence[Schedule]
    ) -> Iterator[tuple[int, int | None]]:
        """Position and cycles of some schedules, as they are measured; None: it is not valid."""
        if self._oracle is None:
            self._oracle = TwinOracle()
        requests = [
            Request(
                hw=self._hw,
                workload=workload,
                schedule=schedule,
                memory=self._memory,
                max_cycles=_CYCLE_LIMIT,
            )
            for schedule in schedules
        ]
        for position, answer in self._oracle.measure(requests):
            yield position, answer.cycles if answer.valid else None

    def _alone(self, workload: Workload, schedule: Schedule) -> int:
        """Cycles of a workload that the native lowering does not take."""
        twin = Twin(self._hw, self._memory)
        try:
            return twin.counters(lower(self._hw, workload, schedule).program).cycles
        finally:
            twin.close()

    def _search(self, space: ScheduleSpace, prior: SchedulePrior) -> Entry | None:
        tuner = self._tuners.make(space, prior=prior)
        best: tuple[int, Schedule] | None = None
        while tuner.asked < self._budget:
            candidates = tuner.ask(min(_BATCH, self._budget - tuner.asked))
            if not candidates:
                break
            points = [candidate.point for candidate in candidates]
            for position, value in self._measured(space.workload, points):
                candidate = candidates[position]
                tuner.tell([Result(index=candidate.index, value=value)])
                if value is not None and (best is None or value < best[0]):
                    best = (value, candidate.point)
        if best is None:
            return None
        return Entry(schedule=best[1], origin=Origin.SEARCHED, cycles=best[0])


def _near(space: ScheduleSpace, place: Index) -> Iterator[Index]:
    """Schedules of which one knob is one or two values away."""
    for axis, knob in enumerate(space.knobs):
        for step in (-1, 1, -2, 2):
            moved = place[axis] + step
            if 0 <= moved < len(knob.values):
                yield (*place[:axis], moved, *place[axis + 1 :])


def _best_stored(
    store: Store, hw: HwConfig, memory: MemoryModel
) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """The fastest valid trials on a configuration and memory, by workload and by its shape."""
    by_key: dict[str, Entry] = {}
    by_shape: dict[str, Entry] = {}
    timing = _figures(asdict(memory))
    for trial in store.fastest(hw_key(hw)):
        cycles = trial.measurement.cycles
        if cycles is None or _figures(trial.memory) != timing:
            continue
        entry = Entry(
            schedule=Schedule.from_mapping(trial.schedule), origin=Origin.STORE, cycles=cycles
        )
        workload = Workload.from_mapping(trial.workload)
        for best, name in ((by_key, workload.key), (by_shape, _shape_on(hw, workload))):
            known = best.get(name)
            if known is None or known.cycles is None or cycles < known.cycles:
                best[name] = entry
    return by_key, by_shape


def _shape_on(hw: HwConfig, workload: Workload) -> str:
    """`shape_of` a workload; who writes its input matters only where the host would fold it."""
    free, chained = (replace(workload, chained=each) for each in (False, True))
    return shape_of(free if folds(hw, free) == folds(hw, chained) else workload)


def _figures(memory: Mapping[str, Any]) -> dict[str, Any]:
    """A memory model without its label."""
    return {name: value for name, value in memory.items() if name != "name"}
