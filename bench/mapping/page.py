# SPDX-License-Identifier: Apache-2.0
"""Tables and figures of a study of mappers: Markdown for the docs, one HTML file for a browser.

What the rows of a study of mappers say: ratios, regret, and samples to reach a quality.

Ratios are geometric means over layers; the runs of a layer are one cluster (`statistics`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.page import Curve, conditions, courses, study_page
from tilewright.bench.framework.statistics import mean_ratio, verdicts
from tilewright.bench.framework.tables import (
    Document,
    FigureTable,
    grouped,
    packed,
    shown,
    table_of,
    unpacked,
)
from tilewright.bench.mapping.roles import correlation_map, dendrogram, trajectories
from tilewright.host.common.whole_file import MARK
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.xy_chart import XYChart

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
    objectives, by_method = grouped(runs, "objective"), grouped(runs, "method")
    best = {task: row["value"] for task, row in optima.items()}
    budget = _budget(runs)
    tenth = max(1, budget // TENTH)

    def regrets(own: Sequence[Row], at: int) -> list[tuple[Any, float]]:
        """Cost over the optimum after some samples, by layer."""
        return [(_layer(r), value_at(r, at) / best[_task(r)]) for r in own]

    def regret_pct(at: int) -> Row:
        return {
            objective: {
                method: mean_ratio(pairs, 3, above_1=True)
                for method in by_method
                if (
                    pairs := regrets(
                        [r for r in own if r["method"] == method and value_at(r, at) < math.inf], at
                    )
                )
            }
            for objective, own in objectives.items()
        }

    def near(at: int) -> Row:
        """Share of runs within `NEAR_PCT` of the optimum after some samples."""
        limit = 1 + NEAR_PCT / 100
        return {
            m: round(float(np.mean([value_at(r, at) <= best[_task(r)] * limit for r in own])), 4)
            for m, own in by_method.items()
        }

    ratios = {name: _ratios(own, by_method, budget) for name, own in objectives.items()}
    found["ratio_to_marl"] = {
        name: {method: mean_ratio(pairs) for method, pairs in of.items()}
        for name, of in ratios.items()
    }
    found["verdict_to_marl"] = {
        name: verdicts({method: pairs for method, pairs in of.items() if method != REFERENCE})
        for name, of in ratios.items()
    }
    found["single"] = {}
    for objective, own in objectives.items():
        mine = [run for run in own if run["method"] == SINGLE]
        samples = [run["samples"] for run in mine]
        found["single"][objective] = (
            None
            if not mine
            else {
                "samples_median": int(np.median(samples)),
                "samples_max": max(samples),
                "at_budget": mean_ratio(regrets(mine, budget), 3, above_1=True),
                "converged": mean_ratio(
                    ((_layer(r), r["value"] / best[_task(r)]) for r in mine), 3, above_1=True
                ),
            }
        )
    found["agents"] = {
        method: [min(counts), max(counts)]
        for method, own in by_method.items()
        if (counts := [count for r in own if (count := _agents(r))])
    }
    found["regret_pct"], found["regret_pct_at_tenth"] = regret_pct(budget), regret_pct(tenth)
    found["share_within_1_pct"], found["share_within_1_pct_at_tenth"] = near(budget), near(tenth)
    found["sample_efficiency_over_ppo"] = _efficiency(by_method, budget)
    found["core_seconds_per_run"] = {
        method: round(float(np.median([r["core_seconds"] for r in own])), 2)
        for method, own in by_method.items()
    }
    return found


def _budget(runs: Sequence[Row]) -> int:
    """Samples of a run; the single agent may have more, and what is capped has fewer."""
    others = [run["samples"] for run in runs if run["method"] != SINGLE]
    return int(max(others or [run["samples"] for run in runs]))


def _agents(run: Row) -> int:
    """Agents that a run learnt with; 0: it did not learn."""
    return int(run["agents"] if "agents" in run else run.get("notes", {}).get("agents", 0))


def _task(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"], row["objective"]


def _layer(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"]


def _ratios(
    runs: Sequence[Row], methods: Iterable[str], at: int
) -> dict[str, list[tuple[Any, float]]]:
    """How much higher each method's cost is than that of `REFERENCE`, seed by seed, by layer."""
    reference = {(_task(r), r["seed"]): r["value"] for r in runs if r["method"] == REFERENCE}
    found: dict[str, list[tuple[Any, float]]] = {method: [] for method in methods}
    for r in runs:
        if (theirs := reference.get((_task(r), r["seed"]))) is not None:
            found[r["method"]].append((_layer(r), value_at(r, at) / theirs))
    return {method: pairs for method, pairs in found.items() if pairs}


