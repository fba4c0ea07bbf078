# SPDX-License-Identifier: Apache-2.0
"""Tables of the recorded syntheses in docs/results/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import ROOT
from tilewright.host.machine.area import Area, estimate, shortfalls
from tilewright.host.machine.board import Board, load_board, named_boards
from tilewright.host.machine.clock import clock_estimates
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.sim.synth.fit import HeldOut, held_out
from tilewright.sim.synth.record import ECP5_DEVICE, Results

DOCS_FILE: Final = ROOT / "docs" / "results" / "synthesis.md"
CONFIGURATIONS_FILE: Final = ROOT / "docs" / "results" / "configurations.md"

_COMMAND: Final = "tilewright synth-record write"
TABLE_BEGIN: Final = f"<!-- table: begin ({_COMMAND}) -->"
TABLE_END: Final = "<!-- table: end -->"
HELDOUT_BEGIN: Final = f"<!-- heldout: begin ({_COMMAND}) -->"
HELDOUT_END: Final = "<!-- heldout: end -->"
CONFIGURATIONS_BEGIN: Final = f"<!-- configurations: begin ({_COMMAND}) -->"
CONFIGURATIONS_END: Final = "<!-- configurations: end -->"
SYSTEMS_BEGIN: Final = f"<!-- systems: begin ({_COMMAND}) -->"
SYSTEMS_END: Final = "<!-- systems: end -->"

CLOCKS_PAGE: Final = ROOT / "docs" / "results" / "timing.md"
_CLOCKS_BEGIN: Final = "<!-- clocks: begin (tilewright synth-record write) -->"
_CLOCKS_END: Final = "<!-- clocks: end -->"


def held_out_table(errors: Sequence[HeldOut]) -> str:
    """Markdown: a line each, and the largest error of each kind."""
    lines = ["| row | how held out | LUT | FF | BRAM36 | DSP |", "|---|---|--:|--:|--:|--:|"]
    for error in errors:
        how = "never fitted" if error.fresh else "left out"
        lines.append(
            f"| {error.name} | {how} | {error.lut:+.1%} | {error.ff:+.1%} "
            f"| {error.bram36:+d} | {error.dsp:+d} |"
        )
    for how, fresh in (("left out", False), ("never fitted", True)):
        some = [error for error in errors if error.fresh == fresh]
        if some:
            lines.append(
                f"| largest | {how} | {max(abs(e.lut) for e in some):.1%} "
                f"| {max(abs(e.ff) for e in some):.1%} | {max(abs(e.bram36) for e in some)} "
                f"| {max(abs(e.dsp) for e in some)} |"
            )
    return "\n".join(lines)


def table(results: Results) -> str:
    """Markdown: counts, error of the estimate, the boards that hold it, and the counts on ECP5."""
    boards = [load_board(name) for name in named_boards()]
    marks = _marks(results)
    lines = [
        (
            "| configuration | RTL | LUT | as memory | FF | RAMB36 + 18 | DSP | est. LUT | est. FF "
            f"| fits | ECP5: RTL | LUT4 | FF | DP16KD | MULT18 | {ECP5_DEVICE.name} |"
        ),
        "|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|--:|--:|--:|--:|---|",
    ]
    for row in results.rows:
        guess, area = estimate(row.hw), row.area
        holds = _holders(row.hw, area, boards)
        name = f"`{row.hw.name}`" if row.named else row.hw.name
        ecp5 = row.ecp5
        other = (
            f"{marks[ecp5.rtl]} | {ecp5.lut:,} | {ecp5.ff:,} | {ecp5.dp16kd} | {ecp5.mult18} "
            f"| {'fits' if ecp5.fits else 'too large'}"
            if ecp5
            else "- | - | - | - | - | -"
        )
        lines.append(
            f"| {name} | {marks[row.rtl]} | {row.lut:,} | {row.lutram:,} | {row.ff:,} "
            f"| {row.ramb36} + {row.ramb18} | {row.dsp} "
            f"| {guess.lut / row.lut - 1:+.1%} | {guess.ff / row.ff - 1:+.1%} "
            f"| {holds} | {other} |"
        )
    stated = "; ".join(f"{mark}: {digest}" for digest, mark in marks.items())
    lines += ["", f"Tool: {results.tool}, families {results.family} and ecp5. RTL: {stated}."]
    return "\n".join(lines)


def _marks(results: Results) -> dict[str, str]:
    """A letter for each state of the sources that rows are of, by digest, in the rows' order."""
    digests = [row.rtl for row in results.rows]
    digests += [row.ecp5.rtl for row in results.rows if row.ecp5]
    return dict(zip(dict.fromkeys(digests), ascii_uppercase, strict=False))


