# SPDX-License-Identifier: Apache-2.0
"""From the records of a study to its figures; every figure is recomputed from records alone."""

from __future__ import annotations

import itertools
import statistics as plain
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.prices import PRICES, Price, break_even
from tilewright.bench.arena.records import TARGETS, Record, incumbent_at
from tilewright.bench.arena.runner import SMALL_BUDGETS
from tilewright.bench.arena.tasks import parts_of
from tilewright.bench.framework.statistics import (
    clustered_mean,
    clustered_median,
    clustered_ratio,
    compare_pairs,
    kaplan_meier_median,
)
from tilewright.host.network.zoo import load_network

REFERENCE: Final = "autotvm"
"""What the seeds compare themselves with."""

BASELINE: Final = "random"

COMPARED: Final = ("tilewright", "tilewright:no-prior", "dcoc")
"""Tuners whose ratios and tests against all others are told, as far as they took part."""

READ: Final = ("dcoc", REFERENCE)
PUBLISHED_BUDGET: Final = 1000
"""What DCO-Comp was judged with; whether a task or a network is not said."""

LEAST_TASKS: Final = 5
"""With fewer tasks a bootstrap over them has hardly any width, and no verdict is given."""

COMPILE_TARGET: Final = "1pct"
"""Compile time is the time to this target, or of the whole budget when it is not reached."""

COMPILE_PRICE: Final = "rtl"


def summarise(
    records: Sequence[Record], *, networks: Sequence[str], track: str = "per-layer"
) -> dict[str, Any]:
    """Every figure of a study.

    The headline (``trials_to_1pct``, ``trials_to_5pct``, ``log_regret``, ``tests``, overheads,
    break-even prices) is of the masked arm without noise on the hard tasks of one track, or on all
    when none is hard; ``headline_tasks`` says how many these are. A tuner that was not run on all
    of them is left out and named in ``incomplete``; ``common`` then holds the same figures for
    every tuner on the tasks that all were run on (None: there are none, or nobody is left out).
    Network figures are of all tasks that were run.
    """
    exact = [r for r in records if r["arm"] == "masked" and not r["noise"] and r["track"] == track]
    hard, incomplete = headline(exact)
    summary = {**_search_figures(hard), **_network_figures(exact, networks, track)}
    summary["incomplete"] = incomplete
    shared = common(exact) if incomplete else []
    summary["common"] = (
        {**_search_figures(shared), **_network_figures(shared, networks, track)} if shared else None
    )
    summary["readings"] = readings(exact, networks, track)
    summary["arms"] = arms([r for r in records if r["track"] == track])
    return summary


def _search_figures(records: Sequence[Record]) -> dict[str, Any]:
    """What a set of runs says of tuners."""
    return {
        "headline_tasks": len({r["task"] for r in records}),
        **{f"trials_to_{name}": trials_to(records, name) for name in TARGETS},
        **{f"interval_to_{name}": intervals(records, name) for name in TARGETS},
        **{f"ratio_to_{name}": ratios(records, name) for name in TARGETS},
        "log_regret": regrets(records),
        "longest": longest(records),
        "tests": tests(records),
        "overhead_seconds_per_100": overheads(records),
        "break_even_seconds": break_evens(records),
    }


def _network_figures(
    records: Sequence[Record], networks: Sequence[str], track: str
) -> dict[str, Any]:
    """What a set of runs says of whole networks.

    At the smallest budget of a tuner, so that all are compared alike, and again in ``full`` at the
    largest one, for the tuners that have it (None: the budgets are equal).
    """
    budgets = network_budgets(records)
    found: list[dict[str, Any]] = []
    for budget in dict.fromkeys((budgets[0], budgets[-1])) if budgets else (0,):
        by_price = {
            name: compile_reductions(records, networks, track, price, budget)
            for name, price in PRICES.items()
        }
        gains = throughput_gains(records, networks, track, budget)
        found.append(
            {
                "network_budget": budget,
                "throughput_gain_over_autotvm_pct": _medians(gains),
                "throughput_quartiles_pct": {
                    network: {
                        tuner: np.quantile(values, (0.25, 0.75)).tolist()
                        for tuner, values in tuners.items()
                    }
                    for network, tuners in gains.items()
                },
                "compile_time_reduction_pct": by_price[COMPILE_PRICE],
                "compile_time_reduction_by_price_pct": by_price,
            }
        )
    full = found[1] if len(found) > 1 else None
    return {**found[0], "full": full, "coverage": coverage(records, networks, track)}


