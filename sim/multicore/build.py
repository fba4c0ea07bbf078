# SPDX-License-Identifier: Apache-2.0
"""Build the verilated RTL of a system as a shared library, in the cache of all models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import SIM_DIR
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.system_config import SystemConfig
from tilewright.sim.multicore.top import TOP, system_sources, system_top
from tilewright.sim.tools.build_cache import cached_library, digest, source_text
from tilewright.sim.verilator.build import (
    CHECKS,
    HARNESS_DIR,
    LINT_WAIVERS,
    Recipe,
    compile_model,
    generated_inputs,
    verilate,
)
from tilewright.sim.verilator.registered_top import registered_top

SIMULATION: Final = Path(__file__).resolve().parent / "harness" / "system_simulation.cpp"

_CHECKS_DIR: Final = SIM_DIR / "verify" / "checks"
SYSTEM_CHECKS: Final = (
    *(path for path in CHECKS if path.name not in ("axil_protocol.sv", "bind_protocol.sv")),
    *(_CHECKS_DIR / f"{name}.sv" for name in ("grant_checks", "slot_checks", "bind_system")),
)
"""Assertions of every simulation of a system: those of cores and of their units, the protocol of
each core's side of an arbiter, what an arbiter grants, the bounds of each descriptor."""


FIDELITIES: Final = (Fidelity.RTL, Fidelity.TIMING)
"""What a system can be simulated at."""


def build_system(
    system: SystemConfig,
    *,
    fidelity: Fidelity = Fidelity.RTL,
    checks: bool = True,
    jobs: int = 2,
) -> Path:
    """The shared library that simulates a system, built when the cache does not hold it."""
    if fidelity not in FIDELITIES:
        raise ConfigError(
            "a system must be simulated at one of these",
            field="fidelity",
            value=fidelity.value,
            remedy=f"use one of {', '.join(FIDELITIES)}",
        )
    data = fidelity is Fidelity.RTL
    checks = checks and data
    top = system_top(system)
    sources = [*system_sources(), *(SYSTEM_CHECKS if checks else ())]
    wrapper = registered_top([top], TOP)
    inputs = [
        top,
        wrapper,
        fidelity.value,
        *(f"{path.name}\0{source_text(path)}" for path in (*sources, LINT_WAIVERS, SIMULATION)),
        *generated_inputs(),
    ]

    def make(work: Path, output: Path) -> dict[str, Any]:
        written = work / f"{TOP}.sv"
        written.write_text(top, encoding="utf-8")
        recipe = Recipe(
            key="",
            sources=[*sources, written],
            parameters={"DataPath": str(int(data))},
            waves=False,
            coverage=False,
            fidelity=Fidelity.RTL,
            wrapper=wrapper,
            compat=(),
            libraries=(),
            top=TOP,
            simulation=SIMULATION,
            defines=(
                f"-DTILEWRIGHT_PORTS={system.memory_ports}",
                f"-DTILEWRIGHT_BYTES={int(data)}",
                f"-I{HARNESS_DIR}",
            ),
        )
        verilate(recipe, work / "verilated")
        compile_model(recipe, work, output, jobs)
        return {
            "system": system.name,
            "config_hash": system.config_hash,
            "fidelity": fidelity.value,
        }

    return cached_library("system-" + digest([json.dumps(item) for item in inputs]), make)
