# SPDX-License-Identifier: Apache-2.0
"""Lint the RTL with ``verilator -Wall`` at every named configuration."""

from __future__ import annotations

import subprocess
import sys

from tilewright.host.errors import TilewrightError
from tilewright.host.hwconfig import PARAMETERS, HwConfig, load_hwconfig, named_configs
from tilewright.sim.build import LINT_WAIVERS, TOP, read_manifest
from tilewright.sim.toolchain import find_verilator


def lint(hw: HwConfig) -> str:
    """Verilator's complaints about one configuration; empty when it is clean.

    Raises:
        ToolError: Verilator is missing.
    """
    verilator = find_verilator()
    parameters = [f"-G{p.rtl_name}={getattr(hw, p.name)}" for p in PARAMETERS]
    done = subprocess.run(
        [
            str(verilator.path),
            "--lint-only",
            "-Wall",
            str(LINT_WAIVERS),
            *parameters,
            "--top-module",
            TOP,
            *map(str, read_manifest()),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=verilator.full_environment(),
    )
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def main() -> int:
    """Lint every named configuration; the exit code says whether all are clean."""
    failed = False
    try:
        for name in named_configs():
            complaints = lint(load_hwconfig(name))
            failed |= bool(complaints)
            sys.stdout.write(f"rtl {name}: {'clean' if not complaints else 'FAILED'}\n")
            sys.stderr.write(complaints)
    except TilewrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
