# SPDX-License-Identifier: Apache-2.0
"""`tilewright networks`, `configs`, `boards`, `tuners`, `allocators`: what there is to choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.cli.common import application
from tilewright.cli.common.json_output import JsonOption, JsonTarget

if TYPE_CHECKING:
    from tilewright.host.common.plugins import Registry


@application.app.command(rich_help_panel=application.COMMON)
def doctor(json: JsonOption = None) -> None:
    """Check the tools that simulation needs and say how to get what is missing."""
    from dataclasses import asdict

    from rich.text import Text

    from tilewright.sim.tools.toolchain import doctor as run_checks

    console = application.open_console()
    failed = 0
    checks = run_checks()
    for check in checks:
        failed += check.required and not check.ok
        mark, style = ("ok     ", "green") if check.ok else ("missing", "red")
        if not check.ok and not check.required:
            mark, style = "absent ", "yellow"
        line = Text.assemble((mark, style), f" {check.name}: {check.detail}")
        console.print(line, soft_wrap=True)
        if not check.ok and check.remedy:
            console.say(f"        {check.remedy}")
    if json is not None:
        json.write([asdict(check) for check in checks], {})
    application.require_passed(not failed)


@application.app.command(rich_help_panel=application.TUNE)
def networks(json: JsonOption = None) -> None:
    """List the built-in networks with what the accelerator runs of them."""
    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.network.zoo import load_network, network_names

    table = plain_table("name", "layers", "shapes", "million MACs", "thousand weights")
    rows = []
    for name in network_names():
        found = load_network(name)
        row = {
            "name": name,
            "layers": sum(layer.count for layer in found.workloads),
            "shapes": len(found.workloads),
            "macs": found.macs,
            "weights": found.weight_elements,
        }
        rows.append(row)
        table.add_row(
            name,
            str(row["layers"]),
            str(row["shapes"]),
            f"{found.macs / 1e6:,.1f}",
            f"{found.weight_elements / 1e3:,.1f}",
        )
    print_table(table, application.open_console())
    if json is not None:
        json.write(rows, {})


@application.app.command(rich_help_panel=application.BOARDS)
def configs(json: JsonOption = None) -> None:
    """List the named hardware configurations with their area."""
    from dataclasses import asdict

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.machine.area import estimate
    from tilewright.host.machine.hwconfig import load_hwconfig, named_configs

    table = plain_table("name", "geometry", "AXI", "INP/WGT/ACC KiB", "LUT", "FF", "BRAM36", "DSP")
    rows = []
    for name in named_configs():
        hw, area = load_hwconfig(name), estimate(load_hwconfig(name))
        rows.append({"name": name, **hw.parameters(), "area": asdict(area)})
        sizes = (hw.inp_bytes, hw.wgt_bytes, hw.acc_bytes)
        table.add_row(
            name,
            f"{hw.batch}x{hw.block_in}x{hw.block_out}",
            str(hw.axi_data_bits),
            "/".join(str(size // 1024) for size in sizes),
            *(f"{n:,}" for n in (area.lut, area.ff, area.bram36, area.dsp)),
        )
    print_table(table, application.open_console())
    if json is not None:
        json.write(rows, {"area": "estimate of host.machine.area"})


@application.app.command(rich_help_panel=application.BOARDS)
def boards(json: JsonOption = None) -> None:
    """List the known boards with their resources, clock and AXI port."""
    from dataclasses import asdict

    from tilewright.host.common.print_table import plain_table, print_table
    from tilewright.host.machine.board import load_board, named_boards

    table = plain_table("name", "part", "LUT", "FF", "BRAM36", "DSP", "MHz", "AXI", left=2)
    rows = []
    for name in named_boards():
        board = load_board(name)
        rows.append(asdict(board))
        table.add_row(
            name,
            board.part,
            *(f"{n:,}" for n in (board.lut, board.ff, board.bram36, board.dsp)),
            f"{board.clock_mhz:g}",
            str(board.axi_data_bits),
        )
    print_table(table, application.open_console())
    if json is not None:
        json.write(rows, {})


@application.app.command(rich_help_panel=application.TUNE)
def tuners(json: JsonOption = None) -> None:
    """List the search algorithms with what each one uses."""
    from tilewright.tuner.search import TUNERS, Offer, taken_by

    def track(name: str) -> str:
        return "grey-box" if Offer.PRIOR in taken_by(name) else "black-box"

    _print_registry(TUNERS, "what it does", json, track=track)


@application.app.command(rich_help_panel=application.TUNE)
def allocators(json: JsonOption = None) -> None:
    """List what can decide which layer is measured next, with what each one uses."""
    from tilewright.tuner.allocate import ALLOCATORS

    _print_registry(ALLOCATORS, "the next slot goes to", json)


def _print_registry(
    registry: Registry[Any],
    summary: str,
    json: JsonTarget | None,
    **columns: Callable[[str], str],
) -> None:
    """Print the parts of a registry; what is wrong with a plug-in stands in its line."""
    from rich.markup import escape
    from rich.table import Table

    from tilewright.host.common.errors import TilewrightError
    from tilewright.host.common.print_table import print_table

    table = Table(registry.noun, *columns, "packages", summary, box=None, pad_edge=False)
    rows = []
    for name in registry:
        try:
            entry, about = registry.find(name), registry.summary(name)
            packages = entry.source or ", ".join(entry.packages) or "-"
            cells = [*(cell(name) for cell in columns.values()), packages]
        except TilewrightError as error:
            cells, about = ["-"] * (len(columns) + 1), f"BROKEN: {error}"
        table.add_row(*map(escape, (name, *cells, about)))
        headings = ("name", *columns, "packages", "summary")
        rows.append(dict(zip(headings, (name, *cells, about), strict=True)))
    console = application.open_console()
    print_table(table, console)
    for line in registry.hidden():
        console.say(line)
    if json is not None:
        json.write(rows, {})
