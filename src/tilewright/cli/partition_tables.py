# SPDX-License-Identifier: Apache-2.0
"""What `compile` says of a network's parts: end-to-end latency, operators, and why they are where.

An operator's cost of staying behind is what it takes on the CPU and the crossings for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tilewright.cli.common.application import open_console, say
from tilewright.cli.common.parse_errors import UsageError
from tilewright.host.common.names import choices, counted, nearest
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork, Placed
    from tilewright.host.compiler.pipeline import ImportedNetwork
    from tilewright.host.compiler.quantise.agreement import Agreement
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.sim.twin.network_timing import NetworkTiming
    from tilewright.tuner.study.schedule_lookup import ScheduleLookup


SHOWN: Final = 12
"""Operators on the CPU that are listed without --explain: those that cost most."""

ALL: Final = "all"


class Named(Protocol):
    """An operator of a model, placed or not."""

    @property
    def name(self) -> str:
        """In the quantised model."""

    @property
    def kind(self) -> str:
        """Operator of ONNX, or a user's with its domain."""


Operator = TypeVar("Operator", bound=Named)


def print_latency(compiled: CompiledNetwork, board: Board, cycles: int) -> None:
    """Say what one inference takes, part by part, and what takes longest."""
    from tilewright.host.compiler.pack.latency import latency

    spent = latency(compiled, board, cycles)
    if compiled.regions and not cycles:
        return
    parts = ", ".join(
        f"{name} {1e3 * seconds:.2f} ms"
        for name, seconds in (
            ("accelerator", spent.accelerator),
            ("crossings", spent.crossings),
            ("CPU", spent.cpu),
        )
    )
    console = open_console()
    console.say(
        f"end to end: {1e3 * spent.total:.2f} ms on {board.name} at "
        f"{board.clock_text(compiled.hw.config_hash)}: {parts}; "
        f"bottleneck: "
        f"{spent.bottleneck.replace('cpu', 'CPU')}"
    )
    if spent.crossings + spent.cpu:
        console.say(f"crossings and CPU follow from the board file: {board.cpu.rates()}")


def print_operators(compiled: CompiledNetwork, board: Board) -> None:
    """List the operators on the CPU that cost most, and count the others."""
    from tilewright.host.compiler.pack.latency import behind_seconds

    placed = compiled.placements
    left = [p for p in placed if p.where != "accelerator"]
    console = open_console()
    regions = counted(len(compiled.regions), "region")
    console.say(
        f"{len(placed) - len(left)} of {len(placed)} operators on the accelerator in {regions}"
    )
    left.sort(key=lambda p: -behind_seconds(p, board.cpu))
    if left:
        _print_table(left[:SHOWN], board)
    if len(left) > SHOWN:
        console.say(
            f"{len(left) - SHOWN} more on the CPU cost less each; --explain all lists every "
            "operator, --explain NAME explains one"
        )


def warn_of_layers(compiled: CompiledNetwork) -> None:
    """Say on the error stream that layers stay on the CPU: that is seldom what was wanted."""
    from tilewright.host.compiler.pack.latency import layers_left_behind

    if told := layers_left_behind(compiled):
        say(f"warning: {told}; --explain all lists every operator", err=True)


def print_agreement(trials: Sequence[Mapping[str, Any]], found: Sequence[Agreement]) -> None:
    """Say how near the network is to its float model, and which layers lose most."""
    console = open_console()
    for trial in trials:
        kept = ", kept" if trial["kept"] else ""
        change = printable(trial["change"], limit=80)
        console.say(f"improve: {change}: {trial['worst_db']:.1f} dB{kept}")
    for agreement in found:
        doubt = ", which say little of others" if agreement.is_of_noise else ""
        console.say(
            f"beside the model as it was read, {agreement.computed_by}, on "
            f"{counted(agreement.inputs, 'input')} ({printable(agreement.origin)}{doubt}):"
        )
        for output in agreement.outputs[:SHOWN]:
            same = "" if output.same is None else f", same largest element {output.same:.1%}"
            name = printable(output.name, limit=40)
            console.say(f"  {name}: {output.sqnr_db:.1f} dB, cosine {output.cosine:.5f}{same}")
        if agreement.layers:
            losing = ", ".join(
                f"{printable(layer.name, limit=40)} {layer.lost_db:.1f} dB"
                for layer in agreement.layers
            )
            console.say(f"  lose most: {losing}")
    if found and (told := found[-1].warning()):
        say(f"warning: {told}", err=True)


def print_explanation(
    compiled: CompiledNetwork, board: Board, timing: NetworkTiming, asked: Sequence[str]
) -> None:
    """Explain where operators run."""
    for each in asked:
        found = named(compiled.placements, each)
        if not found:  # `require_named` has found it in the model
            name = printable(each, limit=80)
            open_console().say(f"{name} only makes constants: nothing of it is left to run")
            continue
        _print_table(found, board)
        if each != ALL:
            for placed in found:
                _explain(placed, compiled, board, timing)


def named(operators: Iterable[Operator], asked: str) -> list[Operator]:
    """The operators of that name or kind; the kind of a user's operator also without its domain."""
    every = list(operators)
    if asked == ALL:
        return every
    kind = asked.lower()
    return [p for p in every if p.name == asked] or [
        p for p in every if kind in (p.kind.lower(), p.kind.lower().rpartition(".")[2])
    ]


