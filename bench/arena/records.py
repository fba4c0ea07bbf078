# SPDX-License-Identifier: Apache-2.0
"""One flat record a run: what it reached after how many measurements, against the true optimum.

What a search costs: core-seconds of the tuner plus what its measurements cost.

A price is linear: so many seconds per trial, and so many per measured cycle. Prices of simulators
are recorded measurements of this repository. That of a board is an assumption and says so, so every
comparison also states its break-even price, which holds whatever a trial costs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.bench.arena.replay import BUDGETS, Event, Run, Trial
from tilewright.bench.arena.runner import Contestant
from tilewright.bench.arena.tables import Table
from tilewright.bench.framework.tables import grouped
from tilewright.host.common.errors import StoreError
from tilewright.tuner.exhaustive.landscape_file import NOT_YET
from tilewright.tuner.search import Offer, taken_by

Record = dict[str, Any]

TARGETS: Final[Mapping[str, float]] = {"1pct": 1.01, "5pct": 1.05}
"""Names of the targets: cycles of at most so many times the optimum."""


def record_of(run: Run, table: Table, label: str) -> Record:
    """The record of a run.

    Keys: ``what`` (run), ``track``, ``task``, ``layer``, ``optimum``, ``hard``, ``tuner`` (the
    contestant's label), ``grey`` (it was given the prior), ``seed``, ``arm``, ``noise``,
    ``budget``, ``trials``, ``invalid``, ``tuner_seconds``, ``cycles`` (of the incumbent at the
    end), ``flat`` (its position in the table), ``measured_cycles``; for each of `TARGETS`
    ``trials_to_T``, ``seconds_to_T`` and ``cycles_to_T``, None when the budget did not suffice;
    ``regret``, by budget, the natural logarithm of the incumbent's cycles over the optimum, in
    which a run without a legal measurement counts as the worst legal point; ``states``, by budget,
    ``cycles``, ``trials``, ``tuner_seconds`` and ``measured_cycles`` of the run if it had ended
    there; ``curve``, pairs of trial and the incumbent's cycles.
    """
    events, trial = run.events, run.trial
    end = events[-1] if events else None
    record: Record = {
        "what": "run",
        "track": table.task.track,
        "task": trial.task,
        "layer": table.task.workload.name,
        "optimum": table.optimum,
        "hard": table.hard,
        "tuner": label,
        "grey": trial.prior and Offer.PRIOR in taken_by(trial.tuner),
        "seed": trial.seed,
        "arm": trial.arm,
        "noise": trial.noise,
        "budget": trial.budget,
        "trials": run.trials,
        "invalid": end.invalid if end else run.trials,
        "tuner_seconds": round(run.tuner_seconds, 6),
        "cycles": end.cycles if end else None,
        "flat": end.flat if end else None,
        "measured_cycles": end.measured_cycles if end else 0,
    }
    for name, ratio in TARGETS.items():
        hit = next((e for e in events if e.cycles <= ratio * table.optimum), None)
        record[f"trials_to_{name}"] = hit.trial if hit else None
        record[f"seconds_to_{name}"] = hit.tuner_seconds if hit else None
        record[f"cycles_to_{name}"] = hit.measured_cycles if hit else None
    record["regret"] = {
        str(budget): regret_at(events, table, budget)
        for budget in BUDGETS
        if budget <= trial.budget
    }
    record["states"] = {budget: state_at(events, table, int(budget)) for budget in record["regret"]}
    record["curve"] = [[event.trial, event.cycles] for event in events]
    return record


def regret_at(events: Sequence[Event], table: Table, budget: int) -> float:
    """Natural logarithm of the incumbent's cycles over the optimum after some measurements."""
    before = [event for event in events if event.trial <= budget]
    cycles = before[-1].cycles if before else int(table.cycles.max())
    return round(math.log(cycles / table.optimum), 9)


def state_at(events: Sequence[Event], table: Table, budget: int) -> dict[str, Any]:
    """What a run had come to after some measurements, or at its end when that was before."""
    before = [event for event in events if event.trial <= budget]
    if not before:
        worst = int(table.cycles.max())
        return {"cycles": worst, "trials": budget, "tuner_seconds": 0.0, "measured_cycles": 0}
    last = before[-1]
    return {
        "cycles": last.cycles,
        "trials": last.trial,
        "tuner_seconds": last.tuner_seconds,
        "measured_cycles": last.measured_cycles,
    }


def incumbent_at(curve: Sequence[Sequence[int]], trial: int) -> int:
    """Cycles of the incumbent after some measurements; the first one stands for those before."""
    cycles = curve[0][1]
    for at, value in curve:
        if at > trial:
            break
        cycles = value
    return cycles


def records_of(
    runs: Sequence[Run], tables: Mapping[str, Table], contestants: Sequence[Contestant]
) -> list[Record]:
    """The records of a study's runs."""
    labels = {who(c): c.label for c in contestants}
    for run in runs:
        _require_of_table(run, tables[run.trial.task])
    return [record_of(run, tables[run.trial.task], labels[who(run.trial)]) for run in runs]


def _require_of_table(run: Run, table: Table) -> None:
    """Refuse a run that the table cannot have given: what it found must stand there."""
    trials = [0, *(event.trial for event in run.events), run.trials, run.trial.budget]
    found = [event for event in run.events if event.flat < table.cycles.size]
    stands = [(int(table.cycles.flat[event.flat]), event.cycles) for event in found]
    if (
        trials != sorted(trials)
        or len(found) < len(run.events)
        or any(there not in (cycles, NOT_YET) for there, cycles in stands)
        or any(cycles < table.optimum for _, cycles in stands)
    ):
        raise StoreError(
            f"a kept run of {run.trial.tuner} must be one on this table",
            field=run.trial.task,
            value=f"seed {run.trial.seed}",
            remedy="name another --folder",
        )


def who(of: Contestant | Trial) -> str:
    """What tells contestants apart, whatever they are called."""
    transfer = of.transfer if isinstance(of, Contestant) else bool(of.past)
    told = [of.tuner, of.prior, dict(of.options), transfer, of.ideal]
    return json.dumps(told, sort_keys=True)


REFERENCE: Final = "autotvm"
"""What the seeds compare themselves with."""

BASELINE: Final = "random"


def headline(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Records of the hard tasks (of all, when none is hard) of the tuners that ran on each."""
    hard = [r for r in records if r["hard"]] or list(records)
    complete = _balanced(complete_runs(hard))
    present = {r["tuner"] for r in complete}
    return complete, [tuner for tuner in grouped(hard, "tuner") if tuner not in present]


def common(records: Sequence[Record]) -> list[Record]:
    """Records of the hard tasks (of all, when none is hard) that every tuner ran on."""
    hard = [r for r in records if r["hard"]] or list(records)
    tasks = (
        set.intersection(*({r["task"] for r in own} for own in grouped(hard, "tuner").values()))
        if hard
        else set()
    )
    return _balanced([r for r in hard if r["task"] in tasks])


def complete_runs(records: Sequence[Record]) -> list[Record]:
    """Records of the tuners that ran on every task that any of them ran on."""
    tasks = {r["task"] for r in records}
    return [
        r
        for rows in grouped(records, "tuner").values()
        if {r["task"] for r in rows} == tasks
        for r in rows
    ]


def _balanced(records: Sequence[Record]) -> list[Record]:
    """Of every tuner the records of the seeds that it ran on all of its tasks."""
    kept: list[Record] = []
    for rows in grouped(records, "tuner").values():
        seeds = [{r["seed"] for r in task} for task in grouped(rows, "task").values()]
        shared = set.intersection(*seeds)
        kept += [r for r in rows if r["seed"] in shared]
    return kept


def by_run(records: Iterable[Record]) -> dict[tuple[str, int], Record]:
    """The record of each task and seed, of one tuner."""
    return {(r["task"], r["seed"]): r for r in records}


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a measurement costs."""

    seconds_per_trial: float  # lowering, memory image, dispatch, comparison
    seconds_per_cycle: float  # of the accelerator, while it runs or is simulated
    source: str  # where the figures come from

    def of(self, trials: int, measured_cycles: int) -> float:
        """Seconds of some measurements."""
        return trials * self.seconds_per_trial + measured_cycles * self.seconds_per_cycle


PRICES: Final[Mapping[str, Price]] = {
    "rtl": Price(
        seconds_per_trial=0.005,
        seconds_per_cycle=1 / 736_872,
        source="docs/explanation/measurement.md: full RTL, assertions off, 736,872 cycles per CPU "
        "second; docs/results/scaling.md: median of lowering, image, transfer and comparison. "
        "Builds of the simulators (seconds per configuration, shared by all) are not included",
    ),
    "twin": Price(
        seconds_per_trial=1 / 200,
        seconds_per_cycle=0.0,
        source="measured with native lowering on the memory of pynq-z2: 95 to 1,000 schedules per "
        "CPU second, about 200 on the layers that take most of the time",
    ),
    "board": Price(
        seconds_per_trial=0.5,
        seconds_per_cycle=10e-9,
        source="assumed, no board was at hand: half a second of upload, reset and read-back "
        "per trial, 100 MHz; bitstreams (hours per configuration) are not included",
    ),
}
"""Core-seconds, or board-seconds, of one measurement."""


def break_even(
    overhead: float, trials: float, other_overhead: float, other_trials: float
) -> float | None:
    """Seconds per trial above which a tuner of fewer trials and more overhead is cheaper."""
    saved = other_trials - trials
    extra = overhead - other_overhead
    if extra <= 0 and saved >= 0:
        return 0.0
    if saved <= 0:
        return None
    return extra / saved
