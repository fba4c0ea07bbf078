# SPDX-License-Identifier: Apache-2.0
"""`CxxrtlDevice`: the whole RTL in a second simulator, to check the first one; and its build.

Yosys elaborates the accelerator, `write_cxxrtl` makes the C++. The library has the C interface of
the verilated one (harness/capi.h) and the same memory model; the simulator of the RTL shares
nothing with Verilator. The MAC array is elaborated as a device gets it. Modules stay apart: the
compiler needs a third of the time that one flat module takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import BuildError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.tools import build_cache, yosys
from tilewright.sim.tools.toolchain import find_compiler
from tilewright.sim.verilator.build import HARNESS_DIR, TOP, read_manifest
from tilewright.sim.verilator.device import DEFAULT_WATCHDOG_CYCLES, VerilatorDevice

_STEM: Final = "cxxrtl_top"
_HARNESS: Final = ("cxxrtl_simulation.cpp", "memory_model.cpp", "capi.cpp")
_HEADERS: Final = ("bus_simulation.h", "simulation.h", "memory_model.h", "capi.h")
_FLAGS: Final = (
    "-std=gnu++17",
    "-fPIC",
    "-fvisibility=hidden",
    # Models of both simulators live in one process: nothing of one may bind to another.
    "-fno-semantic-interposition",
)
_MODEL_FLAGS: Final = ("-O1", "-w")
_HARNESS_FLAGS: Final = ("-O2", "-Wall", "-Wextra", "-Werror")


def build_cxxrtl(hw: HwConfig, *, manifest: Path | None = None, jobs: int = 2) -> Path:
    """The shared library that simulates ``hw`` with CXXRTL, built when the cache lacks it."""
    tool, runtime = yosys.yosys_version(), yosys.cxxrtl_runtime()
    sources = read_manifest(manifest)
    commands = _commands(hw, sources)
    key = "cxxrtl-" + build_cache.digest(
        [
            *commands,
            *(f"{path.name}\0{build_cache.source_text(path)}" for path in sources),
            *(build_cache.source_text(HARNESS_DIR / name) for name in (*_HARNESS, *_HEADERS)),
            *(*_FLAGS, *_MODEL_FLAGS, *_HARNESS_FLAGS),
            tool,
            find_compiler().version,
        ]
    )

    def make(work: Path, output: Path) -> dict[str, Any]:
        _generate(commands, sources, work)
        _compile(work, runtime, output, jobs)
        return {
            "config_hash": hw.config_hash,
            "yosys": tool,
            "compiler": find_compiler().version,
        }

    return build_cache.cached_library(key, make)


def _commands(hw: HwConfig, sources: Sequence[Path]) -> list[str]:
    """The Yosys passes; files are those of the working folder."""
    return [
        yosys.read_command(hw, TOP, sources, "--keep-hierarchy"),
        f"hierarchy -top {TOP}",
        "proc",
        "opt_clean",  # it also removes the $buf cells, which write_cxxrtl does not know
        f"write_cxxrtl -noflatten -header -g0 {_STEM}.cc",
    ]


def _generate(commands: Sequence[str], sources: Sequence[Path], work: Path) -> None:
    yosys.copy_sources(sources, work)
    yosys.run_yosys(commands, work)
    if not (work / f"{_STEM}.h").is_file():
        raise BuildError("Yosys must write the model", field=f"{_STEM}.h")


def _compile(work: Path, runtime: Path, output: Path, jobs: int) -> None:
    include = [f"-isystem{runtime}", f"-isystem{work}", f"-I{HARNESS_DIR}"]
    tasks = [
        ([*_FLAGS, *_MODEL_FLAGS, *include], work / f"{_STEM}.cc"),
        *(([*_FLAGS, *_HARNESS_FLAGS, *include], HARNESS_DIR / name) for name in _HARNESS),
    ]
    build_cache.link_library(build_cache.compile_objects(tasks, work, jobs), output)


class CxxrtlDevice(VerilatorDevice):
    """A `Device` that runs the RTL as Yosys and CXXRTL understand it.

    Results, error statuses and counters equal those of `VerilatorDevice`, which drives its library
    through the same interface. It is some 40 times slower and records no waves.
    """

    def __init__(
        self,
        hw: HwConfig,
        memory: MemoryModel,
        *,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
        library: Path | None = None,
    ) -> None:
        super().__init__(
            hw,
            memory,
            watchdog_cycles=watchdog_cycles,
            library=library or build_cxxrtl(hw),
        )
