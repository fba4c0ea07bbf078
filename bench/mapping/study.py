# SPDX-License-Identifier: Apache-2.0
"""Every mapper at equal budgets of samples, against the certified optimum of each layer.

A task is one layer of a network under one objective. Its optimum is proven first (`best_mapping`);
each mapper then runs on it once per seed. A row of a run keeps every improvement with its sample,
so all that is told of budgets smaller than the one that was run comes from the same runs.

``--json`` is written after each task and seed and read at the start: a stopped run goes on.

    tilewright bench mapping --quick
    tilewright bench mapping --json build/mapping.json --html build/mapping.html
    tilewright bench mapping --agents --networks resnet18 --json build/mapping-agents.json
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tilewright.bench.mapping.study_summary import Row, summarise
from tilewright.bench.result import BenchResult, kept
from tilewright.bench.workers import executor
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.result_document import rows_of
from tilewright.host.network.zoo import load_network
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import best_mapping
from tilewright.tuner.mapping.mapping import mapping_of
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import LoopNest, nests_of
from tilewright.tuner.mapping.space import MappingSpace

NETWORKS: Final = ("mobilenet_v2", "vgg16", "resnet18", "alexnet", "transformer_encoder")
OBJECTIVES: Final = ("latency", "edp", "area")
METHODS: Final = (
    "random", "pruned-random", "coordinate", "annealing", "genetic", "gamma", "cma-es", "bayesian",
    "gradient", "ppo", "marl-decentralised", "marl", "marl-central", "structured",
)  # fmt: skip
AGENTS: Final = (1, 2, 3, 6, 9, 10)
"""Agents of the sweep, as in the paper's figure 6."""
LEARNING: Final = "marl"
SINGLE: Final = "ppo"
CERTIFY_SECONDS: Final = 600.0
"""Processor time after which a proof is given up; the row then tells the gap."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One layer under one objective.

    Attributes:
        network: that the layer is of.
        nest: its loops.
        objective: what is minimised.
    """

    network: str
    nest: LoopNest
    objective: str

    @property
    def key(self) -> Row:
        """What its rows have in common."""
        return {"network": self.network, "layer": self.nest.name, "objective": self.objective}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is compared, on what.

    Attributes:
        networks: by name.
        objectives: by name.
        methods: names of mappers, each with its options, as in ``marl:agents=3``.
        hardware: name of an architecture, or its file.
        per_network: layers per network, drawn evenly by their multiply-accumulates; 0: all.
        budget: samples per run.
        seeds: runs per mapper and task.
        jobs: processes side by side.
    """

    networks: Sequence[str] = NETWORKS
    objectives: Sequence[str] = OBJECTIVES
    methods: Sequence[str] = METHODS
    hardware: str = "flexible-256"
    per_network: int = 3
    budget: int = 20_000
    seeds: int = 10
    jobs: int = 1


def tasks_of(options: Options) -> list[Task]:
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


def mapper_of(contestant: str) -> Any:
    """The mapper of ``NAME:option=value:...``; values are JSON.

    Raises:
        ConfigError: an option that is no such pair.
        MapperError: no mapper of that name.
    """
    name, *given = contestant.split(":")
    options = {}
    for each in given:
        option, equals, value = each.partition("=")
        try:
            options[option] = json.loads(value)
        except json.JSONDecodeError as error:
            raise ConfigError(
                "must be option=value with a number or a quoted text",
                field=f"--methods {contestant}",
                value=each + ("" if equals else "="),
            ) from error
    try:
        return make_mapper(name, **options)
    except TypeError as error:
        raise ConfigError(
            f"{name} does not take these options ({error})",
            field="--methods",
            value=contestant,
            remedy="the arguments of its class are its options",
        ) from error


def certify(task: Task, hardware: str) -> Row:
    """The row of a task's optimum."""
    arch = load_architecture(hardware)
    found = best_mapping(task.nest, arch, Objective(task.objective), seconds=CERTIFY_SECONDS)
    if found.stopped:
        raise KeyboardInterrupt
    space = MappingSpace(task.nest, arch)
    return {
        "what": "optimum",
        **task.key,
        "sizes": list(task.nest.sizes),
        "macs": task.nest.macs,
        "log10_mappings": round(float(np.log10(float(space.mappings))), 2),
        "value": found.value,
        "bound": found.bound,
        "certified": found.optimal,
        "core_seconds": round(found.seconds, 3),
        "mapping": found.mapping.as_dict(),
    }


