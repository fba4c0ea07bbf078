# SPDX-License-Identifier: Apache-2.0
"""`tilewright bitstream`: a configuration built for a board, by Vivado or by open tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.common.application import BOARDS, app, say
from tilewright.cli.common.arguments import (
    BoardOption,
    HwArgument,
    RtlOption,
    read_board,
    require_writable,
)
from tilewright.cli.common.json_output import JsonOption, JsonTarget
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress


@app.command(rich_help_panel=BOARDS)
def bitstream(
    hw: HwArgument,
    board: BoardOption = "pynq-z2",
    clock: Annotated[
        float | None,
        typer.Option(metavar="MHZ", min=1, help="Clock in MHz; default: what the board plans."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder to write; default: build/bitstream/HW-BOARD.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Write the folder that the tools build from, no more."),
    ] = False,
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="Vivado: build in a project on disk, each IP in a run of its own."
        ),
    ] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="MANIFEST", help="Build nothing; check a bitstream of HW that somebody built."
        ),
    ] = None,
    rtl: RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Build a bitstream: tilewright.bit, its manifest, and for pynq its .hwh.

    Vivado builds for the boards of 'tilewright boards'. The manifest holds the clock that was
    reached: give it as --board to other commands. Yosys and nextpnr build for a ULX3S: --board
    ulx3s.
    """
    del rtl  # its callback has said which sources are read
    if verify is not None:
        _verify(hw, verify, json)
        return
    from tilewright.sim.synth import openxc7
    from tilewright.sim.synth.open_board import named_open_boards

    if project and board in (*named_open_boards(), openxc7.NAME):
        raise UsageError(
            "is for Vivado, which does not build for this board",
            field="--project",
            value=board,
            remedy="leave it out",
        )
    if board in named_open_boards():
        _build_openly(hw, board, clock, out, dry_run, json)
        return
    if board == openxc7.NAME:
        _write_recipe(hw, clock, out, dry_run, json)
        return
    from tilewright.host.common.names import choices
    from tilewright.host.machine.area import fits
    from tilewright.host.machine.board import load_vivado_target, named_boards
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.synth.bitstream import FLOWS, build_bitstream, find_vivado, write_project

    if board not in named_boards() and not Path(board).exists():
        known = (*named_boards(), *named_open_boards(), openxc7.NAME)
        raise UsageError(
            "no such board", field="--board", value=board, remedy=choices(board, known)
        )
    config, plan = load_hwconfig(hw), read_board(board)
    target = load_vivado_target(board)
    if clock is not None:
        plan = replace(plan, clock_mhz=clock)
    vivado = None if dry_run else find_vivado()
    folder = out or Path("build/bitstream") / f"{config.name}-{plan.name}"
    named = board if plan.name == board else str(Path(board).resolve())
    _take(folder)
    entry = write_project(config, plan, target, folder, board_name=named, flow=FLOWS[project])
    say(f"{fits(config, plan).text} (estimated)")
    conditions = {"hw": config.name, "board": plan.name, "clock_mhz": plan.clock_mhz}
    if vivado is None:
        say(f"wrote {folder}; where Vivado is: vivado -mode batch -source {entry.name}")
        _write_files(folder, conditions, json)
        return
    with progress(f"{config.name} on {plan.name}: Vivado", quiet=json is not None) as steps:
        built = build_bitstream(vivado, entry, steps.say)
    used = ", ".join(f"{name} {value:g}" for name, value in built.utilisation.items())
    say(f"{folder / 'tilewright.bit'}: {built.clock_mhz:g} MHz, slack "
               f"{built.setup_slack_ns:g} ns (limit {built.limit_mhz:g} MHz); {used}")  # fmt: skip
    say(f"give --board {built.path} to take its clock")
    if json is not None:
        json.write(
            [{"resource": name, "used": value} for name, value in built.utilisation.items()],
            conditions,
            summary={
                "clock_mhz": built.clock_mhz,
                "setup_slack_ns": built.setup_slack_ns,
                "limit_mhz": built.limit_mhz,
                "vivado": built.vivado,
                "files": dict(built.files),
            },
        )


