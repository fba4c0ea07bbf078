# SPDX-License-Identifier: Apache-2.0
"""Tables of a compiled network: its layers on the twin, and what runs on the CPU."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.application import open_console
from tilewright.cli.partition_tables import print_latency
from tilewright.host.common.names import counted
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.sim.twin.network_timing import NetworkTiming
    from tilewright.tuner.study.schedule_lookup import ScheduleLookup


def print_layers(
    compiled: CompiledNetwork,
    timing: NetworkTiming,
    memory: MemoryModel,
    board: Board,
    book: ScheduleLookup | None,
) -> list[dict[str, Any]]:
    """Print what each layer takes on the twin, the sums, and the end-to-end latency."""
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table

    console = open_console()
    table = plain_table("layer", "kind", "output", "cycles", "bound", "of bound", left=3)
    table.add_column("limit")
    for layer in timing.layers:
        _, channels, height, width = layer.workload.output_shape
        table.add_row(
            Text(printable(layer.name, limit=40)),
            layer.workload.kind.value,
            f"{channels}x{height}x{width}",
            f"{layer.cycles:,}",
            f"{layer.bound:,}",
            f"{100 * layer.utilisation:.1f} %",
            layer.limiter,
        )
    print_table(table, console)
    console.say(
        f"{timing.cycles:,} cycles on the twin, memory {memory.name}: "
        f"{timing.cycles / (board.clock_mhz * 1e3):.2f} ms at {board.clock_text}; "
        f"{100 * timing.utilisation:.1f} % of the sum of bounds"
    )
    print_latency(compiled, board, timing.cycles)
    if any(layer.cycles < layer.bound for layer in timing.layers):
        console.say("a layer with fewer cycles than its bound began beside the one before it")
    measured = (
        [] if book is None else [book.entry(layer.workload).cycles for layer in timing.layers]
    )
    if measured and all(measured):
        alone = sum(cycles or 0 for cycles in measured)
        console.say(
            f"sum of the layers measured alone: {alone:,}; chained they take "
            f"{100 * (timing.cycles / alone - 1):+.2f} %"
        )
    for program in compiled.programs:
        sizes = {name: region.nbytes for name, region in program.program.regions.items()}
        console.say(
            f"{program.name}: {counted(program.program.instruction_count, 'instruction')}, "
            f"activations "
            f"{sizes['activations']:,} bytes (at least {program.activation_peak:,}), weights "
            f"{sizes['weights']:,}, micro-ops {sizes['uop']:,}"
        )
    if not compiled.programs:
        console.say("the accelerator runs nothing of this network: all of it is on the CPU")
    elif book is not None:
        origins = ", ".join(f"{count} {name}" for name, count in book.origins.items())
        console.say(f"schedules: {origins}")
    return [
        {
            "layer": layer.name,
            "kind": layer.workload.kind.value,
            "output_shape": list(layer.workload.output_shape),
            "cycles": layer.cycles,
            "bound_cycles": layer.bound,
            "limiter": layer.limiter,
        }
        for layer in timing.layers
    ]


def print_timed_layers(
    compiled: CompiledNetwork, memory: MemoryModel, board: Board
) -> list[dict[str, Any]]:
    """`print_layers`, timed here."""
    from tilewright.sim.twin.network_timing import time_network

    return print_layers(compiled, time_network(compiled, memory), memory, board, None)


def table_conditions(
    compiled: CompiledNetwork, memory: MemoryModel, board: Board
) -> dict[str, Any]:
    """What the rows of `print_layers` hold under."""
    return {
        "network": compiled.name,
        "hw": compiled.hw.parameters(),
        "board": board.name,
        "memory": memory.name,
        "clock_mhz": board.clock_mhz,
        "fidelity": "twin",
    }
