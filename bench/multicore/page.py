# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of a study of group mappers: Markdown for the docs, an HTML file.

What the rows of a study of group mappers say: throughput against MAGMA, gaps, defeats.

Figures of a method are geometric means over cases and seeds. Chance draws the jobs of a group, by
task and seed: the runs of one group on all platforms are one cluster (`statistics`). Throughput is
the inverse of the makespan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tilewright.bench.framework.statistics import clustered, compare_pairs, geometric_mean
from tilewright.bench.framework.tables import Document, FigureTable, packed, unpacked
from tilewright.host.common.whole_file import MARK
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.marks import series_colour, series_dash
from tilewright.tuner.report.drawing.scales import spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart

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
    methods = list(dict.fromkeys(run["method"] for run in runs))
    logs: dict[str, list[float]] = {}
    found: Row = {
        "instances": len(bounds),
        "bound_violations": sum(
            run["makespan"] < bounds[instance_of_row(run)] * (1 - BOUND_SLACK) for run in runs
        ),
        "geomean_vs_magma": {},
        "gap_to_bound_pct": {},
        "gap_to_bound_pct_at_100": {},
        "core_seconds_per_run": {},
        "runs": {},
    }
    reference = {instance_of_row(r): r["makespan"] for r in runs if r["method"] == REFERENCE}
    for method in methods:
        mine = [run for run in runs if run["method"] == method]
        ratios = [
            (_of(run), reference[instance_of_row(run)] / run["makespan"])
            for run in mine
            if instance_of_row(run) in reference
        ]
        if ratios:
            clusters = clustered(ratios)
            found["geomean_vs_magma"][method] = geometric_mean(clusters).rounded()
            if method != REFERENCE:
                logs[method] = [-sum(map(math.log, each)) / len(each) for each in clusters]
        for name, value in (("gap_to_bound_pct", _last), ("gap_to_bound_pct_at_100", _at_100)):
            gaps = [(_of(run), max(1.0, value(run) / bounds[instance_of_row(run)])) for run in mine]
            found[name][method] = geometric_mean(clustered(gaps)).rounded(above_1=True)
        found["runs"][method] = len(mine)
        found["core_seconds_per_run"][method] = round(
            sum(run["core_seconds"] for run in mine) / len(mine), 3
        )
    found["verdict_vs_magma"] = {
        method: f"{of.verdict}, p {of.p_holm:.2g}" for method, of in compare_pairs(logs).items()
    }
    found["by_case"] = _by_case(runs, bounds, reference)
    found["platforms"] = _platforms(runs)
    found["jobs"] = _jobs([row for row in rows if row["what"] == "bound"])
    found.update(_defeats(runs, bounds))
    return found


def instance_of_row(row: Row) -> tuple[Any, ...]:
    """What rows of one instance have in common."""
    return row["task"], row["platform"], row["bandwidth"], row["seed"]


def _last(run: Row) -> float:
    return float(run["makespan"])


def _at_100(run: Row) -> float:
    """The lowest makespan after 100 samples, or at the end of what is shorter."""
    return float([value for point, value in run["curve"] if point <= 100][-1])


def _of(run: Row) -> tuple[Any, ...]:
    """The cluster of a run."""
    return run["task"], run["seed"]


def _by_case(
    runs: Sequence[Row], bounds: Mapping[Any, float], reference: Mapping[Any, float]
) -> list[Row]:
    """Per case and method: throughput against MAGMA and the gap, geometric means over seeds."""
    cases: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for run in runs:
        case = cases.setdefault(instance_of_row(run)[:3], {})
        case.setdefault(run["method"], []).append(run)
    return [
        {
            "task": case[0],
            "platform": case[1],
            "bandwidth": case[2],
            "method": method,
            "vs_magma": _mean(
                [
                    reference[instance_of_row(run)] / run["makespan"]
                    for run in mine
                    if instance_of_row(run) in reference
                ]
            ),
            "gap_pct": _mean(
                [max(1.0, run["makespan"] / bounds[instance_of_row(run)]) for run in mine],
                per_cent=True,
            ),
        }
        for case, methods in cases.items()
        for method, mine in methods.items()
    ]


def _platforms(runs: Sequence[Row]) -> list[Row]:
    """Throughput of one platform over another on the same groups, as our own mapper uses them."""
    ours = {instance_of_row(run): run["makespan"] for run in runs if run["method"] == OURS}
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
                value = geometric_mean(clustered(ratios)).rounded()
                found.append({**row, "groups": len(ratios), "throughput": value})
    return found


