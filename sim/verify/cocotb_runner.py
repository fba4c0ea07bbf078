# SPDX-License-Identifier: Apache-2.0
"""Build and run a cocotb bench on Verilator: cached builds, a seed, readable failures.

A bench is an HDL top with parameters and a Python module with cocotb tests. Builds are kept in a
cache folder by the content of everything that enters them, and Verilator's run-time objects are
compiled once for all of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from tilewright.host.common.errors import BuildError, TilewrightError
from tilewright.sim.tools import toolchain
from tilewright.sim.tools.build_cache import cached_object, digest, run_compiler, source_text
from tilewright.sim.verilator.build import run_verilator, runtime_units

SEED_VARIABLE: Final = "TILEWRIGHT_SEED"
"""Environment variable that carries the seed into the bench."""

_DONE: Final = "complete"
_LOG_LINES: Final = 60
_PREFIX: Final = "Vtop"
"""Of the model, as cocotb's main program calls it."""
_BUILD_ARGS: Final = (
    *("--cc", "--vpi", "-Wall", "--assert", "--no-timing", "--timescale", "1ns/1ns"),
)
_FLAGS: Final = (
    *("-std=gnu++17", "-O0", "-w", "-pthread", "-faligned-new", "-DVERILATOR=1", "-DVM_VPI=1"),
    *(f"-DVM_{name}=0" for name in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST")),
    *("-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0"),
)
"""A bench runs shorter than it is compiled: nothing of its own code is optimised."""
_HEADER: Final = "".join(
    f"#include <{name}>\n"
    for name in ("libgen.h", "stdio.h", "memory", "string", "verilated_dpi.h", "verilated_vpi.h")
)
_INSTALL: Final = "pip install cocotb==2.1.0"


class BenchError(TilewrightError):
    """A cocotb test failed, or the simulation ended without a result."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What is elaborated.

    Attributes:
        parameters: values of the top's parameters.
    """

    top: str  # HDL top module; its signals are visible to the tests, those below are not
    sources: Sequence[Path]  # SystemVerilog and `.vlt` files in dependency order
    parameters: Mapping[str, int | str] = field(default_factory=dict)

    def key(self) -> str:
        """Hash of everything that the build depends on."""
        parts = [
            *(self.top, json.dumps(dict(self.parameters), sort_keys=True), _INSTALL),
            *(*_BUILD_ARGS, *_FLAGS, *_tools()),
            *(f"{source.name}\0{source_text(source)}" for source in self.sources),
        ]
        return digest(parts)[:20]


def build_bench(bench: Bench, *, cache: Path) -> Path:
    """Build a bench unless the cache has it."""
    folder = cache / f"{bench.top}-{bench.key()}"
    with _locked(folder.with_suffix(".lock")):
        if (folder / _DONE).exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            _build(bench, folder)
        except BuildError as error:
            raise BuildError(
                f"the bench does not build ({error})",
                field=bench.top,
                value=dict(bench.parameters),
            ) from error
        (folder / _DONE).touch()
    return folder


def _build(bench: Bench, folder: Path) -> None:
    """Verilate and compile, the generated code and cocotb's main program as one unit."""
    visible = folder / "visible.vlt"
    visible.write_text(
        f'`verilator_config\npublic_flat_rw -module "{bench.top}" -var "*"\n', encoding="utf-8"
    )
    run_verilator(
        [
            *_BUILD_ARGS,
            *(f"-G{name}={value}" for name, value in bench.parameters.items()),
            *("--top-module", bench.top, "--prefix", _PREFIX, "--Mdir", str(folder)),
            *map(str, (visible, *bench.sources)),
        ]
    )
    places = _cocotb("config")
    main = places.share_dir / "lib" / "verilator" / "verilator.cpp"
    unit = folder / "unit.cpp"
    files = [*sorted(path.name for path in folder.glob("*.cpp")), main]
    unit.write_text("".join(f'#include "{path}"\n' for path in files), encoding="utf-8")
    header = folder / "before.h"
    header.write_text(_HEADER, encoding="utf-8")
    include = toolchain.verilator_include(toolchain.find_verilator())
    flags = [*_FLAGS, f"-I{include}", f"-I{include / 'vltstd'}"]
    header.with_name(f"{header.name}.gch").symlink_to(_precompiled(flags))
    objects = [_runtime_object(include / f"{n}.cpp", flags) for n in runtime_units(folder, _PREFIX)]
    run_compiler(
        [
            *(*flags, f"-include{header}", f"-I{folder}", str(unit), *map(str, objects)),
            *(f"-Wl,-rpath,{places.libs_dir}", f"-L{places.libs_dir}", "-lcocotbvpi_verilator"),
            *("-rdynamic", "-latomic", "-ldl", "-o", str(folder / bench.top)),
        ]
    )


def _precompiled(flags: Sequence[str]) -> Path:
    """What every unit begins with, half a second of each compilation; the compiler maps it."""

    def compile_to(target: Path) -> None:
        text = target.with_suffix(".h")
        text.write_text(_HEADER, encoding="utf-8")
        run_compiler([*flags, "-x", "c++-header", str(text), "-o", str(target)])

    return cached_object("header-" + digest([_HEADER, *flags, *_tools()]), compile_to)


def _runtime_object(source: Path, flags: Sequence[str]) -> Path:
    """A part of Verilator's run time, which is the same in every bench."""
    optimised = [*flags, "-O1"]
    return cached_object(
        f"bench-{source.stem}-" + digest([source_text(source), *optimised, *_tools()]),
        lambda target: run_compiler([*optimised, "-c", str(source), "-o", str(target)]),
    )


def _tools() -> list[str]:
    verilator = toolchain.find_verilator()
    return [verilator.version, str(verilator.path), toolchain.find_compiler().version]


def run_bench(
    bench: Bench,
    module: str,
    *,
    search_path: Path,
    cache: Path,
    seed: int,
    variables: Mapping[str, str] | None = None,
    test_filter: str | None = None,
    wall_seconds: int = 900,
) -> int:
    """Build (or reuse) a bench and run the cocotb tests of a module."""
    folder = build_bench(bench, cache=cache)
    name = f"{module}-{os.getpid()}"
    results, log = folder / f"{name}.xml", folder / f"{name}.log"
    python_path = os.pathsep.join(
        [str(search_path), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    )
    environment = {
        **_tool_variables(toolchain.find_verilator()),
        **(variables or {}),
        "COCOTB_ANSI_OUTPUT": "0",
        SEED_VARIABLE: str(seed),
    }
    if limiter := shutil.which("timeout"):
        environment["SIM_CMD_PREFIX"] = f"{limiter} --signal=KILL {wall_seconds}"
    runner = _cocotb("runner").get_runner("verilator")
    runner.build_dir = folder
    stopped = ""
    with _environment(environment), _python_path(search_path, python_path):
        try:
            runner.test(
                test_module=module,
                hdl_toplevel=bench.top,
                hdl_toplevel_lang="verilog",
                seed=seed % 2**31,
                build_dir=folder,
                test_dir=folder,
                results_xml=str(results),
                test_filter=test_filter,
                timescale=("1ns", "1ns"),
                extra_env=environment,
                log_file=log,
            )
        except SystemExit as error:
            stopped = f"the simulator stopped with status {error.code}"
    count, failures = _read_results(results)
    if not failures and (stopped or not count):
        failures = [f"{stopped or 'no test was found'}\n{_tail(log)}"]
    if failures:
        text = "\n".join(failures)
        raise BenchError(
            f"{len(failures)} of {max(count, 1)} tests failed (log: {log})\n{text}\n",
            field=f"{module} on {bench.top} {dict(bench.parameters)}",
            remedy=f"repeat with {SEED_VARIABLE}={seed}",
        )
    log.unlink(missing_ok=True)
    results.unlink(missing_ok=True)
    return count


def _cocotb(module: str) -> Any:
    """A module of cocotb's tools, which are an optional dependency without types here."""
    try:
        return import_module(f"cocotb_tools.{module}")
    except ImportError as error:
        raise BuildError("cocotb is not installed", field="cocotb", remedy=_INSTALL) from error


def _tool_variables(verilator: toolchain.Tool) -> dict[str, str]:
    path = os.pathsep.join([str(verilator.path.parent), os.environ.get("PATH", "")])
    return {**verilator.environment, "PATH": path}


def _read_results(results: Path) -> tuple[int, list[str]]:
    """Number of tests that ran and the messages of those that failed."""
    if not results.is_file():
        return 0, []
    count, failures = 0, []
    for case in ElementTree.parse(results).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        count += 1
        for kind in ("failure", "error"):
            for found in case.iter(kind):
                message = found.get("message") or found.get("error_msg") or ""
                failures.append(f"{case.get('name')}: {message}\n{found.text or ''}".rstrip())
    return count, failures


def _tail(log: Path) -> str:
    if not log.is_file():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _python_path(search_path: Path, python_path: str) -> Iterator[None]:
    """Let the simulator's Python find the bench; the runner hands on `sys.path`."""
    import sys  # noqa: PLC0415 - only here

    sys.path.insert(0, str(search_path))
    try:
        with _environment({"PYTHONPATH": python_path}):
            yield
    finally:
        sys.path.remove(str(search_path))
