# SPDX-License-Identifier: Apache-2.0
"""Many runs on worker processes, each kept as one line of a file the moment it ends.

A line is found again by what the run depends on: the trial, the table, the twin, and the sources of
the tuner and of the replay. So a stopped study goes on where it was, and a tuner that was changed
is run anew while the others are not.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tilewright.bench.arena.release import SETS, tables_of
from tilewright.bench.arena.replay import Event, Run, Trial, replay
from tilewright.bench.arena.tables import Table, load_table
from tilewright.bench.arena.tasks import Task, drawn
from tilewright.bench.framework.records import JsonLines
from tilewright.bench.framework.study import in_processes
from tilewright.host.common.errors import StoreError, TilewrightError
from tilewright.host.common.plain_values import is_integer
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.search import TUNERS, Offer, TunerError, taken_by

PAST_TASKS: Final = 2
"""Other tasks that a contestant with experience is told of."""

SEED_BLOCK: Final = 5
"""Seeds of all tuners on all tasks before the next seeds: what is cut short is balanced."""

SMALL_BUDGETS: Final[Mapping[str, int]] = {"botorch": 128, "optuna-gp": 32}
"""Tuners whose cost grows too fast for more measurements: their runs are censored there."""

FLAGS: Final = ("no-prior", "transfer", "ideal-prior")
"""Options of a contestant beside those of its class: without the prior, told of other tasks, with a
prior that takes the memory for an ideal one."""

_SEARCH: Final = "tilewright.tuner.search"
_IMPORTED: Final = re.compile(r"^from (tilewright\.tuner\.[\w.]+) import", re.MULTILINE)
_BESIDE: Final = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A tuner in the arena."""

    label: str  # how the study calls it
    tuner: str  # a name in `TUNERS`
    prior: bool = True  # whether it gets the prior that it may take
    options: Mapping[str, Any] = field(default_factory=dict)  # of its class
    transfer: bool = False  # it is told measurements of other tasks (`replay.experience_of`)
    ideal: bool = False  # its prior is that of an ideal memory

    @classmethod
    def parse(cls, text: str) -> Contestant:
        """A tuner as everywhere, with its options (`Registry`), and more: `FLAGS`."""
        TUNERS.check(text, FLAGS)
        name, options = TUNERS.parse(text, FLAGS)
        prior = not options.pop("no-prior", False)
        transfer = options.pop("transfer", False)
        ideal = options.pop("ideal-prior", False)
        return cls(
            label=text, tuner=name, prior=prior, transfer=transfer, ideal=ideal, options=options
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study runs: every combination."""

    tables: Mapping[str, Table]  # by `Task.id`
    contestants: Sequence[Contestant]  # tuners with their options
    seeds: int  # 0 up to this number
    arms: Sequence[str] = ("masked",)  # of `replay.ARMS`
    # standard deviations; the as-published arm is run without noise alone
    noises: Sequence[float] = (0.0,)
    budget: int = 256  # measurements of a run

    def trials(self) -> Iterator[Trial]:
        """Every run, in the order in which they are made."""
        conditions = [(arm, noise) for arm in self.arms for noise in self.noises]
        conditions = [(arm, noise) for arm, noise in conditions if arm == "masked" or not noise]
        for first in range(0, self.seeds, SEED_BLOCK):
            block = range(first, min(first + SEED_BLOCK, self.seeds))
            for (arm, noise), task, who, seed in itertools.product(
                conditions, self.tables, self.contestants, block
            ):
                yield Trial(
                    task=task,
                    tuner=who.tuner,
                    seed=seed,
                    arm=arm,
                    noise=noise,
                    budget=min(self.budget, SMALL_BUDGETS.get(who.tuner, self.budget)),
                    prior=who.prior,
                    ideal=who.ideal,
                    options=who.options,
                    past=self._past(task) if who.transfer else (),
                )

    def _past(self, task: str) -> tuple[str, ...]:
        """Other tasks, drawn by their names."""
        others = [other for other in self.tables if other != task]
        if len(others) < PAST_TASKS:
            raise TunerError(
                f"experience is drawn from {PAST_TASKS} other tasks",
                field="tasks",
                value=len(self.tables),
                remedy="add layers, or leave the contestant with transfer out",
            )
        return tuple(drawn(others, PAST_TASKS))


class RunStore:
    """Runs in a file of JSON lines, by what they depend on."""

    def __init__(self, path: Path) -> None:
        self._lines: Final = JsonLines(path)
        self._runs: dict[str, Run] = {}
        for data in self._lines.values():
            try:
                self._runs[data["key"]] = _run_of(data["run"])
            except (LookupError, TypeError, ValueError) as error:
                raise StoreError(
                    "must be a file of runs", field=str(path), remedy="name another folder"
                ) from error

    def get(self, key: str) -> Run | None:
        """The run of a key."""
        return self._runs.get(key)

    def add(self, key: str, run: Run) -> None:
        """Keep a run."""
        self._runs[key] = run
        self._lines.add({"key": key, "run": asdict(run)})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a study's runs gave."""

    runs: Sequence[Run]  # those that are known, in the plan's order
    failures: Sequence[str]  # what runs that ended with an error said, once a tuner and text
    missing: int  # runs that the time did not suffice for


def run_plan(
    plan: Plan,
    *,
    tables: Path,
    store: RunStore,
    workers: int = 2,
    seconds: float = float("inf"),
    on_progress: Callable[[int, int, Trial], None] | None = None,
) -> Outcome:
    """Make every run of a plan that the store does not hold yet."""
    trials = [(key_of(trial, plan.tables), trial) for trial in plan.trials()]
    pending = [(key, trial) for key, trial in trials if store.get(key) is None]
    done, failures = len(trials) - len(pending), dict[str, None]()

    def ended(trial: Trial) -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, len(trials), trial)

    def failed(place: int, error: Exception) -> None:
        trial = pending[place][1]
        failures[f"{trial.tuner}: {type(error).__name__}: {error}"] = None
        ended(trial)

    jobs = [
        (trial, [plan.tables[task].task for task in (trial.task, *trial.past)], tables)
        for _, trial in pending
    ]
    for place, run in in_processes(_job, jobs, workers, seconds=seconds, failed=failed):
        store.add(pending[place][0], run)
        ended(pending[place][1])
    known = [(store.get(key), trial) for key, trial in trials]
    runs = [replace(run, trial=trial) for run, trial in known if run is not None]
    return Outcome(runs=runs, failures=list(failures), missing=len(trials) - len(runs))


