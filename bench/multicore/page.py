# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of a study of group mappers: Markdown for the docs, an HTML file.

What the rows of a study of group mappers say: throughput against MAGMA, gaps, defeats.

Figures of a method are geometric means over cases and seeds. Chance draws the jobs of a group, by
task and seed: the runs of one group on all platforms are one cluster (`statistics`). Throughput is
the inverse of the makespan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tilewright.bench.framework import page as charts
from tilewright.bench.framework.page import conditions, study_page
from tilewright.bench.framework.statistics import geometric_mean, mean_ratio, verdicts
from tilewright.bench.framework.tables import (
    Document,
    FigureTable,
    grouped,
    packed,
    shown,
    table_of,
    unpacked,
)
from tilewright.host.common.whole_file import MARK
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.xy_chart import XYChart

Row = dict[str, Any]

REFERENCE: Final = "magma"
OURS: Final = "tilewright"
TIE: Final = 1e-6
"""Relative difference of makespans up to which two are equal."""
BOUND_SLACK: Final = 1e-9
PAIRS: Final = (
    ("S2", "S1"),
    ("S4", "S3"),
    ("S5", "S4"),
    ("S6", "S5"),
    *((f"S{number}-flexible", f"S{number}") for number in range(1, 7)),
)
"""Platforms that are compared with others: one low-bandwidth core for a high-bandwidth one, half
the cores little, twice the cores, arrays of any shape."""
TIGHT_PCT: Final = 3.0
"""A bound is called tight where some method is within this many per cent of it."""


def summarise(rows: Sequence[Row]) -> Row:
    """The figures that the documents name."""
    bounds = {instance_of_row(row): row["bound"] for row in rows if row["what"] == "bound"}
    runs = [row for row in rows if row["what"] == "run"]
    by_method = grouped(runs, "method")
    reference = {instance_of_row(r): r["makespan"] for r in by_method.get(REFERENCE, ())}

    def gain(run: Row) -> float | None:
        """Throughput over that of the reference."""
        theirs = reference.get(instance_of_row(run))
        return None if theirs is None else float(theirs / run["makespan"])

    def gap(run: Row, makespan: float) -> float:
        return max(1.0, float(makespan / bounds[instance_of_row(run)]))

    def gaps(of: Callable[[Row], float]) -> Row:
        return {
            method: mean_ratio(((_of(run), gap(run, of(run))) for run in mine), above_1=True)
            for method, mine in by_method.items()
        }

    ratios = {
        method: pairs
        for method, mine in by_method.items()
        if (pairs := [(_of(run), ratio) for run in mine if (ratio := gain(run)) is not None])
    }
    return {
        "instances": len(bounds),
        "bound_violations": sum(
            run["makespan"] < bounds[instance_of_row(run)] * (1 - BOUND_SLACK) for run in runs
        ),
        "geomean_vs_magma": {method: mean_ratio(pairs) for method, pairs in ratios.items()},
        "gap_to_bound_pct": gaps(lambda run: float(run["makespan"])),
        "gap_to_bound_pct_at_100": gaps(_at_100),
        "core_seconds_per_run": {
            method: round(sum(run["core_seconds"] for run in mine) / len(mine), 3)
            for method, mine in by_method.items()
        },
        "runs": {method: len(mine) for method, mine in by_method.items()},
        "verdict_vs_magma": verdicts(
            {method: pairs for method, pairs in ratios.items() if method != REFERENCE}, less=False
        ),
        "by_case": [
            {
                **dict(zip((*CASE, "method"), (*case, method), strict=True)),
                "vs_magma": _mean([r for run in mine if (r := gain(run)) is not None]),
                "gap_pct": _mean([gap(run, run["makespan"]) for run in mine], per_cent=True),
            }
            for case, own in grouped(runs, *CASE).items()
            for method, mine in grouped(own, "method").items()
        ],
        "platforms": _platforms(by_method.get(OURS, ())),
        "jobs": [
            {
                "platform": platform,
                "bandwidth": bandwidth,
                "groups": len(own),
                **{name: sum(row[name] for row in own) / len(own) for name in JOB},
            }
            for (platform, bandwidth), own in grouped(
                (r for r in rows if r["what"] == "bound" and "job_cycles" in r), *CASE[1:]
            ).items()
        ],
        **_defeats(runs, bounds),
    }


CASE: Final = ("task", "platform", "bandwidth")


def instance_of_row(row: Row) -> tuple[Any, ...]:
    """What rows of one instance have in common."""
    return row["task"], row["platform"], row["bandwidth"], row["seed"]


def _at_100(run: Row) -> float:
    """The lowest makespan after 100 samples, or at the end of what is shorter."""
    return float([value for point, value in run["curve"] if point <= 100][-1])


def _of(run: Row) -> tuple[Any, ...]:
    """The cluster of a run."""
    return run["task"], run["seed"]


