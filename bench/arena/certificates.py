# SPDX-License-Identifier: Apache-2.0
"""What `tune --within` is worth on layers that nothing was chosen on.

The layers are those of `tasks.fresh_layers`. Each is tuned twice with one configuration, memory and
seed: to the end of its budget, and until it is proven.

    tilewright bench certificates --quick
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.tasks import fresh_layers
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.framework.tables import FigureTable, table_of, worded
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Workload
from tilewright.interface.study import tune
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.rules import host_rules

HARDWARE: Final = ("pynq-16x16", "pynq-16x32", "edge-8x8", "zu-32x32", "tiny-4x4")
MEMORIES: Final = ("ideal", "pynq-z2")


def fresh_cells(count: int, seed: int) -> list[Cell]:
    """Fresh layers with a drawn configuration and memory each."""
    rng = np.random.default_rng([seed, 1])
    found: list[Cell] = []
    for task in fresh_layers(seed):
        hw, memory = str(rng.choice(HARDWARE)), str(rng.choice(MEMORIES))
        try:
            host_rules().default_schedule(load_hwconfig(hw), task)
        except TilewrightError:
            continue
        workload = task.renamed(task.name, count=1).to_mapping()
        found.append({"layer": task.name, "hw": hw, "memory": memory, "workload": workload})
        if len(found) == count:
            break
    return found


class Certificates(Study):
    """Layers tuned to the end of a budget, and until they are proven."""

    resumes = True

    def cells(self) -> list[Cell]:
        return fresh_cells(self.settings.layers, self.settings.seed)

    def measure(self, cell: Cell) -> Iterator[Row]:
        with TemporaryDirectory() as folder:
            plain = self._tuned(cell, Path(folder), None)
            proven = self._tuned(cell, Path(folder), self.settings.within / 100)
        yield {
            "kind": cell["workload"]["kind"],
            **{f"plain_{name}": plain[name] for name in ("measurements", "cycles", "seconds")},
            "loose_of_best": plain["loose"] / proven["cycles"],
            **{name: value for name, value in proven.items() if name != "loose"},
        }

    def _tuned(self, cell: Cell, folder: Path, within: float | None) -> dict[str, Any]:
        given, started = self.settings, time.monotonic()
        task, hw = Workload.from_mapping(cell["workload"]), load_hwconfig(cell["hw"])
        study = tune(
            task,
            hw=hw,
            memory=cell["memory"],
            board="zcu104",
            budget=given.budget,
            seed=given.seed,
            fidelity="twin",
            within=within,
            proof_seconds=given.proof_seconds,
            workers=given.workers,
            runs=folder,
        )
        (layer,) = study.layers
        proof = layer.proof
        loose = host_rules().bound(hw, task, MemoryModel(**study.settings["memory"])).cycles
        return {
            "measurements": study.measurements,
            "cycles": layer.cycles,
            "bound_cycles": layer.bound_cycles,
            "gap": layer.cycles / layer.bound_cycles - 1,
            "proven": within is not None and layer.cycles <= (1 + within) * layer.bound_cycles,
            "points": None if proof is None else proof.points,
            "run": 0 if proof is None else proof.run,
            "seconds": time.monotonic() - started,
            "loose": loose,
        }

    def conditions(self) -> Row:
        given = self.settings
        return {
            "fidelity": "twin",
            "twin": identity_of("twin"),
            "within": given.within / 100,
            **self.of_settings("budget", "proof_seconds", "seed"),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            "layers": len(rows),
            "proven": sum(row["proven"] for row in rows),
            "median_measurements": median(row["measurements"] for row in rows),
            "median_plain_measurements": median(row["plain_measurements"] for row in rows),
            "median_run": median(row["run"] for row in rows),
            "median_seconds": median(row["seconds"] for row in rows),
            "median_plain_seconds": median(row["plain_seconds"] for row in rows),
            "not_slower": sum(row["cycles"] <= row["plain_cycles"] for row in rows),
        }

    def line(self, row: Row) -> str:
        verdict = "proven" if row["proven"] else "not proven"
        return (
            f"{row['layer']} on {row['hw']}, {row['memory']}: {row['cycles']:,} cycles, {verdict} "
            f"(gap {100 * row['gap']:.2f} %), {row['measurements']} measurements instead of "
            f"{row['plain_measurements']}, {row['seconds']:.1f} s instead of "
            f"{row['plain_seconds']:.1f} s"
        )

    def tables(self, document: Row) -> Iterator[FigureTable]:
        yield table_of(
            "Layers until they are proven",
            document["rows"],
            {
                "layer": "{layer}",
                "configuration": "{hw}",
                "memory": "{memory}",
                "cycles": "{cycles:,}",
                "without": "{plain_cycles:,}",
                "of the loose bound": "{loose_of_best:.1 %}",
                "gap": lambda row: worded(
                    "{gap:.2 %}" if row["proven"] else "not proven: {gap:.2 %}", row
                ),
                "measurements": "{measurements}",
                "without ": "{plain_measurements}",
                "runs of the proof": "{run:,}",
                "seconds": "{seconds:.1f}",
                "without  ": "{plain_seconds:.1f}",
            },
        )
