# SPDX-License-Identifier: Apache-2.0
"""Medians and intervals of the rows of `bench.allocate`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.bench.framework.statistics import clustered, compare_pairs, typical_ratio
from tilewright.bench.framework.tables import FigureTable, shown
from tilewright.host.common.result_document import rows_of

Row = dict[str, Any]
LEAST_FAMILIES = 6
"""With fewer families no verdict is given."""
NEAR = 1.01
"""A latency that is as good as reached, as a multiple."""


def interval(values: Sequence[float], *, rounds: int = 2000) -> Row:
    """Median with its 95 % bootstrap interval."""
    rng, data = np.random.default_rng(0), np.array(values)
    medians = np.median(data[rng.integers(len(data), size=(rounds, len(data)))], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return {
        "median": round(float(np.median(data)), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
        "n": len(data),
    }


def family(network: str) -> str:
    """Networks of a family share layers, and so searches: VGG-13 and VGG-16 are no two findings."""
    return network.rstrip("0123456789")


def over_families(pairs: Mapping[str, Row]) -> Row:
    """Of each baseline the typical ratio over families of networks, with its interval."""
    found: Row = {}
    logs: dict[str, list[float]] = {}
    for baseline, values in pairs.items():
        families = clustered((family(network), ratio) for network, ratio in values.items())
        mean = typical_ratio(families)
        logs[baseline] = [-float(np.log(own).mean()) for own in families]
        found[baseline] = {
            "typical": round(mean.value, 3),
            "low": round(mean.low, 3),
            "high": round(mean.high, 3),
            "families": len(families),
        }
    for baseline, test in compare_pairs(logs).items():
        verdict = {"better": "ahead", "worse": "behind", "tie": "tie"}[test.verdict]
        told = verdict if test.pairs >= LEAST_FAMILIES else "untold"
        found[baseline] |= {"p_holm": round(test.p_holm, 4), "verdict": told}
    return found


def deciding_percent(run: Row) -> float:
    """Time of deciding, in percent of the time that is divided."""
    return float(100 * run["deciding_seconds"] / (run["budget_seconds"] + run["warm_up_seconds"]))


def _overall(pairs: Row) -> Row:
    """By challenger and baseline: over all networks that have the pair."""
    return {
        challenger: over_families(
            {
                baseline: {n: own[baseline]["median"] for n, own in networks.items()}
                for baseline in next(iter(networks.values()))
            }
        )
        for challenger, networks in pairs.items()
    }


def summarise(rows: Sequence[Row]) -> Row:
    """Medians with intervals for each price; the first price's under the plain names."""
    summary: Row = {}
    prices = list(dict.fromkeys(r["price"] for r in rows))
    for price in prices:
        tag = "" if price == prices[0] else f"_{price}"
        for near, suffix in ((1.0, ""), (NEAR, "_within_1pct")):
            summary[f"speedup_to_final_latency{suffix}{tag}"] = _pairs(
                [r for r in rows if r["price"] == price and r["what"] == "pair"
                 and r["within"] == near]
            )  # fmt: skip
            summary[f"speedup_over_networks{suffix}{tag}"] = _overall(
                summary[f"speedup_to_final_latency{suffix}{tag}"]
            )
        runs = [r for r in rows if r["price"] == price and r["what"] == "run"]
        ours = [r for r in runs if r["allocator"] == "dynatune"]
        if ours:
            summary[f"overhead_pct{tag}"] = round(
                statistics.median(map(deciding_percent, ours)),
                3,
            )
        summary[f"limit_of_any_allocator{tag}"] = _limits(runs)
        runs += [
            r | {"allocator": "oracle"}
            for r in rows
            if r["price"] == price and r["what"] == "oracle"
        ]
        for key, name in (("mean_excess", "mean_excess"), ("final", "final_over_start")):
            summary[f"{name}{tag}"] = _by_network(runs, key)
        foretold = [
            r for r in rows
            if r["price"] == price and r["what"] == "forecast" and r["rank_correlation"] is not None
        ]  # fmt: skip
        if foretold:
            summary[f"forecast{tag}"] = {
                key: round(statistics.median(r[key] for r in foretold), 4)
                for key in ("expected", "came", "rank_correlation")
            }
    changed = [r for r in rows if r["what"] == "ablation"]
    if changed:
        summary["ablation_mean_excess"] = {
            v: interval([r["mean_excess"] for r in changed if r["variant"] == v])
            for v in dict.fromkeys(r["variant"] for r in changed)
        }
    return summary


def _grouped(rows: Sequence[Row], keys: Sequence[str], of: Callable[[list[Row]], object]) -> Row:
    """What is made of the rows with equal members, nested by these members."""
    found: dict[Any, list[Row]] = {}
    if not keys:
        return of(list(rows))  # type: ignore[return-value]  # the innermost level
    for row in rows:
        found.setdefault(row[keys[0]], []).append(row)
    return {name: _grouped(own, keys[1:], of) for name, own in found.items()}


