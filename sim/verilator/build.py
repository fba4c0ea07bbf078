# SPDX-License-Identifier: Apache-2.0
"""Build the verilated accelerator as a shared library, cached by the content of its inputs.

Layout of the cache (`cache_dir`)::

    models/<key>/libtilewright.so, build.json    one elaborated configuration
    objects/<key>.o, <key>.sha256                run-time and harness objects, shared by models
    locks/<key>.lock                             one builder per key
    work/<key>.<random>/                         builds in progress

A result is made in ``work`` and renamed into place, so that it is complete or absent.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import HOST_DIR, ROOT, SIM_DIR
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.host.machine.system_config import SystemConfig
from tilewright.sim.tools import toolchain
from tilewright.sim.tools.build_cache import (
    cache_dir,
    cached_library,
    cached_object,
    compile_objects,
    digest,
    link_library,
    native_target,
    run_compiler,
    source_text,
    tool_failure,
)
from tilewright.sim.verilator.elaboration import GENERAL, elaborated, sources
from tilewright.sim.verilator.registered_top import (
    WRAPPER,
    clock_edge,
    clock_history,
    registered_top,
)
from tilewright.sim.verilator.rtl_variant import STOCK, read_manifest, rtl_manifest
from tilewright.sim.verilator.system_top import TOP as SYSTEM_TOP
from tilewright.sim.verilator.system_top import system_sources, system_top

__all__ = [
    "CHECKS",
    "HARNESS_DIR",
    "LINT_WAIVERS",
    "MANIFEST",
    "TOP",
    "build_memory_model",
    "build_model",
    "cache_dir",
    "compiler_flags",
    "read_manifest",
    "runtime_units",
    "shared_object",
]

MANIFEST: Final = STOCK
HARNESS_DIR: Final = SIM_DIR / "harness"
_INSTRUCTIONS: Final = HOST_DIR / "machine" / "generated" / "instructions.h"
"""What the data path reads besides the files of its folder."""
LINT_WAIVERS: Final = Path(__file__).resolve().parent / "lint.vlt"
CHECKS: Final = tuple(
    SIM_DIR / "verify" / "checks" / f"{name}.sv"
    for name in (
        "axi_protocol",
        "axil_protocol",
        "bind_protocol",
        "control_checks",
        "fifo_checks",
        "bind_boundary",
        "unit_checks",
        "bind_units",
    )
)
"""Assertions of every simulation of the RTL: the protocols of both ports of the accelerator, no
push into a full queue, an idle bus between runs, what units promise each other."""
SYSTEM_CHECKS: Final = (
    *(path for path in CHECKS if path.name not in ("axil_protocol.sv", "bind_protocol.sv")),
    *(CHECKS[0].with_name(f"{name}.sv") for name in ("grant_checks", "slot_checks", "bind_system")),
)
"""Those of every simulation of a system: the same of cores and their units, the protocol of each
core's side of an arbiter, what an arbiter grants, the bounds of each descriptor."""
SYSTEM_FIDELITIES: Final = (Fidelity.RTL, Fidelity.TIMING)
"""What Verilator can simulate a system at."""
_BOUNDARY_CHECKS: Final = 3
"""Of `CHECKS`, the first so many look at the ports alone: a variant of the RTL keeps those."""
TOP: Final = "tilewright_top"

_STANDARD: Final = "-std=gnu++17"
_COMMON_FLAGS: Final = (
    _STANDARD,
    "-fPIC",
    "-fvisibility=hidden",
    # Several models live in one process: nothing of one library may bind to another.
    "-fno-semantic-interposition",
    "-faligned-new",
    "-DVERILATOR=1",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
    "-DVM_TRACE_VCD=0",
    "-DVM_TRACE_SAIF=0",
    "-DVM_VPI=0",
    # verilator_stops.cpp turns these into exceptions; the defaults end the process.
    "-DVL_USER_STOP",
    "-DVL_USER_FATAL",
    "-DVL_USER_FINISH",
)
_HARNESS_WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")
_FAST: Final = "-O2"
"""Optimisation of what is ours or Verilator's own, compiled once for all models."""
_HOT: Final = "-O1"
"""Of generated code: -O2 takes 1.6 to 2.5 times as long to compile and is 0.97 to 1.005 times as
fast (g++ 12; rtl at 4x4, 8x8 and 16x16, dpi and timing at 4x4)."""
_DATA_PATH_FLAGS: Final = ("-O3", "-march=native")
"""Arithmetic in C++ uses what the CPU has; the CPU is part of the key (`native_target`)."""
_ONCE: Final = "-O0"
"""Of generated code that runs once (constructors, resets), and of models that count coverage: ten
times the code, few cycles."""

