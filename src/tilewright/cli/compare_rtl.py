# SPDX-License-Identifier: Apache-2.0
"""`tilewright compare-rtl`: two variants of the RTL on a whole network, and on the device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import EXIT_CHECK_FAILED, MEASURE, app, open_console, say
from tilewright.cli.common.json_output import JsonOption, json_path
from tilewright.cli.common.progress import progress

if TYPE_CHECKING:
    from tilewright.interface.compare_rtl import Comparison


@app.command("compare-rtl", rich_help_panel=MEASURE)
def compare_rtl_command(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Manifest of RTL; ours: that of Tilewright.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Manifest of the other variant.")],
    hw: Annotated[
        str, typer.Option("--hw", metavar="HW", help="Named configuration, or YAML file.")
    ] = "pynq-16x16",
    network: Annotated[
        str, typer.Option(metavar="MODEL", help="Built-in network, or file of a model.")
    ] = "resnet18",
    layers: Annotated[
        str, typer.Option(metavar="NAME,...", help="Layers of the network; default: all.")
    ] = "",
    board: arguments.BoardOption = "pynq-z2",
    synthesis: Annotated[
        bool,
        typer.Option(
            "--synthesis/--no-synthesis",
            help="Synthesise both for xc7 and estimate their clocks, which takes minutes.",
        ),
    ] = True,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Simulations at a time.")] = 2,
    json: JsonOption = None,
) -> None:
    """Compare two variants of the RTL: cycles and outputs of a network, area, estimated clock.

    Every output byte is compared with the golden model. The exit code is 1 when one is wrong.
    """
    import time

    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.interface.compare_rtl import OURS, compare_rtl

    manifests = {"A": first, "B": second}
    for field, name in manifests.items():
        if name != OURS:
            arguments.require_readable(Path(name), field)
    arguments.require_places(
        {field: Path(name) for field, name in manifests.items()}, {"--json": json_path(json)}
    )
    config, target = load_hwconfig(hw), arguments.read_board(board)
    started = time.perf_counter()
    with progress(f"{first} and {second}", quiet=json is not None) as steps:
        found = compare_rtl(
            (first, second),
            config,
            target.memory,
            network,
            layers=[each for each in layers.split(",") if each],
            synthesis=synthesis,
            workers=workers,
            say=steps.say,
        )
    seconds = time.perf_counter() - started
    _print(found)
    say(f"compared in {seconds / 60:.1f} minutes")
    if json is not None:
        conditions = {"hw": config.parameters(), "network": found.network,
                      "memory": found.memory.name, "board": target.name}  # fmt: skip
        json.write(found.rows(), conditions, summary={**found.summary(), "seconds": seconds})
    if not all(found.right):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _print(found: Comparison) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.common.printable import printable

    console = open_console()
    table = plain_table("layer", "count", "A cycles", "B cycles", "B / A", left=1)
    table.add_column("outputs")
    for pair in found.layers:
        first, second = pair.cycles
        ratio = f"{second / first:.4f}" if first and second else ""
        wrong = [
            f"{name}: {printable(why, limit=160)}"
            for name, why in zip("AB", pair.failures, strict=True)
            if why
        ]
        table.add_row(
            Text(printable(pair.name, limit=40)),
            str(pair.count),
            *(f"{each:,}" if each else "failed" for each in pair.cycles),
            ratio,
            Text("; ".join(wrong) or "bit-exact"),
        )
    print_table(table, console)
    totals = found.total(0), found.total(1)
    for name, manifest, total, right in zip("AB", found.names, totals, found.right, strict=True):
        said = f"{total or 0:,} cycles; every output bit-exact beside the golden model"
        failed = "NOT RIGHT: a layer did not end, or its output differs from the golden model's"
        console.say(f"{name} {printable(manifest)}: {said if right else failed}")
    if totals[0] and totals[1]:
        console.say(
            f"{found.network} on {found.hw.name}, full RTL, memory {found.memory.name}: B takes "
            f"{100 * (totals[1] / totals[0] - 1):+.2f} % cycles, layers one after another, "
            "schedules of the closed form"
        )
    if found.netlists is None:
        return
    resources = plain_table("", "A", "B", "B - A", left=1)
    one, other = found.netlists
    for label, name in (("LUT", "lut"), ("FF", "ff"), ("BRAM36", "bram36"), ("DSP", "dsp")):
        values = float(getattr(one, name)), float(getattr(other, name))
        resources.add_row(label, *(f"{v:,.0f}" for v in values), f"{values[1] - values[0]:+,.0f}")
    clocks = [f"{each.low_mhz:.0f} to {each.high_mhz:.0f}" for each in found.netlists]
    resources.add_row("MHz (estimate)", *clocks, f"{other.high_mhz - one.high_mhz:+.1f}")
    print_table(resources, console)
    console.say("Yosys for xc7, static estimate of the netlist on xc7z020-1: nothing was placed")
    if totals[0] and totals[1]:
        more = totals[1] / totals[0] * one.high_mhz / other.high_mhz - 1
        console.say(f"at the clocks of short wires B takes {100 * more:+.2f} % time")
