# SPDX-License-Identifier: Apache-2.0
"""Build the netlist of a configuration as a simulation library, cached by what decides it.

Two stages: `Stage.PACKED` stops after Yosys has packed DSP slices; the rest is still logic, so that
it builds in seconds. `Stage.CELLS` is the whole netlist. LUTs, carry chains, multiplexers and
flip-flops of it are turned into expressions, for which a C++ compiler takes a sixth of the time;
memories and multipliers keep their cells, whose models are in ``cells/``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import BuildError, ConfigError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.synth.dsp_packing import check_packing
from tilewright.sim.synth.synthesis import synthesis_commands
from tilewright.sim.tools.build_cache import (
    cached_library,
    digest,
    source_text,
)
from tilewright.sim.tools.yosys import copy_sources, read_command, run_yosys, yosys_version
from tilewright.sim.verilator.build import (
    MANIFEST,
    TOP,
    compile_generated,
    generated_inputs,
    read_manifest,
)

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
    manifest: Path = MANIFEST,
    checked: bool = True,
    jobs: int = 2,
) -> Path:
    """The library that simulates the netlist of ``hw``, for `VerilatorDevice(library=...)`."""
    if family not in FAMILIES:
        raise ConfigError(f"must be one of {', '.join(FAMILIES)}", field="family", value=family)
    if stage is Stage.PACKED and family != "xc7":
        raise ConfigError("must be xc7 for the stage packed", field="family", value=family)
    sources = read_manifest(manifest)
    models = [_MODELS / name for name in (f"{family}_logic.v", f"{family}_memory.v", "block_ram.v")]
    commands = [read_command(hw, TOP, sources), *_commands(family, stage)]
    key = "netlist-" + digest(
        [
            *commands,
            *(f"{path.name}\0{source_text(path)}" for path in (*sources, *models)),
            *generated_inputs(),
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
        compile_generated(files, work, output, jobs)
        return {
            "config_hash": hw.config_hash,
            "family": family,
            "stage": stage.value,
            "yosys": yosys_version(),
        }

    return cached_library(key, make)


def _commands(family: str, stage: Stage) -> Sequence[str]:
    synthesis = synthesis_commands(family, TOP)
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
