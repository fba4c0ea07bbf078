# SPDX-License-Identifier: Apache-2.0
"""From the records of a study to its figures; every figure is recomputed from records alone."""

from __future__ import annotations

import itertools
import math
import statistics as plain
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from tilewright.bench.arena.network_figures import break_evens, end_of, network_figures, readings
from tilewright.bench.arena.records import (
    BASELINE,
    TARGETS,
    Record,
    by_key,
    by_run,
    common,
    complete_runs,
    headline,
)
from tilewright.bench.framework.statistics import (
    clustered,
    clustered_median,
    compare_pairs,
    ratios_of_medians,
    typical,
    typical_ratio,
)

COMPARED: Final = ("tilewright", "tilewright:no-prior", "tilewright:ideal-prior", "dcoc")
"""Tuners whose ratios and tests against all others are told, as far as they took part."""

LEAST_TASKS: Final = 6
"""With fewer tasks there is no interval of 95 %, and no verdict is given."""


def summarise(
    records: Sequence[Record], *, networks: Sequence[str], track: str = "per-layer"
) -> dict[str, Any]:
    """Every figure of a study.

    The headline (``trials_to_1pct``, ``trials_to_5pct``, ``log_regret``, ratios, overheads,
    break-even prices) is of the masked arm without noise on the hard tasks of one track, or on all
    when none is hard; ``headline_tasks`` says how many these are. A tuner that was not run on all
    of them is left out and named in ``incomplete``; ``common`` then holds the same figures for
    every tuner on the tasks that all were run on (None: there are none, or nobody is left out).
    Network figures are of all tasks that were run.
    """
    exact = [r for r in records if r["arm"] == "masked" and not r["noise"] and r["track"] == track]
    hard, incomplete = headline(exact)
    summary = {**search_figures(hard), **network_figures(exact, networks, track)}
    summary["incomplete"] = incomplete
    shared = common(exact) if incomplete else []
    summary["common"] = (
        {**search_figures(shared), **network_figures(shared, networks, track)} if shared else None
    )
    summary["readings"] = readings(exact, networks, track)
    summary["arms"] = arms([r for r in records if r["track"] == track])
    return summary


def search_figures(records: Sequence[Record], *, prices: bool = True) -> dict[str, Any]:
    """What a set of runs says of tuners; without ``prices`` no states of a run are needed."""
    return {
        "headline_tasks": len({r["task"] for r in records}),
        **{f"trials_to_{name}": trials_to(records, name) for name in TARGETS},
        **{f"interval_to_{name}": intervals(records, name) for name in TARGETS},
        **{f"ratio_to_{name}": ratios(records, name) for name in TARGETS},
        "log_regret": regrets(records),
        "longest": longest(records),
        "overhead_seconds_per_100": overheads(records),
        "break_even_seconds": break_evens(records) if prices else {},
    }


def trials_to(records: Iterable[Record], target: str) -> dict[str, float | None]:
    """The value of `intervals`, by tuner; None where it lies beyond the budget."""
    return {
        tuner: _within(median, min(r["budget"] for r in rows))
        for (tuner, rows), median in zip(
            by_key(records, "tuner").items(), intervals(records, target).values(), strict=True
        )
    }


def _within(median: Mapping[str, float], budget: int) -> float | None:
    return median["value"] if median["value"] <= budget else None


