# SPDX-License-Identifier: Apache-2.0
"""Other ways to run the same model, for comparison: a testbench in C++ alone, and cocotb."""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import BuildError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.host.machine.program import Program
from tilewright.sim.tools.toolchain import find_compiler
from tilewright.sim.verify.cocotb_runner import Bench, run_bench
from tilewright.sim.verilator.build import HARNESS_DIR, LINT_WAIVERS, TOP, read_manifest

HERE = Path(__file__).resolve().parent
Bytes = npt.NDArray[np.uint8]


def plain_runs(
    library: Path, hw: HwConfig, program: Program, image: Bytes, *, runs: int, folder: Path
) -> list[tuple[int, float]]:
    """(cycles, CPU seconds) of some runs under a testbench in C++ alone, on memory ``ideal``."""
    binary, data = folder / "plain_simulation", folder / "image.bin"
    if not binary.is_file():
        command = [str(find_compiler().path), "-std=gnu++17", "-O2", f"-I{HARNESS_DIR}"]
        source = HERE / "plain_simulation.cpp"
        built = subprocess.run(
            [*command, str(source), "-o", str(binary), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise BuildError(built.stderr, field=source.name)
    image.tofile(data)
    ideal = load_memory("ideal")
    done = subprocess.run(
        [
            str(binary),
            str(library),
            str(hw.axi_burst_beats),
            str(program.regions["insn"].offset),
            str(program.instruction_count),
            str(data),
            str(runs),
            str(ideal.read_latency),
            str(ideal.write_latency),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the plain testbench failed: {done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return [(int(cycles), float(seconds)) for cycles, seconds in rows]


def cocotb_run(hw: HwConfig, program: Program, image: Bytes, *, folder: Path) -> tuple[int, float]:
    """(cycles, CPU seconds) of a program on the top as cocotb drives it, AXI slaves in Python."""
    image.tofile(folder / "image.bin")
    settings = {
        "insn_base": program.regions["insn"].offset,
        "insn_count": program.instruction_count,
    }
    (folder / "layer.json").write_text(json.dumps(settings), encoding="utf-8")
    values = {p.rtl_name: getattr(hw, p.name) for p in PARAMETERS}
    bench = Bench(
        top=TOP,
        sources=[LINT_WAIVERS, *read_manifest()],
        parameters={**values, "ConfigHash": f"32'd{hw.config_hash}"},
    )
    run_bench(
        bench,
        "cocotb_layer",
        search_path=HERE,
        cache=folder / "cocotb",
        seed=secrets.randbelow(2**31),
        variables={"TILEWRIGHT_LAYER": str(folder)},
    )
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return int(result["cycles"]), float(result["seconds"])
