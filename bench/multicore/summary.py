# SPDX-License-Identifier: Apache-2.0
"""What the rows of a study of group mappers say: throughput against MAGMA, gaps, defeats.

Figures of a method are geometric means over cases and seeds; the runs of a task on a platform are
one cluster of the bootstrap. Throughput is the inverse of the makespan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.bench.framework.statistics import clustered, geometric_mean

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
    ("S1-flexible", "S1"),
    ("S2-flexible", "S2"),
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
            found["geomean_vs_magma"][method] = geometric_mean(clustered(ratios)).rounded()
        for name, value in (("gap_to_bound_pct", _last), ("gap_to_bound_pct_at_100", _at_100)):
            gaps = [(_of(run), max(1.0, value(run) / bounds[instance_of_row(run)])) for run in mine]
            found[name][method] = geometric_mean(clustered(gaps)).rounded(above_1=True)
        found["runs"][method] = len(mine)
        found["core_seconds_per_run"][method] = round(
            sum(run["core_seconds"] for run in mine) / len(mine), 3
        )
    found["by_case"] = _by_case(runs, bounds, reference)
    found["platforms"] = _platforms(runs)
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
    return run["task"], run["platform"]


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
                ((task, other), makespan / ours[task, platform, at, seed])
                for (task, name, at, seed), makespan in ours.items()
                if (name, at) == (other, bandwidth) and (task, platform, at, seed) in ours
            ]
            if ratios:
                row = {"platform": platform, "over": other, "bandwidth": bandwidth}
                value = geometric_mean(clustered(ratios)).rounded()
                found.append({**row, "groups": len(ratios), "throughput": value})
    return found


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
