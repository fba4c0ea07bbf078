# SPDX-License-Identifier: Apache-2.0
"""What every study tells of a compiled network: where its operators run, and its latency.

Cycles are the twin's; crossings and the CPU follow from the rates of the board file.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilewright.bench.commands import NetworksSettings
from tilewright.bench.framework.records import Row
from tilewright.cli.partition_tables import latency_members
from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.pack.latency import mac_share
from tilewright.host.compiler.pipeline import Compilation, compile_model
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.twin.network_timing import time_network
from tilewright.tuner.study.schedule_lookup import ScheduleLookup


def compiled_row(
    model: Any,
    given: NetworksSettings,
    calibration: Calibration | None = None,
    options: ImportOptions | None = None,
) -> tuple[Compilation, Row]:
    """A network compiled as the settings say, and the members of its row."""
    hw, board = load_hwconfig(given.hw), load_board(given.board)
    book = ScheduleLookup(hw, board.memory, budget=given.search or 0)
    compilation = compile_model(
        model, hw, board, calibration=calibration, options=options, schedule_of=book
    )
    book.close()
    compiled = compilation.network
    timing = time_network(compiled, board.memory)
    return compilation, {
        **placement(compiled),
        "cycles": timing.cycles,
        "bound_cycles": timing.bound,
        **latency_members(compiled, board, timing.cycles),
    }


def placement(compiled: CompiledNetwork) -> Row:
    """What runs where, why, and how much of the work that is."""
    taken = Counter(p.kind for p in compiled.placements if p.where == "accelerator")
    left = Counter((p.kind, p.reason) for p in compiled.placements if p.where == "cpu")
    return {
        "regions": len(compiled.regions),
        "operators": len(compiled.placements),
        "accelerated": taken.total(),
        "accelerated_kinds": dict(taken.most_common()),
        "cpu_kinds": [
            {"kind": kind, "reason": reason, "count": count}
            for (kind, reason), count in left.most_common()
        ],
        "macs": sum(p.macs for p in compiled.placements),
        "mac_share": mac_share(compiled),
    }
