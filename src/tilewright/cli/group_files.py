# SPDX-License-Identifier: Apache-2.0
"""Files that `tilewright multicore` writes of a mapped group: a report and a trace."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.application import UsageError, open_console
from tilewright.cli.arguments import replacing, require_writable
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.tuner.report.group_page import MappedGroup


def check_places(report: Path | None, trace: Path | None) -> None:
    """Refuse files that cannot be written before the work begins.

    Raises:
        UsageError: a file that cannot be written.
    """
    for option, path in (("--report", report), ("--trace", trace)):
        if path is not None:
            require_writable(path, option)


def write_group(group: MappedGroup, report: Path | None, trace: Path | None) -> None:
    """Write the files that the user asked for.

    Raises:
        UsageError, DeviceError: a file cannot be written.
    """
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
