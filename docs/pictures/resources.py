# SPDX-License-Identifier: Apache-2.0
"""Resources of the named configurations as a share of a PYNQ-Z2, from the recorded syntheses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml
from charts import Frame
from drawing import Drawing

from tilewright.host.machine.board import load_board

RESULTS: Final = Path(__file__).resolve().parents[2] / "constraints/synthesis/results.yaml"
BOARD: Final = "pynq-z2"
NAMES: Final = ("tiny-4x4", "edge-8x8", "pynq-16x16", "pynq-16x16-rows", "pynq-16x32")
KINDS: Final = (("LUT", "blue"), ("FF", "orange"), ("BRAM36", "green"), ("DSP", "purple"))


def shares() -> dict[str, dict[str, float]]:
    """Percent of the board, by configuration and kind of resource."""
    board = load_board(BOARD)
    rows = yaml.safe_load(RESULTS.read_text(encoding="utf-8"))["results"]
    return {
        name: {
            "LUT": 100 * rows[name]["lut"] / board.lut,
            "FF": 100 * rows[name]["ff"] / board.ff,
            "BRAM36": 100 * (rows[name]["ramb36"] + rows[name]["ramb18"] / 2) / board.bram36,
            "DSP": 100 * rows[name]["dsp"] / board.dsp,
        }
        for name in NAMES
    }


def draw(theme: str) -> str:
    """The picture."""
    art = Drawing(
        width=820, height=350, theme=theme,
        title="Share of a PYNQ-Z2 that each configuration takes: LUT, FF, block RAM, DSP",
    )  # fmt: skip
    art.text(16, 30, "What a configuration takes of a PYNQ-Z2", size=16, bold=True)
    art.text(16, 50, "Yosys, synthesis for 7-series, before place and route; percent of an xc7z020",
             size=12, colour="soft")  # fmt: skip
    frame = Frame(x=64, y=96, width=736, height=206, right=len(NAMES), top=100)
    frame.horizontals(art, [(v, f"{v} %") for v in range(0, 101, 25)])
    for place, (name, row) in enumerate(shares().items()):
        for number, (kind, colour) in enumerate(KINDS):
            x, y = frame.at(place + 0.12 + 0.195 * number, row[kind])
            width = 0.175 * frame.width / len(NAMES)
            art.rect(x, y, width, frame.y + frame.height - y, fill=colour, radius=1)
            art.text(x + width / 2, y - 5, f"{row[kind]:.0f}", size=11, anchor="middle")
        x, y = frame.at(place + 0.5, 0)
        art.text(x, y + 20, name, anchor="middle", size=12)
    for number, (kind, colour) in enumerate(KINDS):
        art.rect(64 + 90 * number, 68, 11, 11, fill=colour, radius=2)
        art.text(81 + 90 * number, 78, kind, size=11, colour="soft")
    return art.svg()
