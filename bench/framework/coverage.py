# SPDX-License-Identifier: Apache-2.0
"""How often the intervals of `bench.framework.statistics` hold the truth, by simulation.

Clusters are drawn from a known population, each with some runs around its effect; the truth is the
estimate on very many clusters.

    tilewright bench intervals
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.statistics import (
    CONFIDENCE,
    Interval,
    clustered_median,
    geometric_mean,
    ratios_of_medians,
    typical,
    typical_ratio,
)
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable

SIZES: Final = (6, 8, 10, 12, 16, 24, 60)
RUNS: Final = 10
RUN_DEVIATION: Final = 0.3
"""Of a run's logarithm around its cluster's effect, whose own deviation is 1."""

MANY: Final = 300
"""Clusters that the truth is taken from, and ..."""

TIMES: Final = 300
"""... how often; its mean is the truth."""

POPULATIONS: Final[dict[str, Callable[[np.random.Generator, int], Any]]] = {
    "normal": lambda rng, count: rng.standard_normal(count),
    "skewed": lambda rng, count: rng.exponential(size=count) - 1,
    "heavy-tailed": lambda rng, count: rng.standard_t(3, count) / np.sqrt(3),
}
"""Effects of clusters on a logarithm, mean 0 and deviation 1."""

Clusters = Sequence[Sequence[float]]


def _of_ratio(clusters: Clusters) -> Interval:
    """Both sides share a difficulty, which a ratio must not depend on."""
    shared = [np.exp(10 * np.sin(97.0 * values[0])) for values in clusters]
    above = [list(np.array(v) * s) for v, s in zip(clusters, shared, strict=True)]
    each = ratios_of_medians(above, [[s] * RUNS for s in shared])
    return typical_ratio([[ratio] for ratio in each])


def _of_logarithms(clusters: Clusters) -> Interval:
    return typical([np.log(values).tolist() for values in clusters])


INTERVALS: Final[dict[str, Callable[[Clusters], Interval]]] = {
    "typical value": _of_logarithms,
    "median": clustered_median,
    "typical ratio": _of_ratio,
    "geometric mean": geometric_mean,
}


class Intervals(Study):
    """Shares of simulated samples whose interval holds the truth."""

    resumes = True

    says = "{interval}, {effects} effects, {clusters} clusters: {share:.1 %}"

    def cells(self) -> list[Cell]:
        return [
            {"interval": interval, "effects": effects, "clusters": size}
            for interval, effects, size in itertools.product(INTERVALS, POPULATIONS, SIZES)
        ]

    def measure(self, cell: Cell) -> Iterator[Row]:
        interval, population = INTERVALS[cell["interval"]], POPULATIONS[cell["effects"]]
        places = [list(INTERVALS).index(cell["interval"]), list(POPULATIONS).index(cell["effects"])]
        truth = _truth(cell["interval"], cell["effects"])
        rng = np.random.default_rng([self.settings.seed, *places, cell["clusters"]])
        found = [
            interval(_drawn(rng, population, cell["clusters"]))
            for _ in range(self.settings.samples)
        ]
        held = sum(each.low <= truth <= each.high for each in found)
        yield {"samples": len(found), "held": held, "share": held / len(found)}

    def conditions(self) -> Row:
        return {
            **self.of_settings("seed", "samples"),
            "confidence": CONFIDENCE,
            "runs": RUNS,
            "run_deviation": RUN_DEVIATION,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            name: min(row["share"] for row in rows if row["interval"] == name)
            for name in dict.fromkeys(row["interval"] for row in rows)
        }

    def tables(self, document: Row) -> Iterator[FigureTable]:
        yield table_of_shares(document["rows"])


def table_of_shares(rows: Sequence[Row]) -> FigureTable:
    """Shares in percent, a row for each interval and population."""
    shares = {(row["interval"], row["effects"], row["clusters"]): row["share"] for row in rows}
    return FigureTable(
        title="Share of 95 % intervals that hold the truth, %",
        header=("interval", "effects of clusters", *(str(size) for size in SIZES)),
        rows=[
            (name, effects, *(f"{100 * shares[name, effects, size]:.1f}" for size in SIZES))
            for name, effects in dict.fromkeys(key[:2] for key in shares)
        ],
    )


@cache
def _truth(interval: str, effects: str) -> float:
    """What an estimate comes to on very many clusters."""
    rng = np.random.default_rng(0)
    samples = [_drawn(rng, POPULATIONS[effects], MANY) for _ in range(TIMES)]
    return float(np.mean([INTERVALS[interval](sample).value for sample in samples]))


def _drawn(
    rng: np.random.Generator,
    population: Callable[[np.random.Generator, int], Any],
    count: int,
) -> list[list[float]]:
    """Clusters with their runs, positive."""
    effects = population(rng, count)[:, None]
    found: list[list[float]] = np.exp(
        effects + RUN_DEVIATION * rng.standard_normal((count, RUNS))
    ).tolist()
    return found