def _platforms(runs: Sequence[Row]) -> list[Row]:
    """Throughput of one platform over another on the same groups, as our own mapper uses them."""
    ours = {instance_of_row(run): run["makespan"] for run in runs}
    found = []
    for bandwidth in sorted({of[2] for of in ours}):
        for platform, other in PAIRS:
            ratios = [
                ((task, seed), makespan / ours[task, platform, at, seed])
                for (task, name, at, seed), makespan in ours.items()
                if (name, at) == (other, bandwidth) and (task, platform, at, seed) in ours
            ]
            if ratios:
                row = {"platform": platform, "over": other, "bandwidth": bandwidth}
                value = mean_ratio(ratios)
                found.append({**row, "groups": len(ratios), "throughput": value})
    return found


JOB: Final = ("job_cycles", "job_bytes_per_cycle")
"""Of a row: mean no-stall latency and required bandwidth of a job on a core."""


def _mean(values: list[float], *, per_cent: bool = False) -> float | None:
    return geometric_mean([values]).rounded(above_1=per_cent)["value"] if values else None


def _defeats(runs: Sequence[Row], bounds: Mapping[Any, float]) -> Row:
    """Where our own mapper is not the best, and how far from tight bounds it is."""
    best: dict[Any, float] = {}
    ours: dict[Any, float] = {}
    for run in runs:
        instance, value = instance_of_row(run), run["makespan"]
        if run["method"] == OURS:
            ours[instance] = value
        else:
            best[instance] = min(best.get(instance, float("inf")), value)
    both = [instance for instance in ours if instance in best]
    worse = [ours[i] / best[i] - 1 for i in both if ours[i] > best[i] * (1 + TIE)]
    tight = [
        ours[i] / bounds[i] - 1
        for i in ours
        if min(ours[i], best.get(i, float("inf"))) <= bounds[i] * (1 + TIGHT_PCT / 100)
    ]
    return {
        "ours_compared": len(both),
        "ours_best_or_tied": len(both) - len(worse),
        "ours_worst_defeat_pct": round(100 * max(worse, default=0.0), 4),
        "tight_instances": len(tight),
        "ours_worst_gap_where_tight_pct": round(100 * max(tight, default=0.0), 4),
    }


LEAST_PCT: Final = 0.01
"""Gap that is drawn for a smaller one."""


def tables(summary: Mapping[str, Any]) -> Iterator[FigureTable]:
    """The tables of a study."""
    gaps, early = summary["gap_to_bound_pct"], summary["gap_to_bound_pct_at_100"]
    ratios, seconds = summary["geomean_vs_magma"], summary["core_seconds_per_run"]
    runs = summary["runs"]
    methods = sorted(gaps, key=lambda name: gaps[name]["value"])
    yield table_of(
        "Every method, geometric means over all instances",
        methods,
        {
            "method": str,
            "throughput against MAGMA": lambda m: shown(ratios.get(m), 3),
            "verdict": lambda m: summary["verdict_vs_magma"].get(m, "-"),
            "gap to the bound, %": lambda m: shown(gaps[m]),
            "after 100 samples, %": lambda m: format(early[m]["value"], ".1f"),
            "runs": lambda m: str(runs[m]),
            "core seconds per run": lambda m: format(seconds[m], ".2f"),
        },
    )

    def column(method: str) -> Callable[[Any], str]:
        return lambda place: _gap(summary, place[0], place[1], method)

    yield table_of(
        "Gap to the bound by platform and bandwidth, %",
        dict.fromkeys((_place(row), row["bandwidth"]) for row in summary["by_case"]),
        {
            "platform": lambda place: f"{place[0]} {place[1]:g}",
            **{method: column(method) for method in methods},
        },
    )
    if summary["jobs"]:
        yield table_of(
            "A job on a core, mean over jobs, cores and groups",
            summary["jobs"],
            {
                "platform": "{platform}",
                "GB/s": "{bandwidth:g}",
                "no-stall latency, cycles": "{job_cycles:,.0f}",
                "bytes per cycle": "{job_bytes_per_cycle:.2f}",
                "groups": "{groups}",
            },
        )
    if summary["platforms"]:
        yield table_of(
            f"Throughput of one platform over another on the same groups ({OURS})",
            summary["platforms"],
            {
                "platforms": "{platform} over {over}",
                "GB/s": "{bandwidth:g}",
                "throughput": lambda row: shown(row["throughput"], 3),
                "groups": "{groups}",
            },
        )


_RUN: Final = (
    *("task", "platform", "bandwidth", "seed", "method", "makespan", "samples", "core_seconds"),
    "curve",
)
_BOUND: Final = ("task", "platform", "bandwidth", "seed", "bound", "core_seconds", *JOB)
NAMES: Final = ("methods", "gaps", "jobs", "platforms")
"""Of `tables`, in a published page, behind the name of their part of the study."""


def published(studies: Sequence[Document]) -> tuple[Row, Mapping[str, FigureTable]]:
    """The file of the parts of a study, and the tables of its page."""
    parts = {}
    for study in studies:
        name = str(study["command"]).rpartition("/")[2].removesuffix(".json")
        runs = [{**r, "curve": _told(r)} for r in study["rows"] if r["what"] == "run"]
        parts[name] = {
            "conditions": study["conditions"],
            "bound": packed((r for r in study["rows"] if r["what"] == "bound"), _BOUND),
            "run": packed(runs, _RUN),
        }
    document = {"generator": MARK, "parts": parts}
    return document, published_tables(document)


