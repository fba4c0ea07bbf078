# SPDX-License-Identifier: Apache-2.0
"""One network in stages on the cores of a system, against one core of about the same area.

tilewright bench multicore-pipeline --quick
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from tilewright.bench.multicore.networks import imported
from tilewright.bench.result import BenchResult
from tilewright.host.compiler.pipeline import ImportedNetwork
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.system_area import estimate_system
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
    """A network in stages, and whole on the one core.

    Args:
        network: what is cut.
        pair: the hardware.
        device: what simulates the system.
        search: measurements per layer.
        frames: that run where there are data.

    Raises:
        TilewrightError: see `measure_pipeline`.
    """
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
        "network": network.name,
        "system": system.name,
        "one": one.name,
        "board": board.name,
        "stages": rows,
        "area": {each.name: vars(estimate_system(each)) for each in (system, single)},
        **summary,
    }


def line(found: Mapping[str, Any]) -> str:
    """A pipeline as a line of text."""
    whole = found["whole"][found["one"]]
    stages = " + ".join(f"{row['together_cycles']:,}" for row in found["stages"])
    return (
        f"{found['network']} in stages on {found['system']}: {stages} cycles, tick "
        f"{found['tick_cycles']:,}, {found['moved_bytes']:,} bytes moved, "
        f"{found['frames_per_s']:.2f} frames/s ({found['overlapped_frames_per_s']:.2f} with copies "
        f"beside), latency {found['latency_ms']:.2f} ms; whole on {found['one']}: "
        f"{whole['cycles']:,} cycles, {whole['frames_per_s']:.2f} frames/s"
    )


def run(
    name: str,
    pairs: Sequence[Pair],
    *,
    device: str,
    search: int,
    tell: Callable[[Mapping[str, Any]], None],
    keep: Callable[[BenchResult], None] | None = None,
) -> BenchResult:
    """Run `pipeline` for every pair.

    Args:
        name: network of `examples/networks`.
        pairs: the hardware.
        device: what simulates.
        search: measurements per layer.
        tell: takes each row as it is found.
        keep: takes what there is after each pair; None: nobody does.

    Raises:
        TilewrightError: see `pipeline`.
    """
    network = imported(name)
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        rows.append(pipeline(network, pair, device=device, search=search))
        tell(rows[-1])
        if keep is not None:
            keep(_result(rows, device, search))
    return _result(rows, device, search)


def _result(rows: Sequence[Mapping[str, Any]], device: str, search: int) -> BenchResult:
    wrong = [row[key] for row in rows for key in ("wrong_bytes", "wrong_elements")]
    gains = {
        row["system"]: round(row["frames_per_s"] / row["whole"][row["one"]]["frames_per_s"], 3)
        for row in rows
    }
    return BenchResult(
        rows=rows,
        conditions={"fidelity": device, "search": search},
        summary={"pipeline_over_one": gains},
        passed=not any(wrong),
    )
