# SPDX-License-Identifier: Apache-2.0
"""`tilewright doctor`: what is installed, and what is missing."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import typer

from tilewright.cli.application import EXIT_CHECK_FAILED, MAINTAIN, app, open_console
from tilewright.cli.json_output import JsonOption


@app.command(rich_help_panel=MAINTAIN)
def doctor(json: JsonOption = None) -> None:
    """Check the tools that simulation needs and say how to get what is missing."""
    from dataclasses import asdict

    from rich.text import Text

    from tilewright.sim.tools.toolchain import doctor as run_checks

    console = open_console()
    failed = 0
    checks = run_checks()
    for check in checks:
        failed += check.required and not check.ok
        mark, style = ("ok     ", "green") if check.ok else ("missing", "red")
        if not check.ok and not check.required:
            mark, style = "absent ", "yellow"
        line = Text.assemble((mark, style), f" {check.name}: {check.detail}")
        console.print(line, soft_wrap=True)
        if not check.ok and check.remedy:
            console.say(f"        {check.remedy}")
    if json is not None:
        json.write([asdict(check) for check in checks], {})
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)
