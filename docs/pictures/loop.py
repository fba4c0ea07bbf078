# SPDX-License-Identifier: Apache-2.0
"""The closed loop: who proposes, who refuses, who measures, who remembers; with the folders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drawing import Drawing

ROOT: Final = Path(__file__).resolve().parents[2]

# x, y, head, folder, line.
STEPS: Final = (
    (30, 84, "Tuner", "tuner/search", "asks for points"),
    (230, 84, "Legal? Does it fit?", "host/machine", "else refused, with a reason"),
    (430, 84, "Lower", "host/lowering", "to a program"),
    (630, 84, "Measure", "sim/verilator", "the RTL itself, bit-exact"),
    (630, 232, "Count", "host/runtime", "35 counters on the chip"),
    (430, 232, "Store", "tuner/store", "every trial, at once"),
    (230, 232, "Report", "tuner/report", "best network, stalls, bound"),
)
WIDTH: Final = 165
HEIGHT: Final = 76


def draw(theme: str) -> str:
    """The picture, if each folder that it names is there."""
    if gone := [place for _, _, _, place, _ in STEPS if not (ROOT / place).is_dir()]:
        raise ValueError(f"no folder {', '.join(gone)}: change docs/pictures/loop.py")
    art = Drawing(
        width=825, height=346, theme=theme,
        title="The closed loop: tuner, legality, lowering, the RTL, counters, store, report",
    )  # fmt: skip
    art.text(30, 36, "The closed loop", size=16, bold=True)
    art.text(30, 58, "A point is a configuration of the RTL and a schedule for each layer.",
             size=12, colour="soft")  # fmt: skip
    for x, y, head, place, line in STEPS:
        edge = "orange" if head == "Measure" else "blue" if head == "Tuner" else "line"
        art.box(x, y, WIDTH, HEIGHT, head, line, place, line=edge)
    for x, _, *_ in STEPS[:3]:
        art.line([(x + WIDTH, 122), (x + 200, 122)], width=1.5, arrow=True)
    art.line([(712, 160), (712, 232)], width=1.5, arrow=True)
    art.text(722, 200, "cycles", size=12, colour="soft")
    art.line([(630, 270), (595, 270)], width=1.5, arrow=True)
    art.line([(430, 270), (395, 270)], width=1.5, arrow=True)
    art.line([(512, 232), (512, 200), (112, 200), (112, 160)], colour="blue", width=1.5, arrow=True)
    art.text(
        300, 193, "tells the tuner: cycles of this point", size=12, colour="blue", anchor="middle"
    )
    return art.svg()