def _efficiency(by_method: Mapping[str, Sequence[Row]], budget: int) -> Row:
    """How many times fewer samples a method takes to what PPO ends with.

    A run that never gets there counts with the whole budget, so its figure is an upper bound.
    ``with_setup`` charges the samples of a data set, too.
    """
    single = {(_task(r), r["seed"]): r for r in by_method.get(SINGLE, ())}
    found = {}
    for method, runs in by_method.items():
        ratios, with_setup, missed = [], [], 0
        for run in runs:
            theirs = single.get((_task(run), run["seed"]))
            if theirs is None:
                continue
            needed = samples_to(run, theirs["value"])
            missed += needed is None
            ours = needed or max(budget, run["samples"])
            paid = samples_to(theirs, theirs["value"]) or theirs["samples"]
            ratios.append((_layer(run), paid / ours))
            with_setup.append((_layer(run), paid / (ours + run["setup_samples"])))
        if ratios:
            found[method] = {
                "ratio": mean_ratio(ratios),
                "with_setup": mean_ratio(with_setup),
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
    tenth, verdict = summary["regret_pct_at_tenth"], summary["verdict_to_marl"]
    methods = list(dict.fromkeys(m for of in regret.values() for m in of))
    objectives = list(regret)

    def of_objectives(
        text: str, of: Callable[[str, str], str]
    ) -> dict[str, str | Callable[[Any], str]]:
        """A column for each objective, of the mappers that rows are or begin with."""

        def column(name: str) -> Callable[[Any], str]:
            return lambda row: of(name, row if isinstance(row, str) else row[0])

        return {text.format(name): column(name) for name in objectives}

    of_regret = of_objectives("{}", lambda o, m: _interval(regret[o].get(m)))
    yield table_of(
        "Regret to the certified optimum, per cent",
        methods,
        {
            "mapper": str,
            **of_regret,
            **of_objectives("{}, tenth of the budget", lambda o, m: _interval(tenth[o].get(m))),
        },
    )
    ratios = of_objectives("{}", lambda o, m: _interval(ratio[o].get(m)))
    told = of_objectives("{}, verdict", lambda o, m: verdict[o].get(m, "-"))
    pairs = zip(ratios.items(), told.items(), strict=True)
    yield table_of(
        "Cost over that of the clustered agents",
        methods,
        {"mapper": str, **dict(column for pair in pairs for column in pair)},
    )
    efficiency, seconds = summary["sample_efficiency_over_ppo"], summary["core_seconds_per_run"]
    yield table_of(
        "Samples to what the single agent ends with, and time",
        [(method, efficiency.get(method, {})) for method in methods],
        {
            "mapper": lambda of: of[0],
            "times fewer samples than PPO": lambda of: _interval(of[1].get("ratio")),
            "data set charged": lambda of: _interval(of[1].get("with_setup")),
            "never got there": lambda of: _share(of[1].get("missed")),
            "runs within 1 %": lambda of: _share(summary["share_within_1_pct"][of[0]]),
            "at a tenth of the budget": lambda of: _share(
                summary["share_within_1_pct_at_tenth"][of[0]]
            ),
            "core-seconds per run": lambda of: f"{seconds[of[0]]:.1f}",
        },
    )
    yield table_of(
        "The single agent until it converged",
        [{"objective": name, **single} for name, single in summary["single"].items() if single],
        {
            "objective": "{objective}",
            "samples, median": "{samples_median:,}",
            "most": "{samples_max:,}",
            "regret at the budget, %": lambda row: _interval(row["at_budget"]),
            "at its end, %": lambda row: _interval(row["converged"]),
        },
    )
    yield table_of(
        "Agents of each team",
        [(m, *counts) for m, counts in summary["agents"].items()],
        {
            "mapper": lambda team: team[0],
            "agents, fewest": lambda team: str(team[1]),
            "most": lambda team: str(team[2]),
            **of_objectives("{} regret, %", lambda o, m: _interval(regret[o].get(m))),
        },
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
    return study_page(
        "Mappers against certified optima",
        str(result["conditions"]["hardware"]),
        markup.section(
            "Regret by samples",
            markup.paragraph(
                "Geometric mean over layers and seeds; both axes are logarithmic.", "note"
            ),
            markup.panels(_courses(result["rows"]), "courses", width=markup.HALF),
        ),
        tables=tables(result["summary"]),
        last=(*_roles(result["rows"]), conditions(result)),
    )


def _courses(rows: Sequence[Row]) -> list[tuple[str, XYChart]]:
    """A panel per objective, a line per mapper."""
    best = {_task(r): r["value"] for r in rows if r["what"] == "optimum"}
    runs = [r for r in rows if r["what"] == "run"]
    budget = max(r["samples"] for r in runs)
    samples = np.unique(np.geomspace(min(100, budget), budget, POINTS).astype(int)).tolist()

    def curve(own: Sequence[Row]) -> Curve:
        logs = [[np.log(value_at(r, at) / best[_task(r)]) for at in samples] for r in own]
        regret = np.maximum((np.exp(np.mean(logs, axis=0)) - 1) * 100, LEAST_PCT)
        return samples, regret.round(4).tolist()

    return [
        (
            objective,
            courses(
                {method: curve(own) for method, own in grouped(here, "method").items()},
                f"Regret of {objective} by samples, a line per mapper",
                "samples", "regret, %", 320, ("marl", "structured"),
            ),
        )
        for objective, here in grouped(runs, "objective").items()
    ]  # fmt: skip


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
    return shown(of, 1 if of is not None and of["high"] >= 10 else 2)


def _share(of: float | None) -> str:
    return "-" if of is None else f"{of * 100:.0f} %"
