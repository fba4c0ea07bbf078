# SPDX-License-Identifier: Apache-2.0
"""What runs say of whole networks, and of what a search costs, beside the reference tuner."""

from __future__ import annotations

import functools
import statistics as plain
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.records import (
    BASELINE,
    PRICES,
    REFERENCE,
    Price,
    Record,
    break_even,
    by_run,
    incumbent_at,
)
from tilewright.bench.arena.runner import SMALL_BUDGETS
from tilewright.bench.arena.tasks import parts_of
from tilewright.bench.framework.tables import grouped
from tilewright.host.network.zoo import load_network

READ: Final = ("dcoc", REFERENCE)

PUBLISHED_BUDGET: Final = 1000
"""What DCO-Comp was judged with; whether a task or a network is not said."""

COMPILE_TARGET: Final = "1pct"
"""Compile time is the time to this target, or of the whole budget when it is not reached."""

COMPILE_PRICE: Final = "rtl"


def network_figures(
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
            for tuner, rows in grouped(records, "tuner").items()
            if tuner.partition(":")[0] not in SMALL_BUDGETS
        }
    )


def break_evens(records: Iterable[Record]) -> dict[str, dict[str, float | None]]:
    """Seconds a trial above which a tuner is cheaper to 1 % than random and than AutoTVM.

    Of mean measurements and mean core-seconds to the target over the tasks and seeds that both
    have, runs that miss it with the smaller budget; `prices.break_even` defines 0 and None.
    """
    runs = {tuner: by_run(rows) for tuner, rows in grouped(records, "tuner").items()}
    found: dict[str, dict[str, float | None]] = {}
    for tuner, own in runs.items():
        found[tuner] = {}
        for other in (BASELINE, REFERENCE):
            pairs = [
                (own[key], theirs) for key, theirs in runs.get(other, {}).items() if key in own
            ]
            if other == tuner or not pairs:
                continue
            ends = [[end_of(r, min(a["budget"], b["budget"])) for r in (a, b)] for a, b in pairs]
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
    """
    long = [r for r in records if r["budget"] >= PUBLISHED_BUDGET and r["tuner"] in READ]
    both = set.intersection(*({r["task"] for r in long if r["tuner"] == name} for name in READ))
    long = sorted((r for r in long if r["task"] in both), key=lambda r: r["seed"])
    found: dict[str, dict[str, Any]] = {}
    for network in networks:
        tasks = {part.task for part in parts_of(track, load_network(network))}
        each = PUBLISHED_BUDGET // len(tasks)
        gains = {}
        for name, at in (("per_task", PUBLISHED_BUDGET), ("per_network", each)):
            latency = functools.partial(_latency, at=at)
            over = _over_reference(long, [network], track, latency, lambda own, ref: ref / own - 1)
            gains[name] = over.get(network, {}).get(READ[0], [])
        if gains["per_task"]:
            found[network] = {"tasks": len(tasks & both), "of": len(tasks), "each": each} | gains
    return found


def _latency(rows: Mapping[str, Record], counts: Mapping[str, int], *, at: int) -> float:
    return sum(n * incumbent_at(rows[task]["curve"], at) for task, n in counts.items())


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


def _over_reference(
    records: Iterable[Record],
    networks: Iterable[str],
    track: str,
    measure: Callable[[Mapping[str, Record], Mapping[str, int]], float],
    compare: Callable[[float, float], float],
) -> dict[str, dict[str, list[float]]]:
    """A figure of a whole network against the reference's, in percent, seed by seed."""
    tuners = {
        tuner: {seed: {r["task"]: r for r in own} for seed, own in grouped(rows, "seed").items()}
        for tuner, rows in grouped(records, "tuner").items()
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
        for rows in grouped(records, "tuner").values()
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


def end_of(record: Record, budget: int) -> dict[str, Any]:
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
    end = end_of(record, budget)
    seconds: float = end["tuner_seconds"]
    return seconds + price.of(end["trials"], end["measured_cycles"])
