# SPDX-License-Identifier: Apache-2.0
"""`WarmStart`: what earlier studies measured, for a new study to begin with.

A study's course must follow from its settings, also when it resumes after its source has grown. The
settings therefore keep a *reference*: names of studies, how many of their first trials count, and a
digest of them. Stored trials never change, and their order is the order of proposals.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import ScheduleSpace, shape_of
from tilewright.tuner.search import Result
from tilewright.tuner.search.experience import Experience
from tilewright.tuner.search.space import Space
from tilewright.tuner.store.records import StoredTrial, dump
from tilewright.tuner.store.store import Store, values_from
from tilewright.tuner.study.best_network import hw_of

SUGGESTED: Final = 2
"""Schedules that a task starts from at most: what is best nearby is seldom far down the list."""


class WarmStartError(TilewrightError):
    """A study cannot start from what was named."""


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Trials of earlier studies."""

    source: str  # STORE[:STUDY] as the user named it
    counts: Mapping[str, int]  # study names to the number of first trials that count
    trials: tuple[StoredTrial, ...]  # those, study by study

    def to_mapping(self) -> dict[str, Any]:
        """The reference that settings keep."""
        rows = [
            (t.task, t.hw, t.workload, t.schedule, str(t.measurement.status), t.measurement.cycles)
            for t in self.trials
        ]
        digest = hashlib.sha256(dump(rows).encode()).hexdigest()[:16]
        return {"source": self.source, "counts": dict(self.counts), "digest": digest}

    def schedules(self, task: Workload, hw: HwConfig) -> list[tuple[HwConfig, Schedule]]:
        """Where and how tasks of a shape ran fastest: at most `SUGGESTED` distinct schedules.

        The same configuration comes first, then the same array, then the others; the fewest
        cycles first in each.
        """

        def distance(there: HwConfig) -> int:
            if there.config_hash == hw.config_hash:
                return 0
            arrays = [(c.batch, c.block_in, c.block_out) for c in (there, hw)]
            return 1 if arrays[0] == arrays[1] else 2

        ranked = []
        for number, trial in enumerate(self.trials):
            if trial.measurement.valid and _shape(trial) == shape_of(task):
                there = hw_of(trial)
                cycles = trial.measurement.cycles or 0
                ranked.append((distance(there), cycles, number, there, trial.schedule))
        found: dict[Schedule, HwConfig] = {}
        for _, _, _, there, schedule in sorted(ranked, key=lambda entry: entry[:3]):
            found.setdefault(Schedule.from_mapping(schedule), there)
            if len(found) == SUGGESTED:
                break
        return [(there, schedule) for schedule, there in found.items()]

    def experience(self, rules: Rules, kind: str) -> list[Experience]:
        """The trials as `Experience`, one per task and configuration, failures included."""
        groups: dict[tuple[str, str], list[StoredTrial]] = {}
        for trial in self.trials:
            key = (str(dump(dict(trial.workload))), trial.config_hash)
            groups.setdefault(key, []).append(trial)
        found = []
        for (_, config), trials in groups.items():
            workload = Workload.from_mapping(trials[0].workload)
            space: Space[Any] = ScheduleSpace(workload, hw_of(trials[0]), rules, kind)
            results = _results(space, trials)
            if results:
                found.append(Experience.of(f"{workload.name} on {config}", space, results))
        return found


def _results(space: Space[Any], trials: Sequence[StoredTrial]) -> list[Result]:
    results = []
    for trial in trials:
        try:
            index = space.encode(Schedule.from_mapping(trial.schedule))
        except TilewrightError:  # measured in another kind of space
            continue
        measured = trial.measurement
        value = float(measured.cycles) if measured.valid and measured.cycles is not None else None
        results.append(Result(index=index, value=value))
    return results


def _used(trial: StoredTrial) -> tuple[HwConfig, Workload, Schedule]:
    """What a study takes from a trial, once it is known to be of this version."""
    return (
        hw_of(trial),
        Workload.from_mapping(trial.workload),
        Schedule.from_mapping(trial.schedule),
    )


def _shape(trial: StoredTrial) -> str:
    return shape_of(Workload.from_mapping(trial.workload))


def split_source(source: str) -> tuple[str, str]:
    """Store and study of STORE[:STUDY]; an empty study means all of the store."""
    if Path(source).exists():
        return source, ""
    if match := re.match(r"(\w+://[^/]*/[^:]*):?(.*)", source):
        return match[1], match[2]
    store, _, study = source.partition(":")
    return store, study


def read_warm_start(
    source: str, *, name: str = "", earlier: Mapping[str, Any] | None = None
) -> WarmStart:
    """Read the trials to start from."""
    location, study = split_source(source)
    known = earlier["counts"] if earlier and earlier.get("source") == source else None
    where = location if "://" in location else Path(location)
    if isinstance(where, Path) and not where.exists():
        raise WarmStartError(
            "there is no such trial store",
            field="warm_start",
            value=source,
            remedy="name the store of an earlier study, such as runs/studies.sqlite, or leave it "
            "out",
        )
    with Store(where, must_exist=True, read_only=True) as store:
        if known is not None:
            wanted = [store.study(each) for each in known]
        elif study:
            wanted = [store.study(study)]
        else:
            wanted = [
                each
                for each in store.studies()
                if each.name != name and not each.name.startswith(f"{name}/")
            ]
        counts: dict[str, int] = {}
        trials: list[StoredTrial] = []
        for each in wanted:
            first = _unbroken(store.trials(each.id))
            counts[each.name] = len(first) if known is None else known[each.name]
            trials += first[: counts[each.name]]
        with values_from(store.name):
            for trial in trials:
                _used(trial)
    if not any(trial.measurement.valid for trial in trials):
        raise WarmStartError(
            "there is no valid measurement to start from",
            field="warm_start",
            value=source,
            remedy="name another STORE or STORE:STUDY, or leave --warm-start out",
        )
    warm = WarmStart(source=source, counts=counts, trials=tuple(trials))
    if known is not None and earlier is not None and warm.to_mapping() != dict(earlier):
        raise WarmStartError(
            "the trials that this study started from are no longer there",
            field="warm_start",
            value=source,
            remedy="start another study with --name",
        )
    return warm


def _unbroken(trials: Sequence[StoredTrial]) -> list[StoredTrial]:
    """The first trials up to a gap, which a study that is still running may have."""
    return [trial for place, trial in enumerate(trials) if trial.sequence == place]
