# SPDX-License-Identifier: Apache-2.0
"""One network in stages on the cores of a system, against one core of about the same area.

tilewright bench multicore-pipeline --quick
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import BenchResult, Study
from tilewright.bench.multicore.networks import imported
from tilewright.host.compiler.pipeline import ImportedNetwork
from tilewright.host.machine.area import estimate
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore, load_system
from tilewright.sim.system_devices import WITH_DATA, open_system
from tilewright.tuner.multicore.pipeline import measure_pipeline, pipeline_rows
from tilewright.tuner.study.schedule_lookup import ScheduleLookup


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A system and the core that it is compared with, on a board."""

    system: str
    one: str
    board: str


PAIRS: Final = (
    Pair(system="dual-8x8", one="pynq-16x32", board="pynq-z2"),
    Pair(system="big-little", one="pynq-16x32", board="pynq-z2"),
    Pair(system="dual-16x16", one="zu-32x32", board="zcu104"),
)
QUICK: Final = (Pair(system="dual-tiny", one="edge-8x8", board="pynq-z2"),)


def pipeline(
    network: ImportedNetwork, pair: Pair, *, device: str, search: int, frames: int = 3
) -> dict[str, Any]:
    """A network in stages, and whole on the one core."""
    system, one = load_system(pair.system), load_hwconfig(pair.one)
    board = load_board(pair.board)
    single = SystemConfig(name=f"one {one.name}", cores=(SystemCore(hw=one),))
    books: dict[int, ScheduleLookup] = {}
    with ExitStack() as stack:

        def book(hw: HwConfig) -> ScheduleLookup:
            if hw.config_hash not in books:
                lookup = ScheduleLookup(hw, board.memory, budget=search)
                books[hw.config_hash] = stack.enter_context(lookup)
            return books[hw.config_hash]

        opened = stack.enter_context(closing(open_system(device, system, board.memory)))
        found = measure_pipeline(
            network,
            opened,
            system,
            board,
            board.memory,
            book,
            frames=frames,
            one=one,
            check=device in WITH_DATA,
        )
    rows, summary = pipeline_rows(found, board)
    return {
        "stages": rows,
        "area": {each.name: vars(estimate(each)) for each in (system, single)},
        **summary,
    }


class Pipelines(Study):
    """A network in stages on each pair of hardware."""

    @cached_property
    def network(self) -> ImportedNetwork:
        """What is cut."""
        return imported(self.settings.network)

    def cells(self) -> list[Cell]:
        pairs = QUICK if self.settings.quick else PAIRS
        return [{"network": self.settings.network, **vars(pair)} for pair in pairs]

    def measure(self, cell: Cell) -> list[Row]:
        pair = Pair(system=cell["system"], one=cell["one"], board=cell["board"])
        given = self.settings
        return [pipeline(self.network, pair, device=given.device.value, search=given.search)]

    def conditions(self) -> Row:
        return {"fidelity": self.settings.device.value, "search": self.settings.search}

    def summarise(self, rows: Sequence[Row]) -> Row:
        """Frames per second over those of the one core, by system."""
        gains = {
            row["system"]: round(row["frames_per_s"] / row["whole"][row["one"]]["frames_per_s"], 3)
            for row in rows
        }
        return {"pipeline_over_one": gains}

    def passed(self, result: BenchResult) -> bool:
        return not any(row[k] for row in result.rows for k in ("wrong_bytes", "wrong_elements"))

    def line(self, row: Row) -> str:
        whole = row["whole"][row["one"]]
        stages = " + ".join(f"{stage['together_cycles']:,}" for stage in row["stages"])
        return (
            f"{row['network']} in stages on {row['system']}: {stages} cycles, tick "
            f"{row['tick_cycles']:,}, {row['moved_bytes']:,} bytes moved, "
            f"{row['frames_per_s']:.2f} frames/s ({row['overlapped_frames_per_s']:.2f} with copies "
            f"beside), latency {row['latency_ms']:.2f} ms; whole on {row['one']}: "
            f"{whole['cycles']:,} cycles, {whole['frames_per_s']:.2f} frames/s"
        )
