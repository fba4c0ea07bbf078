# SPDX-License-Identifier: Apache-2.0
"""What each part of the default tuner is worth, layer by layer and for a whole network.

Layers (default): measurements to 1 % of the best schedule, each layer alone on fixed hardware,
the untuned schedule first. In space ``vta`` the best is the optimum of the exhaustive landscape; in
``full`` it is the best known: of everything that any tuner here measured, of the schedules that the
prior ranks first, and of one long search. Network (``--network``): a study in shared mode on a
board, configurations included. All cycles are those of the twin, which equal the RTL's.

    tilewright bench default-tuner
    tilewright bench default-tuner --network resnet18 --budget 150
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.bench.commands import DefaultTunerSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.hardware.roofline import OFFLOADED
from tilewright.host.machine.board import MemoryModel, load_board, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.zoo import load_network
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import SchedulePrior
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import TUNERS, Result, Tuner, make_tuner
from tilewright.tuner.search.gaussian.tilewright import TilewrightTuner
from tilewright.tuner.search.space import Index
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.results import load_result
from tilewright.tuner.study.session import Silent
from tilewright.tuner.study.settings import DEFAULT_TUNER, StudySettings
from tilewright.tuner.study.study import run_study

RULES = host_rules()
NEVER = 10**6

Record = dict[str, Any]


class Layer:
    """One layer on fixed hardware, with everything that was measured of it."""

    def __init__(self, hw: HwConfig, memory: MemoryModel, name: str, kind: str) -> None:
        self.task = load_network("vta-resnet18")[name]
        self.space = ScheduleSpace(self.task, hw, RULES, kind)
        self.prior = SchedulePrior(hw, self.task, memory)
        self.initial = (self.space.encode(RULES.default_schedule(hw, self.task)),)
        self.known: dict[Index, float] = {}
        self._twin, self._lowering = Twin(hw, memory), NativeLowering(hw, self.task)

    def cost(self, index: Index) -> float:
        """Cycles of a legal schedule."""
        if index not in self.known:
            points = encode_schedules([self.space.decode(index)])
            self.known[index] = float(self._twin.batch(self._lowering, points).cycles[0])
        return self.known[index]

    def find_best(self, ranked: int, long: int) -> None:
        """Measure the whole space ``vta``; else what the prior ranks first and a long search."""
        if self.space.kind == "vta":
            for index in self.space.enumerate():
                self.cost(index)
            return
        first = TilewrightTuner(self.space, seed=0, prior=self.prior, calibrate=False)
        for candidate in first.ask(ranked):
            self.cost(candidate.index)
        self.drive(TilewrightTuner(self.space, seed=10_000, prior=self.prior), long)

    def drive(self, tuner: Tuner[Any], budget: int, goal: float = 0.0) -> list[float]:
        """One study; the cycles in the order of proposals, to the first that is at ``goal``."""
        log: list[float] = []
        while len(log) < budget and min(log, default=goal + 1) > goal:
            batch = tuner.ask(1)
            if not batch:
                break
            value = self.cost(batch[0].index)
            tuner.tell([Result(index=batch[0].index, value=value)])
            log.append(value)
        return log


Make = Callable[[Layer, int], Tuner[Any]]


def _whole(**options: Any) -> Make:
    def make(layer: Layer, seed: int) -> Tuner[Any]:
        given = {"prior": layer.prior, **options}
        return TilewrightTuner(layer.space, seed=seed, initial=layer.initial, **given)

    return make


def _named(name: str) -> Make:
    def make(layer: Layer, seed: int) -> Tuner[Any]:
        return make_tuner(name, layer.space, seed=seed, initial=layer.initial, prior=layer.prior)

    return make


VARIANTS: dict[str, Make] = {
    "tilewright": _whole(),
    "without calibration": _whole(calibrate=False),
    "without descent": _whole(descend=False),
    "without calibration, descent": _whole(calibrate=False, descend=False),
    "without prior": _whole(prior=None),
    "guided": _named("guided"),
    "coordinate": _named("coordinate"),
    "random": _named("random"),
}


def layer_rows(given: DefaultTunerSettings, name: str) -> list[Record]:
    """Every variant on one layer."""
    layer = Layer(load_hwconfig(given.hw), load_memory(given.memory), name, given.space.value)
    layer.find_best(given.ranked, given.long)
    whole = given.space.value == "vta"
    goal = 1.01 * min(layer.known.values()) if whole else 0.0
    logs: list[tuple[str, int, list[float], float]] = []
    for variant, make in VARIANTS.items():
        for seed in range(given.seeds):
            started = time.process_time()
            log = layer.drive(make(layer, seed), given.budget, goal)
            logs.append((variant, seed, log, time.process_time() - started))
    best = min(layer.known.values())
    return [
        {
            "variant": variant, "seed": seed, "best": best,
            "to_1pct": _until(log, 1.01 * best), "to_5pct": _until(log, 1.05 * best),
            "at_32": min(log[:32]) / best, "cpu_seconds": seconds,
        }
        for variant, seed, log, seconds in logs
    ]  # fmt: skip


def _until(log: Sequence[float], goal: float) -> int:
    return next((number for number, value in enumerate(log, 1) if value <= goal), NEVER)


def network_row(given: DefaultTunerSettings, without: str, seed: int) -> Record:
    """A study in shared mode, without some parts of the tuner."""
    table, board = load_network(given.network), load_board(given.board)
    settings = StudySettings(
        model=table.name, tasks=table.workloads, board=board, memory=board.memory,
        base=load_hwconfig(given.hw), space=given.space.value, budget=given.budget,
        seed=seed, without=(without,) if without else (),
    )  # fmt: skip
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result, curve = _study(settings, Path(folder))
    return {
        "default": result.default_network, "cycles": result.best_network,
        "curve": curve, "cpu_seconds": time.process_time() - started,
    }  # fmt: skip


def _study(settings: StudySettings, folder: Path) -> tuple[Any, list[tuple[int, int]]]:
    oracle = TwinOracle()
    try:
        with Store(folder / "studies.sqlite") as store:
            run_study("bench", settings, store=store, oracle=oracle, rules=RULES, listener=Silent())
            result = load_result(store, "bench")
    finally:
        oracle.close()
    return result, result.network_curve()


def study(settings: DefaultTunerSettings) -> Study:
    """Studies of a network, or single layers."""
    return NetworkStudies(settings) if settings.network else Layers(settings)


class _DefaultTuner(Study):
    def conditions(self) -> Row:
        given = {**asdict(self.settings), "space": self.settings.space.value}
        memory = asdict(load_memory(self.settings.memory))
        return {**given, "fidelity": "twin", "rtl": rtl_digest(), "memory_model": memory}


class Layers(_DefaultTuner):
    """Every variant on single layers."""

    def cells(self) -> list[Cell]:
        return [{"layer": name} for name in OFFLOADED]

    def measure(self, cell: Cell) -> list[Row]:
        return list(layer_rows(self.settings, cell["layer"]))

    def summarise(self, rows: Sequence[Row]) -> Row:
        found = {}
        for variant in VARIANTS:
            mine = [r for r in rows if r["variant"] == variant]
            found[variant] = {
                "to_1pct": statistics.median(r["to_1pct"] for r in mine),
                "worst": max(r["to_1pct"] for r in mine),
                "within_32": statistics.mean(r["to_1pct"] <= 32 for r in mine),
                "cpu_seconds": statistics.mean(r["cpu_seconds"] for r in mine),
            }
        return found

    def line(self, row: Row) -> str:
        needed = "not reached" if row["to_1pct"] >= NEVER else f"{row['to_1pct']} measurements"
        return f"{row['layer']:4} {row['variant']:30} seed {row['seed']}: to 1 % {needed}"


class NetworkStudies(_DefaultTuner):
    """Studies in shared mode: whole, and without each part of the tuner."""

    says = "without {without or 'nothing'}, seed {seed}: {cycles:,} cycles"

    def cells(self) -> list[Cell]:
        name = load_network(self.settings.network).name
        return [
            {"network": name, "without": without, "seed": seed}
            for without in ("", *TUNERS.load(DEFAULT_TUNER).ablations)
            for seed in range(self.settings.seeds)
        ]

    def measure(self, cell: Cell) -> list[Row]:
        return [network_row(self.settings, cell["without"], cell["seed"])]

    def summarise(self, rows: Sequence[Row]) -> Row:
        cycles: dict[str, list[int]] = {}
        for row in rows:
            cycles.setdefault(f"without {row['without'] or 'nothing'}", []).append(row["cycles"])
        return {name: statistics.median(found) for name, found in cycles.items()}
