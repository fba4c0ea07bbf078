# SPDX-License-Identifier: Apache-2.0
"""What confidence sampling does to identical candidates, against top-k, k-means and Thompson.

DCOC is driven by a table for some measurements; then the points that its agents visited next are
given to every selection, and the table tells what each of them would have measured.

`trace_sampling` shows a whole run instead: at every plan the configurations before confidence
sampling, and those that it leaves (the plot of DCO-Comp's slides).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.replay import TableSpace, initial_points
from tilewright.bench.arena.tables import Table
from tilewright.tuner.search import Result
from tilewright.tuner.search.learning.confidence import CandidatePool, Selection, select
from tilewright.tuner.search.learning.dcoc import DcocTuner
from tilewright.tuner.search.space import Index
from tilewright.tuner.search.torch_threads import one_thread

MEASURED: Final = 32
"""Measurements before the candidates are taken."""

COUNT: Final = 8
"""Points that a selection chooses."""


class CandidateProbe(DcocTuner[Any]):
    """DCOC that shows the candidates of its next plan."""

    def candidates(self) -> CandidatePool:
        """What the agents visit next and nobody has measured."""
        with one_thread():
            self._surrogate.fit(self._costs)
            fresh = tuple(i for i in self._explore() if i not in self._seen)
            features = self._encoder.encode(fresh)
            scores = self._surrogate.member_scores(fresh)
            return CandidatePool(
                indices=fresh,
                features=features,
                scores=scores,
                values=self._confidence(features, scores.mean(axis=0)),
            )


def compare_selections(table: Table, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What each selection would measure of identical candidates."""
    space: TableSpace[Any] = TableSpace(table.task.space, table.legal)
    for seed in seeds:
        initial = initial_points(space, table.task.id, seed)
        # Thompson sampling needs the surrogate's ensemble; the others use its mean.
        probe = CandidateProbe(space, seed=seed, initial=initial, selection=Selection.THOMPSON)
        for _ in range(MEASURED // COUNT):
            batch = probe.ask(COUNT)
            probe.tell([Result(index=c.index, value=table.measure(c.index)) for c in batch])
        pool = probe.candidates()
        if len(pool) <= COUNT:
            continue
        yield _row(table, seed, "candidates", pool.indices)
        for kind in Selection:
            rng = np.random.default_rng([seed, len(pool)])
            chosen = select(kind, pool, COUNT, accept=probe.is_new, rng=rng)
            yield _row(table, seed, str(kind), chosen)


class TracedDcoc(DcocTuner[Any]):
    """DCOC that notes the candidates of each plan and what it takes of them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.trace: list[tuple[int, tuple[Index, ...], tuple[Index, ...]]] = []
        """Measurements so far, configurations before and after the sampling, of each plan."""

    def _chosen(self, pool: CandidatePool) -> list[Index]:
        chosen = super()._chosen(pool)
        self.trace.append((len(self._costs), tuple(pool.indices), tuple(chosen)))
        return chosen


def trace_sampling(table: Table, seed: int, measurements: int) -> Iterator[dict[str, Any]]:
    """Configurations over time, before and after confidence sampling, in one run of DCOC."""
    space: TableSpace[Any] = TableSpace(table.task.space, table.legal)
    initial = initial_points(space, table.task.id, seed)
    tuner = TracedDcoc(space, seed=seed, initial=initial)
    while tuner.asked < measurements:
        batch = tuner.ask(min(COUNT, measurements - tuner.asked))
        if not batch:
            break
        tuner.tell([Result(index=c.index, value=table.measure(c.index)) for c in batch])
    for trial, before, after in tuner.trace:
        yield {
            "what": "sampling",
            "task": table.task.id,
            "layer": table.task.workload.name,
            "seed": seed,
            "trial": trial,
            "before": _ratios(table, before),
            "after": _ratios(table, after),
        }


def _ratios(table: Table, points: Sequence[Index]) -> list[float]:
    """Cycles over the optimum, ascending."""
    ratios = sorted((table.measure(index) or 0) / table.optimum for index in points)
    return [round(ratio, 5) for ratio in ratios]


def _row(table: Table, seed: int, name: str, points: Sequence[Index]) -> dict[str, Any]:
    return {
        "what": "selection",
        "task": table.task.id,
        "layer": table.task.workload.name,
        "seed": seed,
        "selection": name,
        "ratios": _ratios(table, points),
    }
