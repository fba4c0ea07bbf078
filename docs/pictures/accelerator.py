# SPDX-License-Identifier: Apache-2.0
"""Block diagram of the accelerator, held against the RTL.

Where a block stands is written here. That it exists, and that an arrow stands for a signal that one
instance drives and the other reads, is read from the sources: an arrow without a signal is an
error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from drawing import Drawing

RTL: Final = Path(__file__).resolve().parents[2] / "rtl"

_INSTANCE: Final = re.compile(
    r"^ *(tw_\w+)(?:\s*#\((?:[^;]*?)\))?\s+(u_\w+)\s*\(\n(.*?)\);", re.MULTILINE | re.DOTALL
)
_PORT: Final = re.compile(r"\.(\w+)_([io])\s*\(((?:[^()]|\([^()]*\))*)\)")
_NAME: Final = re.compile(r"(?<![\w:.'])([a-z]\w*)(?!\w*::)")
_COMMON: Final = frozenset({"clk", "halt", "unit_rst", "tw_pkg", "index"})

# Instance: x, y, width, height, head, lines.
BLOCKS: Final = {
    "u_regs": (20, 60, 150, 62, "registers", "AXI4-Lite", "35 counters"),
    "u_control": (20, 140, 150, 62, "control", "first error, watchdog", "soft reset"),
    "u_fetch": (20, 246, 150, 50, "fetch", "instructions, in order"),
    "u_tokens": (20, 330, 150, 62, "tokens", "12 dependency", "counters"),
    "u_queue": (210, 246, 590, 50, "four queues of 16 instructions", "one per unit"),
    "u_load": (210, 330, 125, 62, "LOAD", "strided rows,", "padding"),
    "u_gemm": (362, 330, 125, 62, "GEMM", "one tile product", "per cycle"),
    "u_vector": (514, 330, 125, 62, "VECTOR", "bias, requantise,", "residual, pooling"),
    "u_store": (675, 330, 125, 62, "STORE", "bursts without", "a gap"),
    "u_uop": (210, 436, 90, 46, "UOP", "micro-ops"),
    "u_inp": (310, 436, 90, 46, "INP", "activations"),
    "u_wgt": (410, 436, 90, 46, "WGT", "weights"),
    "u_acc": (410, 506, 90, 46, "ACC", "int32, 4 banks"),
    "u_param": (510, 436, 90, 46, "PARAM", "scale, bias"),
    "u_res": (610, 436, 90, 46, "RES", "residuals"),
    "u_out": (710, 436, 90, 46, "OUT", "int8 results"),
    "u_read": (210, 140, 290, 62, "AXI read", "fetch before load,", "data in order"),
}  # fmt: skip
UNITS: Final = ("u_load", "u_gemm", "u_vector", "u_store")
MEMORIES: Final = ("u_uop", "u_inp", "u_wgt", "u_param", "u_res", "u_acc", "u_out")

# From, to: what flows. Drawn below by hand; each is looked for in the RTL.
FLOWS: Final = (
    ("u_regs", "u_control"), ("u_control", "u_fetch"), ("u_read", "u_fetch"),
    ("u_fetch", "u_queue"), ("u_read", "u_load"), *(("u_queue", unit) for unit in UNITS),
    *((unit, "u_tokens") for unit in UNITS), *(("u_tokens", unit) for unit in UNITS),
    *(("u_load", memory) for memory in ("u_uop", "u_inp", "u_wgt", "u_param", "u_res", "u_acc")),
    ("u_uop", "u_gemm"), ("u_inp", "u_gemm"), ("u_wgt", "u_gemm"), ("u_gemm", "u_acc"),
    ("u_acc", "u_vector"), ("u_param", "u_vector"), ("u_res", "u_vector"), ("u_vector", "u_out"),
    ("u_out", "u_store"),
)  # fmt: skip


def instances() -> dict[str, dict[str, set[str]]]:
    """Signals that each instance of the accelerator drives (``o``) and reads (``i``)."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted(RTL.rglob("*.sv")):
        for _, name, ports in _INSTANCE.findall(path.read_text(encoding="utf-8")):
            signals = found.setdefault(name, {"i": set(), "o": set()})
            for _, direction, expression in _PORT.findall(ports):
                signals[direction] |= set(_NAME.findall(expression)) - _COMMON
    return found


