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

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.bench.result import BenchResult
from tilewright.bench.roofline import OFFLOADED
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


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured.

    Attributes:
        network: studies of this network in shared mode; empty: layers alone.
        board: of a network.
        hw: fixed, or the base of a network.
        memory: of layers; networks take the board's.
        space: ``vta`` or ``full``.
        seeds: runs of each arm.
        budget: measurements of a run.
        ranked: schedules of the prior that are measured in space ``full``.
        long: measurements of the long search.
    """

    network: str
    board: str
    hw: str
    memory: str
    space: str
    seeds: int
    budget: int
    ranked: int
    long: int


class Layer:
    """One layer on fixed hardware, with everything that was measured of it.

    Args:
        hw, memory, name, kind: what is tuned.
    """

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


def layers(options: Options) -> list[Record]:
    """Every variant on every layer."""
    hw, memory = load_hwconfig(options.hw), load_memory(options.memory)
    records: list[Record] = []
    for name in OFFLOADED:
        layer = Layer(hw, memory, name, options.space)
        layer.find_best(options.ranked, options.long)
        goal = 1.01 * min(layer.known.values()) if options.space == "vta" else 0.0
        logs: list[tuple[str, int, list[float], float]] = []
        for variant, make in VARIANTS.items():
            for seed in range(options.seeds):
                started = time.process_time()
                log = layer.drive(make(layer, seed), options.budget, goal)
                logs.append((variant, seed, log, time.process_time() - started))
        best = min(layer.known.values())
        for variant, seed, log, seconds in logs:
            records.append(
                {
                    "layer": name, "variant": variant, "seed": seed, "best": best,
                    "to_1pct": _until(log, 1.01 * best), "to_5pct": _until(log, 1.05 * best),
                    "at_32": min(log[:32]) / best, "cpu_seconds": seconds,
                }
            )  # fmt: skip
        mine = [r for r in records if r["layer"] == name]
        print(f"{name}: best {best:,.0f}; measurements to 1 %, median (worst):", flush=True)
        for variant in VARIANTS:
            found = [r["to_1pct"] for r in mine if r["variant"] == variant]
            middle, worst = _text(statistics.median(found)), _text(max(found))
            print(f"  {variant:30} {middle} ({worst})", flush=True)
    return records


def _until(log: Sequence[float], goal: float) -> int:
    return next((number for number, value in enumerate(log, 1) if value <= goal), NEVER)


def _text(count: float) -> str:
    return "not reached" if count >= NEVER else f"{count:g}"


def network(options: Options) -> list[Record]:
    """Studies in shared mode: whole, and without each part."""
    table, board = load_network(options.network), load_board(options.board)
    records: list[Record] = []
    for without in ((), *((part,) for part in TUNERS.load(DEFAULT_TUNER).ablations)):
        for seed in range(options.seeds):
            settings = StudySettings(
                model=table.name, tasks=table.workloads, board=board, memory=board.memory,
                base=load_hwconfig(options.hw), space=options.space, budget=options.budget,
                seed=seed, without=without,
            )  # fmt: skip
            started = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                result, curve = _study(settings, Path(folder))
            records.append(
                {
                    "network": table.name, "without": ",".join(without), "seed": seed,
                    "default": result.default_network, "cycles": result.best_network,
                    "curve": curve, "cpu_seconds": time.process_time() - started,
                }
            )  # fmt: skip
            print(
                f"without {','.join(without) or 'nothing'}, seed {seed}: "
                f"{result.best_network:,} cycles",
                flush=True,
            )
    return records


def _study(settings: StudySettings, folder: Path) -> tuple[Any, list[tuple[int, int]]]:
    oracle = TwinOracle()
    try:
        with Store(folder / "studies.sqlite") as store:
            run_study("bench", settings, store=store, oracle=oracle, rules=RULES, listener=Silent())
            result = load_result(store, "bench")
    finally:
        oracle.close()
    return result, result.network_curve()


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Medians over layers and seeds, or over seeds."""
    found: dict[str, Any] = {}
    if records and "network" in records[0]:
        for name in dict.fromkeys(r["without"] for r in records):
            cycles = [r["cycles"] for r in records if r["without"] == name]
            found[f"without {name or 'nothing'}"] = statistics.median(cycles)
        return found
    for variant in VARIANTS:
        mine = [r for r in records if r["variant"] == variant]
        found[variant] = {
            "to_1pct": statistics.median(r["to_1pct"] for r in mine),
            "worst": max(r["to_1pct"] for r in mine),
            "within_32": statistics.mean(r["to_1pct"] <= 32 for r in mine),
            "cpu_seconds": statistics.mean(r["cpu_seconds"] for r in mine),
        }
    return found


def run(options: Options) -> BenchResult:
    """Measure layers, or studies of a network."""
    records = network(options) if options.network else layers(options)
    found = summary(records)
    print(json.dumps(found, indent=1))
    return BenchResult(
        rows=records,
        summary=found,
        conditions={
            **asdict(options),
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "memory_model": asdict(load_memory(options.memory)),
        },
    )
