# SPDX-License-Identifier: Apache-2.0
"""The tables of a study of tuners, from its records and its summary.

What the words and the columns mean stands in `docs/results/tuners-study.md`, written by hand.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tilewright.bench.arena.network_figures import COMPILE_PRICE
from tilewright.bench.arena.records import (
    BASELINE,
    PRICES,
    REFERENCE,
    TARGETS,
    Record,
    common,
    headline,
)
from tilewright.bench.arena.summary import COMPARED
from tilewright.bench.arena.tasks import parts_of
from tilewright.bench.framework.tables import FigureTable, grouped, markdown_text, shown
from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import MARK, renew_folder, write_whole
from tilewright.host.network.zoo import load_network
from tilewright.tuner.report.drawing.table import Cell

Study = Mapping[str, Any]
Regrets = Mapping[str, Mapping[str, Mapping[str, float]]]
Row = tuple[str | Cell, ...]

CONFIRMED_SEEDS: Final = 5
"""Seeds whose winners are confirmed on the RTL."""

LEAST_COVERAGE: Final = 20
"""Percent of a network's multiply-accumulates that must have been run to speak of the network."""


def study_tables(study: Study) -> Iterator[FigureTable]:
    """Every table of a study (`merge.merge`); those that would be empty are left out."""
    summary, runs = study["summary"], exact_runs(study)
    yield networks_covered(study)
    yield tasks(study)
    yield from search_tables(summary, headline(runs)[0])
    yield costs(summary)
    yield prices(study)
    yield from whole_networks(summary)
    if (figures := summary["common"]) is not None:
        yield from search_tables(figures, common(runs), ", every tuner")
        yield from against_reference(figures)
    for table in (arms(summary), selections(study), confirmations(study), readings(summary)):
        if table.rows:
            yield table


def networks_covered(study: Study) -> FigureTable:
    """Which part of each network was searched."""
    conditions, tables = study["conditions"], {row["task"]: row for row in of_kind(study, "task")}
    ran = {r["task"] for r in headline(exact_runs(study))[0]}
    rows = []
    for name in conditions["networks"]:
        network = load_network(name)
        work: Counter[str] = Counter()
        parts = parts_of(conditions["track"], network)
        for part, workload in zip(parts, network.workloads, strict=True):
            work[part.task] += workload.macs * workload.count
        shares = [sum(work[t] for t in chosen) / network.macs for chosen in (tables, ran)]
        known = [tables[task] for task in work if task in tables]
        counts = (len(work), len(known), sum(row["hard"] for row in known))
        rows.append((name, *map(str, counts), *(f"{100 * share:.0f} %" for share in shares)))
    header = ("network", "tasks", "enumerated", "hard", "MACs enumerated", "MACs in the headline")
    return FigureTable(title="Networks", header=header, rows=rows)


def tasks(study: Study) -> FigureTable:
    """What was searched, the hardest first, with the first network and layer of each task."""
    conditions, homes = study["conditions"], dict[str, str]()
    for name in conditions["networks"]:
        for part in parts_of(conditions["track"], load_network(name)):
            homes.setdefault(part.task, f"{name} {part.layer}")
    return FigureTable(
        title="Tasks",
        header=(
            "layer", "points", "legal", "optimum", "within 1 %", "within 5 %", "random to 1 %",
            "hard", "enumerated",
        ),
        rows=[
            (
                homes.get(str(row["task"]), str(row["layer"])), f"{row['points']:,}",
                f"{100 * row['legal_share']:.0f} %",
                *(f"{row[key]:,}" for key in ("optimum_cycles", "within_1pct", "within_5pct",
                                              "random_median_1pct")),
                "yes" if row["hard"] else "no", "whole" if row.get("whole", True) else "to 5 %",
            )
            for row in sorted(of_kind(study, "task"), key=lambda row: -row["random_median_1pct"])
        ],
    )  # fmt: skip


def search_tables(
    figures: Mapping[str, Any], runs: Sequence[Record], suffix: str = ""
) -> Iterator[FigureTable]:
    """What some runs say of tuners: measurements to the targets, regret, pairs of tuners."""
    yield measurements(figures, runs, suffix)
    yield regret(figures["log_regret"], suffix)
    if (longest := figures["longest"]) is not None:
        alone = f"{suffix}, the runs of {longest['budget']:,} measurements alone"
        yield regret(longest["log_regret"], alone)
    tuners = list(figures["trials_to_1pct"])
    for own in COMPARED:
        if own in tuners and len(tuners) > 1:
            yield pairs(figures, own, [t for t in tuners if t != own], suffix)


