# SPDX-License-Identifier: Apache-2.0
"""What measures at each fidelity: what runs a program, and what its cycles rest on.

A new one is one entry of `BACKENDS` with functions that worker processes can import.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import ISA_VERSION, HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, RunResult
from tilewright.sim.executor.devices import run_on_device, run_on_fidelity
from tilewright.sim.twin.build import build_twin, twin_inputs
from tilewright.sim.twin.device import Twin
from tilewright.sim.verilator.build import HARNESS_DIR, build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.elaboration import RUNTIME
from tilewright.sim.verilator.rtl_variant import read_manifest, rtl_manifest

KEPT_TWINS: Final = 8
"""Twins that a worker keeps; the least recently used one goes first."""

LOWERING: Final = "tilewright.host.lowering"
"""What makes programs of schedules; it counts with every module of `host` that it imports."""


class Run(Protocol):
    """Runs a program in this process, on a device that may stay open for the next one."""

    def __call__(
        self, hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
    ) -> RunResult:
        """Run to FINISH; see `Device.run`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What measures at one fidelity.

    Attributes:
        prepare: does in a worker, once, what a configuration needs (a build).
        batch: requests that travel to a worker together; more than 1 pays off when a trial takes
            less time than a round trip.
    """

    fidelity: Fidelity  # as stored with each measurement
    run: Run  # runs a program in a worker
    prepare: Callable[[HwConfig], None]
    sources: Callable[[], Sequence[Path]]  # files that decide how many cycles a program takes
    batch: int = 1


def rtl_sources() -> list[Path]:
    """The RTL and the memory model."""
    return [*read_manifest(), *sorted(HARNESS_DIR.glob("memory_model.*"))]


def build_rtl(hw: HwConfig) -> None:
    """Verilate and compile a configuration, without the assertions on its AXI ports.

    They cost 1.18 times the run time and change no cycle; the memory model checks the protocol too.
    """
    build_model(hw, jobs=1, checks=False)


def run_rtl(
    hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
) -> RunResult:
    """Run on the RTL in Verilator; see `Run`."""
    return run_on_device(hw, memory, VerilatorDevice.run, program, image, max_cycles=max_cycles)


def control_sources() -> list[Path]:
    """The RTL, what stands in for its data, and the memory model."""
    return [*rtl_sources(), *sorted(RUNTIME.glob("*")), *sorted(HARNESS_DIR.glob("data_path.*"))]


def twin_sources() -> list[Path]:
    """The twin, and the RTL that it stands for."""
    return [*rtl_sources(), *twin_inputs()]


def build_native_twin(_hw: HwConfig) -> None:
    """Compile the twin, which serves every configuration."""
    build_twin()


def run_dpi(
    hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
) -> RunResult:
    """Run on the control RTL with the data in C++; see `Run`."""
    return run_on_fidelity(
        Fidelity.DPI, hw, memory, VerilatorDevice.run, program, image, max_cycles=max_cycles
    )


def run_timing(
    hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
) -> RunResult:
    """Run on the control RTL without data; see `Run`."""
    return run_on_fidelity(
        Fidelity.TIMING, hw, memory, VerilatorDevice.run, program, image, max_cycles=max_cycles
    )


def build_dpi(hw: HwConfig) -> None:
    """Verilate and compile the control RTL of a bus width, with data in C++."""
    build_model(hw, jobs=1, fidelity=Fidelity.DPI)


def build_timing(hw: HwConfig) -> None:
    """Verilate and compile the control RTL of a bus width."""
    build_model(hw, jobs=1, fidelity=Fidelity.TIMING)


def run_twin(
    hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
) -> RunResult:
    """Count on the twin: the memory stays as it was; see `Run`."""
    started = time.perf_counter()
    counters = _twin(hw, memory).counters(program, max_cycles=max_cycles)
    return RunResult(memory=image, counters=counters, host_seconds=time.perf_counter() - started)


@functools.lru_cache(maxsize=KEPT_TWINS)
def _twin(hw: HwConfig, memory: MemoryModel) -> Twin:
    return Twin(hw, memory)


def run_board(
    hw: HwConfig, memory: MemoryModel, program: Program, image: Bytes, *, max_cycles: int
) -> RunResult:
    """Refuse: a worker process has no board."""
    del memory, program, image, max_cycles
    raise ConfigError(
        "boards are measured through their agents",
        field="fidelity",
        value=Fidelity.BOARD.value,
        remedy=f"name a pool of boards (--boards) that can hold {hw.name}",
    )


BACKENDS: Final = {
    backend.fidelity: backend
    for backend in (
        Backend(
            # The bitstream stands for the sources: `BoardOracle.identity` adds its digest.
            fidelity=Fidelity.BOARD,
            run=run_board,
            prepare=lambda _: None,
            sources=list,
        ),
        Backend(fidelity=Fidelity.RTL, run=run_rtl, prepare=build_rtl, sources=rtl_sources),
        Backend(fidelity=Fidelity.DPI, run=run_dpi, prepare=build_dpi, sources=control_sources),
        Backend(
            fidelity=Fidelity.TIMING, run=run_timing, prepare=build_timing, sources=control_sources
        ),
        Backend(
            fidelity=Fidelity.TWIN, run=run_twin, prepare=build_native_twin, sources=twin_sources
        ),
    )
}


def backend_of(name: str) -> Backend:
    """What measures at the fidelity of a name."""
    try:
        return BACKENDS[Fidelity(name)]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            "no fidelity of that name that measures",
            field="fidelity",
            value=name,
            remedy=f"use one of {', '.join(BACKENDS)}",
        ) from error


def identity_of(name: str) -> str:
    """Name and digest of everything besides a request that its cycles depend on.

    The sources of the fidelity and of the lowering: measurements made before one of them changed
    are not taken for measurements of today.
    """
    return _identity(name, rtl_manifest())


@functools.cache
def _identity(name: str, _rtl: Path) -> str:
    digest = hashlib.sha256(f"isa{ISA_VERSION}".encode())
    for path in (*backend_of(name).sources(), *_module_files(LOWERING)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{name}-{digest.hexdigest()[:16]}"


def _module_files(name: str) -> list[Path]:
    """The file of a module and those of the modules of its layer that it needs, in order."""
    layer = name.rpartition(".")[0]
    found: dict[str, Path] = {}
    pending = [name]
    while pending:
        module = pending.pop()
        spec = None if module in found else importlib.util.find_spec(module)
        if spec is None or not spec.has_location or spec.origin is None:
            continue
        found[module] = Path(spec.origin)
        pending += [
            wanted
            for wanted in _imports(found[module])
            if wanted.startswith(f"{layer}.") and _is_module(wanted)
        ]
    return [found[module] for module in sorted(found)]


def _imports(path: Path) -> Iterator[str]:
    """Modules, and names that may be modules, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a name inside a module that is no package
        return False
