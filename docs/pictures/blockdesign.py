# SPDX-License-Identifier: Apache-2.0
"""The block design around the accelerator, held against the script that builds it.

Where a block stands is written here. That it exists, and what is connected to what, is read from
constraints/vivado/block_design.tcl: a line without a connection, or a connection without a line, is
an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from drawing import Drawing

SCRIPT: Final = Path(__file__).resolve().parents[2] / "constraints" / "vivado" / "block_design.tcl"

# Cell: x, y, width, height, head, lines.
BLOCKS: Final = {
    "processor": (10, 40, 135, 290, "processor", "Zynq-7000: AXI3", "UltraScale+: AXI4"),
    "to_registers": (215, 50, 130, 60, "SmartConnect", "to AXI4-Lite"),
    "to_dram": (215, 150, 130, 60, "SmartConnect", "protocol, width"),
    "reset": (215, 260, 130, 60, "proc_sys_reset", "with the clock"),
    "accelerator": (430, 50, 140, 160, "accelerator", "tilewright.v,", "one configuration"),
}

# From, to: buses and single signals. Each is looked for in the script, and no other may be there.
BUSES: Final = (
    ("processor", "to_registers"), ("to_registers", "accelerator"), ("accelerator", "to_dram"),
    ("to_dram", "processor"),
)  # fmt: skip
SIGNALS: Final = (
    ("processor", "reset"), ("reset", "accelerator"), ("reset", "to_registers"),
    ("reset", "to_dram"), ("accelerator", "processor"),
)  # fmt: skip


def connections() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Buses and signals of the script, by cells; the clock, which reaches all, is left out."""
    text = re.sub(r"^ *#.*$", "", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    buses, signals = set(), set()
    for kind, words in re.findall(r"^(link|wire) (.*)$", text, re.MULTILINE):
        if "processor::clock" in words:
            continue
        first, *others = (word.split("/")[0] for word in words.split())
        (buses if kind == "link" else signals).update((first, other) for other in others)
    return buses, signals


def missing() -> list[str]:
    """What the picture shows and the script does not have, or the other way round."""
    text = SCRIPT.read_text(encoding="utf-8")
    wrong = [name for name in BLOCKS if not re.search(rf"\b{name}\b", text)]
    buses, signals = connections()
    for one, other in sorted(buses ^ set(BUSES) | signals ^ set(SIGNALS)):
        wrong.append(f"{one} to {other}")
    return wrong


def draw(theme: str) -> str:
    """The picture."""
    wrong = missing()
    if wrong:
        raise ValueError(f"not as in {SCRIPT.name}: {', '.join(wrong)}")
    art = Drawing(
        width=580,
        height=350,
        theme=theme,
        title="Block design: the processing system reaches the accelerator's registers through one "
        "SmartConnect, the accelerator reaches DRAM through another; one clock, one reset, one "
        "interrupt.",
    )
    for name, (x, y, width, height, head, *lines) in BLOCKS.items():
        fill = "back" if name in {"to_registers", "to_dram", "reset"} else "panel"
        art.box(x, y, width, height, head, *lines, fill=fill)

    def bus(*points: tuple[float, float], words: str, at: tuple[float, float]) -> None:
        art.line(points, colour="blue", width=2, arrow=True)
        art.text(*at, words, size=12, colour="soft", anchor="middle")

    bus((145, 80), (213, 80), words="registers", at=(180, 70))
    bus((345, 80), (428, 80), words="s_axil", at=(380, 70))
    bus((430, 180), (347, 180), words="m_axi", at=(380, 170))
    bus((215, 180), (147, 180), words="HP0", at=(182, 170))
    # Reset, downwards and to the right of the interconnects.
    art.line([(145, 290), (213, 290)], colour="orange", width=1.5, arrow=True)
    art.text(178, 280, "reset", size=12, colour="soft", anchor="middle")
    art.line([(345, 290), (490, 290), (490, 212)], colour="orange", width=1.5, arrow=True)
    art.line([(280, 260), (280, 212)], colour="orange", width=1.5, arrow=True)
    art.line([(412, 290), (412, 130), (280, 130)], colour="orange", width=1.5)
    art.line([(280, 130), (280, 112)], colour="orange", width=1.5, arrow=True)
    art.line([(550, 210), (550, 344), (78, 344), (78, 332)], colour="purple", width=1.5, arrow=True)
    art.text(450, 338, "interrupt", size=12, colour="soft", anchor="middle")
    art.text(570, 26, "one clock, from the processing system, at every block", size=12,
             colour="soft", anchor="end")  # fmt: skip
    return art.svg()
