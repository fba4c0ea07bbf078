# SPDX-License-Identifier: Apache-2.0
"""Yosys on the RTL: its version, its inputs, and passes in a process of their own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tilewright.host.common.children import python_command
from tilewright.host.common.errors import BuildError, ToolError
from tilewright.host.common.whole_file import copy_whole
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig
from tilewright.sim.tools.build_cache import tool_failure

_PACKAGE: Final = "pyosys"
_INSTALL: Final = "pip install pyosys==0.70 (it is part of tilewright[dev])"

# Yosys ends its process on an error, so that it gets one of its own.
_CHILD: Final = (
    "import sys\n"
    "from pyosys import libyosys\n"
    "design = libyosys.Design()\n"
    "for command in sys.argv[1:]:\n"
    "    libyosys.run_pass(command, design)\n"
)


def yosys_version() -> str:
    """Name and version of Yosys's package."""
    try:
        return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)}"
    except importlib.metadata.PackageNotFoundError as error:
        raise ToolError(
            "Yosys (pyosys) is not installed", field=_PACKAGE, remedy=_INSTALL
        ) from error


def cxxrtl_runtime() -> Path:
    """Folder of the CXXRTL headers, which come with Yosys."""
    yosys_version()
    found = importlib.util.find_spec(_PACKAGE)
    root = Path(found.origin).parent if found is not None and found.origin else Path()
    runtime = root / "share/include/backends/cxxrtl/runtime"
    if not (runtime / "cxxrtl/cxxrtl.h").is_file():
        raise ToolError(
            "pyosys must ship the CXXRTL headers",
            field=_PACKAGE,
            value=str(runtime),
            remedy=_INSTALL,
        )
    return runtime


def rtl_parameters(hw: HwConfig) -> dict[str, str]:
    """Parameters of the top module and their values as Verilog."""
    values = {p.rtl_name: str(getattr(hw, p.name)) for p in PARAMETERS}
    values["ConfigHash"] = f"32'h{hw.config_hash:08x}"
    return values


def read_command(hw: HwConfig | None, top: str, sources: Sequence[Path], *options: str) -> str:
    """The pass that reads RTL from the working folder; None: its top has what it needs."""
    values = rtl_parameters(hw) if hw is not None else {}
    parameters = (f"-G {name}={value}" for name, value in values.items())
    files = (path.name for path in sources)
    return " ".join(["read_slang", *options, "--top", top, *parameters, *files])


def copy_sources(sources: Sequence[Path], work: Path) -> None:
    """Put the sources into a working folder: Yosys takes no path with a space."""
    for source in sources:
        copy_whole(source, work / source.name)


def run_yosys(commands: Sequence[str], work: Path) -> str:
    """Run passes in a working folder."""
    done = subprocess.run(
        python_command("-c", _CHILD, *commands),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd=work,
    )
    if done.returncode < 0:
        raise BuildError(
            "Yosys was killed before its end",
            field="signal",
            value=signal.Signals(-done.returncode).name,
            remedy="a large design needs some GB of memory",
        )
    if done.returncode != 0:
        raise tool_failure("Yosys refuses the RTL", done.stdout, r"(?i)\berror:")
    return done.stdout
