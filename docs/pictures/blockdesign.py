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
    "processor": (20, 20, 200, 300, "processing system", "Zynq-7000: AXI3", "UltraScale+: AXI4"),
    "to_registers": (310, 40, 150, 60, "SmartConnect", "to AXI4-Lite"),
    "to_dram": (310, 140, 150, 60, "SmartConnect", "protocol and width"),
    "reset": (310, 250, 150, 60, "proc_sys_reset", "in step with the clock"),
    "accelerator": (550, 40, 170, 160, "accelerator", "tilewright.v", "of one configuration"),
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
        width=740,
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
        art.line(points, colour="blue", width=2.5, arrow=True)
        art.text(*at, words, size=11, colour="soft", anchor="middle")

    bus((220, 70), (310, 70), words="registers", at=(265, 60))
    bus((460, 70), (550, 70), words="s_axil", at=(505, 60))
    bus((550, 170), (460, 170), words="m_axi", at=(505, 160))
    bus((310, 170), (220, 170), words="HP0", at=(265, 160))
    # Reset, downwards and to the right of the interconnects.
    art.line([(220, 280), (310, 280)], colour="orange", width=1.5, arrow=True)
    art.text(265, 270, "reset", size=11, colour="soft", anchor="middle")
    art.line([(460, 280), (635, 280), (635, 200)], colour="orange", width=1.5, arrow=True)
    art.line([(385, 250), (385, 200)], colour="orange", width=1.5, arrow=True)
    art.line([(480, 280), (480, 120), (385, 120)], colour="orange", width=1.5)
    art.line([(385, 120), (385, 100)], colour="orange", width=1.5, arrow=True)
    art.line(
        [(700, 200), (700, 334), (120, 334), (120, 320)], colour="purple", width=1.5, arrow=True
    )
    art.text(520, 328, "interrupt", size=11, colour="soft", anchor="middle")
    art.text(720, 24, "one clock, from the processing system, at every block", size=11,
             colour="soft", anchor="end")  # fmt: skip
    return art.svg()
