# SPDX-License-Identifier: Apache-2.0
"""Stall timeline: what each unit does in each cycle, under two schedules of one layer.

The twin gives the cycles in which each instruction was taken and retired (the same data as
`tilewright sim --trace`); its counters are those of the RTL.
"""

from __future__ import annotations

from typing import Any, Final

from drawing import Drawing

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Unit
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.trace import trace_events

HW: Final = "tiny-4x4"
MEMORY: Final = "pynq-z2"
THREADED: Final = Schedule(tile_h=2, tile_w=14, tile_ci=1, tile_co=2, h_threading=2)
SHOWN: Final = 12_000
"""Cycles on the axis."""

_LEFT: Final = 96
_SCALE: Final = (820 - _LEFT - 36) / SHOWN
_ROW: Final = 26


def draw(theme: str) -> str:
    """The picture."""
    hw, layer = load_hwconfig(HW), conv2d("example", 14, 16, 16, kernel=3, pad=1, stride=1)
    twin = Twin(hw, load_memory(MEMORY))
    art = Drawing(
        width=820, height=420, theme=theme,
        title="What load, gemm, vector and store do in each cycle, untuned and with two threads",
    )  # fmt: skip
    art.text(16, 30, "What each unit does in each cycle", size=16, bold=True)
    art.text(16, 50, f"A 3x3 convolution, 14x14, 16 to 16 channels, {HW}, memory of a {MEMORY}: "
             f"the first {SHOWN:,} cycles", size=12, colour="soft")  # fmt: skip
    panels = (("Untuned schedule", default_schedule(hw, layer)), ("Two threads", THREADED))
    for number, (name, schedule) in enumerate(panels):
        program = lower(hw, layer, schedule).program
        counters, cycles = twin.timeline(program)
        busy = 100 * counters["gemm_busy"] / counters.cycles
        top = 104 + 146 * number
        art.text(16, top, f"{name}: {counters.cycles:,} cycles, GEMM busy {busy:.0f} %", bold=True)
        _units(art, top + 10, list(trace_events(program, cycles)))
    _axis(art, 104 + 146 + 10 + 4 * _ROW + 12)
    for place, (colour, opacity, words) in enumerate(
        (("blue", 1.0, "instruction in the unit"), ("orange", 0.45, "waits for another unit"),
         ("grey", 0.35, "waits for an instruction or a bank"))
    ):  # fmt: skip
        x = _LEFT + (0, 170, 340)[place]
        art.rect(x, 62, 11, 11, fill=colour, opacity=opacity, radius=2)
        art.text(x + 17, 72, words, size=11, colour="soft")
    return art.svg()


def _units(art: Drawing, top: float, events: list[dict[str, Any]]) -> None:
    taken: dict[tuple[int, int], int] = {}
    for unit in Unit:
        art.text(_LEFT - 10, top + _ROW * unit + 16, unit.name.lower(), size=12, anchor="end")
        art.rect(_LEFT, top + _ROW * unit + 2, SHOWN * _SCALE, _ROW - 4, radius=0)
    busy: dict[int, list[list[int]]] = {}
    for event in events:
        unit = event["pid"]
        if event["ph"] == "b":
            taken[unit, event["id"]] = event["ts"]
        elif event["ph"] == "e":
            spans, start = busy.setdefault(unit, []), taken[unit, event["id"]]
            if spans and start <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], event["ts"])
            else:
                spans.append([start, event["ts"]])
        elif event["ph"] == "X":
            token = event["name"] in {f"waits for {each.name}" for each in Unit}
            _bar(art, top, unit, event["ts"], event["ts"] + event["dur"],
                 "orange" if token else "grey", 0.45 if token else 0.35)  # fmt: skip
    for unit, spans in busy.items():
        for start, end in spans:
            _bar(art, top, unit, start, end, "blue", 1)


def _bar(
    art: Drawing, top: float, unit: int, start: int, end: int, colour: str, opacity: float
) -> None:
    if start < SHOWN and end > start:
        end = min(end, SHOWN)
        art.rect(_LEFT + start * _SCALE, top + _ROW * unit + 2, max(0.6, (end - start) * _SCALE),
                 _ROW - 4, fill=colour, opacity=opacity, radius=0)  # fmt: skip


def _axis(art: Drawing, y: float) -> None:
    for cycle in range(0, SHOWN + 1, 2_000):
        x = _LEFT + cycle * _SCALE
        art.line([(x, y - 8), (x, y - 3)])
        art.text(x, y + 9, f"{cycle:,}", size=11, colour="soft", anchor="middle")
    art.text(_LEFT + SHOWN * _SCALE / 2, y + 26, "cycle", size=11, colour="soft", anchor="middle")
