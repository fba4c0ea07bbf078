# SPDX-License-Identifier: Apache-2.0
"""Build the netlist of a configuration as a simulation library, cached by what decides it.

The flow stops after Yosys has packed DSP slices, which is where it goes wrong: the rest is still
logic, so that it builds in seconds.
"""

from __future__ import annotations

import importlib.util
import json
import re
import time
from pathlib import Path
from typing import Final

from tilewright.host.errors import BuildError
from tilewright.host.hwconfig import HwConfig
from tilewright.sim.build import (
    MANIFEST,
    TOP,
    compile_generated,
    generated_inputs,
    read_manifest,
)
from tilewright.sim.build_cache import (
    LIBRARY_NAME,
    builder,
    cache_dir,
    digest,
    finished,
    install,
    source_text,
)
from tilewright.sim.dsp_packing import check_packing
from tilewright.sim.synthesis import synthesis_commands
from tilewright.sim.yosys import copy_sources, read_command, run_yosys, yosys_version

_NETLIST: Final = "netlist.v"
_SLICE: Final = "DSP48E1"


def build_netlist(
    hw: HwConfig,
    *,
    manifest: Path = MANIFEST,
    checked: bool = True,
    jobs: int = 2,
) -> Path:
    """The library that simulates the netlist of ``hw``, for `VerilatorDevice(library=...)`.

    Args:
        hw: configuration to synthesise, with its own MAC style.
        manifest: RTL file list.
        checked: refuse what `check_packing` refuses; without, the simulation shows what it does.
        jobs: compilers that may run at a time.

    Raises:
        BuildError: Yosys, Verilator or the compiler refuses, or Yosys packed slices wrongly.
        ToolError: a tool is missing.
    """
    sources = read_manifest(manifest)
    commands = [read_command(hw, TOP, sources), *_commands()]
    key = "netlist-" + digest(
        [
            *commands,
            *(f"{path.name}\0{source_text(path)}" for path in sources),
            *generated_inputs(),
            yosys_version(),
            str(checked),
        ]
    )
    target = cache_dir() / "models" / key
    if (library := finished(target)) is not None:
        return library
    with builder(key) as work:
        if (library := finished(target)) is not None:
            return library
        started = time.perf_counter()
        copy_sources(sources, work)
        run_yosys(commands, work)
        if checked:
            check_packing(work)
        slices = work / "slices.v"
        slices.write_text(_slice_model(), encoding="utf-8")
        result = work / "result"
        result.mkdir()
        compile_generated([work / _NETLIST, slices], work, result / LIBRARY_NAME, jobs)
        record = {
            "config_hash": hw.config_hash,
            "yosys": yosys_version(),
            "seconds": round(time.perf_counter() - started, 3),
        }
        (result / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        install(result, target)
    return target / LIBRARY_NAME


def _commands() -> list[str]:
    """The passes up to the stage ``coarse`` of the flow for the 7 series."""
    synthesis = synthesis_commands("xc7")[:-1]
    return [*synthesis, "opt_clean", "delete t:$scopeinfo", f"write_verilog -noattr {_NETLIST}"]


def _slice_model() -> str:
    """Yosys's own model of a DSP slice, its combinational assignments made blocking.

    Raises:
        BuildError: the installed Yosys has none.
    """
    found = importlib.util.find_spec("pyosys")
    root = Path(found.origin).parent if found is not None and found.origin else Path()
    library = root / "share/xilinx/cells_sim.v"
    text = library.read_text(encoding="utf-8") if library.is_file() else ""
    model = re.search(rf"^module {_SLICE} \(.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    if model is None:
        raise BuildError("Yosys must ship the model of the slice", field=_SLICE, value=str(library))
    return re.sub(r"(always @\* \w+) <=", r"\1 =", model[0]) + "\n"
