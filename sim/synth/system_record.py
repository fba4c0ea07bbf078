# SPDX-License-Identifier: Apache-2.0
"""Recorded syntheses of whole systems: the file, its rows, and the table of their page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import yaml

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import ROOT
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.area import Area
from tilewright.host.machine.board import Board, load_board, named_boards
from tilewright.host.machine.system_config import SystemConfig, load_system, named_systems
from tilewright.sim.synth.design import Design, system_design
from tilewright.sim.synth.record import Results
from tilewright.sim.synth.synthesis import family_of, synthesise

SYSTEMS_FILE: Final = ROOT / "constraints" / "synthesis" / "systems.yaml"
SYSTEMS_PAGE: Final = ROOT / "docs" / "explanation" / "multicore-hardware.md"


@dataclass(frozen=True, kw_only=True)
class SystemRow:
    """One recorded synthesis of a system.

    Attributes:
        tool, family, lut, lutram, ff, ramb36, ramb18, dsp, seconds: as in `SynthesisReport`.
    """

    name: str  # of the system
    config_hash: int  # of the system that was synthesised
    rtl: str  # `Design.rtl` of what was synthesised
    tool: str
    family: str
    lut: int
    lutram: int
    ff: int
    ramb36: int
    ramb18: int
    dsp: int
    seconds: float

    @property
    def area(self) -> Area:
        """The counts in the form of an estimate."""
        bram36 = self.ramb36 + -(-self.ramb18 // 2)
        return Area(lut=self.lut, ff=self.ff, bram36=bram36, dsp=self.dsp)


def load_system_rows(path: Path = SYSTEMS_FILE) -> tuple[SystemRow, ...]:
    """Read the record; without a file there is no row."""
    if not path.exists():
        return ()
    data = read_yaml_mapping(path, "the syntheses of systems")
    try:
        return tuple(SystemRow(name=name, **entry) for name, entry in data["systems"].items())
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "must hold systems with their counts",
            field=str(path),
            remedy="make it anew: tilewright synth-record systems NAME",
        ) from error


def smallest_board(system: SystemConfig) -> Board:
    """The board with the fewest LUTs that holds the estimate of a system; of equal ones a PYNQ."""
    design = system_design(system)
    boards = [load_board(name) for name in named_boards()]
    fitting = [board for board in boards if not design.shortfalls(design.estimate, board)]
    if not fitting:
        raise ConfigError("no board of constraints/boards holds it", field=system.name)
    return min(fitting, key=lambda board: (board.lut, "pynq" not in board.name))


def record_systems(
    names: Sequence[str],
    path: Path = SYSTEMS_FILE,
    *,
    note: Callable[[str], object] | None = None,
) -> tuple[SystemRow, ...]:
    """Synthesise systems for the family of the smallest board that holds each; save after each."""
    rows = {row.name: row for row in load_system_rows(path)}
    for name in names or list(rows):
        system = load_system(name)
        design = system_design(system)
        report = synthesise(design, family=family_of(smallest_board(system)))
        counts = asdict(report)
        del counts["config"], counts["memories"]
        rows[system.name] = SystemRow(
            name=system.name, config_hash=system.config_hash, rtl=design.rtl, **counts
        )
        save_system_rows(tuple(rows.values()), path)
        if note is not None:
            note(f"{system.name}: {report.lut:,} LUT, {report.ff:,} FF ({report.family})")
    return tuple(rows.values())


def save_system_rows(rows: Sequence[SystemRow], path: Path = SYSTEMS_FILE) -> None:
    """Write the record."""
    entries = {row.name: {k: v for k, v in asdict(row).items() if k != "name"} for row in rows}
    header = "# Written by `tilewright synth-record systems`.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = header + yaml.safe_dump({"systems": entries}, sort_keys=False)
    path.write_text(text, encoding="utf-8")


def systems_table(rows: Sequence[SystemRow], accelerators: Results) -> str:
    """Markdown: every named system, as Yosys counts it or as estimated."""
    counted = {row.name: row for row in rows}
    alone = {row.hw.config_hash: row.area for row in accelerators.rows}
    lines = [
        "| system | smallest board | LUT | FF | BRAM36 | DSP | by | LUT of cores | est. LUT | FF |",
        "|---|---|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    for name in named_systems():
        system = load_system(name)
        row = counted.get(name)
        if row is not None and row.config_hash != system.config_hash:
            row = None
        lines.append(_line(system_design(system), smallest_board(system), row, alone))
    if rows:
        tools = ", ".join(sorted({row.tool for row in rows}))
        families = " and ".join(sorted({row.family for row in rows}))
        lines += ["", f"Tool: {tools}, family {families}."]
    return "\n".join(lines)


def _line(design: Design, board: Board, row: SystemRow | None, alone: dict[int, Area]) -> str:
    guess = design.estimate
    area = row.area if row else guess
    cores = [alone.get(hw.config_hash) for hw in design.cores]
    known = [core.lut for core in cores if core is not None]
    parts = f"{sum(known):,}" if len(known) == len(cores) else "-"
    errors = f"{guess.lut / area.lut - 1:+.1%} | {guess.ff / area.ff - 1:+.1%}" if row else "- | -"
    return (
        f"| `{design.name}` | `{board.name}` | {area.lut:,} of {board.lut:,} | {area.ff:,} "
        f"| {area.bram36} of {board.bram36} | {area.dsp} of {board.dsp} "
        f"| {'Yosys' if row else 'estimate'} | {parts} | {errors} |"
    )
