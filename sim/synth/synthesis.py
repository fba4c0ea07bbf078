# SPDX-License-Identifier: Apache-2.0
"""Synthesise a `Design` with Yosys and count LUTs, flip-flops, block RAMs and DSPs.

The flow is ``read_slang`` and ``synth_xilinx -flatten`` without I/O buffers, or ``synth_ecp5``:
technology mapping, no placement and no routing (`sim.synth.place_route` does those for ECP5). A
result is cached by the content of everything that decides it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import Board
from tilewright.sim.synth.design import Design
from tilewright.sim.synth.dsp_packing import check_packing, packing_commands
from tilewright.sim.tools.build_cache import builder, cache_dir, keep_json
from tilewright.sim.tools.yosys import run_yosys, yosys_version

FAMILIES: Final = ("xc7", "xcup", "ecp5")
"""The families of `synth_xilinx` that Tilewright's boards have, and Lattice ECP5."""

_MEMORY_LUTS: Final = {
    "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8,
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8,
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4, "RAM512X1S": 8,
    "SRL16E": 1, "SRLC16E": 1, "SRLC32E": 1,
}  # fmt: skip
"""LUTs of a primitive that uses them as memory (Xilinx UG953 and UG974, primitive by primitive)."""


_KINDS: Final[Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "xilinx": {
        "logic": {**{f"LUT{n}": 1 for n in range(1, 7)}, "INV": 1},
        "lutram": _MEMORY_LUTS,
        "ff": {f"FD{kind}E{edge}": 1 for kind in "CPRS" for edge in ("", "_1")},
        "ramb36": {"RAMB36E1": 1, "RAMB36E2": 1},
        "ramb18": {"RAMB18E1": 1, "RAMB18E2": 1},
        "dsp": {"DSP48E1": 1, "DSP48E2": 1},
    },
    # A CCU2C is two LUTs with a carry between. A DPR16X4 fills three pairs of LUTs: four for the
    # data and two for the write port.
    "ecp5": {
        "logic": {"LUT4": 1, "CCU2C": 2},
        "lutram": {"TRELLIS_DPR16X4": 6},
        "ff": {"TRELLIS_FF": 1},
        "ramb36": {},
        "ramb18": {"DP16KD": 1},
        "dsp": {"MULT18X18D": 1},
    },
}
"""Cells of a family's library by the resource that they use, and how many of it each takes."""


@dataclass(frozen=True, kw_only=True)
class Ecp5Device:
    """Resources of a Lattice ECP5 part (Lattice FPGA-DS-02012, ECP5 data sheet, table 1.1)."""

    name: str  # part without speed and package
    lut: int  # four-input LUTs, each with a flip-flop beside it
    dp16kd: int  # 18 Kb block RAMs
    mult18: int  # 18 x 18 multipliers


ECP5_DEVICES: Final = {
    "25k": Ecp5Device(name="LFE5U-25F", lut=24_288, dp16kd=56, mult18=28),
    "45k": Ecp5Device(name="LFE5U-45F", lut=43_848, dp16kd=108, mult18=72),
    "85k": Ecp5Device(name="LFE5U-85F", lut=83_640, dp16kd=208, mult18=156),
}
"""By the name that nextpnr gives to the size."""


@dataclass(frozen=True, kw_only=True)
class MemoryUse:
    """What one memory of the RTL became.

    Attributes:
        ramb36, ramb18: block RAMs (a DP16KD of ECP5 is an 18 Kb block too).
    """

    name: str  # hierarchical name in the RTL
    ramb36: int = 0
    ramb18: int = 0
    lutram: int = 0  # LUTs used as memory


