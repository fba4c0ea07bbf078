# SPDX-License-Identifier: Apache-2.0
"""Every mapper at equal budgets of samples, against the certified optimum of each layer.

A task is one layer of a network under one objective. Its optimum is proven first (`best_mapping`);
each mapper then runs on it once per seed. A row of a run keeps every improvement with its sample,
so all that is told of budgets smaller than the one that was run comes from the same runs.

    tilewright bench mapping --quick
    tilewright bench mapping --json build/mapping.json --html build/mapping.html
    tilewright bench mapping --methods ppo,marl:agents=2 --networks resnet18
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from tilewright.bench.commands import MappingSettings
from tilewright.bench.framework.records import Cell
from tilewright.bench.framework.study import BenchResult, Study, machine
from tilewright.bench.framework.tables import FigureTable
from tilewright.bench.mapping.page import SINGLE, Row, page, summarise, tables
from tilewright.host.common.errors import ConfigError
from tilewright.host.network.zoo import load_network
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import best_mapping
from tilewright.tuner.mapping.mapping import mapping_of
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import LoopNest, nests_of
from tilewright.tuner.mapping.space import MappingSpace

METHODS: Final = (
    "random", "pruned-random", "coordinate", "annealing", "genetic", "gamma", "cma-es", "bayesian",
    "gradient", "ppo", "marl-decentralised", "marl", "marl:cut=0.5", "marl:cut=2.5",
    "marl-central", "structured",
)  # fmt: skip
CERTIFY_SECONDS: Final = 600.0
"""Processor time after which a proof is given up; the row then tells the gap."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One layer under one objective."""

    network: str  # that the layer is of
    nest: LoopNest  # its loops
    objective: str  # what is minimised


def tasks_of(options: MappingSettings) -> list[Task]:
    """The tasks of a study; a layer that two networks have counts for the first."""
    seen: set[tuple[Any, ...]] = set()
    found = []
    for network in options.networks:
        nests = []
        for nest in nests_of(load_network(network).workloads):
            key = (nest.kind, nest.sizes, nest.stride_y, nest.stride_x)
            if key not in seen:
                nests.append(nest)
                seen.add(key)
        nests.sort(key=lambda nest: nest.macs)
        if 0 < options.per_network < len(nests):
            places = np.linspace(0, len(nests) - 1, options.per_network + 2)[1:-1]
            nests = [nests[round(place)] for place in places]
        found += [
            Task(network=network, nest=nest, objective=objective)
            for objective in options.objectives
            for nest in nests
        ]
    return found


def certify(task: Task, hardware: str) -> Row:
    """The row of a task's optimum."""
    arch = load_architecture(hardware)
    found = best_mapping(task.nest, arch, Objective(task.objective), seconds=CERTIFY_SECONDS)
    if found.stopped:
        raise KeyboardInterrupt
    space = MappingSpace(task.nest, arch)
    return {
        "sizes": list(task.nest.sizes),
        "macs": task.nest.macs,
        "log10_mappings": round(float(np.log10(float(space.mappings))), 2),
        "value": found.value,
        "bound": found.bound,
        "certified": found.optimal,
        "core_seconds": round(found.seconds, 3),
        "mapping": found.mapping.as_dict(),
    }


def run_one(
    task: Task, contestant: str, seed: int, budget: int, hardware: str, *, converge: int = 0
) -> Row:
    """The row of one run; the single agent goes on until it has converged (`Mapping`)."""
    model = CostModel(task.nest, load_architecture(hardware))
    on = contestant == SINGLE and converge > budget
    # imports, which are no part of a search
    mapper = make_mapper(contestant, **({"patience": budget} if on else {}))
    budget = converge if on else budget
    started = time.process_time()
    trace = mapper.run(model, Objective(task.objective), budget, seed)
    if trace.stopped:
        raise KeyboardInterrupt
    seconds = time.process_time() - started
    notes = {k: v for k, v in trace.notes.items() if seed == 0 or k in ("agents", "cap")}
    if seed == 0:
        notes["course"] = [mapping_of(row).as_dict() for row in trace.rows]
    return {
        "value": trace.value,
        "samples": trace.samples,
        "setup_samples": trace.setup_samples,
        "core_seconds": round(seconds, 3),
        "improvements": [[int(s) + 1, float(trace.best[s])] for s in trace.steps],
        "mapping": trace.mapping.as_dict(),
        "notes": notes,
    }