def configurations(results: Results) -> str:
    """Markdown: the named configurations as Yosys counts them, or as estimated without a row."""
    boards = [load_board(name) for name in named_boards()]
    counted = {row.hw.name: row.area for row in results.rows if row.named}
    lines = [
        (
            "| name | array (batch x in x out) | MACs per cycle | AXI | LUT | FF | BRAM36 | DSP "
            "| by | fits |"
        ),
        "|---|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    configs = sorted(
        map(load_hwconfig, named_configs()), key=lambda hw: (hw.macs_per_cycle, hw.name)
    )
    for hw in configs:
        area = counted.get(hw.name) or estimate(hw)
        lines.append(
            f"| `{hw.name}` | {hw.batch} x {hw.block_in} x {hw.block_out} | {hw.macs_per_cycle} "
            f"| {hw.axi_data_bits} bit | {area.lut:,} | {area.ff:,} | {area.bram36} | {area.dsp} "
            f"| {'Yosys' if hw.name in counted else 'estimate'} | {_holders(hw, area, boards)} |"
        )
    return "\n".join(lines)


def _holders(hw: HwConfig, area: Area, boards: Sequence[Board]) -> str:
    """Names of the boards whose resources and port suffice; ``none`` or ``all`` where it is so."""
    names = [board.name for board in boards if not shortfalls(hw, area, board)]
    return "all" if len(names) == len(boards) else ", ".join(names) or "none"


def renewed(text: str, results: Results) -> str:
    """docs/results/synthesis.md with its tables replaced by those of ``results``."""
    text = put_table(text, DOCS_FILE, TABLE_BEGIN, TABLE_END, table(results))
    errors = held_out_table(held_out(results.rows))
    return put_table(text, DOCS_FILE, HELDOUT_BEGIN, HELDOUT_END, errors)


def renewed_overview(text: str, results: Results) -> str:
    """docs/results/configurations.md with its table replaced by that of ``results``."""
    content = configurations(results)
    return put_table(text, CONFIGURATIONS_FILE, CONFIGURATIONS_BEGIN, CONFIGURATIONS_END, content)


def clocks() -> str:
    """The recorded estimates of clocks as a table, and what they are of."""
    rows = clock_estimates()
    lines = [
        "| configuration | cells alone, ns | short wires, ns | long wires, ns | clock |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| `{row.config}` | {row.cells_ns:.1f} | {row.short_ns:.1f} | {row.long_ns:.1f} "
            f"| {row} |"
            for row in rows
        ),
    ]
    parts, tools, rtls = (
        ", ".join(dict.fromkeys(each))
        for each in zip(*((row.part, row.tool, row.rtl) for row in rows), strict=True)
    )
    return "\n".join([*lines, "", f"Part and speed grade: {parts}. Tool: {tools}. RTL: {rtls}."])


def renewed_clocks(text: str) -> str:
    """The text of `CLOCKS_PAGE` with its table renewed."""
    return put_table(text, CLOCKS_PAGE, _CLOCKS_BEGIN, _CLOCKS_END, clocks())


def put_table(text: str, page: Path, begin: str, end: str, content: str) -> str:
    """The text of a page with what stands between two marks replaced."""
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ConfigError(f"must hold {begin} and {end}", field=str(page))
    return f"{before}{begin}\n{content}\n{end}{after}"