def _told(run: Row) -> list[list[float]]:
    """What is left of the curve of a run: samples up to 100, and the end."""
    early = [point for point in run["curve"] if point[0] <= 100]
    return [early[-1], run["curve"][-1]] if early[-1] != run["curve"][-1] else [early[-1]]


def published_tables(document: Document) -> Mapping[str, FigureTable]:
    """The tables of a page by name, from its file."""
    found = {}
    for part, told in document["parts"].items():
        rows = [{"what": what, **row} for what in ("bound", "run") for row in unpacked(told[what])]
        by_title = list(tables(summarise(rows)))
        names = NAMES if len(by_title) == len(NAMES) else NAMES[: len(by_title)]
        found.update({f"{part} {n}": t for n, t in zip(names, by_title, strict=True)})
    return found


def page(result: Mapping[str, Any]) -> str:
    """The page as HTML."""
    summary, rows = result["summary"], result["rows"]
    return study_page(
        "Mappers of groups of jobs onto many cores",
        f"{summary['instances']} instances",
        markup.section(
            "Gap to the bound by samples",
            markup.paragraph(
                "Geometric means over instances; both axes are logarithmic. "
                f"A gap below {LEAST_PCT:g} % is drawn there.",
                "note",
            ),
            markup.panels(
                [(name, _chart(courses(rows, of))) for name, of in _kinds(rows).items()],
                "courses",
                width=markup.HALF,
            ),
        ),
        tables=tables(summary),
        last=[conditions(result, lines(summary))],
    )


def courses(
    rows: Sequence[Row], platforms: Sequence[str] | None = None
) -> dict[str, list[tuple[int, float]]]:
    """Per method: samples, and the geometric mean of the gaps then, per cent."""
    bounds = {instance_of_row(row): row["bound"] for row in rows if row["what"] == "bound"}
    found: dict[str, dict[int, list[float]]] = {}
    for run in rows:
        if run["what"] != "run" or (platforms is not None and run["platform"] not in platforms):
            continue
        bound = bounds[instance_of_row(run)]
        for samples in _points(rows):
            told = [value for at, value in run["curve"] if at <= samples]
            at = found.setdefault(run["method"], {}).setdefault(samples, [])
            at.append(math.log(max(1.0, told[-1] / bound)))
    return {
        method: [(at, 100 * math.expm1(sum(logs) / len(logs))) for at, logs in of.items()]
        for method, of in found.items()
    }


def _points(rows: Sequence[Row]) -> list[int]:
    """Samples at which the longest run tells what it has."""
    longest = max((r for r in rows if r["what"] == "run"), key=lambda r: len(r["curve"]))
    return [at for at, _ in longest["curve"]]


def _kinds(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Platforms whose cores are all alike, and the others; tables of jobs count as others."""
    platforms = list(dict.fromkeys(row["platform"] for row in rows))
    alike = [name for name in platforms if name.partition("-")[0] in ("S1", "S3")]
    kinds = {
        "Cores of one kind": alike,
        "Cores of several kinds": [name for name in platforms if name not in alike],
    }
    return {name: of for name, of in kinds.items() if of}


def _chart(curves: Mapping[str, Sequence[tuple[int, float]]]) -> XYChart:
    return charts.courses(
        {
            method: ([at for at, _ in curve], [round(max(gap, LEAST_PCT), 4) for _, gap in curve])
            for method, curve in curves.items()
            if len({gap for _, gap in curve}) > 1  # a manual mapper has one sample
        },
        "Gap to the bound by samples, a line per method",
        "samples", "gap, %", 380, (OURS, REFERENCE),
    )  # fmt: skip


def _place(row: Row) -> str:
    """The platform, or the table that stands for jobs and cores."""
    return str(row["platform"] or row["task"])


def _gap(summary: Mapping[str, Any], platform: str, bandwidth: float, method: str) -> str:
    """Geometric mean over tasks."""
    gaps = [
        1 + row["gap_pct"] / 100
        for row in summary["by_case"]
        if (_place(row), row["bandwidth"], row["method"]) == (platform, bandwidth, method)
    ]
    return format(100 * (geometric_mean([gaps]).value - 1), ".2f") if gaps else "-"


def lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Where our own mapper stands."""
    speed, count = summary["evaluations_per_s"], summary["instances"]
    yield f"{count} instances; {speed:,} mappings per second on one core; intervals of 95 %."
    if summary["ours_compared"]:
        best, all_ = summary["ours_best_or_tied"], summary["ours_compared"]
        defeat, tight = summary["ours_worst_defeat_pct"], summary["tight_instances"]
        yield f"`{OURS}` is the best or ties in {best} of {all_} instances."
        yield f"Elsewhere it is at most {defeat:.3g} % worse than the best other method."
        yield f"In {tight} instances some method is within 3 % of the bound."
        gap = summary["ours_worst_gap_where_tight_pct"]
        yield f"There, `{OURS}` is at most {gap:.3g} % above the bound."