def run_one(task: Task, contestant: str, seed: int, budget: int, hardware: str) -> Row:
    """The row of one run."""
    model = CostModel(task.nest, load_architecture(hardware))
    mapper = mapper_of(contestant)  # imports, which are no part of a search
    started = time.process_time()
    trace = mapper.run(model, Objective(task.objective), budget, seed)
    if trace.stopped:
        raise KeyboardInterrupt
    seconds = time.process_time() - started
    notes = {k: v for k, v in trace.notes.items() if seed == 0 or k in ("agents", "cap")}
    if seed == 0:
        notes["course"] = [mapping_of(row).as_dict() for row in trace.rows]
    return {
        "what": "run",
        **task.key,
        "method": contestant,
        "seed": seed,
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


class Study:
    """The rows of a study, as they come.

    Args:
        options: what is compared.
        known: document of a stopped run.

    Raises:
        ConfigError: the document holds other conditions.
    """

    def __init__(self, options: Options, known: Mapping[str, Any] | None = None) -> None:
        for contestant in options.methods:
            mapper_of(contestant)  # refuses a wrong name before hours of work
        self.options: Final = options
        arch = load_architecture(options.hardware)
        self.conditions: Final[Row] = {
            "hardware": arch.name,
            "architecture": {k: v for k, v in asdict(arch).items() if k != "sources"},
            "budget": options.budget,
            "sample": "one mapping that fits the buffers, priced by the cost model",
        }
        self.records: list[Row] = []
        if known is not None:
            same = {k: v for k, v in known["conditions"].items() if k in self.conditions}
            if same != json.loads(json.dumps(self.conditions)):
                raise ConfigError(
                    "the file holds rows of other conditions",
                    field="--json",
                    remedy="name another file",
                )
            self.records = rows_of(known)
            _require_rows(self.records)
        self._per_second = mappings_per_second(options.hardware)

    def run(self, keep: Callable[[BenchResult], None] | None = None) -> None:
        """Certify each task, then run every mapper, one seed of all tasks after the other."""
        options, tasks = self.options, tasks_of(self.options)
        done = {_name(row) for row in self.records}
        with kept(keep, self.result) as step, executor(options.jobs) as pool:
            for task in tasks:
                if _name({"what": "optimum", **task.key}) not in done:
                    row = certify(task, options.hardware)
                    self.records.append(row)
                    _say(row)
                    step()
            for seed, task in ((s, t) for s in range(options.seeds) for t in tasks):
                wanted = [
                    method
                    for method in options.methods
                    if _name({"what": "run", **task.key, "method": method, "seed": seed})
                    not in done
                ]
                arguments = (options.budget, options.hardware)
                futures = [
                    pool.submit(run_one, task, method, seed, *arguments) for method in wanted
                ]
                for future in futures:
                    self.records.append(future.result())
                    _say(self.records[-1])
                if wanted:
                    step()

    def result(self) -> BenchResult:
        """What there is so far."""
        summary = {"mappings_per_s": self._per_second, **summarise(self.records)}
        return BenchResult(
            rows=self.records,
            summary=summary,
            conditions={
                **self.conditions,
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 2),
                "python": platform.python_version(),
            },
            passed=not summary["bound_violations"],
        )


def _require_rows(rows: Sequence[Row]) -> None:
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


def _name(row: Row) -> tuple[Any, ...]:
    """What tells a row from all others."""
    members = ("what", "network", "layer", "objective", "method", "seed")
    return tuple(row.get(member) for member in members)


def _say(row: Row) -> None:
    about = f"{row['network']:20} {row['layer']:16} {row['objective']:8}"
    what = (
        f"{row['method']:22} seed {row['seed']}"
        if row["what"] == "run"
        else ("certified" if row["certified"] else "not certified")
    )
    print(f"{about} {row['value']:.5e} {what}, {row['core_seconds']:.1f} s", flush=True)


def contestants(methods: Sequence[str], sweep: bool) -> list[str]:
    """The mappers of a study: those named, or the teams of the sweep and what they need."""
    if sweep:
        return [SINGLE, *(f"{LEARNING}:agents={count}" for count in AGENTS), "marl-decentralised"]
    return list(methods)
