# SPDX-License-Identifier: Apache-2.0
"""`tilewright synth`, `timing`, `pnr`, `synth-record`: what a configuration takes of a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.common import arguments
from tilewright.cli.common.application import BOARDS, EXIT_CHECK_FAILED, MAINTAIN, Group, app, say
from tilewright.cli.common.json_output import JsonOption, json_path
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress

DeviceOption = Annotated[
    str, typer.Option("--device", metavar="25k|45k|85k", help="Size of the ECP5.")
]
_XC7Z020 = "pynq-z2"  # a board with the part whose delays `timing` has

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PARAMETER=NUMBER",
        help="Change a parameter of the configuration, such as mac_pipeline=3.",
    ),
]


@app.command(rich_help_panel=BOARDS)
def synth(
    hw: Annotated[
        str,
        typer.Argument(metavar="HW", help="Named configuration or system, or YAML file of one."),
    ],
    board: arguments.BoardOption = "pynq-z2",
    family: Annotated[
        str, typer.Option(metavar="xc7|xcup|ecp5", help="Device family; default: the board's.")
    ] = "",
    device: DeviceOption = "85k",
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Synthesise a configuration or a system with Yosys; compare its resources with a board's.

    The exit code is 1 when it does not fit.
    """
    del rtl  # its callback has said which sources are read
    from dataclasses import asdict

    from tilewright.sim.synth import synthesis
    from tilewright.sim.synth.design import load_design

    design = load_design(hw)
    if family:
        arguments.one_of(family, synthesis.FAMILIES, "--family")
    arguments.one_of(device, synthesis.ECP5_DEVICES, "--device")
    target = synthesis.ECP5_DEVICES[device] if family == "ecp5" else arguments.read_board(board)
    with progress(f"{design.name}: Yosys", quiet=json is not None):
        if isinstance(target, synthesis.Ecp5Device):
            report = synthesis.synthesise(design, family=family)
            text, fits = synthesis.describe_ecp5(report, target)
        else:
            report = synthesis.synthesise(design, family=family or synthesis.family_of(target))
            text, fits = synthesis.describe(report, design, target)
    say(text)
    if json is not None:
        json.write(
            [asdict(each) for each in synthesis.resources(report, target)],
            {
                "hw": design.name,
                "device": target.name,
                "family": report.family,
                "tool": report.tool,
                "rtl": design.rtl,
                "seconds": report.seconds,
            },
            summary={"fits": fits},
            memories=[asdict(memory) for memory in report.memories],
        )
    if not fits:
        raise typer.Exit(EXIT_CHECK_FAILED)


@app.command(rich_help_panel=BOARDS)
def timing(
    hw: Annotated[
        str,
        typer.Argument(metavar="HW", help="Named configuration or system, or YAML file of one."),
    ],
    family: Annotated[
        str, typer.Option(metavar="xc7|ecp5", help="Whose cells: xc7z020-1, or ECP5 grade 8.")
    ] = "xc7",
    control: Annotated[
        bool, typer.Option("--control", help="Leave out the data path: seconds, not minutes.")
    ] = False,
    paths: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many families of paths to print.")
    ] = 12,
    changes: SetOption = None,
    rtl: arguments.RtlOption = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write all paths, with a picture, to it."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Estimate which clock the netlist of a configuration may reach, and what limits it.

    Nothing is placed or routed. Cells have the delays of their device, wires a length by their
    sinks: the clock is a bracket, the ranking of paths is what to trust.
    """
    del rtl  # its callback has said which sources are read
    from tilewright.host.machine.area import resource_shortfalls
    from tilewright.host.machine.board import load_board
    from tilewright.sim.synth.design import accelerator, load_design
    from tilewright.sim.synth.place_route import override
    from tilewright.sim.timing import estimate as timing_estimate
    from tilewright.sim.timing.delays import FAMILIES

    arguments.require_places({}, {"--html": html, "--json": json_path(json)})
    arguments.refuse_foreign_files(html)
    arguments.one_of(family, FAMILIES, "--family")
    design = load_design(hw)
    if changes:
        if len(design.cores) > 1:
            raise UsageError(
                "changes a configuration, and HW is a system of several",
                field="--set",
                value=hw,
                remedy="give the configuration of one of its cores",
            )
        design = accelerator(override(design.cores[0], changes))
    with progress(f"{design.name}: Yosys, then paths", quiet=json is not None):
        found = timing_estimate.estimate(design, family=family, control_only=control)
    say(timing_estimate.describe(found, paths))
    if family == "xc7" and not control:
        for lack in resource_shortfalls(design.estimate, load_board(_XC7Z020)):
            say(f"it does not fit the part: {lack}")
    rows, summary = timing_estimate.rows_of(found), timing_estimate.summary_of(found)
    if html is not None:
        from tilewright.tuner.report.drawing.page import write
        from tilewright.tuner.report.timing_page import page

        with arguments.replacing(html):
            write(page(rows, summary), html, "--html")
        say(f"wrote {html}")
    if json is not None:
        json.write(rows, {"hw": design.name}, summary=summary)


@app.command(rich_help_panel=BOARDS)
def pnr(
    hw: arguments.HwArgument,
    device: DeviceOption = "85k",
    speed: Annotated[int, typer.Option(metavar="6|7|8", help="Speed grade.")] = 8,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            metavar="SEED",
            min=0,
            help="Seed of placer and router; may be repeated; default: 1, 2 and 3.",
        ),
    ] = None,
    clock: Annotated[
        float, typer.Option(metavar="MHZ", min=1, help="Clock to aim at, in MHz.")
    ] = 100.0,
    router: Annotated[
        str, typer.Option(metavar="router1|router2", help="Router of nextpnr.")
    ] = "router1",
    changes: SetOption = None,
    rtl: arguments.RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Place and route a configuration on a Lattice ECP5; print its clock and its slowest path."""
    del rtl  # its callback has said which sources are read
    from dataclasses import asdict

    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.synth import place_route as routing
    from tilewright.sim.synth.design import accelerator
    from tilewright.sim.synth.synthesis import ECP5_DEVICES
    from tilewright.sim.synth.timing_report import WRAPPER
    from tilewright.sim.timing.estimate import time_netlist

    arguments.one_of(str(speed), map(str, routing.SPEEDS), "--speed")
    config = routing.override(load_hwconfig(hw), changes or [])
    conditions = routing.Conditions(
        device=arguments.one_of(device, ECP5_DEVICES, "--device"),
        speed=speed,
        frequency_mhz=clock,
        router=arguments.one_of(router, routing.ROUTERS, "--router"),
    )
    seeds = tuple(dict.fromkeys(seed or routing.DEFAULT_SEEDS))
    placements = []
    with progress(config.name, total=len(seeds), quiet=json is not None) as steps:
        for each in seeds:
            placements.append(
                routing.place(config, seed=each, conditions=conditions, note=steps.say)
            )
            steps.advance()
    say(routing.describe(placements))
    design = accelerator(config)
    guess = time_netlist(design, routing.netlist(config), top=WRAPPER, family="ecp5")
    low, high = guess.mhz
    say(f"static estimate of this netlist, before it was placed: {low:.1f} to {high:.1f} MHz")
    if json is not None:
        summary = routing.summary_of(placements)
        summary |= {"estimated_low_mhz": low, "estimated_high_mhz": high}
        json.write(
            [asdict(found) for found in placements],
            routing.conditions_of(placements),
            summary=summary,
        )