def require_named(network: ImportedNetwork, asked: Sequence[str]) -> None:
    """Refuse names and kinds that no operator of a model has, before it is compiled."""
    from tilewright.host.network.operators import CONVERSIONS

    operators = [each for each in network.relax.operators if each.kind not in CONVERSIONS]
    for each in asked:
        if each != ALL and not named(operators, each):
            raise UsageError(
                "must be the name or kind of an operator of the model, or all",
                field="--explain",
                value=each,
                remedy=_remedy(each, operators),
            )


def _remedy(asked: str, operators: Sequence[Named]) -> str:
    """The name or kind that is most like what was asked for, and all kinds."""
    kinds = list(dict.fromkeys(p.kind for p in operators))
    remedy = choices(asked, kinds, "kinds")
    near = nearest(asked, [p.name for p in operators])
    return remedy if nearest(asked, kinds) or not near else f"did you mean {near}? {remedy}"


def operator_rows(compiled: CompiledNetwork, board: Board) -> list[dict[str, Any]]:
    """The operators for a document."""
    from tilewright.host.compiler.pack.latency import behind_seconds, cpu_seconds

    return [
        {
            **asdict(p),
            "cpu_milliseconds": 1e3 * cpu_seconds(p, board.cpu),
            "behind_milliseconds": 0.0
            if p.where == "accelerator"
            else 1e3 * behind_seconds(p, board.cpu),
        }
        for p in compiled.placements
    ]


def latency_members(compiled: CompiledNetwork, board: Board, cycles: int) -> dict[str, Any]:
    """The latency for the summary of a document."""
    from tilewright.host.compiler.pack.latency import latency, mac_share

    spent = latency(compiled, board, cycles)
    return {
        "mac_share": mac_share(compiled),
        "accelerator_milliseconds": 1e3 * spent.accelerator,
        "crossings_milliseconds": 1e3 * spent.crossings,
        "cpu_milliseconds": 1e3 * spent.cpu,
        "milliseconds": 1e3 * spent.total,
        "cpu_and_crossings_share": spent.cpu_share,
        "bottleneck": spent.bottleneck,
    }


def _print_table(placed: Sequence[Placed], board: Board) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.compiler.pack.latency import behind_seconds, cpu_seconds

    table = plain_table("operator", "kind", "where", "MACs", "ms on CPU", "behind ms", left=3)
    table.add_column("reason")
    for p in placed:
        taken = p.where == "accelerator"
        table.add_row(
            Text(printable(p.name, limit=40)),
            p.kind,
            f"region {p.region}" if taken else "CPU",
            f"{p.macs:,}" if p.macs else "",
            f"{1e3 * cpu_seconds(p, board.cpu):.3f}",
            "" if taken else f"{1e3 * behind_seconds(p, board.cpu):.3f}",
            Text(printable(p.reason, limit=160)),
        )
    print_table(table, open_console())


def _explain(
    placed: Placed, compiled: CompiledNetwork, board: Board, timing: NetworkTiming
) -> None:
    from tilewright.host.compiler.pack.latency import behind_seconds, cpu_seconds

    say = open_console().say
    name = printable(placed.name, limit=80)
    on_cpu = f"{1e3 * cpu_seconds(placed, board.cpu):.3f} ms"
    work = f"{placed.macs:,} MACs and {placed.bytes:,} bytes of activations"
    if placed.where != "accelerator":
        say(f"{name} ({placed.kind}) runs on the CPU: {placed.reason}")
        say(f"  it has {work}: {on_cpu} at the rates of the board file")
        say(
            f"  staying behind costs {1e3 * behind_seconds(placed, board.cpu):.3f} ms: "
            f"{placed.crossing_bytes:,} bytes leave or enter a region because of it"
        )
        return
    layers = [
        timed
        for code, timed in zip(
            (layer for program in compiled.programs for layer in program.layers),
            timing.layers,
            strict=True,
        )
        if placed.name in code.operators
    ]
    cycles = sum(layer.cycles for layer in layers)
    say(f"{name} ({placed.kind}) runs in region {placed.region} on the accelerator")
    say(
        f"  {cycles:,} cycles in {', '.join(layer.name for layer in layers)}"
        if layers
        else "  it is part of a layer of its neighbours, or only names the same elements anew"
    )
    say(f"  it has {work}; on the CPU it would take {on_cpu}")


def say_pessimistic(cycles: int, worst_cycles: int, worst: MemoryModel) -> None:
    """Print what the same programs take when the DRAM is at its worst."""
    say(f"memory {worst.name}: {worst_cycles:,} cycles, {100 * (worst_cycles / cycles - 1):+.1f} %")


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
    from tilewright.host.machine.board import pessimistic_memory

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
        f"{timing.cycles / (board.clock_mhz * 1e3):.2f} ms at "
        f"{board.clock_text(compiled.hw.config_hash)}; "
        f"{100 * timing.utilisation:.1f} % of the sum of bounds"
    )
    worst = pessimistic_memory(board) if memory == board.memory else None
    if worst is not None and timing.cycles:
        from tilewright.sim.twin.network_timing import time_network

        say_pessimistic(timing.cycles, time_network(compiled, worst).cycles, worst)
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