@dataclass(frozen=True, kw_only=True)
class SynthesisReport:
    """Resources of one synthesised configuration.

    Attributes:
        lut: all LUTs: logic (an inverter that is left counts as one) and memory. On ECP5 they
            have four inputs and make the carry chains too.
        ramb36, ramb18: block RAMs by size; DP16KD is an 18 Kb block.
    """

    config: str  # name of the configuration
    family: str  # device family
    tool: str  # name and version of the tool
    lut: int
    lutram: int  # LUTs of those that serve as memory or shift register
    ff: int  # flip-flops
    ramb36: int
    ramb18: int
    dsp: int  # DSP slices, on ECP5 MULT18X18D
    seconds: float  # wall-clock time of the synthesis that made the report
    memories: tuple[MemoryUse, ...]  # memories in block RAM or LUT RAM, largest first

    @property
    def bram36(self) -> int:
        """36 Kb blocks that are occupied; two 18 Kb halves share one."""
        return self.ramb36 + -(-self.ramb18 // 2)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> SynthesisReport:
        """Build from what `dataclasses.asdict` gave."""
        memories = tuple(MemoryUse(**entry) for entry in data["memories"])
        return cls(**{**data, "memories": memories})


def family_of(board: Board) -> str:
    """The `synth_xilinx` family of a board's part."""
    if board.part.startswith("xc7"):
        return "xc7"
    if board.part.startswith(("xczu", "xck26")):
        return "xcup"
    raise ConfigError(
        "must be a 7-series (xc7...) or Zynq UltraScale+ (xczu..., xck26) part",
        field="part",
        value=board.part,
        remedy="for an ECP5 choose the family itself: --family ecp5",
    )


def synthesise(design: Design, *, family: str = "xc7") -> SynthesisReport:
    """Synthesise an accelerator or a system."""
    if family not in FAMILIES:
        raise ConfigError(f"must be one of {', '.join(FAMILIES)}", field="family", value=family)
    tool = yosys_version()
    commands = _commands(design, family)
    key = _key(commands, design.rtl, tool)
    result = cache_dir() / "synthesis" / f"{key}.json"
    with builder(f"synthesis-{key}") as work:
        if (known := _read(result, design.name)) is not None:
            return known
        design.put(work)
        started = time.perf_counter()
        run_yosys(commands, work)
        if family != "ecp5":
            check_packing(work)
        report = _report(design.name, family, tool, time.perf_counter() - started, work)
        keep_json(asdict(report), work, result)
    return report


def _library(family: str) -> Mapping[str, Mapping[str, int]]:
    return _KINDS["ecp5" if family == "ecp5" else "xilinx"]


def _memory_cells(family: str) -> list[tuple[str, str, int]]:
    """Cells that hold memory: (resource, cell, how many of the resource it takes)."""
    library = _library(family)
    return [
        (resource, cell, each)
        for resource in ("ramb36", "ramb18", "lutram")
        for cell, each in library[resource].items()
    ]


def synthesis_commands(family: str, top: str) -> list[str]:
    """The passes from the RTL to the cells of a family; `check_packing` judges those of Xilinx."""
    if family == "ecp5":
        return [f"synth_ecp5 -top {top}"]
    flow = f"synth_xilinx -family {family} -noiopad -flatten -top {top}"
    return [*packing_commands(flow), f"{flow} -run coarse:"]


def _commands(design: Design, family: str) -> list[str]:
    """The Yosys passes; outputs are files of the working folder."""
    return [
        design.read,
        *synthesis_commands(family, design.top),
        "tee -o stat.json stat -json",
        *(
            f"tee -o {index}.cells select -list {design.top}/t:{cell}"
            for index, (_, cell, _) in enumerate(_memory_cells(family))
        ),
    ]


def _key(commands: Sequence[str], rtl: str, tool: str) -> str:
    recipe = [*commands, rtl, tool, json.dumps(_KINDS)]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]


def _read(result: Path, name: str) -> SynthesisReport | None:
    """A stored report under the asking configuration's name; None when there is no whole one."""
    try:
        data = json.loads(result.read_text(encoding="utf-8"))
        return SynthesisReport.from_mapping({**data, "config": name})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _report(config: str, family: str, tool: str, seconds: float, work: Path) -> SynthesisReport:
    stat = json.loads((work / "stat.json").read_text(encoding="utf-8"))
    cells: Mapping[str, int] = stat["design"]["num_cells_by_type"]
    used = {
        resource: sum(each * cells.get(kind, 0) for kind, each in kinds.items())
        for resource, kinds in _library(family).items()
    }
    return SynthesisReport(
        config=config,
        family=family,
        tool=tool,
        lut=used.pop("logic") + used["lutram"],
        **used,
        seconds=round(seconds, 1),
        memories=_memories(family, work),
    )


