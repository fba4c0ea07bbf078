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
_PORT: Final = re.compile(r"\.(\w+_([io]))\b(?:\s*\(((?:[^()]|\([^()]*\))*)\))?")
_ASSIGN: Final = re.compile(r"^ *assign (\w+)[^=;]*=([^;]*);", re.MULTILINE)
_NAME: Final = re.compile(r"(?<![\w:.'])([a-z]\w*)(?!\w*::)")
_COMMON: Final = frozenset({"aclk", "clk_i", "rst", "rst_i", "halt", "unit_rst", "tw_pkg", "index"})

# Instance: x, y, width, height, head, lines.
BLOCKS: Final = {
    "u_read": (20, 116, 242, 50, "AXI read", "fetch before load, data in order"),
    "u_fetch": (306, 116, 110, 50, "fetch", "prefetches"),
    "u_control": (456, 116, 110, 50, "control", "first error"),
    "u_regs": (606, 116, 110, 50, "registers", "AXI4-Lite"),
    "u_counters": (756, 116, 150, 50, "counters", "35, also on the board"),
    "u_queue": (60, 198, 866, 34, "four queues of 16 instructions, one per unit"),
    "u_load": (20, 274, 110, 126, "LOAD", "strided rows,", "padding"),
    "u_uop": (170, 250, 92, 46, "UOP", "micro-ops"),
    "u_inp": (170, 312, 92, 46, "INP", "activations"),
    "u_wgt": (170, 374, 92, 46, "WGT", "weights"),
    "u_gemm": (306, 274, 110, 126, "GEMM", "one product", "of two tiles", "per cycle"),
    "u_acc": (456, 312, 92, 46, "ACC", "int32, 2 or 4 banks"),
    "u_param": (456, 400, 92, 46, "PARAM", "bias, scale"),
    "u_res": (456, 462, 92, 46, "RES", "residuals"),
    "u_vector": (592, 274, 120, 126, "VECTOR", "bias, requantise,", "residual, clip,", "pooling"),
    "u_out": (756, 312, 74, 46, "OUT", "results"),
    "u_store": (866, 274, 104, 126, "STORE", "strided", "bursts"),
    "u_tokens": (20, 534, 950, 34, "12 token counters, one per ordered pair of units"),
}  # fmt: skip
UNITS: Final = ("u_load", "u_gemm", "u_vector", "u_store")
MEMORIES: Final = ("u_uop", "u_inp", "u_wgt", "u_param", "u_res", "u_acc", "u_out")

# From, to: what flows. Drawn below by hand; each is looked for in the RTL.
FLOWS: Final = (
    ("u_regs", "u_control"), ("u_control", "u_fetch"), ("u_read", "u_fetch"),
    ("u_counters", "u_regs"), ("u_fetch", "u_queue"), ("u_read", "u_load"),
    *(("u_queue", unit) for unit in UNITS), *((unit, "u_tokens") for unit in UNITS),
    *(("u_tokens", unit) for unit in UNITS),
    *(("u_load", memory) for memory in ("u_uop", "u_inp", "u_wgt", "u_param", "u_res", "u_acc")),
    ("u_uop", "u_gemm"), ("u_inp", "u_gemm"), ("u_wgt", "u_gemm"), ("u_gemm", "u_acc"),
    ("u_acc", "u_gemm"), ("u_acc", "u_vector"), ("u_vector", "u_acc"), ("u_param", "u_vector"),
    ("u_res", "u_vector"), ("u_vector", "u_out"), ("u_out", "u_store"),
)  # fmt: skip


def instances() -> dict[str, dict[str, set[str]]]:
    """Signals that each instance of the accelerator drives (``o``) and reads (``i``).

    A port of the core counts as the signal that the system connects to it, and a signal that is
    read also as those that it is assigned from.
    """
    found: dict[str, dict[str, set[str]]] = {}
    outside: dict[str, set[str]] = {}
    for path in sorted(RTL.rglob("*.sv"), key=lambda path: path.stem):  # the system comes first
        text = path.read_text(encoding="utf-8")
        sources: dict[str, set[str]] = {}
        for target, expression in _ASSIGN.findall(text):
            sources.setdefault(target, set()).update(_NAME.findall(expression))
        for _, name, ports in _INSTANCE.findall(text):
            signals = found.setdefault(name, {"i": set(), "o": set()})
            for port, direction, expression in _PORT.findall(ports):
                used = set(_NAME.findall(expression or port))
                if direction == "i":
                    used |= set().union(*(sources.get(each, set()) for each in used))
                signals[direction] |= set().union(*(outside.get(n, {n}) for n in used)) - _COMMON
                if name == "u_core":
                    outside[port] = used
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
    """The picture, if the RTL has each block and a signal behind each arrow."""
    if wrong := missing():
        raise ValueError(f"rtl/ has no {', '.join(wrong)}: change docs/pictures/accelerator.py")
    art = Drawing(
        width=990, height=584, theme=theme,
        title="The accelerator: fetch, four queues, four units, seven scratchpads, tokens",
    )  # fmt: skip
    art.text(20, 32, "The accelerator", size=16, bold=True)
    art.text(190, 32, "four units run at the same time; tokens say when one may go on", size=12,
             colour="soft")  # fmt: skip
    art.box(20, 52, 950, 30, "DRAM (AXI4)", fill="back", line="faint")
    _wires(art)
    for name, (x, y, width, height, head, *lines) in BLOCKS.items():
        edge = "blue" if name in UNITS else "green" if name in MEMORIES else "line"
        art.box(x, y, width, height, head, *lines, line=edge)
    return art.svg()


def _wires(art: Drawing) -> None:
    def flow(*points: tuple[float, float], colour: str = "line", dashes: str = "") -> None:
        art.line(points, colour=colour, width=1.5, arrow=True, dashes=dashes)

    flow((140, 82), (140, 116), colour="blue")  # from DRAM
    flow((262, 141), (306, 141))
    flow((456, 141), (416, 141))
    flow((606, 141), (566, 141))
    flow((756, 141), (716, 141))
    flow((361, 166), (361, 198))
    flow((40, 166), (40, 274), colour="blue")
    for x in (95, 361, 652, 896):  # instructions
        flow((x, 232), (x, 274))
    for y in (273, 335, 397):  # operands of GEMM
        flow((130, min(max(y, 290), 385)), (150, min(max(y, 290), 385)), (150, y), (170, y),
             colour="blue")  # fmt: skip
        flow((262, y), (284, y), (284, min(max(y, 290), 385)), (306, min(max(y, 290), 385)))
    # LOAD also writes ACC, PARAM and RES.
    art.line([(110, 400), (110, 440), (436, 440)], colour="blue", width=1.5)
    flow((436, 440), (436, 350), (456, 350), colour="blue")
    flow((436, 440), (436, 423), (456, 423), colour="blue")
    flow((436, 440), (436, 485), (456, 485), colour="blue")
    flow((416, 336), (456, 336))
    flow((456, 322), (416, 322))
    flow((548, 328), (592, 328))
    flow((592, 344), (548, 344))
    flow((548, 423), (620, 423), (620, 400))
    flow((548, 485), (650, 485), (650, 400))
    flow((712, 335), (756, 335))
    flow((830, 335), (866, 335))
    flow((950, 274), (950, 82), colour="purple")  # to DRAM
    for x in (40, 361, 690, 918):
        art.line([(x, 400), (x, 534)], colour="grey", width=1.5, dashes="4 3")