def measurements(
    figures: Mapping[str, Any], runs: Sequence[Record], suffix: str = ""
) -> FigureTable:
    """Median measurements to the targets, the fewest of each track first."""
    medians = [figures[f"trials_to_{target}"] for target in TARGETS]
    rows: list[Row] = []
    for tuner, own in grouped(runs, "tuner").items():
        budgets = sorted({r["budget"] for r in own})
        seeds = [len({r["seed"] for r in task}) for task in grouped(own, "task").values()]
        cells = [
            _median(values[tuner], figures[f"interval_to_{target}"][tuner], budgets[0])
            for target, values in zip(TARGETS, medians, strict=True)
        ]
        cells += [
            _ratio(figures[f"ratio_to_{target}"].get(tuner, {}).get(BASELINE)) for target in TARGETS
        ]
        track = "grey-box" if own[0]["grey"] else "black-box"
        spans = [_span(values) for values in (seeds, (budgets[0], budgets[-1]))]
        rows.append((tuner, track, str(len(own)), *spans, *cells))
    rows.sort(key=lambda row: (row[1], *(c.value for c in row[5:7] if isinstance(c, Cell))))
    header = (
        "tuner", "track", "runs", "seeds", "budget", "to 1 %", "to 5 %", "random / this, 1 %",
        "random / this, 5 %",
    )  # fmt: skip
    return FigureTable(title=f"Measurements to the target{suffix}", header=header, rows=rows)


def regret(regrets: Regrets, suffix: str = "") -> FigureTable:
    """Regret at fixed budgets, percent."""
    rows: list[Row] = [
        (tuner, *(_percent(of_budget.get(tuner)) for of_budget in regrets.values()))
        for tuner in by_regret(regrets)
    ]
    return FigureTable(title=f"Regret{suffix}", header=("tuner", *regrets), rows=rows)


def by_regret(regrets: Regrets) -> list[str]:
    """Tuners, the least regret after the most measurements first; what is lacking is the worst."""
    budgets = list(regrets.values())
    everybody = dict.fromkeys(tuner for tuners in budgets for tuner in tuners)
    missing = {"value": math.inf}
    return sorted(everybody, key=lambda t: [b.get(t, missing)["value"] for b in reversed(budgets)])


def pairs(
    figures: Mapping[str, Any], own: str, others: Sequence[str], suffix: str = ""
) -> FigureTable:
    """A tuner against each other one: ratios of measurements with the tests of the task medians."""
    rows: list[Row] = []
    for other in others:
        found = [figures[f"ratio_to_{target}"].get(own, {}).get(other) for target in TARGETS]
        cells = [(_ratio(ratio), _verdict(ratio)) for ratio in found]
        rows.append((other, *(cell for pair in cells for cell in pair)))
    header = ("against", "ratio, 1 %", "tasks, 1 %", "ratio, 5 %", "tasks, 5 %")
    return FigureTable(title=f"Paired tests of {own}{suffix}", header=header, rows=rows)


