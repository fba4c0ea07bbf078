# SPDX-License-Identifier: Apache-2.0
"""`tilewright certify`: the optimum, by enumeration."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import MEASURE, app, open_console, say
from tilewright.cli.common.json_output import JsonOption
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.progress import progress
from tilewright.host.common.errors import TilewrightError, fields_named
from tilewright.host.common.printable import printable
from tilewright.tuner.exhaustive.options import CertifyOptions, ExhaustOptions
from tilewright.tuner.schedule.options import MODEL_HELP
from tilewright.tuner.study.options import split_layers


@app.command(rich_help_panel=MEASURE)
@from_fields(ExhaustOptions)
def exhaust(
    context: typer.Context,
    settings: ExhaustOptions,
    layers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LAYER]...", help="Layers of the network; default: all of them."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure every legal schedule of a layer on the twin; confirm the best on the RTL."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.tuner.exhaustive.landscape_report import landscape_row, print_landscapes

    config = load_hwconfig(settings.hw)
    table = arguments.read_network(settings.network, config, settings.board)
    timing = arguments.simulated_memory(context, settings.memory, settings.board)
    with progress(config.name, total=1, quiet=json is not None) as steps:
        landscapes = print_landscapes(
            config,
            [table[name] for name in layers] if layers else list(table.workloads),
            timing,
            settings=settings,
            console=open_console(),
            on_progress=steps.at,
        )
    if json is not None:
        json.write(
            [landscape_row(landscape) for landscape in landscapes],
            {
                "network": settings.network,
                "hw": config.parameters(),
                "memory": timing.name,
                "space": settings.space,
                "fidelity": "twin; the best and others on the RTL",
                "confirm": settings.confirm,
                "seed": settings.seed,
            },
        )


class UncertifiedError(TilewrightError):
    """The search ended without a certificate."""


@app.command(rich_help_panel=MEASURE)
@from_fields(CertifyOptions)
def certify(
    network: Annotated[
        str,
        typer.Argument(metavar="MODEL", help=MODEL_HELP),
    ],
    *,
    board: arguments.BoardOption = "pynq-z2",
    base: Annotated[
        str, typer.Option(metavar="HW", help="Configuration around which others are tried.")
    ] = "pynq-16x16",
    memory: arguments.MemoryOption = "board",
    layers: arguments.LayersOption = "",
    settings: CertifyOptions,
    json: JsonOption = None,
) -> None:
    """Prove which configuration and schedules are best, by enumeration on the twin."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.tuner.exhaustive.certify import Certifier, class_lines
    from tilewright.tuner.schedule.rules import host_rules

    target = arguments.read_board(board)
    hw = load_hwconfig(base)
    table = arguments.read_network(network, hw, target)
    timing = arguments.read_memory(memory, target)
    with fields_named(arguments.MODEL_FIELDS):
        tasks = table.select(split_layers(layers))
    with progress("bounds", quiet=json is not None) as steps:
        certificate = Certifier(
            tasks,
            board=target,
            memory=timing,
            base=hw,
            rules=host_rules(),
            settings=settings,
            note=steps.say,
        ).run()
    for name, schedule in certificate.schedules.items():
        say(f"{printable(name)}: {schedule.to_mapping()}")
    for line in class_lines(certificate):
        say(printable(line))
    conditions = (
        f"of space {settings.space} and configurations around {base} on {target.name}, memory "
        f"{timing.name}, {certificate.seconds:.0f} s"
    )
    say(printable(conditions))
    if json is not None:
        json.write(
            [
                {
                    "hw": each.hw.name,
                    "verdict": str(each.verdict),
                    "bound_cycles": each.bound,
                    "cycles": each.cycles,
                    "schedules": each.schedules,
                }
                for each in certificate.classes
            ],
            {
                "network": network,
                "board": board,
                "memory": timing.name,
                "base": base,
                "space": settings.space,
                "limit": settings.limit,
                "seconds": certificate.seconds,
                "fidelity": "twin",
            },
            summary={
                "certified": certificate.certified,
                "cycles": certificate.cycles,
                "lower_bound": certificate.lower_bound,
                "hw": None if certificate.hw is None else certificate.hw.parameters(),
                "schedules": {
                    name: schedule.to_mapping() for name, schedule in certificate.schedules.items()
                },
            },
        )
    if not certificate.certified:
        raise UncertifiedError(
            f"{settings.seconds:g} s did not decide every class of configurations: nothing is "
            "certified",
            field="--seconds",
            remedy="give more, or with --limit the cycles of a network that a study found",
        )
    if settings.limit is not None and settings.limit < certificate.lower_bound:
        raise UncertifiedError(
            f"must be at least {certificate.lower_bound:,} cycles, the least that any network can "
            "take: nothing was searched",
            field="--limit",
            value=settings.limit,
            remedy="give the cycles of a network that a study found, or leave it out",
        )
