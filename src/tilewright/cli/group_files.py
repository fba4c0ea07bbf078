# SPDX-License-Identifier: Apache-2.0
"""Files that `tilewright multicore` writes of a mapped group: a report and a trace."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.application import open_console
from tilewright.cli.arguments import replacing, require_places
from tilewright.cli.json_output import JsonTarget, json_path
from tilewright.cli.parse_errors import UsageError
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.tuner.report.group_page import MappedGroup


def check_places(
    read: dict[str, Path | None],
    report: Path | None,
    trace: Path | None,
    json: JsonTarget | None,
) -> None:
    """See `require_places`; before the work begins."""
    require_places(read, {"--report": report, "--trace": trace, "--json": json_path(json)})


def write_group(group: MappedGroup, report: Path | None, trace: Path | None) -> None:
    """Write the files that the user asked for."""
    from tilewright.host.common.whole_file import write_whole
    from tilewright.tuner.report.group_page import page
    from tilewright.tuner.report.group_trace import write_trace

    console = open_console()
    if report is not None:
        try:
            with replacing(report):
                write_whole(report, page(group))
        except OSError as error:
            raise UsageError(
                f"cannot be written ({error.strerror})",
                field="--report",
                value=str(report),
                remedy="name a place that may be written",
            ) from error
        console.say(f"report: {printable(str(report))}")
    if trace is not None:
        with replacing(trace):
            write_trace(trace, group)
        console.say(f"trace: {printable(str(trace))} (view with ui.perfetto.dev)")
