# SPDX-License-Identifier: Apache-2.0
"""From the records of a study to its figures; every figure is recomputed from records alone."""

from __future__ import annotations

import itertools
import statistics as plain
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from tilewright.host.networks import load_network
from tilewright.tuner.arena.prices import PRICES, Price, break_even
from tilewright.tuner.arena.records import TARGETS, Record
from tilewright.tuner.arena.statistics import (
    compare_pairs,
    kaplan_meier_median,
    stratified_interval,
)
from tilewright.tuner.arena.tasks import parts_of

REFERENCE: Final = "autotvm"
"""What the seeds compare themselves with."""

BASELINE: Final = "random"

COMPILE_TARGET: Final = "1pct"
"""Compile time is the time to this target, or of the whole budget when it is not reached."""

COMPILE_PRICE: Final = "rtl"


def summarise(
    records: Sequence[Record], *, networks: Sequence[str], track: str = "per-layer"
) -> dict[str, Any]:
    """Every figure of a study.

    The headline (``trials_to_1pct``, ``trials_to_5pct``, ``log_regret``, ``tests``) is of the
    masked arm without noise on the hard tasks of one track, or on all when none is hard;
    ``headline_tasks`` says how many these are. A tuner that was not run on all of them is left out
    and named in ``incomplete``.

    Args:
        records: of the study.
        networks: whose figures are made, as far as their layers were run.
        track: of the headline and of the networks.
    """
    exact = [r for r in records if r["arm"] == "masked" and not r["noise"]]
    own = [r for r in exact if r["track"] == track]
    hard, incomplete = headline(own)
    summary: dict[str, Any] = {f"trials_to_{name}": trials_to(hard, name) for name in TARGETS}
    summary["throughput_gain_over_autotvm_pct"] = throughput_gains(own, networks, track)
    summary["compile_time_reduction_pct"] = compile_reductions(
        own, networks, track, PRICES[COMPILE_PRICE]
    )
    summary["headline_tasks"] = len({r["task"] for r in hard})
    summary["incomplete"] = incomplete
    summary["compile_time_reduction_by_price_pct"] = {
        name: compile_reductions(own, networks, track, price) for name, price in PRICES.items()
    }
    summary["coverage"] = coverage(own, networks, track)
    summary["log_regret"] = regrets(hard)
    summary["tests"] = tests(hard)
    summary["overhead_seconds_per_100"] = overheads(hard)
    summary["break_even_seconds"] = break_evens(hard)
    summary["conditions"] = by_condition(records)
    return summary