def _verdict(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "-"
    return "{wins}, {losses}; {p_holm:.2g}; {verdict}".format(**ratio)


def costs(figures: Mapping[str, Any]) -> FigureTable:
    """Overhead and break-even, the cheapest tuner first."""
    overhead, even = figures["overhead_seconds_per_100"], figures["break_even_seconds"]
    others = [other for other in (BASELINE, REFERENCE) if other in overhead]
    rows: list[Row] = [
        (tuner, f"{seconds:.3f}", *(_price(even[tuner], other) for other in others))
        for tuner, seconds in sorted(overhead.items(), key=lambda item: item[1])
    ]
    header = ("tuner", "core-s / 100", *(f"against {other}, s" for other in others))
    return FigureTable(title="What a search costs", header=header, rows=rows)


def prices(study: Study) -> FigureTable:
    """What a measurement costs, with the source of the figures."""
    rows = [
        (name, f"{p['seconds_per_trial']:g}", f"{p['seconds_per_cycle']:.3g}", p["source"])
        for name, p in study["conditions"]["prices"].items()
    ]
    header = ("price", "s per trial", "s per cycle", "source")
    return FigureTable(title="Prices of a measurement", header=header, rows=rows)


def whole_networks(summary: Mapping[str, Any]) -> Iterator[FigureTable]:
    """Networks against the reference: throughput, and compile time at each price."""
    full = summary["full"]
    yield from _of_budget(summary, summary, (COMPILE_PRICE,) if full else tuple(PRICES))
    if full:
        yield from _of_budget(full, summary, tuple(PRICES))


def _of_budget(
    figures: Mapping[str, Any], summary: Mapping[str, Any], prices: Sequence[str]
) -> Iterator[FigureTable]:
    after = f"after {figures['network_budget']} measurements, %"
    saved, coverage = figures["compile_time_reduction_by_price_pct"], summary["coverage"]
    found = {f"Throughput over AutoTVM {after}": figures["throughput_gain_over_autotvm_pct"]}
    for name in prices:
        found[f"Compile time saved against AutoTVM at the price of {name} {after}"] = saved[name]
    for title, values in found.items():
        tuners = list(dict.fromkeys(tuner for own in values.values() for tuner in own))
        rows = [
            (f"{n} ({coverage[n]:.0f} %)", *(signed(own.get(t)) for t in tuners))
            for n, own in values.items()
            if coverage[n] >= LEAST_COVERAGE
        ]
        if rows:
            header = ("network", *(tuner for tuner in tuners))
            yield FigureTable(title=title, header=header, rows=rows)


def against_reference(figures: Mapping[str, Any]) -> Iterator[FigureTable]:
    """The network of which most was run, against AutoTVM, one row per tuner."""
    gains = figures["throughput_gain_over_autotvm_pct"]
    if not gains:
        return
    network = max(gains, key=lambda name: figures["coverage"][name])
    saved = figures["compile_time_reduction_by_price_pct"]
    overhead, even = figures["overhead_seconds_per_100"], figures["break_even_seconds"]
    rows: list[Row] = []
    for tuner in sorted(overhead, key=lambda t: -gains[network].get(t, -math.inf)):
        low, high = figures["throughput_quartiles_pct"][network].get(tuner, (None, None))
        gain = gains[network].get(tuner)
        rows.append(
            (
                tuner,
                "-" if gain is None else f"{signed(gain)} ({signed(low)} to {signed(high)})",
                *(signed(of_price.get(network, {}).get(tuner)) for of_price in saved.values()),
                f"{overhead[tuner]:.3f}",
                _price(even[tuner], REFERENCE),
            )
        )
    header = (
        "tuner", "throughput, %", *(f"compile time saved, {name}, %" for name in saved),
        "core-s / 100", "break-even, s",
    )  # fmt: skip
    title = (
        f"Every tuner against AutoTVM on {network} ({figures['coverage'][network]:.0f} %) after "
        f"{figures['network_budget']} measurements"
    )
    yield FigureTable(title=title, header=header, rows=rows)


def arms(summary: Mapping[str, Any]) -> FigureTable:
    """Measurements to 1 % under every arm and noise; without rows when only one was run."""
    found, rows = summary["arms"], []
    for tuner, figures in found["tuners"].items():
        row = [tuner, str(figures["tasks"]), str(figures["runs"])]
        for name in found["conditions"]:
            cell = "-"
            if name in figures:
                invalid = figures[name]["invalid_share"]
                note = f", {100 * invalid:.0f} % invalid" if invalid else ""
                cell = f"{_or_more(figures[name]['trials_to_1pct'])}{note}"
            row.append(cell)
        rows.append(row)
    header = ("tuner", "tasks", "runs", *found["conditions"])
    return FigureTable(title="Arms and noise", header=header, rows=rows)


def selections(study: Study) -> FigureTable:
    """Confidence sampling against other selections; without rows when it was not compared."""
    rows = [
        (
            name, str(len(own)),
            *(
                f"{statistics.median(pick(row['ratios']) for row in own):.3f}"
                for pick in (min, statistics.median, max)
            ),
        )
        for name, own in grouped(of_kind(study, "selection"), "selection").items()
    ]  # fmt: skip
    header = ("selection", "sets", "best", "median", "worst")
    title = "Confidence sampling on identical candidates"
    return FigureTable(title=title, header=header, rows=rows)


def confirmations(study: Study) -> FigureTable:
    """Winners and optima on the full RTL: how many agree with the table, and what does not."""
    rows = of_kind(study, "confirmation")
    winners = {
        (r["task"], r["flat"])
        for r in exact_runs(study)
        if r["seed"] < CONFIRMED_SEEDS and r["flat"] is not None
    }
    run = {(r["task"], r["flat"]) for r in rows if "flat" in r}  # older files have none
    left = max(0, len(winners - run) - sum("flat" not in r for r in rows))
    counts = (len(rows), sum(r["equal"] for r in rows), left)
    told: list[Sequence[str]] = [("all", *map(str, counts), "-")] if rows else []
    told += [
        (f"{r['layer']} on {r['hw']}", "1", "0", "-", r["failure"] or "other cycles")
        for r in rows
        if not r["equal"]
    ]
    header = ("points", "run on the RTL", "equal", "winners not run", "failure")
    return FigureTable(title="On the RTL", header=header, rows=told)


def readings(summary: Mapping[str, Any]) -> FigureTable:
    """DCOC at the published budget; without rows when nothing was run that far."""
    rows = [
        (
            name, f"{found['tasks']} of {found['of']}", f"{summary['coverage'][name]:.0f} %",
            str(len(found["per_task"])), _spread(found["per_task"]),
            f"{_spread(found['per_network'])}; {found['each']} each",
        )
        for name, found in summary["readings"].items()
    ]  # fmt: skip
    header = (
        "network", "layers run", "of its MACs", "seeds", "1,000 per layer, %",
        "1,000 per network, %",
    )  # fmt: skip
    title = "DCOC over AutoTVM at 1,000 measurements, both readings"
    return FigureTable(title=title, header=header, rows=rows)


def exact_runs(study: Study) -> list[Record]:
    """Runs of the study's track, in the masked arm and without noise."""
    track = study["conditions"]["track"]
    return [
        r
        for r in of_kind(study, "run")
        if r["arm"] == "masked" and not r["noise"] and r["track"] == track
    ]


def of_kind(study: Study, what: str) -> list[Record]:
    """The records of one kind."""
    return [r for r in study["records"] if r["what"] == what]


def signed(value: float | None) -> str:
    """A percentage with its sign."""
    return "-" if value is None else f"{round(value, 1) + 0.0:+.1f}"  # no -0.0


def _spread(values: Sequence[float]) -> str:
    """A median with the least and the largest value."""
    middle, low, high = map(signed, (statistics.median(values), min(values), max(values)))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def _span(values: Sequence[int]) -> str:
    """The least and the largest value."""
    return " to ".join(dict.fromkeys((str(min(values)), str(max(values)))))


def _or_more(value: float | None) -> str:
    """A censored median."""
    return "more" if value is None else f"{value:.0f}"


def _median(value: float | None, interval: Mapping[str, float], budget: float) -> Cell:
    """A censored median with its interval; bounds above the budget were not reached."""
    low, high = (_or_more(None if interval[k] > budget else interval[k]) for k in ("low", "high"))
    bounds = "" if value is None and low == "more" else f" ({low} to {high})"
    return Cell(text=_or_more(value) + bounds, value=math.inf if value is None else value)


def _ratio(ratio: Mapping[str, Any] | None) -> Cell:
    """A ratio with its interval, and on which side some of its medians are censored."""
    if ratio is None:
        return Cell(text="-")
    signs = {(True, False): "> ", (False, True): "< ", (True, True): "~ "}
    sign = signs.get((ratio["bound"], ratio["ceiling"]), "")
    return Cell(text=sign + shown(ratio), value=ratio["value"])


def _percent(interval: Mapping[str, float] | None) -> Cell:
    """`percent_interval`, sorted by the estimate."""
    return Cell(text=percent_interval(interval), value=(interval or {}).get("value", math.inf))


def percent_interval(interval: Mapping[str, float] | None) -> str:
    """An estimate with its interval, both in percent."""
    return shown(interval, 2, 100)


def _price(even: Mapping[str, float | None], other: str) -> Cell:
    """A break-even price, in seconds."""
    if other not in even:
        return Cell(text="-")
    value = even[other]
    text = "never" if value is None else "always" if value == 0 else f"{value:.3g}"
    return Cell(text=text, value=math.inf if value is None else value)


def write_document(study: Study, path: Path) -> None:
    """Write the page, and beside it a folder of its name with a CSV file for each table."""
    write_whole(path, document(study))
    folder = path.with_suffix("")
    tables = {f"{table.file_name}.csv": table.csv() for table in study_tables(study)}
    renew_folder(folder, tables)
    for name, text in tables.items():
        write_whole(folder / name, text)


def document(study: Study) -> str:
    """The page of a study (`merge.merge`)."""
    return "\n\n".join(_blocks(study)) + "\n"


def _blocks(study: Study) -> Iterator[str]:
    conditions = study["conditions"]
    parts = conditions["parts"]
    missing = sum(part.get("runs_missing", 0) for part in parts)
    yield f"<!-- {MARK} -->"
    yield "# Study of tuners: all tables"
    yield _bullets(
        (
            f"Track *{conditions['track']}*: {', '.join(conditions['configurations'])}",
            f"Space `{conditions['space']}`, {conditions['memory']}",
            f"{conditions['fidelity']} (`{conditions['twin']}`)",
            f"Points per ask: {conditions['batch']}",
            f"Random first points: {conditions['initial_points']}",
            f"Runs of the plan that were not made: {missing:,}",
            *(f"Not run on all tasks: `{tuner}`" for tuner in study["summary"]["incomplete"]),
            *(f"Budget of `{t}`: {most}" for t, most in conditions["small_budgets"].items()),
            *(part["note"] for part in parts if part.get("note")),
        )
    )
    if failures := dict.fromkeys(chain.from_iterable(part.get("failures", ()) for part in parts)):
        yield "## Runs that ended with an error"
        yield _bullets(failures)
    for table in study_tables(study):
        yield f"## {table.title}"
        yield table.markdown()
    yield "## How to repeat"
    yield "\n".join(["```console", *(f"$ {printable(part['command'])}" for part in parts), "```"])


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {markdown_text(line)}" for line in lines)
