# SPDX-License-Identifier: Apache-2.0
"""The netlist of a configuration as a simulation library, compared with the reference.

Its build is cached by what decides it and has two stages: `Stage.PACKED` stops after Yosys has
packed DSP slices; the rest is still logic, so that it builds in seconds. `Stage.CELLS` is the whole
netlist. LUTs, carry chains, multiplexers and flip-flops of it are turned into expressions, for
which a C++ compiler takes a sixth of the time; memories and multipliers keep their cells, whose
models are in ``cells/``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import BuildError, ConfigError, DeviceError
from tilewright.host.common.names import counted
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.synth.dsp_packing import check_packing
from tilewright.sim.synth.synthesis import synthesis_commands
from tilewright.sim.tools import build_cache
from tilewright.sim.tools.yosys import copy_sources, read_command, run_yosys, yosys_version
from tilewright.sim.verilator import build
from tilewright.sim.verilator.device import VerilatorDevice

FAMILIES: Final = ("xc7", "ecp5")
"""Families whose cells have models here."""

_MODELS: Final = Path(__file__).resolve().parent / "cells"
_NETLIST: Final = "netlist.v"
_SLICE: Final = "DSP48E1"


class Stage(Enum):
    """How far a netlist is made."""

    PACKED = "packed"
    CELLS = "cells"


def build_netlist(
    hw: HwConfig,
    *,
    family: str = "xc7",
    stage: Stage = Stage.CELLS,
    manifest: Path | None = None,
    checked: bool = True,
    jobs: int = 2,
) -> Path:
    """The library that simulates the netlist of ``hw``, for `VerilatorDevice(library=...)`."""
    if family not in FAMILIES:
        raise ConfigError(f"must be one of {', '.join(FAMILIES)}", field="family", value=family)
    if stage is Stage.PACKED and family != "xc7":
        raise ConfigError("must be xc7 for the stage packed", field="family", value=family)
    sources = build.read_manifest(manifest)
    models = [_MODELS / name for name in (f"{family}_logic.v", f"{family}_memory.v", "block_ram.v")]
    commands = [read_command(hw, build.TOP, sources), *_commands(family, stage)]
    key = "netlist-" + build_cache.digest(
        [
            *commands,
            *(f"{path.name}\0{build_cache.source_text(path)}" for path in (*sources, *models)),
            *build.generated_inputs(),
            yosys_version(),
            str(checked),
        ]
    )

    def make(work: Path, output: Path) -> dict[str, Any]:
        copy_sources((*sources, *models), work)
        run_yosys(commands, work)
        if family != "ecp5" and checked:
            check_packing(work)
        slices = work / "slices.v"
        slices.write_text(_slice_model() if family == "xc7" else "", encoding="utf-8")
        files = [work / _NETLIST, slices, *(work / path.name for path in models[1:])]
        build.compile_generated(files, work, output, jobs)
        return {
            "config_hash": hw.config_hash,
            "family": family,
            "stage": stage.value,
            "yosys": yosys_version(),
        }

    return build_cache.cached_library(key, make)


def _commands(family: str, stage: Stage) -> Sequence[str]:
    synthesis = synthesis_commands(family, build.TOP)
    if stage is Stage.PACKED:
        # Without the stages from `coarse` on; Verilog has no form of the cell $bwmux.
        synthesis = [*synthesis[:-1], "bwmuxmap"]
    else:
        # Without vectors: parts of one that depend on each other are a loop for Verilator.
        synthesis += [f"techmap -autoproc -map {family}_logic.v", "splitnets"]
    return [*synthesis, "opt_clean", "delete t:$scopeinfo", f"write_verilog -noattr {_NETLIST}"]


def _slice_model() -> str:
    """Yosys's own model of a DSP slice, its combinational assignments made blocking."""
    found = importlib.util.find_spec("pyosys")
    root = Path(found.origin).parent if found is not None and found.origin else Path()
    library = root / "share/xilinx/cells_sim.v"
    text = library.read_text(encoding="utf-8") if library.is_file() else ""
    model = re.search(rf"^module {_SLICE} \(.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    if model is None:
        raise BuildError("Yosys must ship the model of the slice", field=_SLICE, value=str(library))
    return re.sub(r"(always @\* \w+) <=", r"\1 =", model[0]) + "\n"


_INSTRUCTIONS = 60
"""Most random instructions in a program."""
_MAX_CYCLES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A program that did not end on the netlist as on the reference."""

    program: int  # its number, from 0
    text: str  # the error of the device, or how many bytes of memory differ


def differences(
    hw: HwConfig,
    library: Path,
    rng: np.random.Generator,
    programs: int,
    *,
    done: Callable[[], None] = lambda: None,
) -> Iterator[Difference]:
    """Run random programs on a netlist."""
    with closing(VerilatorDevice(hw, load_memory("ideal"), library=library)) as device:
        for number in range(programs):
            if number:
                done()
            count = int(rng.integers(3, _INSTRUCTIONS))
            program, image = random_program(hw, rng, instructions=count)
            expected = ReferenceDevice(hw).run(program, image)
            try:
                run = device.run(program, image, max_cycles=_MAX_CYCLES)
            except DeviceError as error:
                yield Difference(program=number, text=str(error))
                continue
            wrong = int(np.count_nonzero(run.memory != expected.memory))
            if wrong:
                text = f"wrong in memory: {counted(wrong, 'byte')}"
                yield Difference(program=number, text=text)