def headline(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Records of the hard tasks (of all, when none is hard) of the tuners that ran on each.

    Returns:
        The records, and the names of the other tuners.
    """
    hard = [r for r in records if r["hard"]] or list(records)
    complete = _complete(hard)
    present = {r["tuner"] for r in complete}
    return complete, [tuner for tuner in _by(hard, "tuner") if tuner not in present]


def trials_to(records: Iterable[Record], target: str) -> dict[str, float | None]:
    """Kaplan-Meier median of the measurements to a target, over layers and seeds, by tuner."""
    return {
        tuner: kaplan_meier_median(
            [_end(r, target) for r in rows], [r[f"trials_to_{target}"] is not None for r in rows]
        )
        for tuner, rows in _by(records, "tuner").items()
    }


def regrets(records: Iterable[Record]) -> dict[str, dict[str, dict[str, float]]]:
    """Log-regret by budget and tuner: interquartile mean with its bootstrap interval."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for tuner, rows in _by(records, "tuner").items():
        for budget in rows[0]["regret"]:
            strata = [[r["regret"][budget] for r in task] for task in _by(rows, "task").values()]
            found.setdefault(budget, {})[tuner] = asdict(stratified_interval(strata))
    return found


def tests(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Every pair of tuners on the measurements to 1 %, paired by task and seed.

    A run that does not reach the target counts as one more than the smaller budget of the two.
    Names are ``first < second``: ``better`` says that the first needs fewer.
    """
    tuners = _by(records, "tuner")
    pairs = {}
    for first, second in itertools.combinations(tuners, 2):
        ours, theirs = (_by_run(tuners[name]) for name in (first, second))
        common = [key for key in ours if key in theirs]
        if not common:
            continue
        cap = 1 + min(r["budget"] for key in common for r in (ours[key], theirs[key]))
        values = [
            [min(cap, side[key]["trials_to_1pct"] or cap) for key in common]
            for side in (ours, theirs)
        ]
        pairs[f"{first} < {second}"] = (values[0], values[1])
    return {name: asdict(comparison) for name, comparison in compare_pairs(pairs).items()}


def overheads(records: Iterable[Record]) -> dict[str, float]:
    """Core-seconds inside the tuner for 100 measurements, median of the runs."""
    return {
        tuner: plain.median(100 * r["tuner_seconds"] / max(1, r["trials"]) for r in rows)
        for tuner, rows in _by(records, "tuner").items()
    }


def break_evens(records: Iterable[Record]) -> dict[str, dict[str, float | None]]:
    """Seconds a trial above which a tuner is cheaper to 1 % than random and than AutoTVM.

    Of mean measurements and mean core-seconds to the target, runs that miss it with their whole
    budget; `prices.break_even` defines 0 and None.
    """
    means = {
        tuner: (
            plain.fmean(_seconds(r, COMPILE_TARGET) for r in rows),
            plain.fmean(_end(r, COMPILE_TARGET) for r in rows),
        )
        for tuner, rows in _by(records, "tuner").items()
    }
    return {
        tuner: {
            other: break_even(*own, *means[other])
            for other in (BASELINE, REFERENCE)
            if other in means and other != tuner
        }
        for tuner, own in means.items()
    }


def throughput_gains(
    records: Iterable[Record], networks: Iterable[str], track: str
) -> dict[str, dict[str, float]]:
    """Throughput over AutoTVM's at the end of the budget, percent, by network and tuner.

    Of a network the layers that were run; latency is the sum of their cycles times their counts;
    median over the seeds that both have for all of them.
    """

    def latency(rows: Mapping[str, Record], counts: Mapping[str, int]) -> float:
        return float(sum(count * rows[task]["cycles"] for task, count in counts.items()))

    return _over_reference(records, networks, track, latency, lambda own, ref: ref / own - 1)


def compile_reductions(
    records: Iterable[Record], networks: Iterable[str], track: str, price: Price
) -> dict[str, dict[str, float]]:
    """Compile time saved against AutoTVM, percent, by network and tuner.

    Compile time is the tuner's core-seconds and the price of its measurements until each layer is
    within `COMPILE_TARGET` of its optimum, or the whole run's.
    """

    def compile_time(rows: Mapping[str, Record], counts: Mapping[str, int]) -> float:
        return sum(_cost(rows[task], price) for task in counts)

    return _over_reference(records, networks, track, compile_time, lambda own, ref: 1 - own / ref)


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


def by_condition(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Measurements to the targets for each track, arm, noise and hardness that was run.

    Medians are of the tuners that ran on every task of the condition.
    """
    groups: dict[str, list[Record]] = {}
    for r in records:
        kind = "hard" if r["hard"] else "easy"
        groups.setdefault(f"{r['track']}, {r['arm']}, noise {r['noise']:g}, {kind}", []).append(r)
    return {
        name: {
            "tasks": len({r["task"] for r in rows}),
            "seeds": {
                tuner: len({r["seed"] for r in own}) for tuner, own in _by(rows, "tuner").items()
            },
            "invalid_share": {
                tuner: sum(r["invalid"] for r in own) / sum(r["trials"] for r in own)
                for tuner, own in _by(rows, "tuner").items()
            },
            **{f"trials_to_{target}": trials_to(_complete(rows), target) for target in TARGETS},
        }
        for name, rows in groups.items()
    }


def _over_reference(
    records: Iterable[Record],
    networks: Iterable[str],
    track: str,
    measure: Callable[[Mapping[str, Record], Mapping[str, int]], float],
    compare: Callable[[float, float], float],
) -> dict[str, dict[str, float]]:
    """Compare a figure of a whole network with the reference's, in percent, median over seeds."""
    tuners = {
        tuner: {seed: {r["task"]: r for r in own} for seed, own in _by(rows, "seed").items()}
        for tuner, rows in _by(records, "tuner").items()
    }
    tasks = {task for seeds in tuners.values() for rows in seeds.values() for task in rows}
    found: dict[str, dict[str, float]] = {}
    for network in networks:
        parts = parts_of(track, load_network(network))
        counts = {part.task: part.count for part in parts if part.task in tasks}
        whole = {
            tuner: {
                seed: measure(rows, counts)
                for seed, rows in seeds.items()
                if counts and all(task in rows for task in counts)
            }
            for tuner, seeds in tuners.items()
        }
        reference = whole.get(REFERENCE, {})
        for tuner, values in whole.items():
            ratios = [
                compare(values[seed], reference[seed]) for seed in values if seed in reference
            ]
            if ratios and tuner != REFERENCE:
                found.setdefault(network, {})[tuner] = 100 * plain.median(ratios)
    return found


def _end(record: Record, target: str) -> float:
    """Measurements to a target, or of the whole run."""
    reached = record[f"trials_to_{target}"]
    return float(record["trials"] if reached is None else reached)


def _seconds(record: Record, target: str) -> float:
    """Core-seconds of the tuner to a target, or of the whole run."""
    reached = record[f"seconds_to_{target}"]
    return float(record["tuner_seconds"] if reached is None else reached)


def _cost(record: Record, price: Price) -> float:
    reached = record[f"cycles_to_{COMPILE_TARGET}"]
    cycles = record["measured_cycles"] if reached is None else reached
    trials = int(_end(record, COMPILE_TARGET))
    return _seconds(record, COMPILE_TARGET) + price.of(trials, cycles)


def _complete(records: Sequence[Record]) -> list[Record]:
    """Records of the tuners that ran on every task that any of them ran on."""
    tasks = {r["task"] for r in records}
    return [
        r
        for rows in _by(records, "tuner").values()
        if {r["task"] for r in rows} == tasks
        for r in rows
    ]


def _by(records: Iterable[Record], key: str) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return groups


def _by_run(records: Iterable[Record]) -> dict[tuple[str, int], Record]:
    return {(r["task"], r["seed"]): r for r in records}
