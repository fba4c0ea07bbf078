# SPDX-License-Identifier: Apache-2.0
"""What waiting for whole batches costs where trials take unequal times.

tilewright bench waiting --quick
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.allocate.summary import over_families
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, shown, table_of
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.measurement import Measurement, Oracle, Request
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.session import Proposal, Silent
from tilewright.tuner.study.settings import StudySettings
from tilewright.tuner.study.study import run_study

NETWORKS: Final = (
    "resnet18",
    "squeezenet1_1",
    "mobilenet_v2",
    "alexnet",
    "transformer_encoder",
    "vgg16",
    "bert_tiny",
    "gpt2",
    "dlrm",
)
BOARD: Final = "pynq-z2"
HW: Final = "pynq-16x16"
SPREADS: Final = (0.0, 0.5, 1.0)
NEAR: Final = 1.01
"""Of the best network of any run: how near a search must have come."""


class UnequalBoards:
    """An `Oracle` on a clock of its own: the twin's answers, each after a drawn time.

    The mean of the times is 1 for every spread; a trial takes the same time in every study of a
    seed.

    Attributes:
        now: mean trials since the beginning.
    """

    def __init__(self, twin: Oracle, *, boards: int, spread: float, seed: int) -> None:
        self._twin: Final = twin
        self._free: Final = [0.0] * boards
        self._spread: Final = spread
        self._seed: Final = seed
        self.now = 0.0
        self.fidelity: Final = twin.fidelity
        self.identity: Final = twin.identity

    def prepare(self, hw: HwConfig) -> None:
        """Nothing to build."""

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        running: list[tuple[float, int]] = []
        taken = 0
        while taken < len(requests) or running:
            for position in range(taken, len(requests)):
                start = max(self.now, heapq.heappop(self._free))
                end = start + self._takes(requests[position])
                heapq.heappush(self._free, end)
                heapq.heappush(running, (end, position))
            taken = len(requests)
            self.now, position = heapq.heappop(running)
            ((_, answer),) = self._twin.measure([requests[position]])
            yield position, answer

    def close(self) -> None:
        """The twin belongs to the caller."""

    def _takes(self, request: Request) -> float:
        text = "".join(request.key).encode()
        drawn = np.random.default_rng([self._seed, *text]).normal()
        return float(np.exp(self._spread * (drawn - self._spread / 2)))


class Clock(Silent):
    """Notes when the network got better, and to how many cycles, once all tasks are measured."""

    def __init__(self, oracle: UnequalBoards, counts: dict[str, int]) -> None:
        self._oracle: Final = oracle
        self._counts: Final = counts
        self._best: Final[dict[str, int]] = {}
        self.times: Final[list[float]] = []
        self.cycles: Final[list[int]] = []

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        del sequence, replayed
        task, cycles, best = proposal.task.name, measurement.cycles, self._best
        if cycles is None or cycles >= best.get(task, cycles + 1):
            return
        best[task] = cycles
        if len(best) == len(self._counts):
            self.times.append(round(self._oracle.now, 3))
            self.cycles.append(sum(best[name] * count for name, count in self._counts.items()))


class WaitingStudy(Study):
    """The same searches, with batches that are waited for and without."""

    resumes = True

    says = (
        "{network}, spread {spread}, seed {seed}: {way}: "
        "{budget} trials in {took:.1f} mean trials, {last:,} cycles"
    )

    def line(self, row: Row) -> str:
        """A row as it is told when it is there."""
        return super().line({**row, "last": row["cycles"][-1]})

    def cells(self) -> list[Cell]:
        given = self.settings
        return [
            {"network": network, "spread": spread, "seed": seed}
            for network in NETWORKS[: given.networks]
            for spread in SPREADS
            for seed in range(given.seeds)
        ]

    def measure(self, cell: Cell) -> Iterator[Row]:
        twin = TwinOracle(self.settings.workers)
        try:
            for way in ("batches", "asynchronous"):
                yield self._searched(way, cell, twin)
        finally:
            twin.close()

    def _searched(self, way: str, cell: Cell, twin: Oracle) -> Row:
        given, board = self.settings, load_board(BOARD)
        oracle = UnequalBoards(twin, boards=given.boards, spread=cell["spread"], seed=cell["seed"])
        tasks = load_network(cell["network"]).select(())
        settings = StudySettings(
            model=cell["network"],
            tasks=tasks,
            board=board,
            memory=board.memory,
            base=load_hwconfig(HW),
            configs=1,
            budget=max(given.budget, 4 * len(tasks)),
            batch=given.boards,
            seed=cell["seed"],
            asynchronous=given.boards if way == "asynchronous" else 0,
        )
        clock = Clock(oracle, {task.name: task.count for task in tasks})
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s.sqlite") as store:
            run_study("s", settings, store=store, oracle=oracle, rules=host_rules(), listener=clock)
        return {
            "way": way,
            "budget": settings.budget,
            "times": clock.times,
            "cycles": clock.cycles,
            "took": oracle.now,
        }

    def conditions(self) -> Row:
        return {
            "fidelity": "twin",
            "twin": identity_of("twin"),
            "board": BOARD,
            "hw": HW,
            **self.of_settings("boards", "budget"),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        best = {
            network: min(row["cycles"][-1] for row in rows if row["network"] == network)
            for network in dict.fromkeys(row["network"] for row in rows)
        }
        return {
            "networks": len(best),
            "batches_over_asynchronous": {
                str(spread): over_families(
                    {
                        "whole budget": _ratios(rows, spread, lambda row: row["took"]),
                        "to 1 %": _ratios(
                            rows, spread, lambda row: _reached(row, NEAR * best[row["network"]])
                        ),
                        "cycles": _ratios(rows, spread, lambda row: row["cycles"][-1]),
                    }
                )
                for spread in SPREADS
            },
        }

    def tables(self, document: Row) -> Iterator[FigureTable]:
        found = document["summary"]["batches_over_asynchronous"]
        names = next(iter(found.values()))

        def column(name: str) -> Callable[[Any], str]:
            return lambda of: shown(of[1][name])

        yield table_of(
            "Batches over asynchronous",
            found.items(),
            {"spread": lambda of: of[0], **{name: column(name) for name in names}},
        )


def _reached(row: Row, cycles: float) -> float:
    """When a search came so near; the end of its budget if it did not."""
    near = [t for t, c in zip(row["times"], row["cycles"], strict=True) if c <= cycles]
    return float(near[0] if near else row["took"])


def _ratios(rows: Sequence[Row], spread: float, figure: Callable[[Row], float]) -> dict[str, float]:
    """By network: batches over asynchronous, the geometric mean over seeds."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        if row["spread"] == spread:
            sign = 1 if row["way"] == "batches" else -1
            logs.setdefault(row["network"], []).append(sign * float(np.log(figure(row))))
    return {network: float(np.exp(2 * np.mean(own))) for network, own in logs.items()}