def _verify(hw: str, path: Path, json: JsonTarget | None) -> None:
    """Compare a manifest and the files beside it with each other and with a configuration."""
    from hashlib import sha256

    from tilewright.host.machine.bitstream import read_bitstream_manifest
    from tilewright.host.machine.hwconfig import load_hwconfig

    built, config = read_bitstream_manifest(path), load_hwconfig(hw)
    if built.hw.config_hash != config.config_hash:
        raise UsageError(
            f"must be of {config.name}, {config.config_hash:#010x}",
            field="--verify",
            value=f"{built.hw.name}, {built.hw.config_hash:#010x}",
            remedy="name the configuration that it was built for",
        )
    built.check_files()
    digest = sha256(path.read_bytes()).hexdigest()
    say(f"{', '.join(built.files)}: as in the manifest, whose SHA-256 is {digest}")
    say(f"{built.hw.name} for {built.board} ({built.part}): {built.clock_mhz:g} MHz, slack "
        f"{built.setup_slack_ns:g} ns, Vivado {built.vivado}")  # fmt: skip
    if json is not None:
        json.write(
            [{"file": name, "sha256": found} for name, found in built.files.items()],
            {"hw": built.hw.name, "board": built.board, "clock_mhz": built.clock_mhz},
            summary={"manifest_sha256": digest, "vivado": built.vivado},
        )


def _build_openly(
    hw: str,
    name: str,
    clock: float | None,
    out: Path | None,
    dry_run: bool,
    json: JsonTarget | None,
) -> None:
    """Yosys, nextpnr and ecppack."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.synth.ecp5_bitstream import build_ecp5, describe, write_ecp5_project
    from tilewright.sim.synth.open_board import load_open_board

    config, board = load_hwconfig(hw), load_open_board(name)
    _refuse_clock(clock, f"{name} has the clock of its oscillator, {board.clock_mhz:g} MHz")
    folder = out or Path("build/bitstream") / f"{config.name}-{name}"
    conditions = {"hw": config.name, "board": name, "clock_mhz": board.clock_mhz}
    _take(folder)
    if dry_run:
        script = write_ecp5_project(config, board, folder)
        if problems := board.shortfalls(config):
            say(f"{config.name} does not fit {name}: {', '.join(problems)}")
        say(f"wrote {folder}; where Yosys, nextpnr-ecp5 and ecppack are: {script}")
        _write_files(folder, conditions, json)
        return
    with progress(f"{config.name} on {name}", quiet=json is not None) as steps:
        built = build_ecp5(config, board, folder, steps.say)
    say(describe(built))
    say(f"load it in {folder}: {board.program}")
    if json is not None:
        json.write(
            [
                {"resource": kind, "used": used, "available": built.available[kind]}
                for kind, used in built.used.items()
            ],
            conditions,
            summary={"clock_mhz": built.clock_mhz, "limit_mhz": built.limit_mhz},
        )


def _write_files(folder: Path, conditions: dict[str, Any], json: JsonTarget | None) -> None:
    if json is not None:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        json.write([{"file": str(path.relative_to(folder))} for path in files], conditions)


def _write_recipe(
    hw: str, clock: float | None, out: Path | None, dry_run: bool, json: JsonTarget | None
) -> None:
    """The folder for openXC7."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.sim.synth import openxc7

    _refuse_clock(clock, "the board's Linux sets the clock FCLK0")
    if not dry_run:
        raise UsageError(
            "the tools of openXC7 come from no package registry",
            field="--board",
            value=openxc7.NAME,
            remedy="add --dry-run, and run build.sh in the folder where they are",
        )
    config = load_hwconfig(hw)
    folder = out or Path("build/bitstream") / f"{config.name}-{openxc7.NAME}"
    _take(folder)
    script = openxc7.write_openxc7_project(config, folder)
    say(f"wrote {folder}; where openXC7 is: {script} (nobody has tried it)")
    _write_files(folder, {"hw": config.name, "board": openxc7.NAME}, json)


def _take(folder: Path) -> None:
    """Refuse a folder that holds files of others, before anything is written."""
    from tilewright.host.common.whole_file import own_folder

    require_writable(folder, "--output", own_folder)


def _refuse_clock(clock: float | None, why: str) -> None:
    if clock is not None:
        raise UsageError(why, field="--clock", value=clock, remedy="leave it out")