def _jobs(bounds: Sequence[Row]) -> list[Row]:
    """What a job takes on a core of each platform, a mean over jobs, cores and groups."""
    cases: dict[tuple[str, float], list[Row]] = {}
    for row in bounds:
        if "job_cycles" in row:
            cases.setdefault((row["platform"], row["bandwidth"]), []).append(row)
    return [
        {
            "platform": platform,
            "bandwidth": bandwidth,
            "groups": len(rows),
            **{name: sum(row[name] for row in rows) / len(rows) for name in JOB},
        }
        for (platform, bandwidth), rows in cases.items()
    ]


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
    yield FigureTable(
        title="Every method, geometric means over all instances",
        header=[
            "method", "throughput against MAGMA", "verdict", "gap to the bound, %",
            "after 100 samples, %", "runs", "core seconds per run",
        ],
        rows=[
            [
                method,
                _shown(ratios[method], ".3f") if method in ratios else "-",
                summary["verdict_vs_magma"].get(method, "-"),
                _shown(gaps[method], ".2f"),
                format(early[method]["value"], ".1f"),
                str(runs[method]),
                format(seconds[method], ".2f"),
            ]
            for method in methods
        ],
    )  # fmt: skip
    places = list(dict.fromkeys((_place(row), row["bandwidth"]) for row in summary["by_case"]))
    yield FigureTable(
        title="Gap to the bound by platform and bandwidth, %",
        header=["platform", *methods],
        rows=[
            [
                f"{platform} {bandwidth:g}",
                *(_gap(summary, platform, bandwidth, method) for method in methods),
            ]
            for platform, bandwidth in places
        ],
    )
    if summary["jobs"]:
        yield FigureTable(
            title="A job on a core, mean over jobs, cores and groups",
            header=["platform", "GB/s", "no-stall latency, cycles", "bytes per cycle", "groups"],
            rows=[
                [
                    row["platform"],
                    format(row["bandwidth"], "g"),
                    f"{row['job_cycles']:,.0f}",
                    f"{row['job_bytes_per_cycle']:.2f}",
                    str(row["groups"]),
                ]
                for row in summary["jobs"]
            ],
        )
    if summary["platforms"]:
        yield FigureTable(
            title=f"Throughput of one platform over another on the same groups ({OURS})",
            header=["platforms", "GB/s", "throughput", "groups"],
            rows=[
                [
                    f"{row['platform']} over {row['over']}",
                    format(row["bandwidth"], "g"),
                    _shown(row["throughput"], ".3f"),
                    str(row["groups"]),
                ]
                for row in summary["platforms"]
            ],
        )


_RUN: Final = (
    *("task", "platform", "bandwidth", "seed", "method", "makespan", "samples", "core_seconds"),
    "curve",
)
_BOUND: Final = ("task", "platform", "bandwidth", "seed", "bound", "core_seconds", *JOB)
NAMES: Final = ("methods", "gaps", "jobs", "platforms")
"""Of `tables`, in a published page, behind the name of their part of the study."""


def published(studies: Sequence[Document]) -> tuple[Row, Mapping[str, FigureTable]]:
    """The file of the parts of a study, and the tables of its page.

    A part is what one file holds; its name is what stands last in the file's ``--json``.
    """
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
    title = "Mappers of groups of jobs onto many cores"
    summary, rows = result["summary"], result["rows"]
    return markup.document(
        title,
        markup.heading(title, f"{summary['instances']} instances"),
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
        *(markup.section(table.title, table.html()) for table in tables(summary)),
        markup.section("Conditions", markup.bullets((*lines(summary), *_conditions(result)))),
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
    series = [
        Series(
            name=method,
            x=[at for at, _ in curve],
            y=[round(max(gap, LEAST_PCT), 4) for _, gap in curve],
            colour=series_colour(number),
            dash=series_dash(number),
            width=3.2 if method in (OURS, REFERENCE) else 1.6,
            hover=True,
        )
        for number, (method, curve) in enumerate(curves.items())
        if len({gap for _, gap in curve}) > 1  # a manual mapper has one sample
    ]
    return XYChart(
        alt="Gap to the bound by samples, a line per method",
        x=spanning("samples", [x for s in series for x in s.x], log=True),
        y=spanning("gap, %", [y for s in series for y in s.y if y is not None], log=True),
        series=series,
        height=380,
    )


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


def _conditions(result: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name}: {value}" for name, value in result["conditions"].items())


def _shown(interval: Mapping[str, float], form: str) -> str:
    value, low, high = (format(interval[name], form) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
