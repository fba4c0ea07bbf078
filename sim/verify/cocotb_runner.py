# SPDX-License-Identifier: Apache-2.0
"""Build and run a cocotb bench on Verilator: cached builds, a seed, readable failures.

A bench is an HDL top with parameters and a Python module with cocotb tests. Builds are kept in a
cache folder by the content of everything that enters them, and Verilator's run-time objects are
compiled once for all of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from tilewright.host.common.errors import BuildError, TilewrightError
from tilewright.sim.tools.toolchain import Tool, find_compiler, find_verilator

SEED_VARIABLE: Final = "TILEWRIGHT_SEED"
"""Environment variable that carries the seed into the bench."""

_RUNTIME_OBJECTS: Final = (
    "verilated.o",
    "verilated_dpi.o",
    "verilated_threads.o",
    "verilated_vpi.o",
)
"""Objects that do not depend on the design (cocotb's own main program does: it holds the model)."""
_DONE: Final = "complete"
_LOG_LINES: Final = 60
_LATER_SECONDS: Final = 600.0
_BUILD_ARGS: Final = ("--no-public-flat-rw", "-Wall", "--assert", "--no-timing")
_MAKE: Final = "OPT_FAST=-O0 VM_PARALLEL_BUILDS=0"
"""A bench runs shorter than it is compiled: all at once, not optimised, takes a third less."""
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
    flags: Sequence[str] = ()  # further Verilator arguments

    def key(self, verilator: Tool, compiler: Tool, *, waves: bool) -> str:
        """Hash of everything that the build depends on."""
        digest = hashlib.sha256()
        description = {
            "top": self.top,
            "parameters": dict(self.parameters),
            "flags": [*self.flags, *_BUILD_ARGS, _MAKE],
            "tools": [verilator.version, str(verilator.path), compiler.version],
            "waves": waves,
        }
        digest.update(json.dumps(description, sort_keys=True).encode())
        for source in self.sources:
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
        return digest.hexdigest()[:20]


def build_bench(bench: Bench, *, cache: Path, waves: bool = False) -> Path:
    """Build a bench unless the cache has it."""
    verilator, compiler = find_verilator(), find_compiler()
    folder = cache / f"{bench.top}-{bench.key(verilator, compiler, waves=waves)}"
    with _locked(folder.with_suffix(".lock")):
        if (folder / _DONE).exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        runtime = cache / f"runtime-{_runtime_key(verilator, compiler, waves=waves)}"
        _copy_objects(runtime, folder)
        visible = folder / "visible.vlt"
        visible.write_text(
            f'`verilator_config\npublic_flat_rw -module "{bench.top}" -var "*"\n', encoding="utf-8"
        )
        log = folder / "build.log"
        with _environment({**_tool_variables(verilator), "MAKEFLAGS": _MAKE}):
            try:
                _new_runner().build(
                    sources=[visible, *bench.sources],
                    parameters=dict(bench.parameters),
                    build_args=[*_BUILD_ARGS, *bench.flags],
                    hdl_toplevel=bench.top,
                    build_dir=folder,
                    waves=waves,
                    always=True,
                    timescale=("1ns", "1ns"),
                    log_file=log,
                )
            except (SystemExit, Exception) as error:
                raise BuildError(
                    f"the bench does not build ({error})\n{_tail(log)}",
                    field=bench.top,
                    value=dict(bench.parameters),
                ) from error
        _keep_objects(folder, runtime)
        (folder / _DONE).touch()
    return folder


def run_bench(
    bench: Bench,
    module: str,
    *,
    search_path: Path,
    cache: Path,
    seed: int,
    variables: Mapping[str, str] | None = None,
    test_filter: str | None = None,
    waves: bool = False,
    wall_seconds: int = 900,
) -> int:
    """Build (or reuse) a bench and run the cocotb tests of a module."""
    folder = build_bench(bench, cache=cache, waves=waves)
    name = f"{module}-{os.getpid()}"
    results, log = folder / f"{name}.xml", folder / f"{name}.log"
    python_path = os.pathsep.join(
        [str(search_path), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    )
    environment = {
        **_tool_variables(find_verilator()),
        **(variables or {}),
        "COCOTB_ANSI_OUTPUT": "0",
        SEED_VARIABLE: str(seed),
    }
    if limiter := shutil.which("timeout"):
        environment["SIM_CMD_PREFIX"] = f"{limiter} --signal=KILL {wall_seconds}"
    runner = _new_runner()
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
                waves=waves,
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


def _new_runner() -> Any:
    """A Verilator runner of cocotb, which is an optional dependency without types here."""
    try:
        from cocotb_tools.runner import get_runner  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise BuildError("cocotb is not installed", field="cocotb", remedy=_INSTALL) from error
    return get_runner("verilator")


def _tool_variables(verilator: Tool) -> dict[str, str]:
    path = os.pathsep.join([str(verilator.path.parent), os.environ.get("PATH", "")])
    return {**verilator.environment, "PATH": path}


def _runtime_key(verilator: Tool, compiler: Tool, *, waves: bool) -> str:
    text = f"{verilator.path} {verilator.version} {compiler.version} {waves} {_INSTALL}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _copy_objects(runtime: Path, folder: Path) -> None:
    """Put Verilator's compiled run time into a new build, so that make takes it for up to date.

    The objects depend on the makefile that Verilator is about to write: they must be younger.
    """
    if not (runtime / _DONE).exists():
        return
    for name in _RUNTIME_OBJECTS:
        if (runtime / name).is_file():
            shutil.copyfile(runtime / name, folder / name)
            later = time.time() + _LATER_SECONDS
            os.utime(folder / name, (later, later))


def _keep_objects(folder: Path, runtime: Path) -> None:
    with _locked(runtime.with_suffix(".lock")):
        if (runtime / _DONE).exists():
            return
        runtime.mkdir(parents=True, exist_ok=True)
        for name in _RUNTIME_OBJECTS:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, runtime / name)
        (runtime / _DONE).touch()


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