record_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="The recorded syntheses: rows, the area model that is fitted to them, tables of pages.",
)
app.add_typer(record_app, name="synth-record", rich_help_panel=MAINTAIN)


@record_app.command("record")
def record_rows(
    hw: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HW]...",
            help="Named configurations or YAML files; default: those of the record.",
        ),
    ] = None,
    family: Annotated[
        str,
        typer.Option(
            metavar="xc7|ecp5", help="Device family: xc7 makes rows, ecp5 adds its counts to them."
        ),
    ] = "xc7",
    stale: Annotated[
        bool, typer.Option("--stale", help="Leave out rows that the present RTL has made.")
    ] = False,
    draw: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEED", help="Add four random configurations that are never fitted."
        ),
    ] = None,
) -> None:
    """Synthesise configurations and add or replace their rows."""
    from tilewright.sim.synth import results

    more = () if draw is None else results.draw(draw)
    family = arguments.one_of(family, ("xc7", "ecp5"), "--family")
    with progress("Yosys"):
        results.record([*(hw or []), *more], family=family, stale_only=stale, note=say)


@record_app.command("systems")
def record_whole_systems(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SYSTEM]...",
            help="Named systems or YAML files; default: those of the record.",
        ),
    ] = None,
) -> None:
    """Synthesise systems of several cores and add or replace their rows."""
    from tilewright.sim.synth.system_record import record_systems

    with progress("Yosys"):
        record_systems(systems or [], note=say)


@record_app.command("fit")
def fit_area() -> None:
    """Print the coefficients of the area model (LOGIC_MODEL of host/machine/area.py)."""
    from tilewright.sim.synth.fit import fit, fittable
    from tilewright.sim.synth.record import load_results

    say(str(fit(fittable(load_results().rows))))


@record_app.command("heldout")
def held_out_error(json: JsonOption = None) -> None:
    """Print the error of the area model on rows that its fit has not seen."""
    from dataclasses import asdict

    from tilewright.sim.synth.fit import held_out
    from tilewright.sim.synth.record import load_results
    from tilewright.sim.synth.tables import held_out_table

    found = held_out(load_results().rows)
    say(held_out_table(found))
    if json is not None:
        json.write([asdict(each) for each in found], {})


@record_app.command("timing")
def record_timing(
    hw: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HW]...", help="Named configurations to estimate anew."),
    ] = None,
    control: Annotated[
        bool,
        typer.Option("--control", help="Renew the families of control that a test holds."),
    ] = False,
) -> None:
    """Estimate clocks and add or replace their rows."""
    from tilewright.sim.timing.record import record

    with progress("Yosys"):
        record(hw or [], control=control, note=say)


@record_app.command("write")
def write_pages() -> None:
    """Renew the tables of the pages from the record."""
    from tilewright.sim.synth.results import write_tables

    for page in write_tables():
        say(f"wrote {page}")
