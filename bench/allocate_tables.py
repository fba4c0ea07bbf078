# SPDX-License-Identifier: Apache-2.0
"""The tables of `docs/results/dynatune.md`, from the JSON of `tilewright bench allocate`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.host.common.result_document import rows_of

Row = dict[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def speed_ups(summary: Row, seeds: Row, challenger: str) -> str:
    """Speed-up of a challenger to each baseline's final latency."""
    found = summary["speedup_to_final_latency"][challenger]

    def cell(pair: Row) -> str:
        never = f", {pair['censored']} never" if pair["censored"] else ""
        return f"{pair['median']:.2f} ({pair['low']:.2f} to {pair['high']:.2f}){never}"

    baselines = next(iter(found.values()))
    return table(
        (f"{challenger} against", *(f"{name} ({seeds[name]})" for name in found)),
        ((b, *(cell(pairs[b]) for pairs in found.values())) for b in baselines),
    )


def over_networks(summary: Row) -> str:
    """Speed-ups over all networks, with intervals over families of networks."""
    found = summary["speedup_over_networks"]
    baselines = list(dict.fromkeys(b for own in found.values() for b in own))

    def cell(overall: Row | None) -> str:
        if overall is None:
            return "-"
        return "{mean:.2f} ({low:.2f} to {high:.2f}), {verdict}".format(**overall)

    return table(
        ("against", *found),
        ((b, *(cell(found[c].get(b)) for c in found)) for b in baselines),
    )


def limits(summary: Row) -> str:
    """What any allocator could gain over each one: exact, over the recorded searches."""
    found = summary["limit_of_any_allocator"]
    allocators = next(iter(found.values()))
    return table(
        ("least time against", *found),
        (
            (a, *("{median:.2f} ({low:.2f} to {high:.2f})".format(**found[n][a]) for n in found))
            for a in allocators
        ),
    )


def excesses(summary: Row) -> str:
    """Mean excess over the budget, and final latency as a share of the untuned one."""
    excess, final = summary["mean_excess"], summary["final_over_start"]
    allocators = next(iter(excess.values()))
    return table(
        ("allocator", *excess),
        (
            (a, *(f"{100 * excess[n][a]:.1f} %, {final[n][a]:.3f}" for n in excess))
            for a in allocators
        ),
    )


def budgets(rows: Sequence[Row]) -> str:
    """Budget, slot, cost of deciding and quality of the forecasts of each network."""
    runs = [r for r in rows if r["what"] == "run" and r["allocator"] == "dynatune"]
    forecasts = [r for r in rows if r["what"] == "forecast"]

    def median(chosen: Iterable[Row], key: str) -> float:
        return float(statistics.median(r[key] for r in chosen if r[key] is not None))

    lines = []
    for network in dict.fromkeys(r["network"] for r in runs):
        own = [r for r in runs if r["network"] == network]
        foretold = [r for r in forecasts if r["network"] == network]
        share = statistics.median(
            100 * r["deciding_seconds"] / (r["budget_seconds"] + r["warm_up_seconds"]) for r in own
        )
        lines.append(
            (
                network,
                f"{median(own, 'budget_seconds'):,.0f}",
                f"{median(own, 'slot_seconds'):.1f}",
                f"{share:.1f} %",
                ", ".join(f"{100 * median(foretold, key):.1f} %" for key in ("expected", "came")),
                f"{median(foretold, 'rank_correlation'):.2f}",
            )
        )
    return table(
        (
            "network",
            "budget, s",
            "slot, s",
            "deciding",
            "saving expected, came",
            "rank correlation",
        ),
        lines,
    )


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
    return "\n\n".join(found)