def _pairs(rows: Sequence[Row]) -> Row:
    """By challenger, network and baseline."""

    def speedups(pairs: list[Row]) -> Row:
        censored = sum(pair["censored"] for pair in pairs)
        return interval([pair["speedup"] for pair in pairs]) | {"censored": censored}

    return _grouped(rows, ("challenger", "network", "baseline"), speedups)


def _limits(runs: Sequence[Row]) -> Row:
    """By network and allocator: its time to its own final latency over the least possible one."""

    def ratios(own: list[Row]) -> Row:
        return interval([r["seconds_to_final"] / r["least_seconds_to_final"] for r in own])

    return _grouped(runs, ("network", "allocator"), ratios)


def _by_network(runs: Sequence[Row], key: str) -> Row:
    def value(run: Row) -> float:
        return float(run["final_cycles"] / run["start_cycles"] if key == "final" else run[key])

    def median(own: list[Row]) -> float:
        return round(statistics.median(map(value, own)), 5)

    return _grouped(runs, ("network", "allocator"), median)


def crossed(title: str, figures: Mapping[str, Mapping[str, str]]) -> FigureTable:
    """Texts by column and row; a column may lack a row."""
    names = dict.fromkeys(name for column in figures.values() for name in column)
    rows = [(name, *(column.get(name, "-") for column in figures.values())) for name in names]
    return FigureTable(title=title, header=(title, *figures), rows=rows)


def speed_ups(summary: Row, seeds: Row, challenger: str) -> FigureTable:
    """Speed-up of a challenger to each baseline's final latency."""

    def text(pair: Row) -> str:
        never = f", {pair['censored']} never" if pair["censored"] else ""
        return shown(pair) + never

    found = summary["speedup_to_final_latency"][challenger]
    texts = {
        f"{network} ({seeds[network]})": {name: text(pair) for name, pair in pairs.items()}
        for network, pairs in found.items()
    }
    return crossed(f"{challenger} against", texts)


def over_networks(summary: Row) -> FigureTable:
    """Speed-ups over all networks, with intervals over families of networks."""
    found = summary["speedup_over_networks"]
    texts = {
        c: {b: f"{shown(each)}, {each['verdict']}" for b, each in own.items()}
        for c, own in found.items()
    }
    return crossed("against", texts)


def limits(summary: Row) -> FigureTable:
    """What any allocator could gain over each one: exact, over the recorded searches."""
    found = summary["limit_of_any_allocator"]
    texts = {n: {a: shown(each) for a, each in own.items()} for n, own in found.items()}
    return crossed("least time against", texts)


def excesses(summary: Row) -> FigureTable:
    """Mean excess over the budget, and final latency as a share of the untuned one."""
    final = summary["final_over_start"]
    texts = {
        n: {a: f"{100 * value:.1f} %, {final[n][a]:.3f}" for a, value in own.items()}
        for n, own in summary["mean_excess"].items()
    }
    return crossed("allocator", texts)


def budgets(rows: Sequence[Row]) -> FigureTable:
    """Budget, slot, cost of deciding and quality of the forecasts of each network."""
    runs = [r for r in rows if r["what"] == "run" and r["allocator"] == "dynatune"]
    forecasts = [r for r in rows if r["what"] == "forecast"]

    def median(chosen: Iterable[Row], key: str) -> float:
        return float(statistics.median(r[key] for r in chosen if r[key] is not None))

    lines = []
    for network in dict.fromkeys(r["network"] for r in runs):
        own = [r for r in runs if r["network"] == network]
        foretold = [r for r in forecasts if r["network"] == network]
        lines.append(
            (
                network,
                f"{median(own, 'budget_seconds'):,.0f}",
                f"{median(own, 'slot_seconds'):.1f}",
                f"{statistics.median(map(deciding_percent, own)):.1f} %",
                ", ".join(f"{100 * median(foretold, key):.1f} %" for key in ("expected", "came")),
                f"{median(foretold, 'rank_correlation'):.2f}",
            )
        )
    header = (
        "network", "budget, s", "slot, s", "deciding", "saving expected, came", "rank correlation",
    )  # fmt: skip
    return FigureTable(title="Budgets", header=header, rows=lines)


def tables(study: Row) -> str:
    """Every table of a document of `tilewright bench allocate`, as Markdown."""
    rows, summary = rows_of(study), study["summary"]
    networks = summary["mean_excess"]
    seeds = {n: len({r["seed"] for r in rows if r["network"] == n}) for n in networks}
    found = [
        over_networks(summary),
        *(speed_ups(summary, seeds, c) for c in summary["speedup_to_final_latency"]),
        limits(summary),
        excesses(summary),
        budgets(rows),
    ]
    return "\n\n".join(table.markdown() for table in found)
