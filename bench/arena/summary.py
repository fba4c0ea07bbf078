# SPDX-License-Identifier: Apache-2.0
"""From the records of a study to its figures; every figure is recomputed from records alone."""

from __future__ import annotations

import itertools
import json
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
from tilewright.bench.framework.tables import grouped
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.plain_values import is_integer
from tilewright.host.common.result_document import rows_of

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
            grouped(records, "tuner").items(), intervals(records, target).values(), strict=True
        )
    }


def _within(median: Mapping[str, float], budget: int) -> float | None:
    return median["value"] if median["value"] <= budget else None


def regrets(records: Iterable[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Log-regret by budget and tuner: typical value over the tasks with its interval."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for tuner, rows in grouped(records, "tuner").items():
        for budget in sorted(set.intersection(*(set(r["regret"]) for r in rows)), key=int):
            strata = [
                [r["regret"][budget] for r in task] for task in grouped(rows, "task").values()
            ]
            found.setdefault(budget, {})[tuner] = asdict(typical(strata))
    return {budget: found[budget] for budget in sorted(found, key=int)}


def longest_runs(records: Sequence[Record]) -> list[Record]:
    """Runs of the largest budget, of the tuners that have them on all of its tasks."""
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
    """Median over the tasks of their median measurements to a target, with interval, by tuner."""
    return {
        tuner: asdict(clustered_median(_needed(rows, target, min(r["budget"] for r in rows))))
        for tuner, rows in grouped(records, "tuner").items()
    }


def ratios(records: Sequence[Record], target: str) -> dict[str, dict[str, dict[str, Any]]]:
    """How many times fewer measurements each of `COMPARED`, and all need than `BASELINE`.

    Of the task medians, one pair a task, so that a verdict speaks of tasks like these and not of
    these tasks' seeds. A run that does not reach the target counts as one more than the smaller
    budget of the two; ``bound`` and ``ceiling`` say that this concerns the median of a task of the
    other or of the own tuner. Verdicts are those of signed-rank tests, corrected by Holm for the
    comparisons of a tuner.
    """
    runs = {tuner: by_run(rows) for tuner, rows in grouped(records, "tuner").items()}
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
        for rows in grouped(records, "task").values()
    ]


def overheads(records: Iterable[Record]) -> dict[str, float]:
    """Core-seconds inside the tuner for 100 measurements, median of the runs."""
    return {
        tuner: plain.median(100 * r["tuner_seconds"] / max(1, r["trials"]) for r in rows)
        for tuner, rows in grouped(records, "tuner").items()
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
    by_tuner = {name: grouped(rows, "tuner") for name, rows in groups.items()}
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


SHARED: Final = (
    "fidelity",
    "twin",
    "board",
    "memory",
    "space",
    "track",
    "configurations",
    "batch",
    "initial_points",
    "hard",
    "small_budgets",
    "prices",
)
"""Conditions that the parts of a study have in common."""

_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "task": ("task",),
    "run": ("task", "tuner", "seed", "arm", "noise"),
    "selection": ("task", "seed", "selection"),
    "sampling": ("task", "seed", "trial"),
    "confirmation": ("task", "hw", "schedule"),
}
"""What makes two records of a kind the same."""


_TASK: Final = ("points", "legal", "optimum_cycles")
"""Members of a task's record that are those of its table, whatever its layer is called."""

_KINDS: Final[tuple[tuple[str, type, Any], ...]] = (
    *(("track", str, None), ("networks", list, None), ("small_budgets", dict, None)),
    *(("failures", list, []), ("runs_missing", int, 0), ("note", str, "")),
)
"""Conditions by their types, and what stands for them where they are not told."""

_REMEDY: Final = "give files that 'tilewright bench tuners' wrote"


def require_parts(parts: Sequence[Mapping[str, Any]]) -> None:
    """Refuse documents that are none of this study, or that do not belong together."""
    if not parts:
        raise ConfigError("a study needs a part", field="parts", value=0)
    first: Any = parts[0].get("conditions")
    tables: dict[str, list[Any]] = {}
    for number, part in enumerate(parts, 1):
        conditions: Any = part.get("conditions")
        place = f"JSON {number}"
        require(isinstance(conditions, Mapping), f"{place}: conditions", "be a mapping", conditions)
        for name, kind, default in _KINDS:
            value = conditions.get(name, default)
            require(isinstance(value, kind), f"{place}: {name}", "be that of a study", value)
        for name in SHARED:
            wanted, value = first.get(name), conditions.get(name)
            require(value == wanted, f"{place}: {name}", f"be that of JSON 1, {wanted!r}", value)
        command = part.get("command", "")
        require(isinstance(command, str), f"{place}: command", "be a text", command)
        for row in rows_of(part):
            what: Any = row.get("what") if isinstance(row, Mapping) else None
            require(str(what) in _IDENTITY, f"{place}: rows", f"be of {', '.join(_IDENTITY)}", what)
            missing = [name for name in _IDENTITY[what] if name not in row]
            require(not missing, f"{place}: rows", f"have {', '.join(missing)}", what)
            field = f"{place}: {what} {row['task']}"
            require(isinstance(row["task"], str), field, "have a text task", row["task"])
            if what == "task":
                counts = [row.get(name) for name in _TASK]
                whole = all(is_integer(count, 1) for count in counts)
                require(whole, field, f"have counts {', '.join(_TASK)}", counts)
                same = tables.setdefault(row["task"], counts) == counts
                require(same, field, f"be the same problem everywhere: {', '.join(_TASK)}", counts)
            elif what == "run":
                _require_run(row, f"{field}: {row['tuner']}, seed {row['seed']}")
                _, _, optimum = tables.get(row["task"], (0, 0, None))
                require(optimum is not None, field, "stand behind its task", row["task"])
                require(row.get("optimum") == optimum, field, f"have the optimum {optimum}", row)


def _require_run(row: Mapping[str, Any], field: str) -> None:
    """Refuse the record of a run whose members contradict each other."""
    budget: Any = row.get("budget")
    regrets: Any = row.get("regret")
    require(isinstance(row["tuner"], str), field, "have a text tuner", row["tuner"])
    require(is_integer(row["seed"], 0), field, "have a seed of at least 0", row["seed"])
    require(is_integer(budget, 1), field, "have a budget of at least 1", budget)
    for name in ("trials", *(f"trials_to_{target}" for target in TARGETS)):
        value = row.get(name, -1)
        fits = is_integer(value, 0, budget) or (value is None and name != "trials")
        require(fits, field, f"have {name} of 0 to {budget}", value)
    require(isinstance(regrets, dict), field, "have regret by budget", regrets)
    for name, value in {"tuner_seconds": row.get("tuner_seconds"), **regrets}.items():
        number = isinstance(value, (int, float)) and 0 <= value < math.inf
        require(number, field, f"have {name} of at least 0", value)


def require(holds: Any, field: str, rule: str, value: Any = None) -> None:
    """Refuse a document that breaks a rule."""
    if not holds:
        raise ConfigError(f"must {rule}", field=field, value=value, remedy=_REMEDY)


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several studies as one, its figures computed anew."""
    require_parts(parts)
    conditions = [{**part["conditions"], "command": part.get("command", "")} for part in parts]
    found: dict[str, Record] = {}
    for record in (record for part in parts for record in rows_of(part)):
        names = _IDENTITY[record["what"]]
        key = json.dumps([record["what"], *(record.get(name) for name in names)], sort_keys=True)
        if key not in found or record.get("budget", 0) > found[key].get("budget", 0):
            found[key] = record
    records = list(found.values())
    networks = list(dict.fromkeys(name for c in conditions for name in c["networks"]))
    return {
        "records": records,
        "summary": summarise(
            [r for r in records if r["what"] == "run"],
            networks=networks,
            track=conditions[0]["track"],
        ),
        "conditions": {
            **{name: conditions[0][name] for name in SHARED if name in conditions[0]},
            "networks": networks,
            "parts": conditions,
        },
    }