_VERILATOR_FLAGS: Final = (
    "--cc",
    "--assert",
    "--no-timing",
    "-Wall",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "unique",  # zeros, or random bits when a simulation asks for them
)

_COVERAGE_FLAGS: Final = ("--coverage-line", "--coverage-toggle")
"""Line coverage of Verilator includes branches."""


def build_model(
    design: HwConfig | SystemConfig,
    *,
    waves: bool = False,
    coverage: bool = False,
    checks: bool = True,
    fidelity: Fidelity = Fidelity.RTL,
    manifest: Path | None = None,
    jobs: int = 2,
) -> Path:
    """The shared library that simulates a core or a system, built when the cache lacks it."""
    if isinstance(design, SystemConfig):
        recipe = _system_recipe(design, fidelity=fidelity, checks=checks)
    else:
        recipe = _recipe(
            design,
            waves=waves,
            coverage=coverage,
            checks=checks,
            fidelity=fidelity,
            manifest=manifest,
        )

    def make(work: Path, output: Path) -> dict[str, Any]:
        verilate(recipe, work / "verilated")
        compile_model(recipe, work, output, jobs)
        return {
            "parameters": dict(recipe.parameters),
            "fidelity": fidelity.value,
            "config_hash": recipe.config_hash,
            "waves": waves,
            "coverage": coverage,
            "verilator": toolchain.find_verilator().version,
            "compiler": toolchain.find_compiler().version,
        }

    return cached_library(recipe.key, make)