def network_budgets(records: Iterable[Record]) -> list[int]:
    """The budgets of the tuners, ascending; those of `SMALL_BUDGETS` do not count."""
    return sorted(
        {
            min(r["budget"] for r in rows)
            for tuner, rows in by_key(records, "tuner").items()
            if tuner.partition(":")[0] not in SMALL_BUDGETS
        }
    )


def headline(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Records of the hard tasks (of all, when none is hard) of the tuners that ran on each.

    Of a tuner's runs those of the seeds that it ran on every task, so that all tasks weigh alike.
    """
    hard = [r for r in records if r["hard"]] or list(records)
    complete = _balanced(_complete(hard))
    present = {r["tuner"] for r in complete}
    return complete, [tuner for tuner in by_key(hard, "tuner") if tuner not in present]


def common(records: Sequence[Record]) -> list[Record]:
    """Records of the hard tasks (of all, when none is hard) that every tuner ran on.

    Of a tuner's runs those of the seeds that it ran on every one of them.
    """
    hard = [r for r in records if r["hard"]] or list(records)
    tasks = (
        set.intersection(*({r["task"] for r in own} for own in by_key(hard, "tuner").values()))
        if hard
        else set()
    )
    return _balanced([r for r in hard if r["task"] in tasks])


def trials_to(records: Iterable[Record], target: str) -> dict[str, float | None]:
    """Kaplan-Meier median of the measurements to a target, over layers and seeds, by tuner.

    A run that ended before its budget because its tuner had nothing left to ask for would not have
    reached the target with the rest of it either: it is followed to its budget.
    """
    return {
        tuner: kaplan_meier_median(
            [
                r["budget"] if r[f"trials_to_{target}"] is None else r[f"trials_to_{target}"]
                for r in rows
            ],
            [r[f"trials_to_{target}"] is not None for r in rows],
        )
        for tuner, rows in by_key(records, "tuner").items()
    }


def regrets(records: Iterable[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Log-regret by budget and tuner: interquartile mean with its interval, clustered by task."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for tuner, rows in by_key(records, "tuner").items():
        for budget in sorted(set.intersection(*(set(r["regret"]) for r in rows)), key=int):
            strata = [[r["regret"][budget] for r in task] for task in by_key(rows, "task").values()]
            found.setdefault(budget, {})[tuner] = asdict(clustered_mean(strata))
    return {budget: found[budget] for budget in sorted(found, key=int)}


def longest_runs(records: Sequence[Record]) -> list[Record]:
    """Runs of the largest budget, of the tuners that have them on all of its tasks.

    None when these tuners have no runs of a smaller budget.
    """
    budget = max((r["budget"] for r in records), default=0)
    rows = _complete([r for r in records if r["budget"] == budget])
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
    """The median measurements to a target with its interval, clustered by task, by tuner.

    Runs are followed to the tuner's smallest budget; a bound above it says that the target was not
    reached there.
    """
    return {
        tuner: asdict(clustered_median(_needed(rows, target, min(r["budget"] for r in rows))))
        for tuner, rows in by_key(records, "tuner").items()
    }


def ratios(records: Sequence[Record], target: str) -> dict[str, dict[str, dict[str, Any]]]:
    """How many times fewer measurements each of `COMPARED`, and all need than `BASELINE`.

    Returns:
        By tuner and other: ``value``, ``low``, ``high`` (median of the other over that of the
        tuner, the interval clustered by task), ``tasks`` and ``budget`` that both have, and
        ``verdict`` on the tuner: ``better`` and ``worse`` when the interval leaves 1 out, else
        ``tie``, and ``untold`` of fewer than `LEAST_TASKS`. A median that is censored counts as
        one more than the budget; ``bound`` says that the other's is, so that the ratio is a lower
        bound, and ``ceiling`` that the tuner's is, so that it is an upper one. Where both are,
        nothing is known of the ratio, and nothing is told.
    """
    runs = {tuner: _by_run(rows) for tuner, rows in by_key(records, "tuner").items()}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for own, other in itertools.permutations(runs, 2):
        keys = [key for key in runs[own] if key in runs[other]]
        if not keys or (own not in COMPARED and other != BASELINE):
            continue
        sides = [[runs[name][key] for key in keys] for name in (other, own)]
        budget = min(r["budget"] for side in sides for r in side)
        needed = [_needed(side, target, budget) for side in sides]
        censored = [plain.median_low(n for task in side for n in task) > budget for side in needed]
        if all(censored):
            continue
        interval = clustered_ratio(needed[0], needed[1])
        verdict = "better" if interval.low > 1 else "worse" if interval.high < 1 else "tie"
        tasks = len({task for task, _ in keys})
        found.setdefault(own, {})[other] = {
            **asdict(interval),
            "tasks": tasks,
            "budget": budget,
            "verdict": verdict if tasks >= LEAST_TASKS else "untold",
            "bound": censored[0],
            "ceiling": censored[1],
        }
    return found


def _needed(records: Sequence[Record], target: str, budget: int) -> list[list[float]]:
    """Measurements to a target by task; a run that misses it counts as one more than the budget."""
    return [
        [min(budget + 1, r[f"trials_to_{target}"] or budget + 1) for r in rows]
        for rows in by_key(records, "task").values()
    ]


def tests(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Every pair of tuners on the measurements to 1 %.

    Two tests a pair: of all runs, paired by task and seed, and in ``tasks`` of the task medians,
    one pair a task, which speaks of tasks like these and not of these tasks' seeds alone. A run
    that does not reach the target counts as one more than the smaller budget of the two. Names are
    ``first < second``: ``better`` says that the first needs fewer.
    """
    tuners = by_key(records, "tuner")
    pairs, medians = {}, {}
    for first, second in itertools.combinations(tuners, 2):
        ours, theirs = (_by_run(tuners[name]) for name in (first, second))
        common = [key for key in ours if key in theirs]
        if not common:
            continue
        sides = [[side[key] for key in common] for side in (ours, theirs)]
        budget = min(r["budget"] for side in sides for r in side)
        needed = [_needed(side, "1pct", budget) for side in sides]
        name = f"{first} < {second}"
        flat = [[value for task in side for value in task] for side in needed]
        middle = [[plain.median(task) for task in side] for side in needed]
        pairs[name], medians[name] = (flat[0], flat[1]), (middle[0], middle[1])
    by_task = compare_pairs(medians)
    return {
        name: {**asdict(comparison), "tasks": asdict(by_task[name])}
        for name, comparison in compare_pairs(pairs).items()
    }


def overheads(records: Iterable[Record]) -> dict[str, float]:
    """Core-seconds inside the tuner for 100 measurements, median of the runs."""
    return {
        tuner: plain.median(100 * r["tuner_seconds"] / max(1, r["trials"]) for r in rows)
        for tuner, rows in by_key(records, "tuner").items()
    }


def break_evens(records: Iterable[Record]) -> dict[str, dict[str, float | None]]:
    """Seconds a trial above which a tuner is cheaper to 1 % than random and than AutoTVM.

    Of mean measurements and mean core-seconds to the target over the tasks and seeds that both
    have, runs that miss it with the smaller budget; `prices.break_even` defines 0 and None.
    """
    runs = {tuner: _by_run(rows) for tuner, rows in by_key(records, "tuner").items()}
    found: dict[str, dict[str, float | None]] = {}
    for tuner, own in runs.items():
        found[tuner] = {}
        for other in (BASELINE, REFERENCE):
            pairs = [
                (own[key], theirs) for key, theirs in runs.get(other, {}).items() if key in own
            ]
            if other == tuner or not pairs:
                continue
            ends = [[_end(r, min(a["budget"], b["budget"])) for r in (a, b)] for a, b in pairs]
            (seconds, trials), (other_seconds, other_trials) = (
                [plain.fmean(end[side][key] for end in ends) for key in ("tuner_seconds", "trials")]
                for side in (0, 1)
            )
            found[tuner][other] = break_even(seconds, trials, other_seconds, other_trials)
    return found


def throughput_gains(
    records: Sequence[Record], networks: Iterable[str], track: str, budget: int
) -> dict[str, dict[str, list[float]]]:
    """Throughput over AutoTVM's after a budget, percent, by network and tuner.

    Of a network the layers that were run; latency is the sum of their cycles times their counts;
    one value for each seed that both have for all of them.
    """

    def latency(rows: Mapping[str, Record], counts: Mapping[str, int]) -> float:
        return float(
            sum(count * _state(rows[task], budget)["cycles"] for task, count in counts.items())
        )

    able = _with_budget(records, budget)
    return _over_reference(able, networks, track, latency, lambda own, ref: ref / own - 1)


def compile_reductions(
    records: Sequence[Record], networks: Iterable[str], track: str, price: Price, budget: int
) -> dict[str, dict[str, float]]:
    """Compile time saved against AutoTVM, percent, by network and tuner.

    Compile time is the tuner's core-seconds and the price of its measurements until each layer is
    within `COMPILE_TARGET` of its optimum, or the budget's.
    """

    def compile_time(rows: Mapping[str, Record], counts: Mapping[str, int]) -> float:
        return sum(_cost(rows[task], price, budget) for task in counts)

    able = _with_budget(records, budget)
    return _medians(
        _over_reference(able, networks, track, compile_time, lambda own, ref: 1 - own / ref)
    )


def readings(
    records: Sequence[Record], networks: Iterable[str], track: str
) -> dict[str, dict[str, Any]]:
    """DCOC against AutoTVM at the published 1,000 measurements, read both ways.

    *Per task* gives every layer `PUBLISHED_BUDGET` measurements, *per network* an equal part of
    them to each of the network's layers. Both are read from the same runs.

    Returns:
        By network: ``tasks`` (layers that were run), ``of`` (layers that it has), ``each`` (the
        measurements of a layer under the second reading), ``per_task`` and ``per_network``: by seed
        the throughput over AutoTVM's in percent. Networks without such runs are left out.
    """
    long = [r for r in records if r["budget"] >= PUBLISHED_BUDGET and r["tuner"] in READ]
    runs = {name: _by_run(r for r in long if r["tuner"] == name) for name in READ}
    ours, theirs = (runs[name] for name in READ)
    both = {task for task, _ in ours} & {task for task, _ in theirs}
    found: dict[str, dict[str, Any]] = {}
    for network in networks:
        parts = parts_of(track, load_network(network))
        counts = {part.task: part.count for part in parts if part.task in both}
        seeds = [
            seed
            for seed in sorted({seed for _, seed in ours})
            if counts and all((task, seed) in side for task in counts for side in (ours, theirs))
        ]
        if not seeds:
            continue
        layers = len({part.task for part in parts})
        each = PUBLISHED_BUDGET // layers
        found[network] = {"tasks": len(counts), "of": layers, "each": each} | {
            name: [
                100
                * (
                    sum(
                        n * incumbent_at(theirs[task, seed]["curve"], at)
                        for task, n in counts.items()
                    )
                    / sum(
                        n * incumbent_at(ours[task, seed]["curve"], at)
                        for task, n in counts.items()
                    )
                    - 1
                )
                for seed in seeds
            ]
            for name, at in (("per_task", PUBLISHED_BUDGET), ("per_network", each))
        }
    return found


def coverage(records: Iterable[Record], networks: Iterable[str], track: str) -> dict[str, float]:
    """Share of a network's multiply-accumulates in the layers that were run, percent."""
    tasks = {r["task"] for r in records}
    shares = {}
    for name in networks:
        network = load_network(name)
        parts = zip(parts_of(track, network), network.workloads, strict=True)
        macs = sum(w.macs * w.count for part, w in parts if part.task in tasks)
        if macs:
            shares[name] = 100 * macs / network.macs
    return shares


def arms(records: Iterable[Record]) -> dict[str, Any]:
    """Measurements to 1 % under every arm and noise, each tuner on the same tasks and seeds.

    Returns:
        ``conditions``, their names, and ``tuners``: by name ``tasks`` and ``runs`` that it made
        under all its conditions on hard tasks, and by condition ``trials_to_1pct``, their median up
        to the smallest budget, and ``invalid_share`` of all measurements. Tuners of one condition
        are left out. Both are empty when there is one condition alone.
    """
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
        runs = {n: _by_run(owners[tuner]) for n, owners in by_tuner.items() if tuner in owners}
        keys = set.intersection(*(set(own) for own in runs.values()))
        if len(runs) < 2 or not keys:
            continue
        budget = min(own[key]["budget"] for own in runs.values() for key in keys)
        tuners[tuner] = {"tasks": len({task for task, _ in keys}), "runs": len(keys)}
        for name, own in runs.items():
            ends = [_end(own[key], budget) for key in sorted(keys)]
            tuners[tuner][name] = {
                "trials_to_1pct": kaplan_meier_median(
                    [end["trials"] if end["reached"] else budget for end in ends],
                    [end["reached"] for end in ends],
                ),
                "invalid_share": sum(own[key]["invalid"] for key in keys)
                / sum(own[key]["trials"] for key in keys),
            }
    return {"conditions": list(groups), "tuners": tuners}


def _over_reference(
    records: Iterable[Record],
    networks: Iterable[str],
    track: str,
    measure: Callable[[Mapping[str, Record], Mapping[str, int]], float],
    compare: Callable[[float, float], float],
) -> dict[str, dict[str, list[float]]]:
    """A figure of a whole network against the reference's, in percent, seed by seed."""
    tuners = {
        tuner: {seed: {r["task"]: r for r in own} for seed, own in by_key(rows, "seed").items()}
        for tuner, rows in by_key(records, "tuner").items()
    }
    tasks = {task for seeds in tuners.values() for rows in seeds.values() for task in rows}
    found: dict[str, dict[str, list[float]]] = {}
    for network in networks:
        parts = parts_of(track, load_network(network))
        counts = {part.task: part.count for part in parts if part.task in tasks}
        for tuner, seeds in tuners.items():
            ratios = []
            for seed, own in seeds.items():
                ref = tuners.get(REFERENCE, {}).get(seed, {})
                if counts and tuner != REFERENCE and all(t in own and t in ref for t in counts):
                    ratios.append(100 * compare(measure(own, counts), measure(ref, counts)))
            if ratios:
                found.setdefault(network, {})[tuner] = ratios
    return found


def _medians(values: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    return {
        network: {tuner: plain.median(own) for tuner, own in tuners.items()}
        for network, tuners in values.items()
    }


def _with_budget(records: Sequence[Record], budget: int) -> list[Record]:
    """Records of the tuners whose runs all have a budget, or more."""
    return [
        r
        for rows in by_key(records, "tuner").values()
        if all(r["budget"] >= budget for r in rows)
        for r in rows
    ]


def _state(record: Record, budget: int) -> Mapping[str, Any]:
    """A run at a budget that is not above its own; one between two marks counts as the lower."""
    if budget >= record["budget"]:
        return record
    below = [mark for mark in record["states"] if int(mark) <= budget]
    found: Mapping[str, Any] = record["states"][max(below, key=int)]
    return found


def _end(record: Record, budget: int) -> dict[str, Any]:
    """A run up to `COMPILE_TARGET` or a budget: whether it reached the target, and what it took."""
    trials = record[f"trials_to_{COMPILE_TARGET}"]
    if trials is not None and trials <= budget:
        return {
            "reached": True,
            "trials": trials,
            "tuner_seconds": record[f"seconds_to_{COMPILE_TARGET}"],
            "measured_cycles": record[f"cycles_to_{COMPILE_TARGET}"],
        }
    state = _state(record, budget)
    keys = ("trials", "tuner_seconds", "measured_cycles")
    return {"reached": False, **{key: state[key] for key in keys}}


def _cost(record: Record, price: Price, budget: int) -> float:
    end = _end(record, budget)
    seconds: float = end["tuner_seconds"]
    return seconds + price.of(end["trials"], end["measured_cycles"])


def _complete(records: Sequence[Record]) -> list[Record]:
    """Records of the tuners that ran on every task that any of them ran on."""
    tasks = {r["task"] for r in records}
    return [
        r
        for rows in by_key(records, "tuner").values()
        if {r["task"] for r in rows} == tasks
        for r in rows
    ]


def _balanced(records: Sequence[Record]) -> list[Record]:
    """Of every tuner the records of the seeds that it ran on all of its tasks."""
    kept: list[Record] = []
    for rows in by_key(records, "tuner").values():
        seeds = [{r["seed"] for r in task} for task in by_key(rows, "task").values()]
        shared = set.intersection(*seeds)
        kept += [r for r in rows if r["seed"] in shared]
    return kept


def by_key(records: Iterable[Record], key: str) -> dict[Any, list[Record]]:
    """Records by one of their members, in order of first appearance."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return groups


def _by_run(records: Iterable[Record]) -> dict[tuple[str, int], Record]:
    return {(r["task"], r["seed"]): r for r in records}
