# SPDX-License-Identifier: Apache-2.0
"""The FuseSoC core file (CAPI2) of the accelerator: its files, parameters and a lint target."""

from __future__ import annotations

import json
from typing import Final

from tilewright.host.common.generated_files import GENERATED_NOTE
from tilewright.host.common.places import RTL_DIR
from tilewright.host.machine.hwconfig import PARAMETERS

NAME: Final = "tilewright:core:tilewright:0"
"""Vendor, library, name and version in FuseSoC. A version there is no promise of ours."""
TOP: Final = "tilewright_top"


def rtl_files() -> list[str]:
    """The files of ``rtl/tilewright.f``, in order, relative to its folder."""
    lines = (RTL_DIR / "tilewright.f").read_text(encoding="utf-8").splitlines()
    return [line for line in map(str.strip, lines) if line and not line.startswith("//")]


def fusesoc_core() -> str:
    """`rtl/tilewright.core`.

    A parameter that is not given keeps the value that `tilewright_top` has for it.
    """
    parameters = {p.rtl_name: f"{p.meaning} ({p.unit})" for p in PARAMETERS}
    parameters["ConfigHash"] = "what register CONFIG_HASH reads: HwConfig.config_hash"
    lines = [
        "CAPI=2:",
        "# SPDX-License-Identifier: Apache-2.0",
        f"# {GENERATED_NOTE}",
        f"name: {NAME}",
        "description: Tilewright, an int8 GEMM accelerator with AXI4 and AXI4-Lite ports",
        "",
        "filesets:",
        "  rtl:",
        "    file_type: systemVerilogSource",
        "    files:",
        *(f"      - {name}" for name in rtl_files()),
        "",
        "parameters:",
    ]
    for name, meaning in parameters.items():
        lines += [
            f"  {name}:",
            "    datatype: int",
            "    paramtype: vlogparam",
            f"    description: {json.dumps(meaning)}",
        ]
    used = [f"      - {name}" for name in parameters]
    lines += ["", "targets:"]
    for target in ("default", "lint"):
        lines += [
            f"  {target}:",
            "    filesets: [rtl]",
            f"    toplevel: {TOP}",
            "    parameters:",
            *used,
        ]
        if target == "lint":
            lines += ["    flow: lint", "    flow_options:", "      tool: verilator"]
    return "\n".join([*lines, ""])