def missing() -> list[str]:
    """Blocks and arrows of the picture that the RTL does not have."""
    found = instances()
    wrong = [name for name in BLOCKS if name not in found]
    return wrong + [
        f"{start} to {end}"
        for start, end in FLOWS
        if not {start, end} & set(wrong) and not found[start]["o"] & found[end]["i"]
    ]


def draw(theme: str) -> str:
    """The picture.

    Raises:
        ValueError: the RTL has no such block or no signal behind an arrow.
    """
    if wrong := missing():
        raise ValueError(f"rtl/ has no {', '.join(wrong)}: change docs/pictures/accelerator.py")
    art = Drawing(
        width=820, height=578, theme=theme,
        title="The accelerator: fetch, four queues, four units, seven scratchpads",
    )  # fmt: skip
    art.rect(8, 48, 804, 522, fill="back", line="faint", radius=8)
    art.text(20, 30, "The accelerator", size=16, bold=True)
    art.text(800, 30, "AXI4 to DRAM at the top; numbers are int8 unless said", size=11,
             colour="soft", anchor="end")  # fmt: skip
    for name, (x, y, width, height, head, *lines) in BLOCKS.items():
        unit, memory = name in UNITS, name in MEMORIES
        edge = "blue" if unit else "green" if memory else "line"
        art.box(x, y, width, height, head, *lines, line=edge)
    art.box(210, 60, 290, 44, "DRAM, read channel", fill="back", line="faint")
    art.box(675, 60, 125, 44, "DRAM, write", fill="back", line="faint")
    _wires(art)
    return art.svg()


def _wires(art: Drawing) -> None:
    def flow(*points: tuple[float, float], colour: str = "line", dashes: str = "") -> None:
        art.line(points, colour=colour, width=1.5, arrow=True, dashes=dashes)

    flow((355, 104), (355, 140))
    flow((95, 122), (95, 140))
    flow((95, 202), (95, 246))
    flow((210, 171), (190, 171), (190, 262), (170, 262))
    flow((170, 280), (210, 280))
    for x in (290, 424, 576, 737):
        flow((x, 296), (x, 330))
    # AXI read data pass by the queues to LOAD.
    flow((222, 202), (222, 222), (198, 222), (198, 361), (210, 361), colour="blue")
    art.text(228, 218, "data", size=11, colour="soft")
    # Tokens.
    flow((170, 376), (188, 376), (188, 412), (780, 412), (780, 392), colour="grey", dashes="4 3")
    for x in (325, 375, 527):
        flow((x, 412), (x, 392), colour="grey", dashes="4 3")
    art.text(100, 416, "tokens order the units", size=11, colour="soft", anchor="middle")
    # LOAD writes the six memories that hold operands, GEMM reads three.
    flow((240, 392), (240, 436), colour="blue")
    flow((240, 424), (340, 424), (340, 436), colour="blue")
    flow((340, 424), (440, 424), (440, 436), colour="blue")
    flow((440, 424), (540, 424), (540, 436), colour="blue")
    flow((540, 424), (640, 424), (640, 436), colour="blue")
    flow((285, 482), (285, 529), (410, 529), colour="blue")
    art.text(290, 544, "LOAD writes ACC too", size=11, colour="soft")
    # GEMM to ACC, ACC to VECTOR, VECTOR to OUT, OUT to STORE.
    flow((425, 482), (425, 506), colour="orange")
    flow((470, 482), (470, 506), colour="orange")
    art.text(476, 499, "products", size=11, colour="soft")
    flow((500, 529), (655, 529), (655, 482), colour="purple")
    flow((500, 540), (755, 540), (755, 482), colour="purple")
    art.text(520, 560, "sums go through VECTOR, with PARAM and RES, to OUT", size=11, colour="soft")
    flow((740, 436), (740, 392), colour="purple")
    flow((760, 330), (760, 104), colour="purple")
