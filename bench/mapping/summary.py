# SPDX-License-Identifier: Apache-2.0
"""What the rows of a study of mappers say: ratios, regret, and samples to reach a quality.

Ratios are geometric means over layers; the runs of a layer are one cluster of the bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.statistics import clustered, geometric_mean

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
    budget = max(run["samples"] for run in runs)
    best = {task: row["value"] for task, row in optima.items()}
    found["ratio_to_marl"] = {
        objective: _ratios([r for r in runs if r["objective"] == objective], methods)
        for objective in objectives
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
    found["sample_efficiency_over_ppo"] = _efficiency(runs, methods)
    found["core_seconds_per_run"] = {
        method: round(
            float(np.median([r["core_seconds"] for r in runs if r["method"] == method])), 2
        )
        for method in methods
    }
    return found


def _task(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"], row["objective"]


def _layer(row: Row) -> tuple[Any, ...]:
    return row["network"], row["layer"]


def _ratios(runs: Sequence[Row], methods: Sequence[str]) -> Mapping[str, Any]:
    """How much higher each method's cost is than that of `REFERENCE`, seed by seed."""
    reference = {(_task(r), r["seed"]): r["value"] for r in runs if r["method"] == REFERENCE}
    found = {}
    for method in methods:
        values = [
            (_layer(r), r["value"] / reference[_task(r), r["seed"]])
            for r in runs
            if r["method"] == method and (_task(r), r["seed"]) in reference
        ]
        if values:
            found[method] = geometric_mean(clustered(values)).rounded()
    return found


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


def _efficiency(runs: Sequence[Row], methods: Sequence[str]) -> Row:
    """How many times fewer samples a method takes to what PPO ends with.

    A run that never gets there counts with its whole budget, so its figure is an upper bound.
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
            ours = needed or run["samples"]
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