def build_memory_model() -> Path:
    """The memory model alone as a shared library (see memory_capi.cpp), for tests."""
    names = ("memory_model.cpp", "memory_capi.cpp")
    flags = (_FAST, *compiler_flags())
    key = "memory-" + digest([*flags, toolchain.find_compiler().version, *_harness_texts()])

    def make(work: Path, output: Path) -> dict[str, Any]:
        del work
        sources = [str(HARNESS_DIR / name) for name in names]
        run_compiler([*flags, *_HARNESS_WARNINGS, "-shared", *sources, "-o", str(output)])
        return {}

    return cached_library(key, make)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides what a build gives, of an accelerator or a system of several."""

    sources: Sequence[Path]
    fidelity: Fidelity
    key: str = ""
    config_hash: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    waves: bool = False
    coverage: bool = False
    wrapper: str = ""
    """Text of the simulation's top; empty: the RTL's own."""
    compat: Sequence[str] = ()
    """Include flags of the stand-ins for missing libraries."""
    libraries: Sequence[str] = ()
    options: Sequence[str] = ()
    """Further options of Verilator."""
    top: str = TOP
    written: str = ""
    """Text of the top where it is generated."""
    ports: int = 0
    """Memory ports of a system; 0: one core."""

    @property
    def general(self) -> bool:
        """One build serves every configuration of a bus width."""
        return self.fidelity in GENERAL and not self.ports


def _recipe(
    hw: HwConfig,
    *,
    waves: bool,
    manifest: Path | None,
    coverage: bool = False,
    checks: bool = True,
    fidelity: Fidelity = Fidelity.RTL,
) -> Recipe:
    hw = elaborated(hw, fidelity)
    manifest = rtl_manifest() if manifest is None else manifest
    values = {p.rtl_name: str(getattr(hw, p.name)) for p in PARAMETERS}
    if fidelity in GENERAL:
        values["DataPath"] = "0"
        checks = False
    values["ConfigHash"] = f"32'h{hw.config_hash:08x}"
    compat, libraries = wave_libraries() if waves else ([], [])
    kept = CHECKS if manifest == STOCK else CHECKS[:_BOUNDARY_CHECKS]
    files = [*sources(read_manifest(manifest), fidelity), *(kept if checks else ())]
    # Waves and coverage show the design without the wrapper.
    wrapper = "" if waves or coverage else registered_top(map(source_text, files), TOP)
    included = sorted(p for ext in ("*.svh", "*.vh") for p in manifest.parent.rglob(ext))
    inputs = [
        *(f"{path.name}\0{source_text(path)}" for path in (*files, *included, LINT_WAIVERS)),
        *_harness_texts(),
        json.dumps(values, sort_keys=True),
        *_VERILATOR_FLAGS,
        *(_COVERAGE_FLAGS if coverage else ()),
        *compiler_flags(waves=waves, coverage=coverage),
        *(_FAST, _HOT, _ONCE, *_DATA_PATH_FLAGS, *_HARNESS_WARNINGS),
        *libraries,
        wrapper,
        fidelity.value,
        *(native_target() if fidelity is Fidelity.DPI else ()),
        toolchain.find_verilator().version,
        toolchain.find_compiler().version,
    ]
    return Recipe(
        key=digest([json.dumps(item) for item in inputs]),
        config_hash=hw.config_hash,
        sources=files,
        wrapper=wrapper,
        parameters=values,
        waves=waves,
        coverage=coverage,
        fidelity=fidelity,
        compat=compat,
        libraries=libraries,
    )


def _system_recipe(system: SystemConfig, *, fidelity: Fidelity, checks: bool) -> Recipe:
    if fidelity not in SYSTEM_FIDELITIES:
        raise ConfigError(
            "a system must be simulated at one of these",
            field="fidelity",
            value=fidelity.value,
            remedy=f"use one of {', '.join(SYSTEM_FIDELITIES)}",
        )
    data = fidelity is Fidelity.RTL
    top = system_top(system)
    files = [*system_sources(), *(SYSTEM_CHECKS if checks and data else ())]
    wrapper = registered_top([top], SYSTEM_TOP)
    inputs = [
        *(top, wrapper, fidelity.value),
        *(f"{path.name}\0{source_text(path)}" for path in (*files, LINT_WAIVERS)),
        *generated_inputs(),
    ]
    return Recipe(
        key="system-" + digest([json.dumps(item) for item in inputs]),
        config_hash=system.config_hash,
        sources=files,
        parameters={"DataPath": str(int(data))},
        fidelity=fidelity,
        wrapper=wrapper,
        top=SYSTEM_TOP,
        written=top,
        ports=system.memory_ports,
    )


_GENERATED_FLAGS: Final = ("-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT")
"""What lint says about Verilog that a tool wrote is of no use."""


def compile_generated(sources: Sequence[Path], work: Path, output: Path, jobs: int = 2) -> None:
    """Compile Verilog that a tool made of the accelerator: its ports, no parameters."""
    recipe = Recipe(sources=sources, fidelity=Fidelity.RTL, options=_GENERATED_FLAGS)
    verilate(recipe, work / "verilated")
    compile_model(recipe, work, output, jobs)


def generated_inputs() -> list[str]:
    """What decides, beside its sources, which library `compile_generated` makes."""
    return [
        *_harness_texts(),
        *(*_VERILATOR_FLAGS, *_GENERATED_FLAGS, *compiler_flags()),
        *(_FAST, _HOT, _ONCE, *_HARNESS_WARNINGS),
        toolchain.find_verilator().version,
        toolchain.find_compiler().version,
    ]


def verilate(recipe: Recipe, folder: Path) -> None:
    """Let Verilator generate the model of a recipe in a new folder."""
    folder.mkdir()
    written = {recipe.top: recipe.written, WRAPPER: recipe.wrapper}
    texts = {folder.parent / f"{name}.sv": text for name, text in written.items() if text}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    command = [
        *_VERILATOR_FLAGS,
        *(["--trace-fst"] if recipe.waves else []),
        *(_COVERAGE_FLAGS if recipe.coverage else ()),
        *recipe.options,
        *(f"-G{name}={value}" for name, value in recipe.parameters.items()),
        "--top-module",
        WRAPPER if recipe.wrapper else recipe.top,
        "--prefix",
        f"V{recipe.top}",
        "--Mdir",
        str(folder),
        str(LINT_WAIVERS),
        *(str(path) for path in (*recipe.sources, *texts)),
    ]
    run_verilator(command)


def run_verilator(arguments: Sequence[str]) -> None:
    """Let Verilator generate a model."""
    verilator = toolchain.find_verilator()
    done = subprocess.run(
        [str(verilator.path), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=verilator.full_environment(),
    )
    if done.returncode != 0:
        raise tool_failure("Verilator refuses the RTL", done.stderr + done.stdout, r"^%")


def wave_libraries() -> tuple[list[str], list[str]]:
    """What recording needs: include flags of stand-ins for missing libraries, and the others."""
    compat: list[str] = []
    libraries: list[str] = []
    for header, library, folder in (("lz4.h", "lz4", "lz4"), ("zlib.h", "z", "zlib")):
        if toolchain.has_library(header, library):
            libraries.append(f"-l{library}")
        else:
            compat.append(f"-I{HARNESS_DIR / 'compat' / folder}")
    return compat, libraries


def compile_model(recipe: Recipe, work: Path, output: Path, jobs: int) -> None:
    """Compile the generated code and the harness, link them with the shared objects."""
    verilated = work / "verilated"
    include = toolchain.verilator_include(toolchain.find_verilator())
    common = [
        *compiler_flags(waves=recipe.waves, coverage=recipe.coverage),
        # What the model prints goes to the harness: the text of an assertion becomes its error.
        "-DVL_PRINTF=tilewright_model_print",
        f"-include{HARNESS_DIR / 'model_print.h'}",
        f"-isystem{verilated}",
        f"-isystem{include}",
        f"-isystem{include / 'vltstd'}",
    ]
    tasks: list[tuple[list[str], Path]] = []
    for index, (flag, files) in enumerate(_unity_groups(verilated, jobs)):
        unit = work / f"unit{index}.cpp"
        included = [f'#include "{path}"\n' for path in files]
        if flag == _HOT:
            headers = _before_hot_code(verilated, recipe.top)
            included[:0] = [f'#include "{name}"\n' for name in headers]
        unit.write_text("".join(included), encoding="utf-8")
        tasks.append(([_ONCE if recipe.coverage else flag, "-w", *common], unit))
    forms = (
        f"-DTILEWRIGHT_PORTS={recipe.ports}",
        f"-DTILEWRIGHT_BYTES={int(recipe.fidelity is not Fidelity.TIMING)}",
        f"-DTILEWRIGHT_GEOMETRY={int(recipe.general)}",
        f"-DTILEWRIGHT_DATA={int(recipe.fidelity is Fidelity.DPI)}",
        *(_edge_flags(verilated) if recipe.wrapper else ()),
    )
    tasks.append(([_FAST, *_HARNESS_WARNINGS, *common, *forms], HARNESS_DIR / "simulation.cpp"))
    if recipe.fidelity is Fidelity.DPI:
        data = HARNESS_DIR / "data_path.cpp"
        tasks.append(([*_DATA_PATH_FLAGS, *_HARNESS_WARNINGS, f"-I{ROOT}", *common], data))

    units = runtime_units(verilated, f"V{recipe.top}")
    shared = [(["-w"], include / f"{name}.cpp") for name in units]
    shared += [
        ([*_HARNESS_WARNINGS], HARNESS_DIR / name)
        for name in ("memory_model.cpp", "capi.cpp", "verilator_stops.cpp")
    ]
    runtime_flags = [_FAST, *common, *recipe.compat]

    def compile_shared(task: tuple[list[str], Path]) -> str:
        flags, source = task
        return str(shared_object(source, [*runtime_flags, *flags], recipe.waves))

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        objects = list(pool.map(compile_shared, shared))
    objects += compile_objects(tasks, work, jobs)
    link_library(objects, output, *recipe.libraries)


def _edge_flags(verilated: Path) -> list[str]:
    """How the harness makes the model take a clock edge (see `sim.verilator.registered_top`)."""
    edge = clock_edge(verilated)
    return [
        f"-DTILEWRIGHT_CLOCK_HISTORY={clock_history(verilated)}",
        *([f"-DTILEWRIGHT_CLOCK_EDGE={edge}"] if edge else ()),
    ]


def _before_hot_code(verilated: Path, top: str) -> list[Path]:
    """The headers that generated code needs, then what changes the code behind them."""
    return [*sorted(verilated.glob(f"V{top}*.h")), HARNESS_DIR / "rare_branches.h"]


def _unity_groups(verilated: Path, jobs: int) -> list[tuple[str, list[Path]]]:
    """(optimisation flag, files) of each compilation: hot files over ``jobs`` even groups."""
    files = sorted(verilated.glob("*.cpp"))
    slow = [path for path in files if "__Slow" in path.name or "__Syms" in path.name]
    hot = sorted(
        (path for path in files if path not in slow), key=lambda p: p.stat().st_size, reverse=True
    )
    groups: list[list[Path]] = [[] for _ in range(max(1, min(jobs, len(hot))))]
    for path in hot:
        min(groups, key=lambda group: sum(p.stat().st_size for p in group)).append(path)
    return [*((_HOT, group) for group in groups), *([(_ONCE, slow)] if slow else [])]


def runtime_units(verilated: Path, prefix: str = f"V{TOP}") -> list[str]:
    """Names of the run-time sources that Verilator lists for the model."""
    text = (verilated / f"{prefix}_classes.mk").read_text(encoding="utf-8")
    units: list[str] = []
    for variable in ("VM_GLOBAL_FAST", "VM_GLOBAL_SLOW"):
        match = re.search(rf"^{variable} \+= \\\n((?:[ \t]+\S+ \\\n)*)", text, re.MULTILINE)
        if match is not None:
            units += [word for word in match[1].split() if word != "\\"]
    return units


def shared_object(source: Path, flags: Sequence[str], waves: bool) -> Path:
    """An object file that every model of the same flags and tools links."""
    headers = (
        _harness_texts()
        if source.parent == HARNESS_DIR
        else [source_text(HARNESS_DIR / "model_print.h")]
    )
    # Model-specific include paths are no part of what these sources see.
    stable = [flag for flag in flags if not flag.startswith(("-I", "-isystem", "-include"))]
    compat = [Path(flag[2:]).name for flag in flags if flag.startswith("-I")]
    key = f"{source.stem}-" + digest(
        [
            *stable,
            *compat,
            str(waves),
            source_text(source),
            *headers,
            toolchain.find_verilator().version,
            toolchain.find_compiler().version,
        ]
    )
    return cached_object(
        key, lambda target: run_compiler([*flags, "-c", str(source), "-o", str(target)])
    )


def compiler_flags(*, waves: bool = False, coverage: bool = False) -> list[str]:
    """Flags that every object of a model is compiled with."""
    flags = [
        *_COMMON_FLAGS,
        f"-DVM_COVERAGE={int(coverage)}",
        f"-DVM_TRACE={int(waves)}",
        f"-DVM_TRACE_FST={int(waves)}",
    ]
    if "clang" not in toolchain.find_compiler().version:
        flags.append("-fno-gnu-unique")
    return flags


def _harness_texts() -> list[str]:
    files = sorted(
        path
        for ext in ("*.h", "*.cpp")
        for path in HARNESS_DIR.rglob(ext)
        if not path.name.startswith("cxxrtl_")
    )
    texts = [f"{path.relative_to(HARNESS_DIR)}\0{source_text(path)}" for path in files]
    return [*texts, source_text(_INSTRUCTIONS)]
