# SPDX-License-Identifier: Apache-2.0
"""The tables of `docs/results/dynatune.md`, from the JSON of `tilewright bench allocate`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.bench.allocate.summary import deciding_percent
from tilewright.bench.framework.tables import FigureTable
from tilewright.host.common.result_document import rows_of

Row = dict[str, Any]
_INTERVAL = "{median:.2f} ({low:.2f} to {high:.2f})"


def crossed(title: str, figures: Mapping[str, Mapping[str, str]]) -> FigureTable:
    """Texts by column and row; a column may lack a row."""
    names = dict.fromkeys(name for column in figures.values() for name in column)
    rows = [(name, *(column.get(name, "-") for column in figures.values())) for name in names]
    return FigureTable(title=title, header=(title, *figures), rows=rows)


def speed_ups(summary: Row, seeds: Row, challenger: str) -> FigureTable:
    """Speed-up of a challenger to each baseline's final latency."""

    def text(pair: Row) -> str:
        never = f", {pair['censored']} never" if pair["censored"] else ""
        return _INTERVAL.format(**pair) + never

    found = summary["speedup_to_final_latency"][challenger]
    texts = {
        f"{network} ({seeds[network]})": {name: text(pair) for name, pair in pairs.items()}
        for network, pairs in found.items()
    }
    return crossed(f"{challenger} against", texts)


def over_networks(summary: Row) -> FigureTable:
    """Speed-ups over all networks, with intervals over families of networks."""
    form = "{mean:.2f} ({low:.2f} to {high:.2f}), {verdict}"
    found = summary["speedup_over_networks"]
    texts = {c: {b: form.format(**each) for b, each in own.items()} for c, own in found.items()}
    return crossed("against", texts)


def limits(summary: Row) -> FigureTable:
    """What any allocator could gain over each one: exact, over the recorded searches."""
    found = summary["limit_of_any_allocator"]
    texts = {
        n: {a: _INTERVAL.format(**each) for a, each in own.items()} for n, own in found.items()
    }
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
