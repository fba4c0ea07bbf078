# SPDX-License-Identifier: Apache-2.0
"""One flat record a run: what it reached after how many measurements, against the true optimum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.bench.arena.replay import BUDGETS, Event, Run, Trial
from tilewright.bench.arena.runner import Contestant
from tilewright.bench.arena.tables import Table
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
    labels = {_who(c): c.label for c in contestants}
    return [record_of(run, tables[run.trial.task], labels[_who(run.trial)]) for run in runs]


def _who(who: Contestant | Trial) -> str:
    transfer = who.transfer if isinstance(who, Contestant) else bool(who.past)
    return json.dumps([who.tuner, who.prior, dict(who.options), transfer], sort_keys=True)