def regrets(records: Iterable[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Log-regret by budget and tuner: typical value over the tasks with its interval."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for tuner, rows in by_key(records, "tuner").items():
        for budget in sorted(set.intersection(*(set(r["regret"]) for r in rows)), key=int):
            strata = [[r["regret"][budget] for r in task] for task in by_key(rows, "task").values()]
            found.setdefault(budget, {})[tuner] = asdict(typical(strata))
    return {budget: found[budget] for budget in sorted(found, key=int)}


def longest_runs(records: Sequence[Record]) -> list[Record]:
    """Runs of the largest budget, of the tuners that have them on all of its tasks.

    None when these tuners have no runs of a smaller budget.
    """
    budget = max((r["budget"] for r in records), default=0)
    rows = complete_runs([r for r in records if r["budget"] == budget])
    tuners = {r["tuner"] for r in rows}
    shorter = any(r["budget"] < budget for r in records if r["tuner"] in tuners)
    return rows if shorter else []


def longest(records: Sequence[Record]) -> dict[str, Any] | None:
    """Regret of the runs of the largest budget, when the same tuners have runs of smaller ones."""
    rows = longest_runs(records)
    if not rows:
        return None
    return {
        "budget": rows[0]["budget"],
        "tasks": len({r["task"] for r in rows}),
        "seeds": len({r["seed"] for r in rows}),
        "log_regret": regrets(rows),
    }


def intervals(records: Iterable[Record], target: str) -> dict[str, dict[str, float]]:
    """Median over the tasks of their median measurements to a target, with its interval, by tuner.

    Runs are followed to the tuner's smallest budget; a bound above it says that the target was not
    reached there.
    """
    return {
        tuner: asdict(clustered_median(_needed(rows, target, min(r["budget"] for r in rows))))
        for tuner, rows in by_key(records, "tuner").items()
    }


def ratios(records: Sequence[Record], target: str) -> dict[str, dict[str, dict[str, Any]]]:
    """How many times fewer measurements each of `COMPARED`, and all need than `BASELINE`.

    Of the task medians, one pair a task, so that a verdict speaks of tasks like these and not of
    these tasks' seeds. A run that does not reach the target counts as one more than the smaller
    budget of the two; ``bound`` and ``ceiling`` say that this concerns the median of a task of the
    other or of the own tuner. Verdicts are those of signed-rank tests, corrected by Holm for the
    comparisons of a tuner.
    """
    runs = {tuner: by_run(rows) for tuner, rows in by_key(records, "tuner").items()}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    logs: dict[str, dict[str, list[float]]] = {}
    for own, other in itertools.permutations(runs, 2):
        keys = [key for key in runs[own] if key in runs[other]]
        if not keys or (own not in COMPARED and other != BASELINE):
            continue
        sides = [[runs[name][key] for key in keys] for name in (own, other)]
        budget = min(r["budget"] for side in sides for r in side)
        ours, theirs = (_needed(side, target, budget) for side in sides)
        missed = [[plain.median_low(task) > budget for task in side] for side in (ours, theirs)]
        if all(map(all, missed)):
            continue
        each = ratios_of_medians(theirs, ours)
        logs.setdefault(own, {})[other] = [-math.log(ratio) for ratio in each]
        found.setdefault(own, {})[other] = {
            **asdict(typical_ratio([[ratio] for ratio in each])),
            "tasks": len(ours),
            "budget": budget,
            "ceiling": any(missed[0]),
            "bound": any(missed[1]),
        }
    for own, differences in logs.items():
        for other, comparison in compare_pairs(differences).items():
            told = asdict(comparison)
            if told["pairs"] < LEAST_TASKS:
                told["verdict"] = "untold"
            found[own][other].update(told)
    return found


def _needed(records: Sequence[Record], target: str, budget: int) -> list[list[float]]:
    """Measurements to a target by task; a run that misses it counts as one more than the budget."""
    return [
        [min(budget + 1, r[f"trials_to_{target}"] or budget + 1) for r in rows]
        for rows in by_key(records, "task").values()
    ]


def overheads(records: Iterable[Record]) -> dict[str, float]:
    """Core-seconds inside the tuner for 100 measurements, median of the runs."""
    return {
        tuner: plain.median(100 * r["tuner_seconds"] / max(1, r["trials"]) for r in rows)
        for tuner, rows in by_key(records, "tuner").items()
    }


def arms(records: Iterable[Record]) -> dict[str, Any]:
    """Measurements to 1 % under every arm and noise, each tuner on the same tasks and seeds."""
    groups: dict[str, list[Record]] = {}
    for r in records:
        if r["hard"]:
            noise = f", noise {100 * r['noise']:g} %" if r["noise"] else ""
            groups.setdefault(r["arm"] + noise, []).append(r)
    if len(groups) < 2:
        return {"conditions": [], "tuners": {}}
    tuners: dict[str, Any] = {}
    by_tuner = {name: by_key(rows, "tuner") for name, rows in groups.items()}
    for tuner in dict.fromkeys(t for owners in by_tuner.values() for t in owners):
        runs = {n: by_run(owners[tuner]) for n, owners in by_tuner.items() if tuner in owners}
        keys = set.intersection(*(set(own) for own in runs.values()))
        if len(runs) < 2 or not keys:
            continue
        budget = min(own[key]["budget"] for own in runs.values() for key in keys)
        tuners[tuner] = {"tasks": len({task for task, _ in keys}), "runs": len(keys)}
        for name, own in runs.items():
            ends = clustered(
                (key[0], end["trials"] if end["reached"] else budget + 1)
                for key in sorted(keys)
                for end in [end_of(own[key], budget)]
            )
            tuners[tuner][name] = {
                "trials_to_1pct": _within(asdict(clustered_median(ends)), budget),
                "invalid_share": sum(own[key]["invalid"] for key in keys)
                / sum(own[key]["trials"] for key in keys),
            }
    return {"conditions": list(groups), "tuners": tuners}
