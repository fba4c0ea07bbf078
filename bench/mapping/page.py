# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of a study of mappers: Markdown for the docs, one HTML file for a browser.

What the rows of a study of mappers say: ratios, regret, and samples to reach a quality.

Ratios are geometric means over layers; the runs of a layer are one cluster (`statistics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.statistics import clustered, compare_pairs, geometric_mean
from tilewright.bench.framework.tables import Document, FigureTable, packed, unpacked
from tilewright.bench.mapping.roles import correlation_map, dendrogram, trajectories
from tilewright.host.common.whole_file import MARK
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.marks import series_colour, series_dash
from tilewright.tuner.report.drawing.scales import spanning
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart

Row = dict[str, Any]

REFERENCE: Final = "marl"
SINGLE: Final = "ppo"
NEAR_PCT: Final = 1.0
"""Regret that counts as near the optimum, per cent."""
TENTH: Final = 10
"""Part of the budget that our own mapper is judged at."""


def value_at(run: Row, samples: int) -> float:
    """The lowest cost of a run after some samples; infinite before the first."""
    reached = [value for step, value in run["improvements"] if step <= samples]
    return reached[-1] if reached else float("inf")


def samples_to(run: Row, value: float) -> int | None:
    """Samples until a run had a cost; None: it never had."""
    return next((step for step, found in run["improvements"] if found <= value), None)


def summarise(rows: Sequence[Row]) -> Row:
    """The figures that the documents name."""
    optima = {_task(row): row for row in rows if row["what"] == "optimum"}
    runs = [row for row in rows if row["what"] == "run"]
    certified = [row for row in optima.values() if row["certified"]]
    found: Row = {
        "bound_violations": sum(
            run["value"] < optima[_task(run)]["bound"] * (1 - 1e-9) for run in runs
        ),
        "certified_layers": len(certified),
        "tasks": len(optima),
        "certify_seconds_max": max((row["core_seconds"] for row in certified), default=None),
    }
    if not runs:
        return found
    objectives = list(dict.fromkeys(run["objective"] for run in runs))
    methods = list(dict.fromkeys(run["method"] for run in runs))
    budget = _budget(runs)
    best = {task: row["value"] for task, row in optima.items()}
    ratios = {
        objective: _ratios([r for r in runs if r["objective"] == objective], methods, budget)
        for objective in objectives
    }
    found["ratio_to_marl"] = {
        objective: {m: geometric_mean(clusters).rounded() for m, clusters in of.items()}
        for objective, of in ratios.items()
    }
    found["verdict_to_marl"] = {objective: _verdicts(of) for objective, of in ratios.items()}
    found["single"] = {
        objective: _single([r for r in runs if r["objective"] == objective], best, budget)
        for objective in objectives
    }
    found["agents"] = {
        method: [min(counts), max(counts)]
        for method in methods
        if (counts := [_agents(r) for r in runs if r["method"] == method and _agents(r)])
    }
    for name, at in (("regret_pct", budget), ("regret_pct_at_tenth", max(1, budget // TENTH))):
        found[name] = {
            objective: {
                method: geometric_mean(clusters).rounded(3, above_1=True)
                for method in methods
                if (clusters := _regrets(runs, best, objective, method, at))
            }
            for objective in objectives
        }
    found["share_within_1_pct"] = {method: _near(runs, best, method, budget) for method in methods}
    found["share_within_1_pct_at_tenth"] = {
        method: _near(runs, best, method, max(1, budget // TENTH)) for method in methods
    }
    found["sample_efficiency_over_ppo"] = _efficiency(runs, methods, budget)
    found["core_seconds_per_run"] = {
        method: round(
            float(np.median([r["core_seconds"] for r in runs if r["method"] == method])), 2
        )
        for method in methods
    }
    return found


def _budget(runs: Sequence[Row]) -> int:
    """Samples of a run; the single agent may have more, and what is capped has fewer."""
    others = [run["samples"] for run in runs if run["method"] != SINGLE]
    return int(max(others or [run["samples"] for run in runs]))


def _single(runs: Sequence[Row], best: Mapping[Any, float], budget: int) -> Row | None:
    """How the single agent converged."""
    mine = [run for run in runs if run["method"] == SINGLE]
    if not mine:
        return None
    samples = [run["samples"] for run in mine]
    values = clustered((_layer(run), run["value"] / best[_task(run)]) for run in mine)
    return {
        "samples_median": int(np.median(samples)),
        "samples_max": max(samples),
        "at_budget": geometric_mean(
            clustered((_layer(run), value_at(run, budget) / best[_task(run)]) for run in mine)
        ).rounded(3, above_1=True),
        "converged": geometric_mean(values).rounded(3, above_1=True),
    }


def _agents(run: Row) -> int:
    """Agents that a run learnt with; 0: it did not learn."""
    return int(run["agents"] if "agents" in run else run.get("notes", {}).get("agents", 0))


def _task(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"], row["objective"]


def _layer(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"]


def _ratios(
    runs: Sequence[Row], methods: Sequence[str], at: int
) -> Mapping[str, list[list[float]]]:
    """How much higher each method's cost is than that of `REFERENCE`, seed by seed, by layer."""
    reference = {(_task(r), r["seed"]): r["value"] for r in runs if r["method"] == REFERENCE}
    found = {}
    for method in methods:
        values = [
            (_layer(r), value_at(r, at) / reference[_task(r), r["seed"]])
            for r in runs
            if r["method"] == method and (_task(r), r["seed"]) in reference
        ]
        if values:
            found[method] = clustered(values)
    return found


def _verdicts(ratios: Mapping[str, list[list[float]]]) -> Mapping[str, str]:
    """Of each method against `REFERENCE`: signed ranks over layers, by Holm over the methods."""
    logs = {
        method: [float(np.log(cluster).mean()) for cluster in clusters]
        for method, clusters in ratios.items()
        if method != REFERENCE
    }
    return {
        method: f"{found.verdict}, p {found.p_holm:.2g}"
        for method, found in compare_pairs(logs).items()
    }


def _regrets(
    runs: Sequence[Row], best: Mapping[Any, float], objective: str, method: str, at: int
) -> list[list[float]]:
    """Cost over the optimum after some samples, by layer."""
    return clustered(
        (_layer(r), value_at(r, at) / best[_task(r)])
        for r in runs
        if r["objective"] == objective and r["method"] == method and value_at(r, at) < float("inf")
    )


def _near(runs: Sequence[Row], best: Mapping[Any, float], method: str, at: int) -> float:
    """Share of runs within `NEAR_PCT` of the optimum after some samples."""
    near = [
        value_at(r, at) <= best[_task(r)] * (1 + NEAR_PCT / 100)
        for r in runs
        if r["method"] == method
    ]
    return round(float(np.mean(near)), 4)


def _efficiency(runs: Sequence[Row], methods: Sequence[str], budget: int) -> Row:
    """How many times fewer samples a method takes to what PPO ends with.

    A run that never gets there counts with the whole budget, so its figure is an upper bound.
    ``with_setup`` charges the samples of a data set, too.
    """
    single = {(_task(r), r["seed"]): r for r in runs if r["method"] == SINGLE}
    found = {}
    for method in methods:
        ratios, with_setup, missed = [], [], 0
        for run in runs:
            theirs = single.get((_task(run), run["seed"]))
            if run["method"] != method or theirs is None:
                continue
            needed = samples_to(run, theirs["value"])
            missed += needed is None
            ours = needed or max(budget, run["samples"])
            paid = samples_to(theirs, theirs["value"]) or theirs["samples"]
            ratios.append((_layer(run), paid / ours))
            with_setup.append((_layer(run), paid / (ours + run["setup_samples"])))
        if ratios:
            found[method] = {
                "ratio": geometric_mean(clustered(ratios)).rounded(),
                "with_setup": geometric_mean(clustered(with_setup)).rounded(),
                "missed": round(missed / len(ratios), 4),
            }
    return found


POINTS: Final = 30
"""Sample counts that a curve is drawn at."""
LEAST_PCT: Final = 0.01
"""Regret that is drawn for a smaller one."""


def tables(summary: Mapping[str, Any]) -> Iterator[FigureTable]:
    """The tables of a study."""
    regret, ratio = summary["regret_pct"], summary["ratio_to_marl"]
    methods = list(dict.fromkeys(m for of in regret.values() for m in of))
    objectives = list(regret)
    yield FigureTable(
        title="Regret to the certified optimum, per cent",
        header=["mapper", *objectives, *(f"{o}, tenth of the budget" for o in objectives)],
        rows=[
            [
                method,
                *(_interval(regret[o].get(method)) for o in objectives),
                *(_interval(summary["regret_pct_at_tenth"][o].get(method)) for o in objectives),
            ]
            for method in methods
        ],
    )
    yield FigureTable(
        title="Cost over that of the clustered agents",
        header=["mapper", *(text for o in objectives for text in (o, f"{o}, verdict"))],
        rows=[
            [
                m,
                *(
                    text
                    for o in objectives
                    for text in (
                        _interval(ratio[o].get(m)), summary["verdict_to_marl"][o].get(m, "-")
                    )
                ),
            ]
            for m in methods
        ],
    )  # fmt: skip
    efficiency, seconds = summary["sample_efficiency_over_ppo"], summary["core_seconds_per_run"]
    yield FigureTable(
        title="Samples to what the single agent ends with, and time",
        header=[
            "mapper", "times fewer samples than PPO", "data set charged", "never got there",
            "runs within 1 %", "at a tenth of the budget", "core-seconds per run",
        ],
        rows=[
            [
                method,
                _interval(efficiency.get(method, {}).get("ratio")),
                _interval(efficiency.get(method, {}).get("with_setup")),
                _share(efficiency.get(method, {}).get("missed")),
                _share(summary["share_within_1_pct"][method]),
                _share(summary["share_within_1_pct_at_tenth"][method]),
                f"{seconds[method]:.1f}",
            ]
            for method in methods
        ],
    )  # fmt: skip
    yield FigureTable(
        title="The single agent until it converged",
        header=["objective", "samples, median", "most", "regret at the budget, %", "at its end, %"],
        rows=[
            [
                objective,
                f"{single['samples_median']:,}",
                f"{single['samples_max']:,}",
                _interval(single["at_budget"]),
                _interval(single["converged"]),
            ]
            for objective, single in summary["single"].items()
            if single
        ],
    )
    yield FigureTable(
        title="Agents of each team",
        header=["mapper", "agents, fewest", "most", *(f"{o} regret, %" for o in objectives)],
        rows=[
            [m, str(low), str(high), *(_interval(regret[o].get(m)) for o in objectives)]
            for m, (low, high) in summary["agents"].items()
        ],
    )


_RUN: Final = (
    *("network", "layer", "objective", "method", "seed", "value", "samples", "setup_samples"),
    *("core_seconds", "agents", "improvements"),
)
_OPTIMUM: Final = (
    *("network", "layer", "objective", "log10_mappings", "value", "bound", "certified"),
    "core_seconds",
)
NAMES: Final = ("regret", "against marl", "samples", "single", "agents")
"""Of `tables`, in a published page."""


def published(studies: Sequence[Document]) -> tuple[Row, Mapping[str, FigureTable]]:
    """The file of a study, and the tables of its page."""
    (study,) = studies
    runs = [row for row in study["rows"] if row["what"] == "run"]
    single = {(_task(r), r["seed"]): r["value"] for r in runs if r["method"] == SINGLE}
    budget = _budget(runs)
    kept = [
        {
            **run,
            "agents": _agents(run),
            "improvements": _told(run, budget, single.get((_task(run), run["seed"]))),
        }
        for run in runs
    ]
    document = {
        "generator": MARK,
        "conditions": {
            name: study["conditions"][name] for name in ("hardware", "budget", "converge")
        },
        "optimum": packed((r for r in study["rows"] if r["what"] == "optimum"), _OPTIMUM),
        "run": packed(kept, _RUN),
    }
    return document, published_tables(document)


def published_tables(document: Document) -> Mapping[str, FigureTable]:
    """The tables of a page by name, from its file."""
    rows = [
        {"what": what, **row} for what in ("optimum", "run") for row in unpacked(document[what])
    ]
    return dict(zip(NAMES, tables(summarise(rows)), strict=True))


def _told(run: Row, budget: int, single: float | None) -> list[list[float]]:
    """The improvements of a run that some figure tells."""
    ends = [max(1, budget // TENTH), budget, run["samples"]]
    wanted = {max((s for s, _ in run["improvements"] if s <= end), default=0) for end in ends}
    if single is not None:
        wanted.add(samples_to(run, single) or 0)
    return [[step, value] for step, value in run["improvements"] if step in wanted]


def page(result: Mapping[str, Any]) -> str:
    """The page as HTML."""
    title = "Mappers against certified optima"
    return markup.document(
        title,
        markup.heading(title, str(result["conditions"]["hardware"])),
        markup.section(
            "Regret by samples",
            markup.paragraph(
                "Geometric mean over layers and seeds; both axes are logarithmic.", "note"
            ),
            markup.panels(_courses(result["rows"]), "courses", width=markup.HALF),
        ),
        *(markup.section(table.title, table.html()) for table in tables(result["summary"])),
        *_roles(result["rows"]),
        markup.section(
            "Conditions", markup.bullets((f"{k}: {v}" for k, v in result["conditions"].items()))
        ),
    )


def _courses(rows: Sequence[Row]) -> list[tuple[str, XYChart]]:
    """A panel per objective, a line per mapper."""
    best = {_task(r): r["value"] for r in rows if r["what"] == "optimum"}
    runs = [r for r in rows if r["what"] == "run"]
    budget = max(r["samples"] for r in runs)
    samples = np.unique(np.geomspace(min(100, budget), budget, POINTS).astype(int)).tolist()
    charts = []
    for objective in dict.fromkeys(r["objective"] for r in runs):
        here = [r for r in runs if r["objective"] == objective]
        series = []
        for number, method in enumerate(dict.fromkeys(r["method"] for r in here)):
            logs = [
                [np.log(value_at(r, at) / best[_task(r)]) for at in samples]
                for r in here
                if r["method"] == method
            ]
            regret = np.maximum((np.exp(np.mean(logs, axis=0)) - 1) * 100, LEAST_PCT)
            series.append(
                Series(
                    name=method, x=samples, y=regret.round(4).tolist(), hover=True,
                    colour=series_colour(number), dash=series_dash(number),
                    width=3.2 if method in ("marl", "structured") else 1.6,
                )
            )  # fmt: skip
        chart = XYChart(
            alt=f"Regret of {objective} by samples, a line per mapper",
            x=spanning("samples", samples, log=True),
            y=spanning("regret, %", [y for s in series for y in s.y if y is not None], log=True),
            series=series,
            height=320,
        )
        charts.append((objective, chart))
    return charts


def _roles(rows: Sequence[Row]) -> list[str]:
    """How the clustered agents came to be and what they did, of the first run that tells it."""
    told = [r for r in rows if r["what"] == "run" and "clustering" in r.get("notes", {})]
    if not told:
        return []
    run, notes = told[0], told[0]["notes"]
    about = f"{run['network']} {run['layer']}, {run['objective']}, {run['method']}, seed 0."
    moves = trajectories([s for s, _ in run["improvements"]], notes["course"], run["samples"])
    return [
        markup.section(
            "Roles of the clustered agents",
            markup.paragraph(f"{about} Correlation over the best 15 % of its data set.", "note"),
            markup.figure(correlation_map(notes["clustering"]), "correlation"),
            markup.figure(dendrogram(notes["clustering"], notes["roles"]), "tree"),
        ),
        markup.section(
            "The best mapping by samples",
            markup.paragraph(about, "note"),
            markup.panels(moves, "course", width=markup.HALF),
        ),
    ]


def _interval(of: Mapping[str, float] | None) -> str:
    if of is None:
        return "-"
    digits = 1 if of["high"] >= 10 else 2
    value, low, high = (f"{of[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _share(of: float | None) -> str:
    return "-" if of is None else f"{of * 100:.0f} %"