def _memories(family: str, work: Path) -> tuple[MemoryUse, ...]:
    """Add up the cells of each memory; Yosys names them ``<memory>.<index>.<index>``."""
    uses: dict[str, Counter[str]] = {}
    for index, (resource, _, each) in enumerate(_memory_cells(family)):
        for line in (work / f"{index}.cells").read_text(encoding="utf-8").splitlines():
            name = line.strip().partition("/")[2]
            if match := re.fullmatch(r"(.*\.mem)(\.\d+)+", name):
                uses.setdefault(match[1], Counter())[resource] += each
    found = [MemoryUse(name=name, **counts) for name, counts in uses.items()]
    return tuple(sorted(found, key=lambda m: (-m.ramb36, -m.ramb18, -m.lutram, m.name)))


@dataclass(frozen=True, kw_only=True)
class Resource:
    """How much of one kind of resource a configuration takes."""

    resource: str  # the device's word for it, such as ``LUT``
    used: int  # by the configuration
    available: int  # on the device

    @property
    def fits(self) -> bool:
        """Whether the device has enough of it."""
        return self.used <= self.available


def resources(report: SynthesisReport, device: Board | Ecp5Device) -> tuple[Resource, ...]:
    """What a configuration takes of a board, or of an ECP5 part."""
    if isinstance(device, Ecp5Device):
        pairs = (
            ("LUT4", report.lut, device.lut),
            ("FF", report.ff, device.lut),
            ("DP16KD", report.ramb18, device.dp16kd),
            ("MULT18", report.dsp, device.mult18),
        )
    else:
        pairs = (
            ("LUT", report.lut, device.lut),
            ("FF", report.ff, device.ff),
            ("BRAM36", report.bram36, device.bram36),
            ("DSP", report.dsp, device.dsp),
        )
    return tuple(Resource(resource=n, used=used, available=most) for n, used, most in pairs)


def describe(report: SynthesisReport, design: Design, board: Board) -> tuple[str, bool]:
    """The report against a board as text, and whether the design fits.

    The ports of the board (bus width, burst length) count too.
    """
    found = resources(report, board)
    lines = [
        f"{report.config} on {board.name} ({board.part}), {_conditions(report)}",
        *map(_share, found),
        (
            f"of which {report.lutram:,} LUT as memory; {report.ramb36} RAMB36 and "
            f"{report.ramb18} RAMB18"
        ),
        *_memory_lines(report, "RAMB18"),
    ]
    problems = design.port_shortfalls(board)
    ok = not problems and all(resource.fits for resource in found)
    lines += problems
    lines.append(f"{report.config} {'fits' if ok else 'does not fit'} {board.name}")
    estimate = design.estimate
    lines.append(
        f"the estimate that tuners use: {estimate.lut:,} LUT, {estimate.ff:,} FF, "
        f"{estimate.bram36} BRAM36, {estimate.dsp} DSP"
    )
    return "\n".join(lines), ok


def describe_ecp5(report: SynthesisReport, device: Ecp5Device) -> tuple[str, bool]:
    """The report against an ECP5 part as text, and whether the configuration fits."""
    found = resources(report, device)
    ok = all(resource.fits for resource in found)
    lines = [
        f"{report.config} on {device.name}, {_conditions(report)}",
        *map(_share, found),
        f"of which {report.lutram:,} LUT4 as memory",
        *_memory_lines(report, "DP16KD"),
        f"{report.config} {'fits' if ok else 'does not fit'} {device.name}",
    ]
    return "\n".join(lines), ok


def _conditions(report: SynthesisReport) -> str:
    return (
        f"{report.tool}, {report.family}, {report.seconds:.0f} s, before place and route\n"
        f"{'resource':<10}{'used':>10}{'available':>11}{'percent':>9}"
    )


def _share(resource: Resource) -> str:
    name, used, limit = resource.resource, resource.used, resource.available
    text = f"{name:<10}{used:>10,}{limit:>11,}{100 * used / limit:>8.1f}%"
    return text if resource.fits else f"{text}  too many"


def _memory_lines(report: SynthesisReport, half: str) -> list[str]:
    lines = []
    width = max([34, *(len(memory.name) for memory in report.memories)])
    for memory in report.memories:
        parts = (
            f"{memory.ramb36} RAMB36" if memory.ramb36 else "",
            f"{memory.ramb18} {half}" if memory.ramb18 else "",
            f"{memory.lutram} LUT" if memory.lutram else "",
        )
        lines.append(f"  {memory.name:<{width}}  {', '.join(filter(None, parts))}")
    return lines
