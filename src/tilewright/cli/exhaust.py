# SPDX-License-Identifier: Apache-2.0
"""`tilewright exhaust`: every legal schedule of a layer."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.application import MEASURE, app, open_console
from tilewright.cli.arguments import (
    DEFAULT_LANDSCAPES,
    HwOption,
    LandscapesOption,
    MemoryBoardOption,
    MemoryOption,
    NetworkOption,
    SpaceOption,
    ThreadsOption,
    read_network,
    simulated_memory,
)
from tilewright.cli.json_output import JsonOption
from tilewright.cli.progress import progress
from tilewright.tuner.study.options import SpaceName


@app.command(rich_help_panel=MEASURE)
def exhaust(
    context: typer.Context,
    layers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LAYER]...", help="Layers of the network; default: all of them."),
    ] = None,
    network: NetworkOption = "vta-resnet18",
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "board",
    board: MemoryBoardOption = "pynq-z2",
    space: SpaceOption = SpaceName.VTA,
    confirm: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Schedules to confirm on the RTL: the best, and others at random.",
        ),
    ] = 3,
    confirm_cycles: Annotated[
        int,
        typer.Option(
            metavar="CYCLES", min=1, help="Do not confirm schedules with more cycles than this."
        ),
    ] = 5_000_000,
    seed: Annotated[
        int, typer.Option(metavar="SEED", min=0, help="Seed of the random confirmations.")
    ] = 0,
    workers: ThreadsOption = 2,
    folder: LandscapesOption = DEFAULT_LANDSCAPES,
    json: JsonOption = None,
) -> None:
    """Measure every legal schedule of a layer on the twin; confirm the best on the RTL."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.tuner.exhaustive.landscape_report import landscape_row, print_landscapes

    config, table = load_hwconfig(hw), read_network(network)
    timing = simulated_memory(context, memory, board)
    with progress(config.name, total=1, quiet=json is not None) as steps:
        landscapes = print_landscapes(
            config,
            [table[name] for name in layers] if layers else list(table.workloads),
            timing,
            kind=space.value,
            confirm=confirm,
            confirm_cycles=confirm_cycles,
            seed=seed,
            workers=workers,
            folder=folder,
            console=open_console(),
            on_progress=steps.at,
        )
    if json is not None:
        json.write(
            [landscape_row(landscape) for landscape in landscapes],
            {
                "network": network,
                "hw": config.parameters(),
                "memory": timing.name,
                "space": space.value,
                "fidelity": "twin; the best and others on the RTL",
                "confirm": confirm,
                "seed": seed,
            },
        )