def mappings_per_second(hardware: str) -> float:
    """Mappings that the cost model prices per second on one core, of a convolution; a median."""
    nest = LoopNest(name="conv", sizes=(128, 128, 28, 28, 3, 3))
    space = MappingSpace(nest, load_architecture(hardware))
    batch = space.decode_batch(space.sample_batch(np.random.default_rng(0), 100_000))
    seconds = []
    for _ in range(5):
        started = time.process_time()
        space.model.costs(batch)
        seconds.append(time.process_time() - started)
    return round(len(batch) / float(np.median(seconds)))


class Mapping(Study):
    """The optimum of each task first, then every mapper, one seed of all tasks after the other."""

    resumes = True

    def __init__(self, settings: MappingSettings) -> None:
        super().__init__(settings)
        self.methods: Final = settings.methods or METHODS
        for contestant in self.methods:
            make_mapper(contestant)  # refuses a wrong name before hours of work
        load_architecture(settings.hardware)
        self.tasks: Final = {
            (task.network, task.nest.name, task.objective): task for task in tasks_of(settings)
        }

    @property
    def jobs(self) -> int:
        return int(self.settings.jobs)

    def cells(self) -> Iterator[Cell]:
        names = [
            {"network": network, "layer": layer, "objective": objective}
            for network, layer, objective in self.tasks
        ]
        yield from ({"what": "optimum", **name} for name in names)
        for seed in range(self.settings.seeds):
            for name in names:
                for method in self.methods:
                    yield {"what": "run", **name, "method": method, "seed": seed}

    def measure(self, cell: Cell) -> list[Row]:
        task = self.tasks[cell["network"], cell["layer"], cell["objective"]]
        if cell["what"] == "optimum":
            return [certify(task, self.settings.hardware)]
        given = (self.settings.budget, self.settings.hardware)
        converge = self.settings.converge
        return [run_one(task, cell["method"], cell["seed"], *given, converge=converge)]

    def conditions(self) -> Row:
        arch = load_architecture(self.settings.hardware)
        return {
            "hardware": arch.name,
            "architecture": {k: v for k, v in asdict(arch).items() if k != "sources"},
            **self.of_settings("budget", "converge"),
            "sample": "one mapping that fits the buffers, priced by the cost model",
        }

    def environment(self) -> Row:
        return machine()

    @cached_property
    def per_second(self) -> float:
        return mappings_per_second(self.settings.hardware)

    def summarise(self, rows: Sequence[Any]) -> Row:
        _require_rows(rows)
        return {"mappings_per_s": self.per_second, **summarise(rows)}

    def passed(self, result: BenchResult) -> bool:
        return not result.summary.get("bound_violations")

    def tables(self, document: Any) -> Iterator[FigureTable]:
        return tables(document["summary"])

    def page(self, document: Any) -> str:
        return page(document)

    def line(self, row: Any) -> str:
        about = f"{row['network']:20} {row['layer']:16} {row['objective']:8}"
        what = (
            f"{row['method']:22} seed {row['seed']}"
            if row["what"] == "run"
            else ("certified" if row["certified"] else "not certified")
        )
        return f"{about} {row['value']:.5e} {what}, {row['core_seconds']:.1f} s"


def _require_rows(rows: Sequence[Any]) -> None:
    """Refuse rows that this study did not write."""
    members = {"value", "network", "layer", "objective"}
    of_a_run = {"method", "seed", "samples", "setup_samples", "improvements"}
    for number, row in enumerate(rows, 1):
        what = row.get("what") if isinstance(row, dict) else None
        wanted = members | (of_a_run if what == "run" else {"bound", "certified", "core_seconds"})
        if what not in ("run", "optimum") or not wanted <= set(row):
            raise ConfigError(
                "the file holds a row that this study did not write",
                field=f"--json, row {number}",
                remedy="name another file",
            )
