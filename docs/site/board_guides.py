# SPDX-License-Identifier: Apache-2.0
"""Renews the figures of the from-zero guide for boards, `docs/how-to/first-run.md`.

Figures of its table come from the files of the boards that the table names; the fit of the small
configuration comes from the area model. The rest of the page is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final

from tilewright.host.common import generated_files
from tilewright.host.common.places import ROOT
from tilewright.host.machine.area import fits
from tilewright.host.machine.board import Board, VivadoTarget, load_board, load_vivado_target
from tilewright.host.machine.hwconfig import load_hwconfig

PAGE: Final = "docs/how-to/first-run.md"
SMALL: Final = "tiny-4x4"
FIRST: Final = "pynq-z2"
"""The board of the commands on the page."""

COLUMNS: Final[dict[str, Callable[[Board, VivadoTarget], str]]] = {
    "part, assumed clock": lambda plan, _: f"{plan.part}, {plan.clock_mhz:g} MHz",
    "processor": lambda plan, _: plan.cpu.name,
    "memory port": lambda plan, target: (
        f"HP0, {plan.axi_data_bits}-bit {'AXI3' if target.processor == 'zynq7000' else 'AXI4'}"
    ),
    "registers at": lambda _, target: f"{target.registers_base:#x}",
    "contiguous memory, assumed": lambda plan, _: f"{int(plan.cpu.contiguous_bytes) >> 20} MiB",
}
"""Figures that differ from board to board."""


def guide() -> str:
    """The page with its figures as they are now."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    row = r"^\| ([^|]+) \| `(\w[\w-]+)` \|.*\| ([^|]+) \|$"
    text = re.sub(row, _row, text, flags=re.MULTILINE)
    fit = fits(load_hwconfig(SMALL), load_board(FIRST)).text
    line = rf"^{SMALL} fits {FIRST}: .* \(estimated\)$"
    return re.sub(line, f"{fit} (estimated)", text, flags=re.MULTILINE)


def _row(found: re.Match[str]) -> str:
    """A row of the table of boards, whose name and large configuration stay."""
    title, name, large = found.groups()
    plan, target = load_board(name), load_vivado_target(name)
    figures = (figure(plan, target) for figure in COLUMNS.values())
    return f"| {title} | `{name}` | {' | '.join(figures)} | {large} |"


OUTPUTS: Final = {PAGE: guide}
"""File with generated figures (relative to the repository) and its generator."""


if __name__ == "__main__":
    sys.exit(generated_files.main(OUTPUTS, __doc__))
