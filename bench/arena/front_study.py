# SPDX-License-Identifier: Apache-2.0
"""How much of the front of cycles, energy and area a search finds on equal budgets.

tilewright bench objectives --quick
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from tilewright.bench.allocate.summary import over_families
from tilewright.bench.arena.fronts import MARGIN, METHODS, enumerated, searched
from tilewright.bench.arena.tasks import BOARD, KIND, drawn, enumeration_work, make_task
from tilewright.bench.commands import FIRST_POINTS
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, shown, table_of
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.backends import identity_of

NETWORKS: Final = (
    "resnet18",
    "squeezenet1_1",
    "mobilenet_v2",
    "alexnet",
    "transformer_encoder",
    "bert_tiny",
)

MOST_WORK: Final = 6e10
"""`enumeration_work` up to which a layer takes part: half a minute on two cores."""

MARKS: Final = (16, 32, 64)
"""Measurements after which the share is told."""

OURS: Final = "prior"


class FrontStudy(Study):
    """Methods against the fronts of enumerated layers."""

    resumes = True

    says = (
        "{network} {layer}: {method}, seed {seed}: "
        "{share:.2 %} of the hypervolume, {found} of "
        "{front_points} points, {seconds:.1f} s"
    )

    def cells(self) -> list[Cell]:
        found: dict[str, Cell] = {}
        for network in NETWORKS[: self.settings.networks]:
            offered = {
                w.name: w
                for w in load_network(network).workloads
                if w.kind.weighs
                and w.key not in found
                and enumeration_work(make_task("per-layer", w)) <= MOST_WORK
            }
            for name in drawn(list(offered), self.settings.layers):
                workload = offered[name].renamed(name, count=1)
                cell = {"network": network, "layer": name, "workload": workload.to_mapping()}
                found[workload.key] = cell
        return list(found.values())

    def measure(self, cell: Cell) -> Iterator[Row]:
        workload = Workload.from_mapping(cell["workload"])
        task = enumerated(make_task("per-layer", workload), workers=self.settings.workers)
        budget = self.settings.budget
        about = {
            "points": len(task.costs),
            "front_points": len(task.front),
            "front_configs": len(np.unique(task.features[task.front, 0])),
        }
        for method in METHODS:
            for seed in range(self.settings.seeds):
                started, shares = time.process_time(), {}
                points: list[int] = []
                for points in searched(method, task, seed=seed, budget=budget):
                    shares[len(points)] = task.share(points)
                yield {
                    **about,
                    "method": method,
                    "seed": seed,
                    **{f"share_{mark}": shares.get(mark) for mark in MARKS},
                    "share": task.share(points),
                    "found": len(np.intersect1d(points, task.front)),
                    "seconds": time.process_time() - started,
                }

    def conditions(self) -> Row:
        return {
            "fidelity": "twin",
            "twin": identity_of("twin"),
            "board": BOARD,
            "space": KIND,
            "energy": "counters",
            "reference": f"{MARGIN} times the worst of the true front",
            "initial": FIRST_POINTS,
            **self.of_settings("budget", "seeds"),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            "layers": len({(row["network"], row["layer"]) for row in rows}),
            "shares": {m: _means(_of(rows, m)) for m in METHODS},
            "ours_over": {
                mark: over_families(
                    {other: _ratios(rows, other, mark) for other in METHODS if other != OURS}
                )
                for mark in (*(f"share_{n}" for n in MARKS), "share")
                if all(row[mark] is not None for row in rows)
            },
        }

    def tables(self, document: Row) -> Iterator[FigureTable]:
        shares, budget = document["summary"]["shares"], document["conditions"]["budget"]
        marks = [n for n in MARKS if all(own[f"share_{n}"] is not None for own in shares.values())]
        yield table_of(
            "Share of the true front's hypervolume",
            ({"search": method, **own} for method, own in shares.items()),
            {
                "search": "{search}",
                **{f"after {mark}": f"{{share_{mark}:.1 %}}" for mark in marks},
                f"points of the front after {budget}": "{found:.0 %}",
                "core-seconds": "{seconds:.1f}",
            },
        )
        ours = document["summary"]["ours_over"]

        def column(mark: int) -> Callable[[str], str]:
            found = ours[f"share_{mark}"]
            return lambda other: f"{shown(found[other], 3)}, {found[other]['verdict']}"

        yield table_of(
            "Hypervolume of prior over that of the others",
            ours["share"],
            {"search": str, **{f"after {mark}": column(mark) for mark in marks}},
        )


def _of(rows: Sequence[Row], method: str) -> list[Row]:
    return [row for row in rows if row["method"] == method]


def _means(rows: Sequence[Row]) -> Row:
    """Means over searches; None where a budget was smaller."""
    found: dict[str, float | None] = {}
    for name in (*(f"share_{mark}" for mark in MARKS), "share", "seconds"):
        values = [row[name] for row in rows]
        found[name] = None if None in values else float(np.mean(values))
    found["found"] = float(np.mean([row["found"] / row["front_points"] for row in rows]))
    return found


def _ratios(rows: Sequence[Row], other: str, mark: str) -> dict[str, float]:
    """By network: ours over another one, geometric means over its layers of means over seeds."""
    found: dict[str, list[float]] = {}
    for network, layer in dict.fromkeys((row["network"], row["layer"]) for row in rows):
        own = [row for row in rows if (row["network"], row["layer"]) == (network, layer)]
        ours, theirs = (
            np.mean([row[mark] for row in _of(own, method)]) for method in (OURS, other)
        )
        found.setdefault(network, []).append(float(np.log(ours / theirs)))
    return {network: float(np.exp(np.mean(logs))) for network, logs in found.items()}