def key_of(trial: Trial, tables: Mapping[str, Table]) -> str:
    """What a run depends on, as a text."""
    text = json.dumps(asdict(trial), sort_keys=True)
    digests = (tables[task].digest for task in (trial.task, *trial.past))
    parts = (text, *digests, identity_of("twin"), sources_of(trial.tuner))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@functools.cache
def sources_of(tuner: str) -> str:
    """Digest of an algorithm, of the tuner's modules that it imports, and of the replay."""
    entry = TUNERS.find(tuner)
    pending = [f"{_SEARCH}.tuner" if entry.source else entry.module, f"{_SEARCH}.tuner"]
    if Offer.PRIOR in taken_by(tuner):
        pending.append("tilewright.tuner.schedule.space_prior")
    # Not followed: the registry, because a new entry changes no other algorithm.
    found: dict[str, str] = {_SEARCH: "", f"{_SEARCH}.registry": ""}
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = _source(name)
            pending += _IMPORTED.findall(found[name])
    if entry.source:
        files = [Path(inspect.getfile(TUNERS.load(tuner)))]
        for file in files:
            found[str(file)] = text = file.read_text(encoding="utf-8")
            beside = (file.with_name(f"{name}.py") for name in _BESIDE.findall(text))
            files += [
                each for each in dict.fromkeys(beside) if each not in files and each.is_file()
            ]
    for name in (f"{__package__}.replay", f"{__package__}.tasks"):
        found[name] = _source(name)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise TilewrightError("no such module", field="tuner", value=module)
    return Path(spec.origin).read_text(encoding="utf-8")


def _run_of(data: Mapping[str, Any]) -> Run:
    run = Run(
        trial=Trial(**{**data["trial"], "past": tuple(data["trial"]["past"])}),
        events=tuple(Event(**event) for event in data["events"]),
        trials=data["trials"],
        tuner_seconds=data["tuner_seconds"],
    )
    states = [asdict(event) for event in run.events]
    seconds = [run.tuner_seconds, *(state.pop("tuner_seconds") for state in states)]
    counts = [run.trials, *(count for state in states for count in state.values())]
    if not all(is_integer(count, 0) for count in counts):
        raise ValueError("counts must be whole numbers of at least 0")
    if not all(isinstance(each, (int, float)) and 0 <= each < math.inf for each in seconds):
        raise ValueError("seconds must be numbers of at least 0")
    return run


# -- in the workers ---------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _table(task: Task, place: Path) -> Table:
    """A task's table, from a file of tables or a folder of landscapes."""
    return load_table(task, place) if place.is_dir() else _of_file(place)[task.id]


@functools.cache
def _of_file(place: Path) -> dict[str, Table]:
    return tables_of(place, SETS, hard=False)


def _job(job: tuple[Trial, Sequence[Task], Path]) -> Run:
    trial, tasks, place = job
    table, *past = (_table(task, place) for task in tasks)
    return replay(table, trial, past)
